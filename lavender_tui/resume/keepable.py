"""Which run can be kept alive from here, and how what is left of a dead one is ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from lavender_tui.errors import NotFound, Refused
from lavender_tui.launch import living, nodes
from lavender_tui.launch.record import ProcessId, read_exit, read_launch, send_signal, this_machine
from lavender_tui.model.text import clean

TICK = 0.2


def refuse_unkeepable(run_dir: str) -> None:
    """Raises NotFound for no run, Refused for one whose end can't be seen from here, or that others start again."""
    if not os.path.isdir(run_dir):
        raise NotFound("there is no such run", where=run_dir)
    record = read_launch(run_dir)
    if record is None or not living.belongs_here(record, run_dir):
        return
    if record.backend == "slurm":
        raise Refused(
            f"it is {record.known_as}, and Slurm starts its jobs again by itself (--requeue)",
            where=run_dir,
            hint="To resume one that has ended: `lavender-tui resume --latest`, as a job or from cron",
        )
    here = this_machine()
    if any(node is not None and node.host != here.host for node in map(read_launch, _further_nodes(run_dir))):
        raise Refused(
            "it runs on several hosts, and only what runs on this one can be seen from here",
            where=run_dir,
            hint="Let torchrun start its ranks again (--max-restarts), or resume it by hand",
        )
    if record.machine == here or read_exit(run_dir) is not None:
        return
    if record.host == here.host and record.boot_id != here.boot_id:
        return  # what ran before the restart is surely gone
    where = clean(record.host, 60) if record.host != here.host else "another container of this machine"
    raise Refused(
        f"it was started on {where}, and whether it lives can't be seen from here",
        where=run_dir,
        hint="Keep it alive from there",
    )


def _further_nodes(run_dir: str) -> list[str]:
    return [path for _, path in nodes.directories(run_dir)]


def ended_politely(left: Callable[[], Sequence[ProcessId]], grace: float) -> Iterator[float]:
    """TERM to all that is left, KILL after `grace` seconds, again and again until nothing is; yields pauses to make."""
    _signal(left(), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while there := left():
        if time.monotonic() >= deadline:
            _signal(there, signal.SIGKILL)
        yield TICK


def _signal(processes: Sequence[ProcessId], signum: int) -> None:
    for one in processes:
        try:
            send_signal(one.pid, one.start_ticks, signum)
        except PermissionError:
            continue  # another user's: all that can be done is to wait for it
