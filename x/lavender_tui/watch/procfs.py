"""Processes as /proc shows them. What may not be read (another user's) is None, never an exception."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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
MAX_CMDLINE_BYTES = 1 << 16
MAX_ENVIRON_BYTES = 1 << 21


@dataclass(frozen=True, slots=True)
class Stat:
    """Fields of /proc/PID/stat. `start_ticks` is field 22: with the pid and the boot it is the process's identity."""

    pid: int
    comm: str
    state: str
    ppid: int
    start_ticks: int

    @property
    def is_alive(self) -> bool:
        """A zombie runs no more: it only waits for its parent to notice."""
        return self.state not in "ZXx"


@dataclass(frozen=True, slots=True)
class Traits:
    """What a process was started as. `environ` holds only the few variables that say what run it belongs to."""

    argv: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)
    is_python: bool = False
    is_private: bool = False  # another user's: environment and working directory can't be read


def read_stat(pid: int) -> Stat | None:
    """None if there is no such process."""
    raw = _read(f"/proc/{pid}/stat", 4096)
    if not raw:
        return None
    # The name stands in parentheses and may itself hold any of them.
    head, _, tail = raw.rpartition(b")")
    fields = tail.split()
    if len(fields) < 20:
        return None
    comm = os.fsdecode(head.partition(b"(")[2])
    return Stat(pid, comm, fields[0].decode("ascii", "replace"), int(fields[1]), int(fields[19]))


def all_stats() -> Iterator[Stat]:
    """Every process that can be seen from this pid namespace."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isascii() and name.isdigit() and (stat := read_stat(int(name))) is not None:
            yield stat


def read_traits(pid: int) -> Traits:
    """Command line and the few variables. The environment is that of the exec: later changes aren't seen."""
    raw = _read(f"/proc/{pid}/cmdline", MAX_CMDLINE_BYTES) or b""
    argv = tuple(os.fsdecode(part) for part in raw.rstrip(b"\0").split(b"\0")[:MAX_ARGUMENTS]) if raw else ()
    environment = _read(f"/proc/{pid}/environ", MAX_ENVIRON_BYTES)
    return Traits(
        argv=argv,
        environ=_kept(environment or b""),
        is_python=is_python(pid, argv),
        is_private=environment is None,
    )


def is_python(pid: int, argv: tuple[str, ...]) -> bool:
    """By the program that runs, else by what it was called as."""
    try:
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except OSError:
        program = os.path.basename(argv[0]) if argv else ""
    return bool(_PYTHON.fullmatch(program))


def working_directory(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def files_open_for_writing(pid: int) -> list[str]:
    """Paths of regular files that the process holds open for writing."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
    paths = []
    for number in numbers:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        if path.startswith("/") and not path.startswith("/dev/") and _is_for_writing(pid, number):
            paths.append(path)
    return paths


def uses_torch(pid: int) -> bool:
    """Has it torch's library mapped?"""
    raw = _read(f"/proc/{pid}/maps", 1 << 22)
    return raw is not None and b"libtorch" in raw


def _is_for_writing(pid: int, number: str) -> bool:
    raw = _read(f"/proc/{pid}/fdinfo/{number}", 4096) or b""
    for line in raw.splitlines():
        key, _, value = line.partition(b":")
        if key == b"flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _kept(raw: bytes) -> dict[str, str]:
    kept = {}
    for part in raw.split(b"\0"):
        name, _, value = part.partition(b"=")
        if (key := os.fsdecode(name)) in _KEPT_VARIABLES:
            kept[key] = os.fsdecode(value)
    return kept


def _read(path: str, limit: int) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            parts, size = [], 0
            while size < limit and (part := file.read(1 << 17)):
                parts.append(part)
                size += len(part)
            return b"".join(parts)
    except OSError:
        return None
