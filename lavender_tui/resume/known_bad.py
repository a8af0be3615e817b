"""Checkpoints that are known to be bad: they are passed over with the reason, and can still be named.

Known from two sides. A deep check that failed is remembered in `$XDG_STATE_HOME/lavender-tui/known-bad.json`, by what
the file was then: one that was replaced starts anew. And a run that was resumed from a checkpoint and failed at once
says so on disk, with its launch record, its exit record and no save of its own; nothing is written for that.

A failure before the first step may as well be the command's, or the machine's. It counts only where the error names
the checkpoint, or where it came twice; and where another checkpoint of the same run failed in that way too, the
checkpoints are not to blame.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from lavender_tui.launch.files import encode, read_document, write_atomically
from lavender_tui.model.checkpoint import Checkpoint, FileFacts
from lavender_tui.model.run import Run
from lavender_tui.model.text import clean, plural

FORMAT, VERSION = "lavender-known-bad", 1
MOST_REMEMBERED = 1_000
AT_ONCE_STEPS = 50  # a training that makes more of them fails for what it has read or done since
AT_ONCE_SECONDS = 600.0  # without a single step: large models take minutes to load
STEPLESS_FAILURES = 2
# Ends that come from outside, or from the topology: the checkpoint had no part in them.
_FROM_OUTSIDE = re.compile(r"out of memory|outofmemory|signal (9|15|2|1)\b|address already in use", re.IGNORECASE)
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")
_USAGE_CODES = (2, 126, 127)  # a wrong option, no right to execute, no such command


# What a deep check found


def memory_path() -> str:
    """Where it is remembered."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "lavender-tui", "known-bad.json")


def remember(path: str, facts: FileFacts, reason: str) -> bool:
    """Remember that this file, as it is now, failed a deep check. False where that can't be written."""
    entry = {"key": _key(facts), "path": path, "reason": reason[:500], "at": round(time.time(), 3)}
    return _replace(_key(facts), [entry])


def forget(facts: FileFacts) -> bool:
    """A later look found nothing wrong. False where that can't be written."""
    return _key(facts) not in remembered() or _replace(_key(facts), [])


def _replace(key: str, new: list[dict[str, Any]]) -> bool:
    place = memory_path()
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        with _locked(place):
            entries = [one for one in _entries(place) if one["key"] != key] + new
            document = {"format": FORMAT, "version": VERSION, "files": entries[-MOST_REMEMBERED:]}
            write_atomically(place, encode(document), replace=True)
    except OSError:
        return False
    return True


def remembered() -> dict[str, str]:
    """Key of the file's facts -> reason. Never raises: a file that can't be read counts as empty."""
    return {one["key"]: one["reason"] for one in _entries(memory_path())}


def _key(facts: FileFacts) -> str:
    """Without the device: its number changes with every mount."""
    return f"{facts.inode}-{facts.size_bytes}-{facts.mtime_ns}"


def _entries(place: str) -> list[dict[str, Any]]:
    document, _ = read_document(place)
    files = document.get("files") if document is not None and document.get("format") == FORMAT else None
    if not isinstance(files, list):
        return []
    return [
        one
        for one in files
        if isinstance(one, dict) and isinstance(one.get("key"), str) and isinstance(one.get("reason"), str)
    ]


@contextmanager
def _locked(place: str) -> Iterator[None]:
    """One writer at a time: what two find at once is remembered twice, not once."""
    descriptor = os.open(os.path.dirname(place), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks: the last writer's word stands
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# What runs that were resumed from it say


def suspects(checkpoints: Sequence[Checkpoint], resumed: Sequence[Run]) -> dict[str, str]:
    """Path -> why, for the known bad ones among a run's checkpoints; `resumed`: the runs resumed from that run."""
    blamed, kept = _blamed(resumed), remembered()
    found = {}
    for one in checkpoints:
        reason = kept.get(_key(one.facts)) or blamed.get(os.path.basename(one.path))
        if reason is not None:
            found[one.path] = reason
    return found


def _blamed(resumed: Sequence[Run]) -> dict[str, str]:
    """File name -> why. A run that went on well from a checkpoint clears it."""
    failed: dict[str, list[Run]] = {}
    proven = set()
    for run in resumed:
        name = _came_from(run)
        if name is None or run.is_alive:
            continue
        if failed_at_once(run):
            failed.setdefault(name, []).append(run)
        elif run.checkpoints or _steps(run) > AT_ONCE_STEPS:
            proven.add(name)
    sure = {name: runs for name, runs in failed.items() if name not in proven and any(map(_is_telling, runs))}
    stepless = {name: runs for name, runs in failed.items() if name not in proven and name not in sure}
    if len(stepless) == 1:
        sure |= {name: runs for name, runs in stepless.items() if len(runs) >= STEPLESS_FAILURES}
    return {name: _in_words(runs) for name, runs in sure.items()}


def failed_at_once(run: Run) -> bool:
    """Did it end badly, by itself, without a save of its own, and almost as soon as it had begun?"""
    end = run.end
    if end is None or end.stop_requested or run.checkpoints:
        return False
    ended_badly = end.signal in _CRASHES if end.signal else end.exit_code not in (0, None, *_USAGE_CODES)
    if not ended_badly or _FROM_OUTSIDE.search(end.error or ""):
        return False
    steps = _steps(run)
    if steps:
        return steps <= AT_ONCE_STEPS
    lasted = None if end.ended_at is None or run.started_at is None else end.ended_at - run.started_at
    return lasted is not None and lasted <= AT_ONCE_SECONDS


def _is_telling(run: Run) -> bool:
    """It trained and broke, or the error names the file."""
    error = run.end.error or "" if run.end else ""
    return _steps(run) > 0 or (_came_from(run) or "\0") in error or "PytorchStreamReader" in error


def _steps(run: Run) -> int:
    return run.losses[-1].step - run.losses[0].step + 1 if run.losses else 0


def _came_from(run: Run) -> str | None:
    lineage = run.resumed_from
    return os.path.basename(lineage.checkpoint) if lineage is not None and lineage.checkpoint else None


def _in_words(runs: Sequence[Run]) -> str:
    last = max(runs, key=lambda run: (run.started_at or 0.0, run.path))
    end = last.end
    assert end is not None
    how = end.error or (f"killed by {end.signal}" if end.signal else f"exit code {end.exit_code}")
    when = f"after {plural(_steps(last), 'step')}" if _steps(last) else "before its first step"
    more = f", as {plural(len(runs) - 1, 'run')} before it" if len(runs) > 1 else ""
    return f"{clean(last.name, 60)}, resumed from it, failed {when} ({clean(how, 160)}){more}"


def followers(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Real path of a run -> those of the runs that were resumed from it."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.resumed_from is not None:
            found.setdefault(os.path.realpath(run.resumed_from.run), []).append(run)
    return found
