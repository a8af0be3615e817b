"""What this machine offers to a training: CUDA devices and processors, as far as this process may use them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from lavender_tui.watch.container import cpu_limit, memory_limit
from lavender_tui.watch.devices import devices_here, visible
from lavender_tui.watch.processes import find_processes

__all__ = ["cpu_count", "devices", "find_processes", "memory_bytes"]


def devices(environ: Mapping[str, str] | None = None) -> int:
    """How many CUDA devices a process started from here may use; 0 without the NVIDIA driver.

    Honours CUDA_VISIBLE_DEVICES. Asked of the driver's library, for two seconds at most, else read from /proc.
    """
    environ = os.environ if environ is None else environ
    return visible(environ.get("CUDA_VISIBLE_DEVICES"), devices_here())


def cpu_count() -> int:
    """Processors that this process may use: affinity, cpusets and a container's quota count, not the machine's size."""
    allowed = len(os.sched_getaffinity(0)) or os.cpu_count() or 1
    limit = cpu_limit()
    return allowed if limit is None else max(1, min(allowed, math.ceil(limit)))


def memory_bytes() -> int:
    """Memory that this process and its group may fill: the container's limit where it has one, else the machine's."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = memory_limit()
    return whole if limit is None else min(whole, limit)
