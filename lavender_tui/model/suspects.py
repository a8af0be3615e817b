"""Checkpoints that are known to be bad: they are passed over with the reason, and can still be named. Pure.

Known from two sides. A deep check that failed is remembered by what the file was then: one that was replaced starts
anew. And a run that was resumed from a checkpoint and failed at once says so on disk, with its launch record, its exit
record (or the error that it left, where its supervisor was killed) and no save of its own; nothing is written for that.

A failure before the first step may as well be the command's, or the machine's. It counts only where the error names
the checkpoint, or where it came twice; and where another checkpoint of the same run failed in that way too, the
checkpoints are not to blame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename, normpath

from lavender_tui.model.checkpoint import Checkpoint, FileFacts
from lavender_tui.model.run import EndFacts, Run
from lavender_tui.model.text import clean, plural

AT_ONCE_STEPS = 50  # a training that makes more of them fails for what it has read or done since
AT_ONCE_SECONDS = 600.0  # without a single step: large models take minutes to load
STEPLESS_FAILURES = 2
# Ends that come from outside, or from the topology: the checkpoint had no part in them.
_FROM_OUTSIDE = re.compile(r"out of memory|outofmemory|signal (9|15|2|1)\b|address already in use", re.IGNORECASE)
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")
_USAGE_CODES = (2, 126, 127)  # a wrong option, no right to execute, no such command


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """What counts of a run that was resumed from another: `checkpoint` is the name of the file that it came from.

    `steps` is how many it has logged, the times in unix seconds; `last_activity_at` is that of its last save or line.
    """

    path: str
    checkpoint: str | None
    is_alive: bool
    has_saved: bool
    steps: int
    started_at: float | None
    end: EndFacts | None
    last_activity_at: float | None = None

    @classmethod
    def of(cls, run: Run) -> Follower:
        told = run.resumed_from.checkpoint if run.resumed_from is not None else None
        return cls(
            path=run.path,
            checkpoint=basename(told) if told else None,
            is_alive=run.is_alive,
            has_saved=bool(run.checkpoints),
            steps=run.losses[-1].step - run.losses[0].step + 1 if run.losses else 0,
            started_at=run.started_at,
            end=run.end,
            last_activity_at=run.last_activity_at,
        )


def key_of(facts: FileFacts) -> str:
    """What a file is remembered by. Without the device: its number changes with every mount."""
    return f"{facts.inode}-{facts.size_bytes}-{facts.mtime_ns}"


def suspects(
    checkpoints: Iterable[Checkpoint], resumed: Sequence[Follower], remembered: Mapping[str, str]
) -> dict[str, str]:
    """Path -> why, for the known bad ones among a run's checkpoints.

    `resumed` are the runs resumed from that run, `remembered` the failed deep checks: key of the file -> reason.
    """
    blamed = _blamed(resumed)
    if not blamed and not remembered:
        return {}
    found = {}
    for one in checkpoints:
        reason = remembered.get(key_of(one.facts)) or blamed.get(basename(one.path))
        if reason is not None:
            found[one.path] = reason
    return found


def _blamed(resumed: Sequence[Follower]) -> dict[str, str]:
    """File name -> why. A run that went on well from a checkpoint clears it."""
    failed: dict[str, list[Follower]] = {}
    proven = set()
    for run in resumed:
        if run.checkpoint is None or run.is_alive:
            continue
        if failed_at_once(run):
            failed.setdefault(run.checkpoint, []).append(run)
        elif run.has_saved or run.steps > AT_ONCE_STEPS:
            proven.add(run.checkpoint)
    sure = {name: runs for name, runs in failed.items() if name not in proven and any(map(_is_telling, runs))}
    stepless = {name: runs for name, runs in failed.items() if name not in proven and name not in sure}
    if len(stepless) == 1:
        sure |= {name: runs for name, runs in stepless.items() if len(runs) >= STEPLESS_FAILURES}
    return {name: _in_words(runs) for name, runs in sure.items()}


def failed_at_once(run: Follower) -> bool:
    """Did it end badly, by itself, without a save of its own, and almost as soon as it had begun?"""
    end = run.end
    if end is None or end.stop_requested or run.has_saved:
        return False
    if not _ended_badly(end) or _FROM_OUTSIDE.search(end.error or ""):
        return False
    if run.steps:
        return run.steps <= AT_ONCE_STEPS
    ended_at = run.last_activity_at if end.is_unseen else end.ended_at
    lasted = None if ended_at is None or run.started_at is None else ended_at - run.started_at
    return lasted is not None and lasted <= AT_ONCE_SECONDS


def _ended_badly(end: EndFacts) -> bool:
    """By its exit code or signal; where nobody saw those, by the error that its ranks or the end of its log hold."""
    if end.is_unseen:
        return end.failure is not None and "KeyboardInterrupt" not in (end.error or "")
    return end.signal in _CRASHES if end.signal else end.exit_code not in (0, None, *_USAGE_CODES)


def _is_telling(run: Follower) -> bool:
    """It trained and broke, or the error names the file."""
    error = run.end.error or "" if run.end else ""
    return run.steps > 0 or (run.checkpoint or "\0") in error or "PytorchStreamReader" in error


def _in_words(runs: Sequence[Follower]) -> str:
    last = max(runs, key=lambda run: (run.started_at or 0.0, run.path))
    end = last.end
    assert end is not None
    how = end.error or (f"killed by {end.signal}" if end.signal else f"exit code {end.exit_code}")
    when = f"after {plural(last.steps, 'step')}" if last.steps else "before its first step"
    more = f", as {plural(len(runs) - 1, 'run')} before it" if len(runs) > 1 else ""
    return f"{clean(basename(last.path), 60)}, resumed from it, failed {when} ({clean(how, 160)}){more}"


def followers(runs: Iterable[Run], place: Callable[[str], str] = normpath) -> dict[str, list[Run]]:
    """Place of a run -> those of the runs that were resumed from it; `place` makes paths comparable."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.resumed_from is not None:
            found.setdefault(place(run.resumed_from.run), []).append(run)
    return found
