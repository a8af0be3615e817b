"""What of a run started by hand is worth remembering while it lives: its command, directory and environment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lavender_tui.launch import environment
from lavender_tui.launch.identity import is_same_process, process_stat, started_at
from lavender_tui.launch.record import ProcessId, this_machine
from lavender_tui.launch.seen import Seen
from lavender_tui.model.run import LiveProcess
from lavender_tui.watch import procfs
from lavender_tui.watch.hand_proof import proof_of
from lavender_tui.watch.procfs import Traits
from lavender_tui.watch.programs import is_agent, is_no_training

if TYPE_CHECKING:
    import psutil

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "mksh", "fish"))
_RANKS = ("RANK", "TORCHELASTIC_RUN_ID")
_OF_MULTIPROCESSING = ("--multiprocessing-fork",)
HIGHEST = 6  # parents looked at above a training


def remember(run_dir: str, processes: Sequence[LiveProcess], before: Seen | None) -> Seen | None:
    """What leads these processes of a run, as it could be started again; None where that can't be told.

    `before` is returned as it is while the same process leads with the same command line; a proof that it is the run's
    is kept from the first time it is seen.
    """
    lead = _lead(processes)
    if lead is None:
        return None
    top = _topmost(lead)
    if before is not None and (before.leader.pid, before.leader.start_ticks) == top and before.ended_at is None:
        return before if before.proof is not None else _with_proof(before, processes)
    sizes = [one.world_size for one in processes if one.world_size is not None]
    seen = _describe(run_dir, *top, world_size=max(sizes, default=None))
    return None if seen is None else _with_proof(seen, processes)


def _with_proof(seen: Seen, processes: Sequence[LiveProcess]) -> Seen:
    """A training that opens its files only to write to them is seen with one now and then."""
    proofs = (proof_of(one.pid, seen.run) for one in processes)
    sure = next((proof.words for proof in proofs if proof is not None and proof.is_sure), None)
    return seen if sure is None else replace(seen, proof=sure)


def _lead(processes: Sequence[LiveProcess]) -> LiveProcess | None:
    """The agent, else the first rank, else the process that was started first."""
    order = {"agent": 0, "worker": 1, "process": 1}
    able = [one for one in processes if one.role in order]
    return min(able, key=lambda one: (order[one.role], one.rank or 0, one.start_ticks, one.pid), default=None)


def _topmost(lead: LiveProcess) -> tuple[int, int]:
    """(pid, start ticks) of the highest process that surely leads this run and nothing else."""
    top = (lead.pid, lead.start_ticks)
    for _ in range(HIGHEST):
        stat = process_stat(top[0])
        above = process_stat(stat[1]) if stat is not None and stat[1] > 1 else None
        if stat is None or above is None or not _is_mine(stat[1]):
            return top
        if not _leads(procfs.read_traits(stat[1]), procfs.read_traits(top[0])):
            return top
        top = (stat[1], above[2])
    return top


def _leads(above: Traits, below: Traits) -> bool:
    """Did the one above start the one below as a part of the same training?

    It is torchrun or another program that starts ranks, or the one below is its fork or multiprocessing's child. Any
    other program above a training may be one that starts a hundred trainings one after the other: it is left alone.
    """
    if is_agent(above):
        return True
    if not above.is_python or is_no_training(above):
        return False
    are_one = below.argv == above.argv or any(part in _OF_MULTIPROCESSING for part in below.argv[1:])
    starts_ranks = any(name in below.environ and name not in above.environ for name in _RANKS)
    return are_one or starts_ranks or any("multiprocessing" in part for part in _code(below))


def _code(traits: Traits) -> tuple[str, ...]:
    """The text after `-c`."""
    return traits.argv[2:3] if traits.argv[1:2] == ("-c",) else ()


def _is_mine(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        return False


def _describe(run_dir: str, pid: int, ticks: int, *, world_size: int | None) -> Seen | None:
    """Read while it lives; what belongs to another by now isn't taken."""
    import psutil

    real, here = os.path.realpath(run_dir), this_machine()
    try:
        process = psutil.Process(pid)
        cwd, variables = process.cwd(), process.environ()
        argv = _startable(process.cmdline(), cwd, variables, process.exe())
        shell = _shell_above(process)
    except (psutil.Error, OSError):
        return None
    if not argv or not is_same_process(pid, ticks):
        return None
    return Seen(
        run=real,
        argv=tuple(_without_run(word, real, cwd) for word in argv),
        cwd=cwd,
        leader=ProcessId(pid=pid, start_ticks=ticks),
        host=here.host,
        boot_id=here.boot_id,
        pid_namespace=here.pid_namespace,
        started_at=round(started_at(ticks), 2),
        environment=environment.recorded(variables),
        shell=shell,
        world_size=world_size,
    )


def _startable(argv: Sequence[str], cwd: str, variables: Mapping[str, str], program: str) -> list[str]:
    """The program by its whole path: which `python` it is was decided by a PATH that a later start need not have."""
    if not argv:
        return []
    if os.sep in argv[0]:
        return [os.path.join(cwd, argv[0]), *argv[1:]]
    return [shutil.which(argv[0], path=variables.get("PATH", os.defpath)) or program, *argv[1:]]


def _without_run(word: str, run_dir: str, cwd: str) -> str:
    """A word, or the value of `--option=value`, that names the run's directory is that of the next run."""
    name, equals, value = word.partition("=")
    if _names(word, run_dir, cwd):
        return "{run_dir}"
    return f"{name}={{run_dir}}" if equals and _names(value, run_dir, cwd) else word


def _names(word: str, run_dir: str, cwd: str) -> bool:
    if os.path.basename(word.rstrip("/")) != os.path.basename(run_dir):
        return False
    return os.path.realpath(os.path.join(cwd, word)) == run_dir


def _shell_above(process: psutil.Process) -> tuple[str, ...]:
    """The shell script that started it; a prompt that somebody typed at is none."""
    parent = process.parent()
    words = parent.cmdline() if parent is not None and parent.uids() == process.uids() else []
    is_script = len(words) > 1 and os.path.basename(words[0].lstrip("-")) in _SHELLS and not words[1].startswith("-")
    return tuple(words) if is_script else ()
