"""End what outlived a run: the very processes that were shown and confirmed, and what they have started since."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from functools import partial

from lavender_tui.launch import identity, journal
from lavender_tui.launch.living import alive_and_below, names_of
from lavender_tui.launch.record import ProcessId, read_launch
from lavender_tui.launch.stop_order import CannotStop, StopOutcome, kill_all, still_there, wait_for_end
from lavender_tui.model.run import LiveProcess
from lavender_tui.model.text import plural


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
    look = partial(alive_and_below, names=names_of(run_dir, read_launch(run_dir)))
    left = look(left)
    for signum in (signal.SIGKILL,) if kill else (signal.SIGTERM, signal.SIGCONT):
        _send(left, signum)
    left = wait_for_end(left, look, 0.0 if kill else grace)
    killed = kill or bool(left)
    left = kill_all(left, look, _send)
    pids = [one.pid for one in shown]
    journal.note(
        journal.root_of(run_dir), "left-overs ended", run=run_dir, who=journal.person(), pids=pids, killed=killed
    )
    return _outcome(len(shown), left, killed, time.monotonic() - since)


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
        return StopOutcome(how="alive", words=still_there(left), waited_seconds=seconds, left=tuple(left))
    how = "killed" if killed else "ended"
    verb = "killed" if killed else f"ended after {seconds:.1f} s"
    words = f"{plural(count, 'left-over process', 'left-over processes')} {verb}"
    return StopOutcome(how=how, words=words, waited_seconds=seconds)
