"""The CUDA devices of this machine: asked of the driver's library where it answers soon, else read from /proc.

No tool is run and torch is not imported. A driver that hangs costs one thread and two seconds once, never the screen.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

NVIDIA_GPUS = "/proc/driver/nvidia/gpus"
ANSWER_SECONDS = 2.0
AGAIN_SECONDS = 60.0  # no sooner is a driver asked again that had no answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """`name` is its UUID (`GPU-…`), or its place on the bus where the driver hides it; `slices` the UUIDs of its MIG
    parts, () where it is whole."""

    name: str
    slices: tuple[str, ...] = ()


@dataclass(slots=True)
class _Driver:
    """What the driver's library said; one question at a time, whichever thread asks."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    asking: threading.Thread | None = None
    answer: tuple[Device, ...] | None = None
    asked_at: float | None = None


_driver = _Driver()


def devices_here() -> tuple[Device, ...]:
    """Every device of the machine, in the order of the bus; () without a driver. May be called from any thread."""
    told = _ask(ANSWER_SECONDS)
    return told if told is not None else from_proc()


def _ask(seconds: float) -> tuple[Device, ...] | None:
    """The library's answer, or None where there is none: not installed, no driver, an error, or too slow."""
    with _driver.lock:
        if _driver.answer is not None:
            return _driver.answer
        is_waiting = _driver.asking is not None and _driver.asking.is_alive()
        if is_waiting or (_driver.asked_at is not None and time.monotonic() - _driver.asked_at < AGAIN_SECONDS):
            return None
        _driver.asked_at = time.monotonic()
        _driver.asking = threading.Thread(target=_listen, name="nvml", daemon=True)
        _driver.asking.start()
        _driver.asking.join(seconds)
        return _driver.answer


def _listen() -> None:
    try:
        import pynvml
    except ImportError:
        return
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError, OSError):
        return  # no driver, no permission, another version than the kernel's
    try:
        _driver.answer = tuple(_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    except (pynvml.NVMLError, OSError):
        return  # a device fell off the bus: /proc still lists what there is
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _device(nvml: Any, index: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return Device(name=_text(nvml.nvmlDeviceGetUUID(handle)), slices=_slices(nvml, handle))


def _slices(nvml: Any, handle: Any) -> tuple[str, ...]:
    found = []
    try:
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with contextlib.suppress(nvml.NVMLError):  # a place for a slice, and none in it
                found.append(_text(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))))
    except nvml.NVMLError:  # a device that can't be sliced
        return ()
    return tuple(found)


def _text(value: str | bytes) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def from_proc(directory: str = NVIDIA_GPUS) -> tuple[Device, ...]:
    """From the kernel module's own directory: answers at once, also where the driver hangs; knows no slices."""
    try:
        places = sorted(os.listdir(directory))
    except OSError:
        return ()
    return tuple(Device(name=_uuid_in(os.path.join(directory, one, "information")) or one) for one in places)


def _uuid_in(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file.read(65536).splitlines():
                key, _, value = line.partition(":")
                if key.strip() == "GPU UUID" and value.strip().startswith("GPU-") and "?" not in value:
                    return value.strip()
    except OSError:
        return None
    return None


def visible(setting: str | None, here: tuple[Device, ...]) -> int:
    """How many of the devices `here` a process may use under a CUDA_VISIBLE_DEVICES `setting` (None: not set).

    As CUDA counts: entries are numbers or (shortened) names; the first bad one hides what follows; a device named
    twice hides all. One process uses one MIG slice, so that slices count as one device together.
    """
    if setting is None:
        return 1 if here and all(one.slices for one in here) else len(here)
    chosen: list[str] = []
    for entry in setting.split(","):
        device = _named(entry.strip(), here)
        if device is None:
            break
        chosen.append(device)
    if any(device.startswith("MIG-") for device in chosen):
        return 1
    return len(chosen) if len(set(chosen)) == len(chosen) else 0


def _named(entry: str, here: tuple[Device, ...]) -> str | None:
    if entry.isascii() and entry.isdigit():
        number = int(entry) if len(entry) < 10 else len(here)
        return here[number].name if number < len(here) else None
    if entry.startswith("MIG-") and here:
        return _slice(entry, here)
    matching = [one.name for one in here if entry.startswith("GPU-") and one.name.startswith(entry)]
    if len(matching) == 1:
        return matching[0]
    # Without the names (some drivers hide them from plain users) a full name is believed.
    unnamed = [one for one in here if not one.name.startswith("GPU-")]
    return entry if entry.startswith("GPU-") and unnamed else None


def _slice(entry: str, here: tuple[Device, ...]) -> str | None:
    """Where the slices are known it must be one of them; the older form names its device: MIG-GPU-…/1/0."""
    known = [one for device in here for one in device.slices]
    if not known or entry.startswith("MIG-GPU-"):
        return entry
    matching = [one for one in known if one.startswith(entry)]
    return matching[0] if len(matching) == 1 else None
