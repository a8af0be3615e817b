"""What this machine offers: CUDA devices and processors, without importing torch and without asking any tool."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lavender_tui.watch.processes import find_processes

__all__ = ["cpu_count", "devices", "find_processes", "visible_devices"]

_NVIDIA_GPUS = "/proc/driver/nvidia/gpus"


def devices(environ: Mapping[str, str] | None = None) -> int:
    """How many CUDA devices a process started from here may use; 0 without the NVIDIA driver.

    Reads the driver's own /proc directory and CUDA_VISIBLE_DEVICES. Answers at once, also where the driver hangs.
    """
    environ = os.environ if environ is None else environ
    return visible_devices(environ.get("CUDA_VISIBLE_DEVICES"), _device_uuids())


def cpu_count() -> int:
    """Processors that this process may run on: affinity and cpusets count, not the machine's size."""
    return len(os.sched_getaffinity(0)) or os.cpu_count() or 1


def visible_devices(setting: str | None, uuids: list[str]) -> int:
    """How many of the devices `uuids` are visible under a CUDA_VISIBLE_DEVICES `setting` (None: not set).

    As CUDA counts: entries are numbers or (shortened) names; the first bad one hides what follows; a device named
    twice hides all. One process uses one MIG slice, so that slices count as one device together.
    """
    if setting is None:
        return len(uuids)
    chosen: list[str] = []
    for entry in setting.split(","):
        device = _device_of(entry.strip(), uuids)
        if device is None:
            break
        chosen.append(device)
    if any(device.startswith("MIG-") for device in chosen):
        return 1
    return len(chosen) if len(set(chosen)) == len(chosen) else 0


def _device_of(entry: str, uuids: list[str]) -> str | None:
    if entry.isascii() and entry.isdigit():
        number = int(entry) if len(entry) < 10 else len(uuids)
        return uuids[number] if number < len(uuids) else None
    if entry.startswith("MIG-") and uuids:
        return entry
    matching = [uuid for uuid in uuids if entry.startswith("GPU-") and uuid.startswith(entry)]
    if len(matching) == 1:
        return matching[0]
    # Without the names (some drivers hide them from plain users) a full name is believed.
    unnamed = [uuid for uuid in uuids if not uuid.startswith("GPU-")]
    return entry if entry.startswith("GPU-") and unnamed else None


def _device_uuids() -> list[str]:
    """One text per device, its UUID where the driver tells it, in PCI order."""
    try:
        slots = sorted(os.listdir(_NVIDIA_GPUS))
    except OSError:
        return []
    return [_uuid_of(os.path.join(_NVIDIA_GPUS, slot, "information")) or slot for slot in slots]


def _uuid_of(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file.read(65536).splitlines():
                key, _, value = line.partition(":")
                if key.strip() == "GPU UUID" and value.strip().startswith("GPU-") and "?" not in value:
                    return value.strip()
    except OSError:
        return None
    return None
