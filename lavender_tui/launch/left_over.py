"""End what outlived a run: the very processes that were shown and confirmed, and what they have started since."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from lavender_tui.launch import identity, journal
from lavender_tui.launch.living import names_of
from lavender_tui.launch.record import ProcessId, read_launch
from lavender_tui.launch.stopping import CannotStop, StopOutcome
from lavender_tui.model.run import LiveProcess
from lavender_tui.model.text import plural

TICK = 0.1
KILL_PATIENCE = 10.0  # seconds in which even a process that waits for a disk should be gone


def end_left_over(
    run_dir: str, shown: Sequence[ProcessId | LiveProcess], *, kill: bool = False, grace: float = 30.0
) -> StopOutcome:
    """TERM (KILL with `kill`) to each, KILL to what is left after `grace` seconds; waits for the end.

    The run's records stay as they are: it ended before, and not because of this. Raises CannotStop where one of them
    belongs to another user, before any was signalled.
    """
    since = time.monotonic()
    left = [ProcessId(pid=one.pid, start_ticks=one.start_ticks) for one in shown]
    _refuse_others(run_dir, left)
    names = names_of(run_dir, read_launch(run_dir))
    left = _with_children(names, left)
    for signum in (signal.SIGKILL,) if kill else (signal.SIGTERM, signal.SIGCONT):
        _send(left, signum)
    killed = kill
    while left and time.monotonic() < since + (0.0 if kill else grace):
        time.sleep(TICK)
        left = _with_children(names, left)
    deadline = time.monotonic() + KILL_PATIENCE
    while left and time.monotonic() < deadline:
        killed = True
        _send(left, signal.SIGKILL)
        time.sleep(TICK)
        left = _with_children(names, left)
    pids = [one.pid for one in shown]
    journal.note(
        journal.root_of(run_dir), "left-overs ended", run=run_dir, who=journal.person(), pids=pids, killed=killed
    )
    return _outcome(len(shown), left, killed, time.monotonic() - since)


def _with_children(names: Sequence[str], processes: Sequence[ProcessId]) -> list[ProcessId]:
    """Those that live, and what of the run is below them; never this process."""
    found = {one.pid: one.start_ticks for one in processes if one.is_alive}
    for pid in list(found):
        found.update(identity.descendants_of_run(pid, names))
    return [ProcessId(pid=pid, start_ticks=ticks) for pid, ticks in found.items() if pid != os.getpid()]


def _refuse_others(run_dir: str, processes: Sequence[ProcessId]) -> None:
    for one in processes:
        try:
            identity.send_signal(one.pid, one.start_ticks, 0)
        except PermissionError as error:
            what = f"process {one.pid} belongs to another user"
            raise CannotStop(what, where=run_dir, hint="Ask its owner") from error


def _send(processes: Sequence[ProcessId], signum: int) -> None:
    for one in processes:
        try:
            identity.send_signal(one.pid, one.start_ticks, signum)
        except PermissionError:
            continue  # it took another user's rights meanwhile: that is said at the end


def _outcome(count: int, left: Sequence[ProcessId], killed: bool, seconds: float) -> StopOutcome:
    if left:
        pids = ", ".join(str(one.pid) for one in left)
        words = f"still there after SIGKILL (waiting for a disk, a network mount or a GPU): pid {pids}"
        return StopOutcome(how="alive", words=words, waited_seconds=seconds, left=tuple(left))
    how = "killed" if killed else "ended"
    verb = "killed" if killed else f"ended after {seconds:.1f} s"
    words = f"{plural(count, 'left-over process', 'left-over processes')} {verb}"
    return StopOutcome(how=how, words=words, waited_seconds=seconds)
