"""Was a run without records of ours stopped? Its root's journal says so, of which process, and when."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lavender_tui.launch import by_hand, journal
from lavender_tui.launch.record import Machine, ProcessId, this_machine
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.run import EndFacts, LiveProcess
from lavender_tui.watch.index import Index

if TYPE_CHECKING:
    from lavender_tui.launch.seen import Seen

LAST_WRITES_SECONDS = 5.0  # so long after the end its last file may be dated: clocks of file servers differ
PATIENCE_SECONDS = 30.0  # past the grace, where nothing says when it ended


@dataclass(frozen=True, slots=True, kw_only=True)
class HandStop:
    """One stop as the journal has it; `ended_at` is None until what was asked is gone."""

    led: ProcessId
    machine: Machine
    asked_at: float
    who: str | None
    how: str
    why: str | None
    grace_seconds: float | None
    ended_at: float | None = None
    killed: bool = False


def stop_by_hand_of(
    run_dir: str,
    index: Index,
    processes: Sequence[LiveProcess],
    seen: Seen | None,
    last_activity_at: float | None,
) -> HandStop | None:
    """The stop that the run is ending by, or has ended by; None where it was started again since. Never raises."""
    stop = _stops(run_dir, index).get(os.path.realpath(run_dir))
    if stop is None:
        return None
    if processes:
        is_it = any((one.pid, one.start_ticks) == (stop.led.pid, stop.led.start_ticks) for one in processes)
        return stop if is_it and stop.machine == this_machine() else None
    if seen is not None and seen.started_at > stop.asked_at:
        return None
    over = stop.ended_at
    latest = stop.asked_at + (stop.grace_seconds or 0.0) + PATIENCE_SECONDS if over is None else over
    is_last = last_activity_at is None or last_activity_at <= latest + LAST_WRITES_SECONDS
    return stop if is_last else None


def ended_by(stop: HandStop, seen_end: EndFacts | None, seen: Seen | None) -> EndFacts:
    """The stop, with how it ended as far as that was seen."""
    ended_at = seen_end.ended_at if seen_end is not None else None
    if ended_at is None:
        ended_at = stop.ended_at if stop.ended_at is not None else seen.ended_at if seen is not None else None
    return replace(
        seen_end or EndFacts(),
        ended_at=ended_at,
        killed=stop.killed,
        stop_requested=True,
        stop_by=stop.who,
        stop_how=stop.how,
        stop_asked_at=stop.asked_at,
        grace_seconds=stop.grace_seconds,
        stop_why=stop.why,
    )


def _stops(run_dir: str, index: Index) -> Mapping[str, HandStop]:
    """The newest stop of each run beside this one, read again only when the journal has grown."""
    root = journal.root_of(run_dir)
    path = os.path.join(root, journal.DIRECTORY, journal.NAME)
    try:
        facts = FileFacts.of(os.stat(path))
    except OSError:
        return {}
    return index.document(path, facts, lambda: _read(root))  # type: ignore[return-value]


def _read(root: str) -> Mapping[str, HandStop]:
    found: dict[str, HandStop] = {}
    for entry in journal.read(root):
        if entry.run is None or entry.facts.get("by_hand") is not True:
            continue
        run, stop = os.path.realpath(entry.run), _stop(entry)
        if entry.what == by_hand.ASKED and stop is not None:
            found[run] = stop
        elif (asked := found.get(run)) is None or stop is None or stop.led != asked.led:
            continue
        elif entry.what == by_hand.MISSED:
            del found[run]
        elif entry.what == by_hand.STOPPED:
            found[run] = replace(asked, ended_at=stop.ended_at, killed=stop.killed)
    return found


def _stop(entry: journal.Entry) -> HandStop | None:
    """None for a line that can't be one of ours: anybody who writes the root may write the journal."""
    facts = entry.facts
    pid, ticks = facts.get("pid"), facts.get("start_ticks")
    place = [facts.get(name) for name in ("host", "boot_id", "pid_namespace")]
    if type(pid) is not int or type(ticks) is not int or not all(isinstance(one, str) for one in place):
        return None
    how, why = facts.get("how"), facts.get("why")
    return HandStop(
        led=ProcessId(pid=pid, start_ticks=ticks),
        machine=Machine(host=str(place[0]), boot_id=str(place[1]), pid_namespace=str(place[2])),
        asked_at=entry.at,
        who=entry.who,
        how=how if isinstance(how, str) else "graceful",
        why=why if isinstance(why, str) else None,
        grace_seconds=_number(facts.get("grace_seconds")),
        ended_at=_number(facts.get("ended_at")),
        killed=facts.get("killed") is True,
    )


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < 1e12 else None
