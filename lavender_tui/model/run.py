"""A run and the rules that decide its state from facts handed in. No files, no clock."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.ending import request_words, stopped_words

if TYPE_CHECKING:
    from lavender_tui.model.proof import Begin, Proof

RUN_NAME = re.compile(r"run-([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2})-([0-9]{2})-([0-9]{2})")
STALL_INTERVALS = 3  # a live run silent for more than this many of its own save intervals is stalled


class RunState(StrEnum):
    RUNNING = "running"
    STALLED = "stalled"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    IDLE = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProcess:
    """A live process that belongs to a run. `start_ticks` (field 22 of /proc/PID/stat) makes the pid an identity."""

    pid: int
    start_ticks: int
    role: str  # "supervisor", "agent" (torchrun), "worker", "process"
    rank: int | None = None
    world_size: int | None = None
    command: tuple[str, ...] = ()
    found_by: str = ""  # "record", "environment", "arguments", "working directory"


class StopAt(StrEnum):
    """Where a training that reads requests is asked to end."""

    NEXT_SAVE = "stop-at-next-save"
    EPOCH_END = "stop-at-epoch-end"

    @property
    def words(self) -> str:
        return "at the next save" if self is StopAt.NEXT_SAVE else "at the end of the epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """What request.json asks a live training for; it can be withdrawn until the training has come there."""

    what: StopAt
    asked_at: float  # unix seconds
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """How a run ended, or that it is asked to, from exit.json and stop.json; None fields where nothing is known."""

    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    ended_at: float | None = None  # unix seconds
    killed: bool = False  # SIGKILL had to be sent
    stop_requested: bool = False
    stop_by: str | None = None
    stop_how: str | None = None  # "graceful", "interrupt", "kill", or a StopAt that the training came to
    stop_at: str | None = None  # where the training itself ended on request: "at the end of epoch 2"
    stop_asked_at: float | None = None
    grace_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The run and checkpoint that this run was resumed from."""

    run: str  # path of the old run's directory
    checkpoint: str | None = None


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
    processes: tuple[LiveProcess, ...] = ()
    started_at: float | None = None
    last_save_at: float | None = None
    last_activity_at: float | None = None  # newest of: save, metrics.jsonl, train.log
    save_interval_seconds: float | None = None
    world_size: int | None = None
    pid: int | None = None
    host: str | None = None
    launched_command: tuple[str, ...] = ()
    resumed_from: Lineage | None = None
    end: EndFacts | None = None
    losses: tuple[LossPoint, ...] = ()  # from metrics.jsonl, else from the checkpoints; decimated
    losses_by: str = "step"  # what LossPoint.step counts: "step", or "save" where the checkpoints tell no step
    begin: Begin | None = None  # what the training wrote when it began
    proof: Proof | None = None  # did it carry on? Only for a run with a resume plan
    warnings: tuple[str, ...] = ()
    request: StopRequest | None = None  # from request.json: what it is asked for and has not come to yet

    @property
    def key(self) -> str:
        """Identity over rescans."""
        return self.path

    @property
    def is_alive(self) -> bool:
        return bool(self.processes)

    @property
    def is_stopping(self) -> bool:
        """Was it told to end, and lives still?"""
        return self.is_alive and self.end is not None and self.end.stop_requested and self.end.ended_at is None

    @property
    def saves_when_asked(self) -> bool:
        """Does its training save on SIGTERM? Only our CheckpointManager tells how it began, and it does."""
        return self.begin is not None

    @property
    def reads_requests(self) -> bool:
        return self.begin is not None and self.begin.requests


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Everything that decides a run's state, gathered elsewhere."""

    now: float
    newest: Checkpoint | None = None
    processes: tuple[LiveProcess, ...] = ()
    end: EndFacts | None = None
    has_record: bool = False  # launch.json is there
    record_is_local: bool = True  # host, boot id and pid namespace are those of this process
    host: str | None = None
    last_activity_at: float | None = None
    save_interval_seconds: float | None = None
    request: StopRequest | None = None


def decide_state(facts: RunFacts) -> tuple[RunState, str]:
    """The state and its reason in words (contract: "A run's state")."""
    if facts.processes:
        return _state_alive(facts)
    if facts.end and facts.end.stop_requested:
        return RunState.STOPPED, stopped_words(facts.end, facts.newest)
    ended_badly = facts.end is not None and (facts.end.exit_code not in (0, None) or facts.end.signal is not None)
    if ended_badly:
        return RunState.FAILED, _failure(facts.end)
    newest = facts.newest
    if newest is not None and newest.stage == "final":
        return RunState.FINISHED, "saved its final stage"
    if newest is not None and newest.epoch_complete and newest.epoch is not None and newest.epoch == newest.epochs:
        return RunState.FINISHED, f"completed epoch {newest.epoch} of {newest.epochs}"
    if facts.end is not None:
        how = "well" if facts.end.exit_code == 0 else "by itself (nothing says how)"
        return RunState.IDLE, f"its process ended {how}, but the last epoch is not complete"
    if facts.has_record:
        if not facts.record_is_local:
            return RunState.IDLE, f"started on {facts.host or 'another host'}; its process can't be seen from here"
        return RunState.FAILED, "its process is gone and left no exit record (killed, or the machine went down)"
    return RunState.IDLE, "no process and no launch record"


def _state_alive(facts: RunFacts) -> tuple[RunState, str]:
    silent = None if facts.last_activity_at is None else facts.now - facts.last_activity_at
    interval = facts.save_interval_seconds
    if silent is not None and interval and silent > STALL_INTERVALS * interval:
        minutes, usual = silent / 60, interval / 60
        return RunState.STALLED, f"alive, but silent for {minutes:.0f} min; it used to save every {usual:.1f} min"
    count = sum(1 for process in facts.processes if process.role in ("worker", "process")) or len(facts.processes)
    asked = f"; {request_words(facts.request)}" if facts.request else ""
    if facts.end is not None and facts.end.stop_requested:
        asked = "; asked to end" + (f" by {facts.end.stop_by}" if facts.end.stop_by else "")
    return RunState.RUNNING, f"{count} live process{'es' if count != 1 else ''}{asked}"


def _failure(end: EndFacts | None) -> str:
    assert end is not None
    if end.signal and end.error and end.error.startswith("killed by signal"):
        return end.error  # it names the signal, and what is known of who sent it
    how = f"killed by {end.signal}" if end.signal else f"exit code {end.exit_code}"
    return f"{how}: {end.error}" if end.error else how
