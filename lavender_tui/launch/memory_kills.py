"""Did the kernel's memory killer strike? Its counters, and where it may be read the kernel's own log.

The counter of a control group counts whatever was killed in it, that of the machine everything; the log names the
process. Light imports only: the supervisor reads the counters at every launch.
"""

from __future__ import annotations

import os
import time

_KILLED = b"Killed process "  # "Memory cgroup out of memory: Killed process 4711 (python3) …"
_LARGEST_RECORD = 8192  # of the kernel's log: it refuses a smaller buffer than its record


class Kills:
    """What the memory killer did in the control group of one process, and on its machine, since this was made."""

    def __init__(self, pid: int) -> None:
        self._pid, self._since = pid, time.monotonic()
        self._machine = _count("/proc/vmstat")
        self._group = _group_file(pid)
        self._in_group = _count(self._group)

    def refresh(self) -> None:
        """Look whether the process was moved to another control group meanwhile, as systemd-run does."""
        group = _group_file(self._pid)
        if group not in ("", self._group):
            self._group, self._in_group = group, _count(group)

    def struck(self) -> dict[str, int]:
        """Of `group` and `machine` those whose counter can be read, with how many kills it has counted."""
        found = {}
        for where, path, before in (("group", self._group, self._in_group), ("machine", "/proc/vmstat", self._machine)):
            after = _count(path)
            if before is not None and after is not None:
                found[where] = after - before
        return found

    def named(self) -> set[int]:
        """The pids that the kernel's log names as killed; empty too where it may not be read."""
        return set(_named(self._since))


def _count(path: str) -> int | None:
    """The value of the line `oom_kill N`."""
    try:
        with open(path, encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), None)
    except (OSError, ValueError):
        return None


def _group_file(pid: int) -> str:
    """The file with the memory events of the control group that the process is in now; "" where there is none."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ""
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            return f"/sys/fs/cgroup/memory{path}/memory.oom_control"
    unified = [path for number, _, path in lines if number == "0"]
    places = [f"/sys/fs/cgroup{below}{path}/memory.events" for path in unified for below in ("", "/unified")]
    return next((place for place in places if os.path.exists(place)), "")


def _named(since: float) -> list[int]:
    """The pids of the kernel's lines on kills after `since` (seconds of the monotonic clock, as the log counts)."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    found = []
    try:
        while True:
            try:
                record = os.read(log, _LARGEST_RECORD)
            except BrokenPipeError:  # overwritten while we read: on with the oldest that is left
                continue
            head, _, text = record.partition(b";")
            _, killed, after = text.partition(_KILLED)
            if killed and int(head.split(b",")[2]) / 1e6 >= since - 1:
                found.append(int(after.split()[0]))
    except (OSError, ValueError, IndexError):
        return found  # the end of the log
    finally:
        os.close(log)
