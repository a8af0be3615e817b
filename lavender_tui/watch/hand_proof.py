"""What proves that a process is of a run which nobody of ours started: facts of this instant, from the system.

What makes a run look alive (`watch.processes`) is enough to say so, and not enough to send a signal: an evaluation
names the run's directory just as its training does.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from lavender_tui.launch import identity
from lavender_tui.model.run import RUN_NAME
from lavender_tui.model.text import clean
from lavender_tui.watch import procfs
from lavender_tui.watch.discover import holds_checkpoints
from lavender_tui.watch.processes import named_as_output
from lavender_tui.watch.traces import saved_since

_MASK = rb"^%s:\s*([0-9a-f]+)"


@dataclass(frozen=True, slots=True)
class Proof:
    """What ties a process to the run, in words. `is_sure`: it says so itself, or writes there at this moment.

    Else it was told to write there, and checkpoints came since: that counts only where no other process is tied to it.
    """

    words: str
    is_sure: bool


def proof_of(pid: int, run_dir: str) -> Proof | None:
    """None where too little ties it to this run, or something to another one."""
    environment = identity.raw_environment(pid)
    if identity.is_of_another_run(environment, [run_dir]):
        return None
    own, others = written_runs(pid, run_dir)
    if others:
        return None
    if identity.variable(environment, identity.RUN_DIR) is not None:
        return Proof(f"{identity.RUN_DIR} in its environment names it", is_sure=True)
    if own:
        return Proof(f"it writes {clean(own[0], 60)} there", is_sure=True)
    return _told_to_write(pid, environment, run_dir)


def _told_to_write(pid: int, environment: Sequence[bytes], run_dir: str) -> Proof | None:
    """By an option of output or `RUN_DIR`, and it trains, and a checkpoint was saved since it began."""
    cwd, traits = procfs.working_directory(pid), procfs.read_traits(pid)
    variable = identity.variable(environment, "RUN_DIR")
    option = named_as_output(traits.argv, cwd, run_dir)
    if option is not None:
        words = f"{clean(option, 40)} names it"
    elif variable is not None and identity.is_same_directory(os.path.join(cwd or "/", variable), run_dir):
        words = "RUN_DIR in its environment names it"
    else:
        return None
    trains = identity.variable(environment, "RANK") is not None or procfs.uses_torch(pid)
    if not trains or not _was_saved_since(run_dir, identity.start_ticks(pid)):
        return None
    return Proof(f"{words}, and a checkpoint was saved since it began", is_sure=False)


def _was_saved_since(run_dir: str, ticks: int | None) -> bool:
    return ticks is not None and saved_since(run_dir, identity.started_at(ticks))


def written_runs(pid: int, run_dir: str) -> tuple[list[str], list[str]]:
    """(files of this run, directories of other runs) that the process holds open for writing."""
    own, others = os.path.realpath(run_dir) + "/", set()
    mine = []
    for path in identity.files_open_for_writing(pid):
        if path.startswith(own):
            mine.append(path.removeprefix(own))
        elif (run := _run_of(path, os.path.dirname(own.rstrip("/")))) is not None:
            others.add(run)
    return mine, sorted(others)


def _run_of(path: str, root: str) -> str | None:
    """The run in whose directory the file lies: one by its name, or one beside the run in question."""
    directory = os.path.dirname(path)
    while len(directory) > 1:
        above = os.path.dirname(directory)
        if RUN_NAME.fullmatch(os.path.basename(directory)) or (above == root and _is_run(directory)):
            return directory
        directory = above
    return None


@lru_cache(maxsize=256)
def _is_run(directory: str) -> bool:
    return holds_checkpoints(directory)


def catches(pid: int, signum: int) -> bool:
    """Has the program a handler of its own for the signal?"""
    return _is_in(pid, b"SigCgt", signum)


def ignores(pid: int, signum: int) -> bool:
    """Would nothing come of the signal? A shell starts what it sends to the background so, for SIGINT."""
    return _is_in(pid, b"SigIgn", signum)


def _is_in(pid: int, mask: bytes, signum: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            found = re.search(_MASK % mask, file.read(), re.MULTILINE)
    except OSError:
        return False
    return found is not None and bool(int(found[1], 16) & 1 << (signum - 1))


def uid_of(pid: int) -> int | None:
    try:
        status = os.stat(f"/proc/{pid}")
    except OSError:
        return None
    return status.st_uid if stat.S_ISDIR(status.st_mode) else None
