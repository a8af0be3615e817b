"""Processes as psutil shows them. What is gone or may not be read (another user's) is None, never an exception.

psutil is imported where it is first asked for: nothing of the screen's first frame waits for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lavender_tui.launch.identity import process_stat, user_name

if TYPE_CHECKING:
    import psutil

_KEPT_VARIABLES = (
    "LAVENDER_RUN_ID",
    "LAVENDER_RUN_DIR",
    "RUN_DIR",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "TORCHELASTIC_RUN_ID",
)
_PYTHON = re.compile(r"(python|pypy)[0-9.]*(-[\w.]+)?")
MAX_ARGUMENTS = 256
MAX_CMDLINE = 1 << 16  # characters kept of all arguments together
MAX_VALUE = 1 << 16  # characters of a variable: a longer one is no path and no number, and isn't kept
MAX_MAPS_BYTES = 1 << 22

_Fact = TypeVar("_Fact")


@dataclass(frozen=True, slots=True)
class Stat:
    """What every process shows to everybody. `start_ticks`: with the pid and the boot it is the process's identity."""

    pid: int
    name: str
    ppid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Traits:
    """What a process was started as. `environ` holds only the few variables that say what run it belongs to."""

    argv: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    is_python: bool = False


def living() -> Iterator[Stat]:
    """Every process that can be seen from this pid namespace and runs: a zombie only waits to be noticed.

    State and parent come from the one line that has the identity too, so that all three are of the same process.
    """
    import psutil

    for process in psutil.process_iter(["name"]):
        stat = process_stat(process.pid)
        if stat is not None and stat[0] not in "ZXx" and process.info["name"] is not None:
            yield Stat(process.pid, process.info["name"], stat[1], stat[2])


def is_python(pid: int) -> bool:
    """By the program that runs, else by what it was called as.

    The process's name doesn't say it: a script that is its own program has the script's, and torch gives its own.
    """
    return _is_python(_process(pid))


def read_traits(pid: int) -> Traits:
    """Command line and the few variables. The environment is that of the exec: later changes aren't seen."""
    process = _process(pid)
    if process is None:
        return Traits()
    return Traits(
        argv=_limited(_ask(process.cmdline) or []),
        environ=_kept(_ask(process.environ) or {}),
        is_python=_is_python(process),
    )


def working_directory(pid: int) -> str | None:
    process = _process(pid)
    return (_ask(process.cwd) or None) if process is not None else None


def other_owner(pid: int) -> str | None:
    """The name of the user whose process it is; None where it is this user's, or gone."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
    if uid == os.geteuid():
        return None
    return user_name(uid)


def uses_torch(pid: int) -> bool:
    """Has it torch's library mapped?

    Not by psutil: its `memory_maps` reads smaps, for which the kernel walks every page of the process and holds it up.
    """
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            return b"libtorch" in file.read(MAX_MAPS_BYTES)
    except OSError:
        return False


def _process(pid: int) -> psutil.Process | None:
    """Always a new one: psutil remembers the program of a process, and an exec changes it."""
    import psutil

    return _ask(lambda: psutil.Process(pid))


def _ask(question: Callable[[], _Fact]) -> _Fact | None:
    """None where the process is gone or ended, or is another user's."""
    import psutil

    try:
        return question()
    except (psutil.Error, OSError):
        return None


def _is_python(process: psutil.Process | None) -> bool:
    if process is None:
        return False
    program = _ask(process.exe) or next(iter(_ask(process.cmdline) or ()), "")
    return bool(_PYTHON.fullmatch(os.path.basename(program)))


def _kept(environ: dict[str, str]) -> dict[str, str]:
    return {key: environ[key] for key in _KEPT_VARIABLES if key in environ and len(environ[key]) <= MAX_VALUE}


def _limited(argv: list[str]) -> tuple[str, ...]:
    kept, room = [], MAX_CMDLINE
    for argument in argv[:MAX_ARGUMENTS]:
        if room <= 0:
            break
        kept.append(argument[:room])
        room -= len(argument) + 1
    return tuple(kept)
