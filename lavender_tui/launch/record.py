"""The launch record: who started a run and how, who stopped it, how it ended.

Three files in the run's own directory, each written once and atomically: `launch.json`, `stop.json`, `exit.json`.
Reading never raises: a torn, foreign or hostile file reads as None, and `examine_*` says why. Standard library only,
for the training imports this module. Times are unix seconds.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from lavender_tui.launch import environment, fields
from lavender_tui.launch.fields import is_system_text
from lavender_tui.launch.files import EXIT, LAUNCH, STOP, encode, read_document, write_atomically
from lavender_tui.launch.identity import (
    RUN_DIR,
    RUN_ID,
    boot_id,
    host_name,
    is_same_directory,
    is_same_process,
    pid_namespace,
    process_stat,
    send_signal,
    start_ticks,
)
from lavender_tui.launch.journal import person
from lavender_tui.launch.slurm_job import SlurmJob, job_of, surrounding_job
from lavender_tui.model.failure import failure_of
from lavender_tui.model.run import EndFacts, Lineage
from lavender_tui.model.secrets import holds_secrets

__all__ = [
    "ExitRecord",
    "LaunchRecord",
    "Machine",
    "ProcessId",
    "Rendezvous",
    "SlurmJob",
    "StopRecord",
    "describe_this_process",
    "end_facts",
    "examine_exit",
    "examine_launch",
    "examine_stop",
    "is_same_process",
    "is_system_text",
    "new_run_id",
    "read_exit",
    "read_launch",
    "read_stop",
    "record_mode",
    "send_signal",
    "start_ticks",
    "this_machine",
    "write_atomically",
    "write_exit",
    "write_launch",
    "write_stop",
]

SCHEMA = 1
GOES_ON = "requeue"  # in exit.json, `stop.how`: Slurm queued the job again, and the training goes on in it
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where pids mean something: all three must match before a recorded pid is looked at."""

    host: str
    boot_id: str
    pid_namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A pid that can't be mistaken: `start_ticks` is field 22 of `/proc/PID/stat`."""

    pid: int
    start_ticks: int

    @property
    def is_alive(self) -> bool:
        """True only on the machine that the record is of; check `LaunchRecord.is_here` first."""
        return is_same_process(self.pid, self.start_ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Where torchrun's agents of several hosts meet: `nnodes` as torchrun takes it, such as "2" or "1:4"."""

    endpoint: str
    id: str
    nnodes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """How a run was started, and by which process or job it is known.

    `argv` is what was executed; `command` what was asked for, its placeholders unfilled. `env` holds only what we set,
    `environment` what of the calling shell's variables may be recorded (launch/environment.py). Words that hold
    secrets are kept, for without them nothing could be resumed: the file is its owner's alone then, and screens hide
    them.
    A run that we submitted as a job has no leader: where its processes will be isn't known then. A training of a job
    that somebody else submitted has both: see `is_job_by_hand`. `attempt` counts the starts of a job from 1.
    """

    run_id: str
    run_dir: str
    backend: str
    argv: tuple[str, ...]
    cwd: str
    host: str
    boot_id: str
    pid_namespace: str
    leader: ProcessId | None
    started_at: float
    written_by: str  # "supervisor" or "training"
    supervisor: ProcessId | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    world_size: int | None = None
    attempt: int = 1
    resumed_from: Lineage | None = None
    command: tuple[str, ...] = ()
    grace_seconds: float | None = None
    slurm: SlurmJob | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    started_by: str | None = None  # user@host, as the environment of the launcher says
    nodes: int | None = None  # how many hosts take part; None where one does, or nobody said
    max_restarts: int | None = None  # of the ranks of a job, as it was asked for beside the command
    rdzv: Rendezvous | None = None
    schema: int = SCHEMA

    @property
    def machine(self) -> Machine:
        return Machine(host=self.host, boot_id=self.boot_id, pid_namespace=self.pid_namespace)

    @property
    def known_as(self) -> str:
        """The process or the job, for a sentence."""
        if self.leader is not None:
            return f"pid {self.leader.pid}"
        job_id = self.slurm.job_id if self.slurm is not None else None
        return f"Slurm job {job_id}" if job_id is not None else "a Slurm job"

    @property
    def identity(self) -> dict[str, Any]:
        """`pid`, or `job_id` of what Slurm started, for a document."""
        if self.leader is None and self.slurm is not None:
            return {"job_id": self.slurm.job_id}
        return {"pid": self.leader.pid if self.leader is not None else None}

    @property
    def is_job_by_hand(self) -> bool:
        """Does it train in a job of Slurm that we didn't submit?"""
        return self.slurm is not None and self.leader is not None

    @property
    def job_key(self) -> str:
        """The same for all runs of one job; "" for a run without one. What we submit has a name of its own."""
        if self.slurm is None:
            return ""
        return f"{self.slurm.cluster or ''}/{self.slurm.job_id}" if self.is_job_by_hand else self.slurm.name

    @property
    def is_here(self) -> bool:
        """May the recorded pids be looked at from this process?"""
        return self.machine == this_machine()

    @property
    def is_alive(self) -> bool:
        """Does the supervisor or the leader live, as far as can be seen from here?"""
        members = (self.leader, self.supervisor)
        return self.is_here and any(member is not None and member.is_alive for member in members)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRecord:
    """Who asked for the end, how ("graceful", "interrupt" or "kill") and why; written before the first signal.

    A training that ended at a save because `request.json` asked for that writes it itself: `how` is then what was
    asked, and `at` where that was ("at the end of epoch 2").
    """

    who: str
    how: str
    asked_at: float
    why: str | None = None
    grace_seconds: float | None = None
    at: str | None = None
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """How it ended: `code` 0-255, or `signal` by name, or neither where nobody was there to see it."""

    code: int | None
    signal: str | None
    ended_at: float
    stop: Mapping[str, Any] | None = None  # what asked for the end, where something did
    killed: bool = False  # SIGKILL had to be sent
    error: str | None = None
    failure: Mapping[str, Any] | None = None  # the rank, exception and traceback behind `error`: model.failure
    wall_s: float | None = None
    schema: int = SCHEMA


def this_machine() -> Machine:
    return Machine(host=host_name(), boot_id=boot_id(), pid_namespace=pid_namespace())


def new_run_id(run_dir: str) -> str:
    """A name for the run's processes that no other run has: the directory's name and eight random digits."""
    return f"{os.path.basename(os.path.abspath(run_dir))}-{os.urandom(4).hex()}"


# Writing


def write_launch(run_dir: str, record: LaunchRecord) -> None:
    """Raises FileExistsError where the run has a launch record already."""
    mode = record_mode((*record.argv, *record.command))
    write_atomically(os.path.join(run_dir, LAUNCH), encode(asdict(record)), mode=mode)


def record_mode(words: Iterable[str]) -> int:
    """The mode of a file that holds these words of a command: with secrets in them it is its owner's alone."""
    return 0o600 if holds_secrets(words) else 0o644


def write_stop(run_dir: str, record: StopRecord) -> None:
    """Raises FileExistsError where somebody asked before."""
    write_atomically(os.path.join(run_dir, STOP), encode(asdict(record)))


def write_exit(run_dir: str, record: ExitRecord) -> None:
    """Raises FileExistsError where the end is recorded already."""
    write_atomically(os.path.join(run_dir, EXIT), encode(asdict(record)))


# Reading


def examine_launch(run_dir: str) -> tuple[LaunchRecord | None, str | None]:
    """(record, None), (None, why it can't be used), or (None, None) where there is none."""
    return _examine(os.path.join(run_dir, LAUNCH), _launch)


def examine_stop(run_dir: str) -> tuple[StopRecord | None, str | None]:
    return _examine(os.path.join(run_dir, STOP), _stop)


def examine_exit(run_dir: str) -> tuple[ExitRecord | None, str | None]:
    return _examine(os.path.join(run_dir, EXIT), _exit)


def read_launch(run_dir: str) -> LaunchRecord | None:
    return examine_launch(run_dir)[0]


def read_stop(run_dir: str) -> StopRecord | None:
    return examine_stop(run_dir)[0]


def read_exit(run_dir: str) -> ExitRecord | None:
    return examine_exit(run_dir)[0]


def end_facts(run_dir: str) -> EndFacts | None:
    """How the run ended, from `exit.json` and `stop.json` together; None where neither says anything."""
    ended, stop = read_exit(run_dir), read_stop(run_dir)
    if ended is None and stop is None:
        return None
    if ended is not None and stop is not None and not _was_heard(run_dir, ended, stop):
        stop = None
    by_signal = (ended.stop or {}).get("who") if ended else None
    return EndFacts(
        exit_code=ended.code if ended else None,
        signal=ended.signal if ended else None,
        error=ended.error if ended else None,
        failure=failure_of(ended.failure, ended.error) if ended else None,
        ended_at=ended.ended_at if ended else None,
        killed=ended.killed if ended else False,
        stop_requested=stop is not None or (ended is not None and ended.stop is not None),
        stop_by=stop.who if stop else (by_signal if isinstance(by_signal, str) else None),
        stop_how=stop.how if stop else None,
        stop_at=stop.at if stop else None,
        stop_asked_at=stop.asked_at if stop else None,
        grace_seconds=stop.grace_seconds if stop else None,
        **_told_by_end(ended, stop),
    )


def _told_by_end(ended: ExitRecord | None, stop: StopRecord | None) -> dict[str, Any]:
    """Why it was stopped, and does its job go on? Where `stop.json` is, that says why."""
    told = (ended.stop or {}) if ended is not None and stop is None else {}
    why = stop.why if stop is not None else told.get("why")
    return {"stop_why": why if isinstance(why, str) else None, "goes_on": told.get("how") == GOES_ON}


def _was_heard(run_dir: str, ended: ExitRecord, stop: StopRecord) -> bool:
    """Did the stop come before the end? A run can end by itself in the very instant in which somebody asks it to."""
    if ended.stop is not None or stop.at is not None:
        return True
    launch = read_launch(run_dir)
    # A supervisor that was told says so; where nobody supervised, the end says nothing of who asked for it.
    return launch is None or launch.written_by != "supervisor"


def _examine(path: str, build: Callable[[dict[str, Any]], _Record]) -> tuple[_Record | None, str | None]:
    document, reason = read_document(path)
    if document is None:
        return None, reason
    try:
        if document.get("schema") != SCHEMA:
            raise fields.Foreign(f"has schema {str(document.get('schema'))[:20]}, not {SCHEMA}")
        return build(document), None
    except fields.Foreign as error:
        return None, str(error)


def _launch(document: dict[str, Any]) -> LaunchRecord:
    supervisor, came_from = document.get("supervisor"), document.get("resumed_from")
    slurm = None if document.get("slurm") is None else job_of(document["slurm"])
    return LaunchRecord(
        run_id=fields.text(document, "run_id"),
        run_dir=fields.text(document, "run_dir"),
        backend=fields.text(document, "backend"),
        argv=fields.texts(document, "argv"),
        cwd=fields.text(document, "cwd"),
        host=fields.text(document, "host"),
        boot_id=fields.text(document, "boot_id"),
        pid_namespace=fields.text(document, "pid_namespace"),
        leader=_leader(document.get("leader"), slurm),
        started_at=fields.number(document, "started_at"),
        written_by=fields.text(document, "written_by"),
        supervisor=None if supervisor is None else _process(supervisor, "supervisor"),
        env=fields.table(document.get("env", {})),
        world_size=fields.optional(document, "world_size", fields.ranks),
        attempt=fields.whole(document, "attempt") if "attempt" in document else 1,
        resumed_from=None if came_from is None else _lineage(came_from),
        command=fields.texts(document, "command") if "command" in document else (),
        grace_seconds=fields.optional(document, "grace_seconds", fields.number),
        environment=fields.table(document.get("environment", {})),
        started_by=fields.optional(document, "started_by", fields.text),
        nodes=fields.optional(document, "nodes", fields.whole),
        max_restarts=fields.optional(document, "max_restarts", fields.whole),
        rdzv=None if document.get("rdzv") is None else _rendezvous(document["rdzv"]),
        slurm=slurm,
    )


def _leader(value: Any, slurm: SlurmJob | None) -> ProcessId | None:
    """Only what Slurm started may lack one."""
    return None if value is None and slurm is not None else _process(value, "leader")


def _stop(document: dict[str, Any]) -> StopRecord:
    return StopRecord(
        who=fields.text(document, "who"),
        how=fields.text(document, "how"),
        asked_at=fields.number(document, "asked_at"),
        why=fields.optional(document, "why", fields.text),
        grace_seconds=fields.optional(document, "grace_seconds", fields.number),
        at=fields.optional(document, "at", fields.text),
    )


def _exit(document: dict[str, Any]) -> ExitRecord:
    stop = document.get("stop")
    if stop is not None and not isinstance(stop, dict):
        raise fields.Foreign("`stop` is no object")
    return ExitRecord(
        code=fields.optional(document, "code", fields.whole),
        signal=fields.optional(document, "signal", fields.text),
        ended_at=fields.number(document, "ended_at"),
        stop=stop,
        killed=document.get("killed") is True,
        error=fields.optional(document, "error", fields.text),
        failure=document["failure"] if isinstance(document.get("failure"), dict) else None,
        wall_s=fields.optional(document, "wall_s", fields.number),
    )


def _process(value: Any, key: str) -> ProcessId:
    if not isinstance(value, dict):
        raise fields.Foreign(f"`{key}` is no process")
    pid, ticks = value.get("pid"), value.get("start_ticks")
    # kill() takes 0 and negative pids for whole groups: such a "pid" must never get that far.
    if type(pid) is not int or not 0 < pid < 1 << 31 or type(ticks) is not int or not 0 <= ticks < 1 << 63:
        raise fields.Foreign(f"`{key}` is no process")
    return ProcessId(pid=pid, start_ticks=ticks)


def _rendezvous(value: Any) -> Rendezvous:
    if not isinstance(value, dict):
        raise fields.Foreign("`rdzv` is no object")
    return Rendezvous(**{name: fields.text(value, name) for name in ("endpoint", "id", "nnodes")})


def _lineage(value: Any) -> Lineage:
    if not isinstance(value, dict):
        raise fields.Foreign("`resumed_from` is no object")
    return Lineage(run=fields.text(value, "run"), checkpoint=fields.optional(value, "checkpoint", fields.text))


# A training that nobody of ours started


def describe_this_process(
    run_dir: str, *, world_size: int | None = None, resumed_from: Lineage | None = None, run_id: str | None = None
) -> LaunchRecord:
    """The record of the training that calls this, for a run that was started by other means.

    Under torchrun the leader is its agent, the parent of this process: that command line starts it all again.
    """
    under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    pid = os.getppid() if under_torchrun else os.getpid()
    machine, stat = this_machine(), process_stat(pid)
    job, attempt = surrounding_job() or (None, 1)
    return LaunchRecord(
        run_id=run_id or _given_id(run_dir) or new_run_id(run_dir),
        run_dir=os.path.abspath(run_dir),
        backend="torchrun" if under_torchrun else "local",
        argv=_with_interpreter(_command_line(pid) or tuple(sys.orig_argv)),
        cwd=_working_directory(pid) or os.getcwd(),
        host=machine.host,
        boot_id=machine.boot_id,
        pid_namespace=machine.pid_namespace,
        leader=ProcessId(pid=pid, start_ticks=stat[2] if stat else 0),
        started_at=time.time(),
        written_by="training",
        world_size=world_size,
        resumed_from=resumed_from,
        environment=environment.recorded(),
        started_by=person(),
        slurm=job,
        attempt=attempt,
    )


def _given_id(run_dir: str) -> str | None:
    """The id in the environment, where this directory is named beside it: the two together tell a run's processes.

    Alone it is that of an outer training, which passes it on.
    """
    named = os.environ.get(RUN_DIR)
    return os.environ.get(RUN_ID) if named and is_same_directory(named, run_dir) else None


def _with_interpreter(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A mere `python` by its whole path: which one it is depends on a PATH that a later start need not have."""
    is_bare = bool(argv) and os.sep not in argv[0] and argv[0].startswith("python")
    return (sys.executable, *argv[1:]) if is_bare and sys.executable else argv


def _command_line(pid: int) -> tuple[str, ...]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return tuple(os.fsdecode(part) for part in file.read().split(b"\0")[:-1])
    except OSError:
        return ()


def _working_directory(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None
