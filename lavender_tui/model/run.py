"""A run as the screens and commands show it. What decides its state is in `model.state`. No files, no clock."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.ending import StopRequest
from lavender_tui.model.failure import Failure

if TYPE_CHECKING:
    from lavender_tui.model.job import Job
    from lavender_tui.model.kept import KeptBy
    from lavender_tui.model.proof import Begin, Proof
    from lavender_tui.model.usage import Usage

RUN_NAME = re.compile(r"run-([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2})-([0-9]{2})-([0-9]{2})")


UNREAD_FORMAT = "…"
GONE = "its directory is gone"


class RunState(StrEnum):
    RUNNING = "running"
    STALLED = "stalled"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    IDLE = "idle"


ALIVE = (RunState.RUNNING, RunState.STALLED)

# What a process says itself, or what was written down of it; "training.lock" is what a rank of ours holds open.
SURELY = ("record", "remembered", "environment", "training.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProcess:
    """A live process that belongs to a run. `start_ticks` (field 22 of /proc/PID/stat) makes the pid an identity."""

    pid: int
    start_ticks: int
    role: str  # "supervisor", "agent" (torchrun), "worker", "process", "helper" (a data worker), "orphan"
    rank: int | None = None
    world_size: int | None = None
    command: tuple[str, ...] = ()
    found_by: str = ""  # one of SURELY, or "arguments", "working directory", "open files"
    owner: str | None = None  # another user's name or number; None where it is this user's

    @property
    def is_surely_its(self) -> bool:
        """Not by what only looks like it: an evaluation names the run's directory, too."""
        return self.found_by in SURELY

    @property
    def tells_itself(self) -> bool:
        """Does it name the run by itself, whatever is written in files? Those may be gone, or anybody's."""
        return self.found_by in ("environment", "training.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """How a run ended, or that it is asked to, from exit.json and stop.json; None fields where nothing is known."""

    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    failure: Failure | None = None  # the rank, exception and traceback behind `error`, from exit.json
    ended_at: float | None = None  # unix seconds
    killed: bool = False  # SIGKILL had to be sent
    stop_requested: bool = False
    stop_by: str | None = None
    stop_how: str | None = None  # "graceful", "interrupt", "kill", or a StopAt that the training came to
    stop_at: str | None = None  # where the training itself ended on request: "at the end of epoch 2"
    stop_asked_at: float | None = None
    grace_seconds: float | None = None
    stop_why: str | None = None
    goes_on: bool = False  # Slurm queued its job again
    is_unseen: bool = False  # nobody was there when it ended: `error` is what its ranks and its log left


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The run and checkpoint that this run was resumed from."""

    run: str  # path of the old run's directory
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Where a resume plan lets its training begin: `epoch` is 1-based, None fields where it doesn't say."""

    stage: str | None = None
    epoch: int | None = None
    epochs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPoint:
    step: int
    loss: float | None  # None where it was no finite number, or where none was logged
    lr: float | None = None
    is_no_number: bool = field(default=False, compare=False)  # a loss was there: NaN, infinity, null


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as the screens and commands show it. All times are unix seconds (UTC)."""

    path: str
    root: str
    name: str
    format: str
    state: RunState
    state_reason: str
    checkpoints: tuple[Checkpoint, ...]  # oldest first, by Checkpoint.order
    newest: Checkpoint | None  # the newest whose metadata could be read
    processes: tuple[LiveProcess, ...] = ()  # () for a run that isn't alive, whatever it left behind
    leftovers: tuple[LiveProcess, ...] = ()  # still run, though what led them is gone; from the search for processes
    elsewhere: str | None = None  # where its processes are that can't be seen from here; from the launch record
    usage: Usage | None = None  # of a live run's processes, as last sampled
    started_at: float | None = None
    last_save_at: float | None = None
    last_activity_at: float | None = None  # newest of: save, metrics.jsonl, train.log
    last_sign_at: float | None = None  # newest of these and of the supervisor's heartbeat
    save_interval_seconds: float | None = None
    world_size: int | None = None
    pid: int | None = None
    host: str | None = None
    launched_command: tuple[str, ...] = ()
    resumed_from: Lineage | None = None
    end: EndFacts | None = None
    losses: tuple[LossPoint, ...] = ()  # from metrics.jsonl, else from the checkpoints; decimated
    losses_by: str = "step"  # what LossPoint.step counts: "step", or "save" where the checkpoints tell no step
    planned: Planned | None = None  # where its resume plan lets it begin
    begin: Begin | None = None  # what the training wrote when it began
    proof: Proof | None = None  # did it carry on? Only for a run with a resume plan
    known_bad: tuple[tuple[str, str], ...] = ()  # (checkpoint's path, why): no default while there is another one
    warnings: tuple[str, ...] = ()
    request: StopRequest | None = None  # from request.json: what it is asked for and has not come to yet
    keeper: KeptBy | None = None  # who resumes it when it dies; from the keepers' files beside the runs
    is_ours: bool = True  # launch.json or resume.json is there: only then anything is written into the directory
    is_by_hand: bool = False  # nobody of ours launched it; its training wrote launch.json itself, or there is none
    started_by: str | None = None  # "ann@gpu-03", from launch.json; of a run without one the owner of what lives of it
    job: Job | None = None  # of a run that Slurm runs, as squeue or sacct last said
    is_gone: bool = False  # its directory is: what else stands here is what was seen of it last
    unreadable: str | None = None  # the system's reason, where its directory can't be read
    longer_name: str | None = None  # with as many parents as tell it from others of its name; None: the name does

    @property
    def key(self) -> str:
        """Identity over rescans."""
        return self.path

    @property
    def title(self) -> str:
        """What a person calls it: its name, with parents before it where others have the same."""
        return self.longer_name or self.name

    @property
    def out_of_reach(self) -> str:
        """Why nothing in its directory can be used now; empty where it can."""
        return GONE if self.is_gone else cant_read(self.unreadable) if self.unreadable is not None else ""

    @property
    def is_unread(self) -> bool:
        """Only its name is known: its state and all else that stands here mean nothing yet."""
        return self.format == UNREAD_FORMAT

    @property
    def stage(self) -> str | None:
        """Of its newest save; before the first one, the planned stage."""
        if self.newest is not None:
            return self.newest.stage
        return self.planned.stage if self.planned is not None else None

    @property
    def epoch(self) -> int | None:
        """Of its newest save; before the first one, that which it began in, as it said itself or as it was planned."""
        if self.newest is not None:
            return self.newest.epoch
        told = self.begin.epoch if self.begin is not None else None
        return told if told is not None or self.planned is None else self.planned.epoch

    @property
    def epochs(self) -> int | None:
        """How many there will be, as far as it is known."""
        if self.newest is not None:
            return self.newest.epochs
        return self.planned.epochs if self.planned is not None else None

    @property
    def logged_loss(self) -> float | None:
        """The last loss in its metrics; None where there is none."""
        return next((point.loss for point in reversed(self.losses) if point.loss is not None), None)

    @property
    def hours_left(self) -> float | None:
        """What its newest save says is left, of a run that goes on: of a dead one nothing is done any more."""
        goes_on = self.state in ALIVE
        return self.newest.remaining_hours if goes_on and self.newest is not None else None

    @property
    def is_alive(self) -> bool:
        """Has it a process here, or a place in Slurm's queue or on its nodes?"""
        return bool(self.processes) or (self.job is not None and self.job.is_active)

    @property
    def is_slurms(self) -> bool:
        """Is it stopped by Slurm, not by a signal from here? So is a training by hand whose processes aren't here."""
        return self.job is not None and not (self.job.is_by_hand and self.processes)

    @property
    def is_surely_over(self) -> bool:
        """Is its end known? On another host a stop that was asked for is none, as long as nothing records what came
        of it."""
        end = self.end
        return end is not None and (self.elsewhere is None or end.ended_at is not None or end.stop_at is not None)

    @property
    def is_stopping(self) -> bool:
        """Was it told to end, and lives still?"""
        lives = self.is_alive or self.state in ALIVE  # a job's processes aren't seen
        return lives and self.end is not None and self.end.stop_requested and self.end.ended_at is None

    @property
    def saves_when_asked(self) -> bool:
        """Does its training save on SIGTERM? Only our CheckpointManager tells how it began, and it does."""
        return self.begin is not None

    @property
    def reads_requests(self) -> bool:
        return self.begin is not None and self.begin.requests


def cant_read(why: str) -> str:
    return f"its directory can't be read ({why})"


def unread_run(path: str, root: str) -> Run:
    """A run of which only the name is known."""
    name = os.path.basename(path)
    return Run(
        path=path,
        root=root,
        name=name,
        format=UNREAD_FORMAT,
        state=RunState.IDLE,
        state_reason="reading …",
        checkpoints=(),
        newest=None,
        started_at=started_at_from_name(name),
    )


@lru_cache(maxsize=16_384)
def started_at_from_name(name: str) -> float | None:
    """Local time in `run-YYYY-MM-DD_HH-MM-SS` as unix seconds; None for other names and impossible dates."""
    match = RUN_NAME.match(name)
    if not match:
        return None
    try:
        return datetime(*(int(part) for part in match.groups())).timestamp()  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None
