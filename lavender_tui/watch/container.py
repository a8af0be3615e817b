"""What a container, a batch system or systemd allows this process of the machine: processors and memory (cgroups)."""

from __future__ import annotations

import os
from collections.abc import Iterator

CGROUPS, OWN = "/sys/fs/cgroup", "/proc/self/cgroup"
_NO_LIMIT = 1 << 60  # version 1 writes the largest page count for "none"


def cpu_limit(root: str = CGROUPS, own: str = OWN) -> float | None:
    """Processors' worth of time (1.5 for 150 ms in 100 ms), the least of all groups above this process; None: all."""
    shares = [_share(_words(os.path.join(place, "cpu.max"))) for place in _groups(root, own, "")]
    for place in _groups(root, own, "cpu"):
        quota, period = (_words(os.path.join(place, f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
        shares.append(_share(quota + period))
    return min((share for share in shares if share is not None), default=None)


def memory_limit(root: str = CGROUPS, own: str = OWN) -> int | None:
    """Bytes that this process and its group may use; None where only the machine's own memory is the limit."""
    found = [_words(os.path.join(place, "memory.max")) for place in _groups(root, own, "")]
    found += [_words(os.path.join(place, "memory.limit_in_bytes")) for place in _groups(root, own, "memory")]
    limits = [int(words[0]) for words in found if words and words[0].isdigit()]
    return min((limit for limit in limits if limit < _NO_LIMIT), default=None)


def _share(words: list[str]) -> float | None:
    """Quota and period, in microseconds; "max" and -1 say that there is no limit."""
    if len(words) < 2 or not (words[0].isdigit() and words[1].isdigit()) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1]) or None


def _groups(root: str, own: str, controller: str) -> Iterator[str]:
    """The directories of this process's group and all above it, as far as they can be seen from here."""
    top = os.path.join(root, controller) if controller else root
    path = _own_path(own, controller).strip("/")
    while path:
        yield os.path.join(top, path)
        path = os.path.dirname(path)
    yield top


def _own_path(own: str, controller: str) -> str:
    """A line is `number:controllers:/path`; version 2 has number 0 and no controllers."""
    try:
        with open(own, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ""
    for words in lines:
        if len(words) == 3 and (controller in words[1].split(",")) and ".." not in words[2]:
            return words[2]
    return ""


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(4096).split()
    except OSError:
        return []
