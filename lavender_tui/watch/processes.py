"""Which live processes belong to which run. Facts that agree, never a name alone."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from lavender_tui.launch import identity
from lavender_tui.launch.files import HELD
from lavender_tui.launch.identity import is_same_directory, is_same_process, started_at
from lavender_tui.launch.living import names_of, trains_another
from lavender_tui.launch.record import LaunchRecord, Machine, ProcessId, this_machine
from lavender_tui.launch.seen import Seen
from lavender_tui.model.run import LiveProcess
from lavender_tui.model.topology import MOST_RANKS
from lavender_tui.watch import procfs
from lavender_tui.watch.procfs import Stat, Traits
from lavender_tui.watch.programs import arguments, is_agent, is_ours, is_tool, program_of
from lavender_tui.watch.standing import RESTART_SECONDS, is_another_start
from lavender_tui.watch.traces import trained_since

TRAITS_LAST_SECONDS = 60.0  # a process may exec another program under the same pid and name

# An option that says where a process writes claims the run; one that says what it reads doesn't.
_OUTPUT_OPTION = re.compile(r"(^|[-_])(run|out|output|save|work|log|exp)([-_]?(dir|path|folder|root))?$|(^|[-_])dir$")
_SURE_OUTPUT_OPTION = re.compile(r"(^|[-_])(out|output|save|work|log|exp)([-_]?(dir|path|folder|root))?$")
_INPUT_OPTION = re.compile(r"resume|from|load|init|restore|source|pretrained|eval|compare|input|continue")
NOTHING_SEEN: Mapping[str, Seen | None] = {}


@dataclass(frozen=True, slots=True)
class _Match:
    run: str
    found_by: str


@dataclass(slots=True)
class _Remembered:
    """What was asked about a process, and when first. Most are never asked more than what program they run."""

    at: float
    is_python: bool
    traits: Traits | None = None


class ProcessTable:
    """Finds the processes of runs, and remembers what each process was started as.

    Not shared between threads. One call asks every process of the machine for its name, state and parent. What program
    it runs is asked once for each, and only of the Python programs and of what a record names or they started, once
    for each too, the command line and the environment.
    """

    def __init__(self) -> None:
        self._remembered: dict[tuple[int, int, str], _Remembered] = {}

    def find(
        self,
        run_dirs: Iterable[str],
        records: Mapping[str, LaunchRecord | None],
        seen: Mapping[str, Seen | None] = NOTHING_SEEN,
    ) -> dict[str, tuple[LiveProcess, ...]]:
        """Live processes by run directory; runs without any are left out. Zombies are not alive.

        `seen` is what is remembered of runs that were started by hand.
        """
        runs = _RunNames(run_dirs, records, seen)
        stats = {stat.pid: stat for stat in procfs.living() if stat.pid != os.getpid()}
        pythons = self._look_at_programs(stats)
        matches: dict[int, _Match] = {}
        for pid, stat in stats.items():
            is_known = (pid, stat.start_ticks) in runs.by_identity
            if (is_known or pid in pythons) and (match := _match(stat, self._traits(stat), runs)) is not None:
                matches[pid] = match
        _adopt_children(matches, stats, self._traits)
        found: dict[str, list[LiveProcess]] = {}
        for pid, match in sorted(matches.items()):
            process = _live_process(stats[pid], match, matches, stats, self._traits, runs)
            found.setdefault(match.run, []).append(process)
        return {run: _mark_orphans(run, processes, stats, self._traits, runs) for run, processes in found.items()}

    def _look_at_programs(self, stats: dict[int, Stat]) -> set[int]:
        """The pids of Python programs. Processes that have ended are forgotten."""
        now = time.monotonic()
        before, self._remembered = self._remembered, {}
        for stat in stats.values():
            held = before.get(_key(stat))
            if held is None or now - held.at > TRAITS_LAST_SECONDS:
                held = _Remembered(now, procfs.is_python(stat.pid))
            self._remembered[_key(stat)] = held
        return {pid for (pid, _, _), held in self._remembered.items() if held.is_python}

    def _traits(self, stat: Stat) -> Traits:
        held = self._remembered[_key(stat)]
        if held.traits is None:
            held.traits = procfs.read_traits(stat.pid)
        return held.traits


def _key(stat: Stat) -> tuple[int, int, str]:
    return stat.pid, stat.start_ticks, stat.name


def find_processes(
    run_dirs: Iterable[str],
    records: Mapping[str, LaunchRecord | None],
    seen: Mapping[str, Seen | None] = NOTHING_SEEN,
) -> dict[str, tuple[LiveProcess, ...]]:
    """Live processes by run directory, looked up once."""
    return ProcessTable().find(run_dirs, records, seen)


def remembered_process(seen: Seen | None) -> tuple[LiveProcess, ...]:
    """The remembered leader where it is still the same process; one read, nothing searched."""
    if seen is None or seen.machine != this_machine():
        return ()
    pid, ticks = seen.leader.pid, seen.leader.start_ticks
    if not is_same_process(pid, ticks):
        return ()
    role = "agent" if is_agent(Traits(argv=seen.argv)) else "process"
    return (LiveProcess(pid=pid, start_ticks=ticks, role=role, command=seen.argv, found_by="remembered"),)


def recorded_processes(record: LaunchRecord | None, *, is_over: bool = False) -> tuple[LiveProcess, ...]:
    """Those of the record that are still the same processes; nothing searched, one read for each.

    Where the run `is_over` without those that train another one by now.
    The leader's command is the one it was launched with; what it runs as only a search tells.
    """
    if record is None or not record.is_here:
        return ()
    return tuple(
        LiveProcess(
            pid=pid,
            start_ticks=ticks,
            role=role,
            command=() if role == "supervisor" else record.argv,
            found_by="record",
            owner=procfs.other_owner(pid),
        )
        for pid, ticks, role in _members(record)
        if is_same_process(pid, ticks) and not (is_over and trains_another(record.run_dir, [pid]))
    )


def _members(record: LaunchRecord) -> list[tuple[int, int, str]]:
    """(pid, start ticks, role) of the processes that the record names."""
    leads = "agent" if record.backend == "torchrun" else "process"
    members = []
    if record.leader is not None:
        members.append((record.leader.pid, record.leader.start_ticks, leads))
    if record.supervisor is not None:
        members.append((record.supervisor.pid, record.supervisor.start_ticks, "supervisor"))
    return members


class _RunNames:
    """Everything that names a run, for looking up."""

    def __init__(
        self,
        run_dirs: Iterable[str],
        records: Mapping[str, LaunchRecord | None],
        seen: Mapping[str, Seen | None],
    ) -> None:
        self.by_path: dict[str, str] = {}
        self.by_id: dict[str, str] = {}
        self.by_identity: dict[tuple[int, int], tuple[str, str]] = {}
        self.records: dict[str, LaunchRecord | None] = {}
        self.led: dict[str, LaunchRecord] = {}  # runs whose record names processes of this machine
        self.seen_led: set[str] = set()  # runs of which the leader was seen alive here
        self.begun: dict[str, tuple[ProcessId, float]] = {}  # the known leader, and when it can have started others
        here = this_machine()
        for run in run_dirs:
            self.by_path[run] = run
            self.by_path[os.path.realpath(run)] = run
            record = self.records[run] = records.get(run)
            if record is None:
                self._add_seen(run, seen.get(run), here)
                continue
            if record.run_id:
                self.by_id[record.run_id] = run
            if record.machine == here and record.leader is not None:  # what Slurm starts, Slurm leads
                self.led[run] = record
                self._add_recorded(run, record)
                if record.leader is not None:
                    self.begun[run] = record.leader, record.started_at + RESTART_SECONDS

    def _add_recorded(self, run: str, record: LaunchRecord) -> None:
        """Of two runs that one process made, one after the other, the later one has it."""
        for pid, ticks, role in _members(record):
            other = self.records.get(self.by_identity.get((pid, ticks), ("", ""))[0])
            if other is None or other.started_at <= record.started_at:
                self.by_identity[(pid, ticks)] = (run, role)

    def _add_seen(self, run: str, seen: Seen | None, here: Machine) -> None:
        if seen is None or seen.machine != here:
            return
        self.seen_led.add(run)
        self.by_identity[(seen.leader.pid, seen.leader.start_ticks)] = (run, "remembered")
        until = seen.started_at + RESTART_SECONDS
        self.begun[run] = seen.leader, until if seen.ended_at is None else min(until, seen.ended_at)

    def claimed(self, directory: str | None, run_id: str | None) -> str | None:
        """The run that a process names in its environment. The id is passed on to a training that it starts, so the
        directory decides where there is one; one under another name is the run's if its record was written with it."""
        if directory is None:
            return self.by_id.get(run_id or "")
        run = self.named(directory) or self.by_id.get(run_id or "")
        if run is None or not any(is_same_directory(directory, name) for name in names_of(run, self.records.get(run))):
            return None
        return run

    def named(self, path: str, cwd: str | None = None) -> str | None:
        """The run whose directory `path` is; a relative path counts from `cwd`."""
        if not path or "\n" in path:
            return None
        if not path.startswith("/"):
            if cwd is None or ("/" not in path and not path.startswith("run-")):
                return None
            path = os.path.join(cwd, path)
        return self.by_path.get(os.path.normpath(path))

    def holding(self, path: str) -> str | None:
        """The run in whose directory the file `path` lies, at any depth."""
        while len(path) > 1:
            path = os.path.dirname(path)
            if path in self.by_path:
                return self.by_path[path]
        return None

    def held(self, pid: int) -> str | None:
        """The run whose `training.lock` the process holds, as each rank of a CheckpointManager does."""
        held = (self.by_path[one] for one in sorted(identity.held_runs(pid)) if one in self.by_path)
        return next((run for run in held if not self.is_elsewhere(run)), None)

    def is_elsewhere(self, run: str) -> bool:
        """Slurm knows best of what it runs on another host."""
        record = self.records.get(run)
        return record is not None and record.slurm is not None and not record.is_here

    def taken_by(self, pid: int, run: str) -> str | None:
        """The later run that the leader of `run` trains by now: a script may make one manager after the other."""
        record = self.records.get(run)
        if record is None or record.supervisor is not None or not trains_another(run, [pid]):
            return None
        return self.held(pid)


def _match(stat: Stat, traits: Traits, runs: _RunNames) -> _Match | None:
    recorded = runs.by_identity.get((stat.pid, stat.start_ticks))
    if recorded is not None:
        if (held := runs.taken_by(stat.pid, recorded[0])) is not None:
            return _Match(held, HELD)
        return _Match(recorded[0], "remembered" if recorded[1] == "remembered" else "record")
    if is_ours(traits):
        return None
    directory, run_id = traits.environ.get("LAVENDER_RUN_DIR"), traits.environ.get("LAVENDER_RUN_ID")
    if directory or run_id:  # it says itself where it belongs; no other sign is asked
        run = runs.claimed(directory, run_id)
        return _Match(run, "environment") if run else None
    match = _match_by_signs(stat.pid, traits, runs)
    return None if match is not None and _only_reads(match.run, stat, traits, runs) else match


def _only_reads(run: str, stat: Stat, traits: Traits, runs: _RunNames) -> bool:
    """Is it, as an evaluation is, younger than a training that is known to be gone, and has written nothing of one?

    Whoever trains on in the same directory is told where to write, holds a file open there, or has saved or logged.
    """
    leader, last_start = runs.begun.get(run, (None, 0.0))
    begun = started_at(stat.start_ticks)
    if leader is None or begun <= last_start or leader.is_alive:
        return False
    if any(runs.holding(path) == run for path in identity.files_open_for_writing(stat.pid)):
        return False
    is_told = named_as_output(traits.argv, procfs.working_directory(stat.pid), run)
    return is_told is None and not trained_since(run, begun)


def _match_by_signs(pid: int, traits: Traits, runs: _RunNames) -> _Match | None:
    """A Python program with a script that two facts tie to one run, or an option that says where it writes."""
    program = program_of(traits)
    if not traits.is_python or program is None or is_tool(program):
        return None
    if (held := runs.held(pid)) is not None:
        return _Match(held, HELD)
    files = identity.files_open_for_writing(pid)
    cwd = procfs.working_directory(pid)
    by_option, by_argument = _named_in_arguments(traits.argv, cwd, runs)
    if by_option is not None:
        return _Match(by_option, "arguments")
    by_cwd = runs.named(cwd or "")
    by_environment = runs.named(traits.environ.get("RUN_DIR", ""))
    if by_argument is None and by_cwd is None and by_environment is None:
        return _match_by_files(pid, files, traits, runs)
    writes = {runs.holding(path) for path in files}
    is_rank = "RANK" in traits.environ
    if by_argument is not None:
        agrees = by_argument in writes or by_argument in (by_cwd, by_environment) or is_rank or procfs.uses_torch(pid)
        return _Match(by_argument, "arguments") if agrees else None
    if by_environment is not None:
        agrees = by_environment in writes or by_environment == by_cwd or is_rank or procfs.uses_torch(pid)
        return _Match(by_environment, "environment") if agrees else None
    return _Match(by_cwd, "working directory") if by_cwd and (by_cwd in writes or is_rank) else None


def _match_by_files(pid: int, files: Iterable[str], traits: Traits, runs: _RunNames) -> _Match | None:
    """A rank, or a program with torch, that holds files of exactly one run open for writing."""
    writes = {run for path in files if (run := runs.holding(path)) is not None and not runs.is_elsewhere(run)}
    if len(writes) != 1 or not ("RANK" in traits.environ or procfs.uses_torch(pid)):
        return None
    return _Match(writes.pop(), "open files")


def _named_in_arguments(argv: tuple[str, ...], cwd: str | None, runs: _RunNames) -> tuple[str | None, str | None]:
    """(run named by an option of output, run named by any other argument that isn't one of input)."""
    by_argument = None
    for option, value in arguments(argv):
        run = runs.named(value, cwd)
        if run is None or _INPUT_OPTION.search(option):
            continue
        if option and _OUTPUT_OPTION.search(option):
            return run, None
        by_argument = by_argument or run
    return None, by_argument


def named_as_output(argv: tuple[str, ...], cwd: str | None, run_dir: str) -> str | None:
    """The option that tells a program to write into the directory, as it stands there; None where there is none.

    Stricter than what makes a run look alive: `--run-dir` may be what an evaluation reads.
    """
    runs = _RunNames([run_dir], {}, {})
    for option, value in arguments(argv):
        if _SURE_OUTPUT_OPTION.search(option) and not _INPUT_OPTION.search(option) and runs.named(value, cwd):
            return f"--{option}"
    return None


def _adopt_children(matches: dict[int, _Match], stats: dict[int, Stat], traits_of: Callable[[Stat], Traits]) -> None:
    """Children of a run's processes are the run's, whatever their own command line says (data workers)."""
    for pid in stats:
        chain: list[int] = []
        while pid in stats and pid not in matches and len(chain) < 64:
            chain.append(pid)
            pid = stats[pid].ppid
        if pid in matches:
            for child in chain:
                traits = traits_of(stats[child])
                if not traits.environ.get("LAVENDER_RUN_DIR") and not is_ours(traits):
                    matches.setdefault(child, _Match(matches[pid].run, matches[pid].found_by))


def _live_process(
    stat: Stat,
    match: _Match,
    matches: dict[int, _Match],
    stats: dict[int, Stat],
    traits_of: Callable[[Stat], Traits],
    runs: _RunNames,
) -> LiveProcess:
    traits = traits_of(stat)
    parent = matches.get(stat.ppid)
    has_parent = parent is not None and parent.run == match.run
    recorded = runs.by_identity.get((stat.pid, stat.start_ticks))
    role = _role(traits, recorded[1] if recorded else None)
    if has_parent and role in ("worker", "process") and not _leads(stats[stat.ppid], traits_of, runs):
        role = "helper"
    environ = traits.environ
    return LiveProcess(
        pid=stat.pid,
        start_ticks=stat.start_ticks,
        role=role,
        rank=_whole(environ.get("RANK", environ.get("SLURM_PROCID"))),
        world_size=_ranks(environ.get("WORLD_SIZE", environ.get("SLURM_NTASKS"))),
        command=traits.argv,
        found_by=match.found_by,
        owner=procfs.other_owner(stat.pid),
    )


def _mark_orphans(
    run: str,
    processes: list[LiveProcess],
    stats: dict[int, Stat],
    traits_of: Callable[[Stat], Traits],
    runs: _RunNames,
) -> tuple[LiveProcess, ...]:
    """Processes that outlived what led them, and what these started, get the role "orphan".

    Sure for torchrun's ranks without an agent and where the recorded or remembered leader is gone. Else only several at
    once are called so, and no ranks that somebody started one by one: a process without a parent is how anybody starts
    a training in the background.
    """
    if any(one.role in ("supervisor", "agent") or one.found_by in ("record", "remembered") for one in processes):
        return tuple(processes)
    if (launch := runs.led.get(run)) is not None:
        orphans = {one.pid for one in processes if not is_another_start(one, launch)}
    else:
        orphans = _alone(run, processes, stats, traits_of, runs)
    below = {one.pid for one in processes if orphans & set(_chain(one.pid, stats))}
    return tuple(replace(one, role="orphan") if one.pid in below else one for one in processes)


def _alone(
    run: str,
    processes: list[LiveProcess],
    stats: dict[int, Stat],
    traits_of: Callable[[Stat], Traits],
    runs: _RunNames,
) -> set[int]:
    """Of a run without a record those that surely lost what led them."""
    alone = {one.pid for one in processes if _lost_parent(stats[one.pid], stats)}
    if run in runs.seen_led:
        return alone
    variables = {pid: traits_of(stats[pid]).environ for pid in alone}
    elastic = {pid for pid, environ in variables.items() if "TORCHELASTIC_RUN_ID" in environ}
    by_hand = any("RANK" in variables[pid] for pid in alone - elastic)
    return alone if len(alone) > 1 and not by_hand else elastic


def _chain(pid: int, stats: dict[int, Stat]) -> list[int]:
    """The process and those above it."""
    chain: list[int] = []
    while pid in stats and pid not in chain:
        chain.append(pid)
        pid = stats[pid].ppid
    return chain


def _lost_parent(stat: Stat, stats: dict[int, Stat]) -> bool:
    parent = stats.get(stat.ppid)
    return stat.ppid <= 1 or parent is None or parent.name in ("systemd", "init")


def _role(traits: Traits, recorded: str | None) -> str:
    if recorded == "supervisor" or any(part == "lavender_tui.launch.supervisor" for part in traits.argv[:6]):
        return "supervisor"
    if is_agent(traits):
        return "agent"
    return "worker" if "RANK" in traits.environ else "process"


def _leads(stat: Stat, traits_of: Callable[[Stat], Traits], runs: _RunNames) -> bool:
    """Is it a supervisor or torchrun's agent, whose children are the trainers themselves?"""
    recorded = runs.by_identity.get((stat.pid, stat.start_ticks))
    return _role(traits_of(stat), recorded[1] if recorded else None) in ("supervisor", "agent")


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def _ranks(text: str | None) -> int | None:
    """Anybody may set such a variable, and to anything."""
    value = _whole(text)
    return value if value is not None and value <= MOST_RANKS else None
