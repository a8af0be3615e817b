"""What is remembered of runs that were started by hand: the command that was seen running, and how it was seen to end.

A file a run in the user's own state directory, `lavender-tui/seen/` below `$XDG_STATE_HOME` or `~/.local/state`, for
nothing is written into a run that isn't ours. It holds the command line, the directory, and of the environment what a
launch record may hold, no secret. What it says is executed at a resume, so only the user's own files are believed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lavender_tui.launch.files import encode, read_document, write_atomically
from lavender_tui.launch.record import LaunchRecord, Machine, ProcessId, is_system_text
from lavender_tui.model.run import EndFacts

SCHEMA = 1
MOST_FILES = 1000  # the oldest are dropped
MOST_EARLY = 256  # processes, most of which never lead a run
MOST_GONE = 64  # ranks of a run whose end is remembered: the first tell why


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneRank:
    """A rank that was seen to end, when (unix seconds) and, where that could be told, with which status of wait(2)."""

    rank: int
    at: float
    status: int | None = None

    @property
    def code(self) -> int | None:
        """Its exit code; a negative one is a signal."""
        try:
            return None if self.status is None else os.waitstatus_to_exitcode(self.status)
        except ValueError:
            return None

    @property
    def signal(self) -> int | None:
        return -self.code if self.code is not None and self.code < 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run's leading process as it was seen alive. Times are unix seconds.

    `status` is that of wait(2), and None as long as it lives and where nobody could tell how it ended.
    """

    run: str  # the run directory's real path
    argv: tuple[str, ...]
    cwd: str
    leader: ProcessId
    host: str
    boot_id: str
    pid_namespace: str
    started_at: float
    environment: Mapping[str, str] = field(default_factory=dict)
    shell: tuple[str, ...] = ()  # the shell script that started it, where one did
    world_size: int | None = None
    ended_at: float | None = None
    status: int | None = None
    proof: str | None = None  # what was once seen to tie it to the run for sure, in words
    gone: tuple[GoneRank, ...] = ()  # of its ranks those that were seen to fail, in that order
    schema: int = SCHEMA

    @property
    def machine(self) -> Machine:
        return Machine(host=self.host, boot_id=self.boot_id, pid_namespace=self.pid_namespace)

    @property
    def env(self) -> Mapping[str, str]:
        """What we set for it: nothing, it was started by hand."""
        return {}

    @property
    def end(self) -> EndFacts | None:
        """How it ended, where that was seen."""
        return None if self.status is None else end_of_status(self.status, self.ended_at)


def of_record(launch: LaunchRecord, ended_at: float | None = None, status: int | None = None) -> Seen:
    """What was seen of the end of a run that has a record: that stays what says how it was started."""
    assert launch.leader is not None
    return Seen(
        run=os.path.realpath(launch.run_dir),
        argv=launch.argv,
        cwd=launch.cwd,
        leader=launch.leader,
        host=launch.host,
        boot_id=launch.boot_id,
        pid_namespace=launch.pid_namespace,
        started_at=launch.started_at,
        world_size=launch.world_size,
        ended_at=ended_at,
        status=status,
    )


def end_of_status(status: int, ended_at: float | None) -> EndFacts | None:
    """From a status as wait(2) gives it; None for a number that is none."""
    try:
        code = os.waitstatus_to_exitcode(status)
    except ValueError:
        return None
    if code >= 0:
        return EndFacts(exit_code=code, ended_at=ended_at)
    from lavender_tui.launch.cause import describe_signal

    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"SIG{-code}"
    return EndFacts(signal=name, error=describe_signal(-code), ended_at=ended_at)


def directory() -> str:
    """Where the files are; it need not exist."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "lavender-tui", "seen")


def path_of(run_dir: str) -> str:
    return os.path.join(directory(), name_of(run_dir))


def name_of(run_dir: str) -> str:
    """By the directory's real path: a run keeps its file whatever link leads to it."""
    import hashlib  # only for who has something remembered; the first rows of the others don't wait for it

    return hashlib.sha256(os.fsencode(os.path.realpath(run_dir))).hexdigest()[:32] + ".json"


def read(run_dir: str) -> Seen | None:
    """None where nothing is remembered, or not by this user. Never raises."""
    path = path_of(run_dir)
    try:
        if os.lstat(path).st_uid != os.getuid():
            return None
    except OSError:
        return None
    document, _ = read_document(path)
    seen = _seen(document) if document is not None else None
    return seen if seen is not None and seen.run == os.path.realpath(run_dir) else None


def write(seen: Seen) -> None:
    """Remember it. Raises OSError where the state directory can't be written."""
    path = path_of(seen.run)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    if not os.path.exists(path):
        _drop_oldest(os.path.dirname(path))
    document = {name: value for name, value in asdict(seen).items() if value is not None}
    write_atomically(path, encode(document), replace=True, mode=0o600)  # its command may hold a secret


def _drop_oldest(where: str) -> None:
    """Another program may be at it as well."""
    files = []
    with os.scandir(where) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.name.endswith(".json"):
                    files.append((entry.stat().st_mtime_ns, entry.path))
    for _, path in sorted(files)[: max(0, len(files) - MOST_FILES + 1)]:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _seen(document: dict[str, Any]) -> Seen | None:
    """None for a document that holds anything else than what is written here."""
    leader = document.get("leader")
    try:
        pid, ticks = leader["pid"], leader["start_ticks"]  # type: ignore[index]
        seen = Seen(
            run=document["run"],
            argv=_words(document["argv"]),
            cwd=document["cwd"],
            leader=ProcessId(pid=pid, start_ticks=ticks),
            host=document["host"],
            boot_id=document["boot_id"],
            pid_namespace=document["pid_namespace"],
            started_at=document["started_at"],
            environment=dict(document.get("environment", {})),
            shell=_words(document.get("shell", [])),
            world_size=document.get("world_size"),
            ended_at=document.get("ended_at"),
            status=document.get("status"),
            proof=document.get("proof"),
            gone=tuple(GoneRank(**one) for one in document.get("gone", [])),
            schema=document["schema"],
        )
        return seen if _is_sound(seen) else None
    except (KeyError, TypeError, ValueError):
        return None


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(value)
    return tuple(value)


def _is_sound(seen: Seen) -> bool:
    texts = [seen.run, seen.cwd, seen.host, seen.boot_id, seen.pid_namespace, *seen.argv, *seen.shell]
    texts += [*seen.environment, *seen.environment.values(), "" if seen.proof is None else seen.proof]
    numbers = [seen.started_at, 0 if seen.ended_at is None else seen.ended_at]
    numbers += [one.at for one in seen.gone]
    told = (seen.world_size, seen.status, *(value for one in seen.gone for value in (one.rank, one.status)))
    wholes = [0 if value is None else value for value in told]
    pid, ticks = seen.leader.pid, seen.leader.start_ticks
    return (
        seen.schema == SCHEMA
        and bool(seen.argv)
        and all(map(is_system_text, texts))
        and all(type(one) in (int, float) and -1e15 < one < 1e15 for one in numbers)
        and all(type(one) is int and 0 <= one < 1 << 20 for one in wholes)
        and type(pid) is int
        and 1 < pid < 1 << 31
        and type(ticks) is int
        and 0 <= ticks < 1 << 63
    )


class Memory:
    """What is remembered, for many looks: each run's file is read once, and written only when something is new.

    Runs are asked for, and their processes seen to end, by several threads and by several programs.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held: dict[str, Seen | None] = {}
        self._names: frozenset[str] | None = None
        self._early: dict[tuple[str, ProcessId], tuple[float, int | None]] = {}  # ends of what isn't remembered (yet)

    def of(self, run_dir: str) -> Seen | None:
        try:
            return self._held[run_dir]
        except KeyError:
            found = read(run_dir) if self._may_hold(run_dir) else None
            return self._held.setdefault(run_dir, found)  # what another thread has noted meanwhile is newer

    def keep(self, run_dir: str, seen: Seen) -> None:
        """What was found out of a process while it lived. How it, or a rank of it, was seen to end meanwhile stays.

        Raises OSError where it can't be written; it is held all the same.
        """
        with self._lock:
            held = self.of(run_dir)
            if held == seen:
                return
            who = (seen.leader, seen.machine)
            # Of a stop by another program only the file tells.
            known = [one for one in (held, read(run_dir)) if one is not None and (one.leader, one.machine) == who]
            if known:
                end = next((one for one in known if one.ended_at is not None), seen)
                gone = next((one.gone for one in known if one.gone), ())
                seen = replace(seen, ended_at=end.ended_at, status=end.status, gone=gone)
            if (early := self._early.pop((run_dir, seen.leader), None)) is not None and seen.status is None:
                seen = replace(seen, ended_at=early[0], status=early[1])
            self._put(run_dir, seen)

    def _put(self, run_dir: str, seen: Seen) -> None:
        if self.of(run_dir) != seen:
            self._held[run_dir] = seen
            write(seen)

    def ended(self, run_dir: str, leader: ProcessId, ended_at: float, status: int | None) -> None:
        """The process was seen to end; one that isn't the remembered leader says nothing. Raises OSError.

        When, says who saw it first; how, who could tell. One that is only just being looked at is remembered with it.
        """
        with self._lock:
            seen = self.of(run_dir)
            if seen is None or seen.leader != leader:
                if len(self._early) >= MOST_EARLY:
                    self._early.clear()
                self._early[run_dir, leader] = (ended_at, status)
            elif seen.status is None:
                first = ended_at if seen.ended_at is None else seen.ended_at
                self._put(run_dir, replace(seen, ended_at=first, status=status))

    def end_of(self, run_dir: str, launch: LaunchRecord | None) -> EndFacts | None:
        """How the run was seen to end; of one with a record, how the very process ended that this names."""
        seen = self._of_start(run_dir, launch)
        return seen.end if seen is not None else None

    def gone_of(self, run_dir: str, launch: LaunchRecord | None) -> tuple[GoneRank, ...]:
        """The ranks that were seen to fail under what led the run last."""
        seen = self._of_start(run_dir, launch)
        return seen.gone if seen is not None else ()

    def leader_ended(self, run_dir: str, launch: LaunchRecord, ended_at: float, status: int) -> None:
        """As `ended`, of the leader that a record names. Raises OSError."""
        with self._lock:
            gone = self.gone_of(run_dir, launch)
            self._put(run_dir, replace(of_record(launch, ended_at, status), gone=gone))

    def rank_ended(self, run_dir: str, launch: LaunchRecord | None, one: GoneRank, started_at: float) -> None:
        """A rank was seen to fail; those that failed before it was started were another attempt's. Raises OSError."""
        with self._lock:
            seen = self._of_start(run_dir, launch) or (of_record(launch) if launch is not None else None)
            if seen is None or len(seen.gone) >= MOST_GONE:
                return
            before = tuple(other for other in seen.gone if other.at > started_at)
            self._put(run_dir, replace(seen, gone=(*before, one)))

    def _of_start(self, run_dir: str, launch: LaunchRecord | None) -> Seen | None:
        """What is remembered, where it is of the very start that the record is of."""
        seen = self.of(run_dir)
        if seen is None or (launch is not None and (launch.leader, launch.machine) != (seen.leader, seen.machine)):
            return None
        return seen

    def forget(self, run_dir: str) -> None:
        """Of the directory; the file stays: the directory may come again."""
        self._held.pop(run_dir, None)

    def _may_hold(self, run_dir: str) -> bool:
        """One listing answers for all runs of the first look, most of which nobody remembers."""
        if self._names is None:
            try:
                self._names = frozenset(os.listdir(directory()))
            except OSError:
                self._names = frozenset()
        return bool(self._names) and name_of(run_dir) in self._names
