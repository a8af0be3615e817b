"""Where a run stands with its processes: which lead it, which were left over, and what can't be seen from here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lavender_tui.launch.identity import booted_at, started_at
from lavender_tui.launch.record import LaunchRecord, this_machine
from lavender_tui.model.job import Job
from lavender_tui.model.run import EndFacts, LiveProcess
from lavender_tui.model.state import Sign, Vanished

if TYPE_CHECKING:
    from lavender_tui.launch.seen import GoneRank, Seen
    from lavender_tui.model.usage import Usage

RECORDING_SECONDS = 1.0  # a supervisor writes the end within milliseconds of its training's
RESTART_SECONDS = 60.0  # what was started that long after the launch record was written is another start


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of a run's processes, beside its files. `end`: how the leader ended, where that was seen."""

    processes: tuple[LiveProcess, ...] = ()
    leader_gone_seconds: float | None = None  # since it was first found gone; None where nobody looked before
    seen: Seen | None = None  # what is remembered of a run without a record
    end: EndFacts | None = None
    usage: Usage | None = None
    job: Job | None = None  # what Slurm says
    had_all_ranks: bool = False  # before, or now
    had_ranks: bool = False  # what leads it was seen with some
    searched_at: float | None = None  # when its processes were looked for last; unix seconds
    gone: tuple[GoneRank, ...] = ()  # ranks that were seen to end, of a run that nobody supervises


@dataclass(frozen=True, slots=True)
class Standing:
    """`is_ending`: the leader is gone, its supervisor has not recorded how yet; `is_unsupervised`: the other way."""

    processes: tuple[LiveProcess, ...] = ()
    leftovers: tuple[LiveProcess, ...] = ()
    is_ending: bool = False
    is_unsupervised: bool = False

    @property
    def alive_since(self) -> float | None:
        """When the first of the live processes was started; unix seconds."""
        return min((started_at(one.start_ticks) for one in self.processes), default=None)


NOTHING = Observed()


def standing(observed: Observed, launch: LaunchRecord | None, end: EndFacts | None) -> Standing:
    """Tell what leads from what was left over.

    What outlived the recorded leader doesn't make the run alive again, whoever still calls itself a worker.
    """
    processes, gone_seconds = observed.processes, observed.leader_gone_seconds
    leader = launch.leader if launch is not None and launch.machine == this_machine() else None
    is_over = end is not None and end.ended_at is not None
    if launch is not None and launch.leader is None and is_over:
        return Standing((), tuple(processes))  # of a job, on the node that it ran on
    if launch is None or leader is None:
        return _without_leader(processes, is_over=is_over)
    if any((one.pid, one.start_ticks) == (leader.pid, leader.start_ticks) for one in processes):
        has_one = launch.supervisor is None or any(one.role == "supervisor" for one in processes)
        return Standing(tuple(processes), is_unsupervised=not has_one)
    supervisors = tuple(one for one in processes if one.role == "supervisor")
    others = tuple(one for one in processes if one.role != "supervisor")
    again = tuple(one for one in others if is_another_start(one, launch))
    left = tuple(one for one in others if one not in again)
    if is_over:
        return Standing(again, left)  # a supervisor that has recorded the end is only on its way out
    is_recording = bool(supervisors) and (gone_seconds is None or gone_seconds < RECORDING_SECONDS)
    if is_recording and not (left and gone_seconds is None):
        return Standing(tuple(processes), is_ending=gone_seconds is None)
    return Standing(again, left, is_ending=bool(supervisors))


def _without_leader(processes: Sequence[LiveProcess], *, is_over: bool) -> Standing:
    left = tuple(one for one in processes if one.role == "orphan")
    leading = tuple(one for one in processes if one.role != "orphan" and not (is_over and one.role == "supervisor"))
    return Standing(leading, left)


def is_another_start(process: LiveProcess, launch: LaunchRecord) -> bool:
    """Somebody trains on in the old directory: started later, and without the run's id in its environment."""
    if process.found_by in ("environment", "record"):
        return False
    return started_at(process.start_ticks) > launch.started_at + RESTART_SECONDS


def vanished(observed: Observed) -> Vanished | None:
    """The leader that was remembered alive on this machine and is gone."""
    seen = observed.seen
    if seen is None or seen.machine != this_machine():
        return None
    return Vanished(pid=seen.leader.pid, at=seen.ended_at)


def unseen(launch: LaunchRecord | Seen | None, sign: Sign | None) -> tuple[str | None, float | None]:
    """(where its processes are that can't be seen from here, when this machine was restarted after its launch).

    A sign of life from after the restart is none of this machine: another one has the same name.
    """
    if launch is None or launch.leader is None:
        return None, None
    here = this_machine()
    if launch.host != here.host:
        return launch.host, None
    if launch.boot_id != here.boot_id:
        booted = booted_at(time.time())
        if max(launch.started_at, sign.at if sign else 0.0) > booted:
            return f"another machine named {launch.host}", None
        return None, booted
    if launch.pid_namespace != here.pid_namespace:
        return f"another container on {launch.host}", None
    return None, None
