"""Which live processes are surely of a run: by its record, by the environment that they were started with, or by the
`training.lock` that they hold.

Command lines, names and working directories only look alike; nothing found by them may ever be signalled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lavender_tui.launch import identity
from lavender_tui.launch.files import HELD, LAUNCH, LOCK
from lavender_tui.launch.record import LaunchRecord, ProcessId, read_exit, read_launch
from lavender_tui.model.secrets import masked

RUN_ID, RUN_DIR = identity.RUN_ID, identity.RUN_DIR
BEATEN_SECONDS = 60.0  # some heartbeats of a supervisor


def is_alive(run_dir: str) -> bool:
    """Does the run's recorded supervisor or leader live? False also for what can't be seen from this machine.

    A supervisor that has recorded the end is only on its way out. A run that is a job of Slurm is asked for there,
    which may take 15 s; where nobody answers it is taken to live. Of a record that only its owner may read the
    supervisor's heartbeat tells.
    """
    record = read_launch(run_dir)
    if record is None:
        return private_to(run_dir) is not None and beats(run_dir)
    if not belongs_here(record, run_dir):
        return False
    if record.slurm is not None and not record.is_alive:
        from lavender_tui.launch.slurm_living import why_alive

        return why_alive(run_dir, record) is not None
    if not record.is_alive:
        return False
    return (record.leader is not None and record.leader.is_alive) or read_exit(run_dir) is None


def private_to(run_dir: str) -> str | None:
    """The user who alone may read the launch record: it holds a secret, and this process is another user's."""
    path = os.path.join(run_dir, LAUNCH)
    if os.access(path, os.R_OK, effective_ids=True) or not os.path.lexists(path):
        return None
    try:
        return identity.user_name(os.lstat(path).st_uid)
    except OSError:
        return None  # gone in this instant


def beats(run_dir: str) -> bool:
    """Did its supervisor, on whatever machine, give a sign of life within the last minute, and record no end?"""
    try:
        age = time.time() - os.stat(os.path.join(run_dir, LOCK)).st_mtime
    except OSError:
        return False
    return abs(age) < BEATEN_SECONDS and read_exit(run_dir) is None


def belongs_here(record: LaunchRecord, run_dir: str) -> bool:
    """Is it this directory's record? A copied run directory carries the pids of the run that it was copied from."""
    try:
        if os.path.samefile(record.run_dir, run_dir):
            return True
    except OSError:
        return True  # it was moved, or has another name in the container where it runs
    original = read_launch(record.run_dir)
    return original is None or original.run_id != record.run_id


def recorded(record: LaunchRecord) -> list[ProcessId]:
    """Of supervisor and leader those that live here."""
    if not record.is_here:
        return []
    return [member for member in (record.supervisor, record.leader) if member is not None and member.is_alive]


def members(run_dir: str, record: LaunchRecord | None) -> list[ProcessId]:
    """Every live process that is surely of the run, the supervisor left out.

    That is: the recorded leader, everything below it, each process that was started with this run's LAVENDER_RUN_ID
    (or, where there is no record, LAVENDER_RUN_DIR) in its environment, and each rank of a CheckpointManager. Never
    this process or one above it, nor what names another run's directory in its environment, nor what is below that: a
    training may start another one, which inherits the id.
    """
    found: dict[int, int] = {}
    names = names_of(run_dir, record)
    leader = record.leader if record is not None and record.is_here else None
    if leader is not None and leader.is_alive and record is not None and is_vouched_for(run_dir, record, leader):
        found = {leader.pid: leader.start_ticks} | dict(identity.descendants_of_run(leader.pid, names))
        if trains_another(run_dir, found):
            found = {}
    found.update(_by_environment(run_dir, record))
    if record is None or record.slurm is None or record.is_here:  # a job elsewhere is told by what Slurm has for that
        found.update(_holding(run_dir, names))
    supervisor = record.supervisor.pid if record is not None and record.supervisor is not None else None
    spared = {supervisor, *this_process_and_above()}
    return [ProcessId(pid=pid, start_ticks=ticks) for pid, ticks in sorted(found.items()) if pid not in spared]


def names_of(run_dir: str, record: LaunchRecord | None) -> tuple[str, ...]:
    """The directories that a process of the run may name as its own: of a further node the run's, above the node's."""
    if record is None:
        return (os.path.abspath(run_dir),)
    above = (os.path.dirname(record.run_dir),) if record.rdzv is not None else ()
    return (os.path.abspath(run_dir), record.run_dir, *above)


def alive_and_below(processes: Iterable[ProcessId], names: Sequence[str]) -> list[ProcessId]:
    """Those that live, and what of the run (by its `names_of`) is below them; never this process."""
    found = {one.pid: one.start_ticks for one in processes if one.is_alive}
    for pid in list(found):
        found.update(identity.descendants_of_run(pid, names))
    return [ProcessId(pid=pid, start_ticks=ticks) for pid, ticks in found.items() if pid != os.getpid()]


def is_vouched_for(run_dir: str, record: LaunchRecord, process: ProcessId) -> bool:
    """Did somebody who may signal the process write the record that names it?

    In a root that many people write to anybody can write down anybody's pid. Where the file's owner says nothing, the
    process's environment may: a mount can show other owners.
    """
    try:
        writer, owner = os.lstat(os.path.join(run_dir, LAUNCH)).st_uid, os.stat(f"/proc/{process.pid}").st_uid
    except OSError:
        return True  # moved, or gone in this instant: then no signal reaches it either
    return writer in (0, owner) or _says_so(identity.raw_environment(process.pid), run_dir, record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process of a run as a person reads it; `depth` counts the processes of the run that it hangs below."""

    pid: int
    depth: int
    command: str


def tree(run_dir: str) -> list[Member]:
    """What a kill of the run ends right now, children below their parents; [] for what isn't seen from here."""
    record = read_launch(run_dir)
    return as_tree(members(run_dir, record) if record is None or belongs_here(record, run_dir) else [])


def as_tree(found: Sequence[ProcessId]) -> list[Member]:
    """The processes that live, children below their parents."""
    stats = {one.pid: identity.process_stat(one.pid) for one in found}
    below: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        below.setdefault(stat[1] if stat is not None and stat[1] in stats else 0, []).append(pid)
    waiting, told = [(pid, 0) for pid in reversed(below.get(0, []))], []
    while waiting:
        pid, depth = waiting.pop()
        told.append(Member(pid=pid, depth=depth, command=_command(pid)))
        waiting += [(child, depth + 1) for child in reversed(below.get(pid, []))]
    return told


def _command(pid: int) -> str:
    """The command line as it may be shown, the program by its last name; empty for what is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            program, *rest = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]] or [""]
    except OSError:
        return ""
    return " ".join(masked([os.path.basename(program), *rest]))


def _holding(run_dir: str, names: Sequence[str]) -> dict[int, int]:
    """The ranks that hold the run's `training.lock` open, and no other run's: also those of a training that was started
    by hand, which name the run nowhere and train on when their torchrun is killed."""
    own = os.path.realpath(run_dir)
    if not os.path.exists(os.path.join(own, HELD)):
        return {}
    return {
        pid: ticks
        for pid, (state, _, ticks) in identity.all_processes().items()
        if state not in "ZXx"
        and identity.held_runs(pid) == {own}
        and not identity.is_of_another_run(identity.raw_environment(pid), names)
    }


def trains_another(run_dir: str, pids: Iterable[int]) -> bool:
    """Do these processes train another run by now, and not this one? A script may make one manager after the other."""
    held = set().union(*map(identity.held_runs, pids))
    return bool(held) and os.path.realpath(run_dir) not in held


def also_trained(run_dir: str, record: LaunchRecord | None, pid: int) -> str | None:
    """Another run that would end with the process; None for a process that was started for this run."""
    if _says_so(identity.raw_environment(pid), run_dir, record):
        return None
    return next(iter(sorted(identity.held_runs(pid) - {os.path.realpath(run_dir)})), None)


def _by_environment(run_dir: str, record: LaunchRecord | None) -> dict[int, int]:
    return {
        pid: ticks
        for pid, (state, _, ticks) in identity.all_processes().items()
        if state not in "ZXx" and _says_so(identity.raw_environment(pid), run_dir, record)
    }


def _says_so(environment: Sequence[bytes], run_dir: str, record: LaunchRecord | None) -> bool:
    """Is it of the run by its own environment? By the id and the directory, where it has both."""
    if record is not None and os.fsencode(f"{RUN_ID}={record.run_id}") not in environment:
        return False
    if record is None and identity.variable(environment, RUN_DIR) is None:
        return False
    return not identity.is_of_another_run(environment, names_of(run_dir, record))


def this_process_and_above() -> set[int]:
    """A shell started from a run's process carries its environment: whoever stops the run there must survive it."""
    pid, chain = os.getpid(), set()
    while pid > 0 and pid not in chain:
        chain.add(pid)
        stat = identity.process_stat(pid)
        pid = stat[1] if stat else 0
    return chain
