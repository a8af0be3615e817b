"""The CUDA devices of this machine: asked of the driver's library where it answers soon, else read from /proc.

No tool is run and torch is not imported. A driver that hangs costs one thread and two seconds once, never the screen.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lavender_tui.launch.identity import pid_namespace

NVIDIA_GPUS = "/proc/driver/nvidia/gpus"
MACHINE_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO: the namespace of the machine itself, in no container
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


def forget() -> None:
    """Ask the driver anew at the next question: in weeks a device can fall off the bus, or come back."""
    with _driver.lock:
        _driver.answer = None
        if _driver.asking is None or not _driver.asking.is_alive():
            _driver.asked_at = None


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


# What runs on them


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """One device as the driver sees it now; None for what it doesn't tell. `index` is its place on the bus.

    `processes` maps pids of this pid namespace to the memory that each holds, in bytes; `outside` counts those that
    can't be told to be one from here.
    """

    name: str
    index: int
    utilisation_percent: int | None = None
    memory_used_bytes: int | None = None  # by whomever, also by those who can't be seen from here
    memory_total_bytes: int | None = None
    temperature_celsius: int | None = None
    processes: Mapping[int, int | None] = field(default_factory=dict)
    outside: int = 0


@dataclass(frozen=True, slots=True)
class InUse:
    """All devices, or none and `why`, as "no NVIDIA GPU (driver library not found)"."""

    devices: tuple[DeviceUse, ...] = ()
    why: str | None = None


@dataclass(slots=True)
class _Monitor:
    """The library as it is kept open for one question after the other; one question at a time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    asking: threading.Thread | None = None
    nvml: Any = None
    answer: InUse = field(default_factory=InUse)
    failed_at: float | None = None


_monitor = _Monitor()


def devices_in_use() -> InUse:
    """What runs on the devices now. A driver that hangs costs two seconds once, then nothing until it answers."""
    with _monitor.lock:
        if _monitor.asking is not None and _monitor.asking.is_alive():
            return InUse(why="the NVIDIA driver doesn't answer")
        if _monitor.failed_at is not None and time.monotonic() - _monitor.failed_at < AGAIN_SECONDS:
            return _monitor.answer
        _monitor.asking = threading.Thread(target=_look, name="nvml-use", daemon=True)
        _monitor.asking.start()
        _monitor.asking.join(ANSWER_SECONDS)
        is_late = _monitor.asking.is_alive()
        return InUse(why="the NVIDIA driver doesn't answer") if is_late else _monitor.answer


def _look() -> None:
    try:
        import pynvml
    except ImportError:
        _fail("no NVIDIA GPU (nvidia-ml-py isn't installed)")
        return
    try:
        if _monitor.nvml is None:
            pynvml.nvmlInit()
            _monitor.nvml = pynvml
        found = tuple(_use(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
        _monitor.answer, _monitor.failed_at = InUse(tuple(one for one in found if one is not None)), None
    except (pynvml.NVMLError, OSError) as error:
        _fail(_why(pynvml, error))


def _fail(why: str) -> None:
    _monitor.answer, _monitor.failed_at, _monitor.nvml = InUse(why=why), time.monotonic(), None


def _why(nvml: Any, error: Exception) -> str:
    kinds = (
        (nvml.NVMLError_LibraryNotFound, "no NVIDIA GPU (driver library not found)"),
        (nvml.NVMLError_DriverNotLoaded, "no NVIDIA GPU (its driver isn't loaded)"),
        (nvml.NVMLError_NoPermission, "the NVIDIA driver may not be asked from here"),
        (nvml.NVMLError_LibRmVersionMismatch, "the NVIDIA driver and its library are of two versions: restart"),
    )
    return next((words for kind, words in kinds if isinstance(error, kind)), f"the NVIDIA driver says: {error}")


def _use(nvml: Any, index: int) -> DeviceUse | None:
    """None for a device that fell off the bus."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name = _text(nvml.nvmlDeviceGetUUID(handle))
    except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_NoPermission):
        return None
    utilisation = _told(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    memory_info = _told(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    temperature = _told(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    listed = _computing(nvml, handle)
    minor = _told(nvml, lambda: nvml.nvmlDeviceGetMinorNumber(handle))
    memory = {one.pid: one.usedGpuMemory for one in listed}
    here = pids_here(memory, f"/dev/nvidia{minor}")
    return DeviceUse(
        name=name,
        index=index,
        utilisation_percent=utilisation,
        memory_used_bytes=getattr(memory_info, "used", None),
        memory_total_bytes=getattr(memory_info, "total", None),
        temperature_celsius=temperature,
        processes={pid: memory[pid] for pid in here},
        outside=len(memory) - len(here),
    )


def _computing(nvml: Any, handle: Any) -> Sequence[Any]:
    """The processes on a device, each with `pid` and `usedGpuMemory`.

    Drivers before 510 know the second form alone; asked for the newest one, nvidia-ml-py raises what is no NVMLError.
    """
    for form in (nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetComputeRunningProcesses_v2):
        try:
            return form(handle)  # type: ignore[no-any-return]
        except nvml.NVMLError_FunctionNotFound:
            continue
        except nvml.NVMLError:
            break
    return ()


def _told(nvml: Any, question: Callable[[], Any]) -> Any:
    """None for what this device, or this user, isn't told: most often `Not Supported`."""
    try:
        return question()
    except nvml.NVMLError:
        return None


def pids_here(pids: Iterable[int], device: str) -> set[int]:
    """Of the driver's pids those that are surely processes of this pid namespace.

    The driver counts as the machine does. In a container such a number is another process, or none: there it counts
    only where the process of that number has the `device` itself open.
    """
    if pid_namespace() == MACHINE_PIDS:
        return {pid for pid in pids if os.path.exists(f"/proc/{pid}")}
    return {pid for pid in pids if _has_open(pid, device)}


def _has_open(pid: int, path: str) -> bool:
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{name}") == path for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


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
