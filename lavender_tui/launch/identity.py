"""Which process is it? A pid alone never says: start ticks, boot id, host and pid namespace do.

Imports next to nothing: the supervisor pays for each further import at every launch.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterable, Sequence
from functools import cache

from lavender_tui.launch.files import HELD

# Errors that mean "no pidfd here" (old kernel, a sandbox that forbids the call), not "no such process".
_NO_PIDFD = (errno.ENOSYS, errno.EPERM, errno.EINVAL)


def process_stat(pid: int) -> tuple[str, int, int] | None:
    """(state letter, parent pid, start ticks) of `/proc/PID/stat`; None where there is no such process.

    The name in brackets may hold spaces and brackets, so the fields are counted from the last `)`.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode("ascii"), int(fields[1]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


def user_name(uid: int) -> str:
    """The user's name; "user 1234" where this machine has none for it."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return f"user {uid}"


def start_ticks(pid: int) -> int | None:
    """When the process was started, in clock ticks since boot (field 22 of `/proc/PID/stat`); None where it is gone.

    No change of the wall clock moves it, and exec keeps it.
    """
    stat = process_stat(pid)
    return stat[2] if stat else None


def is_same_process(pid: int, ticks: int) -> bool:
    """Does the process that was recorded as (pid, ticks) live? A zombie has ended."""
    stat = process_stat(pid)
    return stat is not None and stat[2] == ticks and stat[0] not in "ZXx"


def send_signal(pid: int, ticks: int, signum: int) -> bool:
    """Signal exactly the process (pid, ticks): False where it is gone or the pid is another's by now.

    Raises PermissionError where it belongs to somebody else.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (OSError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_PIDFD:
            raise
        return _send_by_pid(pid, ticks, signum)
    try:
        # The handle pins the process, so what is checked now is what the signal reaches.
        if not is_same_process(pid, ticks):
            return False
        signal.pidfd_send_signal(pidfd, signum)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)


def _send_by_pid(pid: int, ticks: int, signum: int) -> bool:
    if not is_same_process(pid, ticks):
        return False
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return False
    return True


def all_processes() -> dict[int, tuple[str, int, int]]:
    """Every visible pid with (state letter, parent pid, start ticks)."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := process_stat(int(name))):
            found[int(name)] = stat
    return found


def files_open_for_writing(pid: int) -> list[str]:
    """Paths of files that the process holds open for writing.

    Not by psutil: its `open_files` stats every path, and one on a network mount that is gone would block the search.
    Only of a process with other mounts than ours is it asked whether its file is the one that has this name here.
    """
    paths = []
    try:
        has_other_mounts = os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
        for number in os.listdir(f"/proc/{pid}/fd"):
            path = os.readlink(f"/proc/{pid}/fd/{number}")
            is_file = path.startswith("/") and not path.startswith("/dev/") and not path.endswith(" (deleted)")
            if is_file and _is_for_writing(pid, number) and not (has_other_mounts and _is_another(pid, number, path)):
                paths.append(path)
    except OSError:
        pass  # not ours to read, or it has ended or closed a file meanwhile: what was read counts
    return paths


def _is_another(pid: int, number: str, path: str) -> bool:
    try:
        return not os.path.samestat(os.stat(f"/proc/{pid}/fd/{number}"), os.stat(path))
    except OSError:
        return True


def held_runs(pid: int) -> set[str]:
    """The run directories whose `training.lock` a Python process holds: it is a rank of theirs.

    What else has the file open (a shell, an editor, a copying program) trains nothing.
    """
    try:
        if not os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python"):
            return set()
    except OSError:
        return set()
    return {os.path.dirname(path) for path in files_open_for_writing(pid) if os.path.basename(path) == HELD}


def _is_for_writing(pid: int, number: str) -> bool:
    with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
        for line in file:
            key, _, value = line.partition(b":")
            if key == b"flags":
                return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def descendants(ancestor: int) -> list[tuple[int, int]]:
    """(pid, start ticks) of every living process below `ancestor`, in whatever session or group it is."""
    processes = all_processes()
    children = _children(processes)
    found, todo = [], [ancestor]
    while todo:
        for pid in children.get(todo.pop(), ()):
            todo.append(pid)
            if processes[pid][0] not in "ZXx":
                found.append((pid, processes[pid][2]))
    return found


def _children(processes: dict[int, tuple[str, int, int]]) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, (_, parent, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    return children


def raw_environment(pid: int) -> list[bytes]:
    """The `NAME=value` pairs that the process was started with; empty where it is gone or another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


RUN_ID, RUN_DIR = "LAVENDER_RUN_ID", "LAVENDER_RUN_DIR"
# In the environment of supervisors and keepers, though a training started them: they are of no run, and outlive it.
OUTSIDE = "LAVENDER_OUTSIDE"


def variable(environment: Sequence[bytes], name: str) -> str | None:
    """The value of a variable among `NAME=value` pairs; None where it isn't there or empty."""
    start = os.fsencode(name) + b"="
    return next((os.fsdecode(pair[len(start) :]) for pair in environment if pair.startswith(start)), None) or None


def is_of_another_run(environment: Sequence[bytes], own: Iterable[str]) -> bool:
    """Does it name the directory of another run than `own`, which are the names of one, or say that it is of none?

    The id alone doesn't tell: a training that starts another training passes its own on. A process that names no
    directory is of no other run.
    """
    if variable(environment, OUTSIDE) is not None:
        return True
    named = variable(environment, RUN_DIR)
    return named is not None and not any(is_same_directory(named, one) for one in own)


def descendants_of_run(ancestor: int, own: Sequence[str]) -> list[tuple[int, int]]:
    """Those `descendants` that are of the run called `own`: not those of another run, nor what these have started.

    What lies below another run's process may have an environment that names nothing; it is of this run only where it
    names it.
    """
    processes = all_processes()
    children = _children(processes)
    found, todo = [], [(pid, False) for pid in children.get(ancestor, ())]
    while todo:
        pid, is_below_others = todo.pop()
        environment = raw_environment(pid)
        names_none = is_below_others and variable(environment, RUN_DIR) is None
        is_others = names_none or is_of_another_run(environment, own)
        todo += [(child, is_others) for child in children.get(pid, ())]
        if not is_others and processes[pid][0] not in "ZXx":
            found.append((pid, processes[pid][2]))
    return found


def is_same_directory(one: str, other: str) -> bool:
    """By name, else by device and inode: links and mounts give a directory several names."""
    if os.path.normpath(one) == os.path.normpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def booted_at(now: float) -> float:
    """When this machine was started, in unix seconds, as the clock says `now`."""
    return now - time.clock_gettime(time.CLOCK_BOOTTIME)


def started_at(ticks: int) -> float:
    """When a process of this boot was started, in unix seconds, from its start ticks."""
    return booted_at(time.time()) + ticks / os.sysconf("SC_CLK_TCK")


def host_name() -> str:
    return os.uname().nodename


@cache
def boot_id() -> str:
    """The kernel's random id of this boot; "" where there is none to read. No process lives through another one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


@cache
def pid_namespace() -> str:
    """Such as `pid:[4026531836]`: pids mean something only within one; "" where there is none to read."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


os.register_at_fork(after_in_child=pid_namespace.cache_clear)  # a process keeps its own, a child may get another one
