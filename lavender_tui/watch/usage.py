"""What live runs use: processors, memory and disks by psutil, GPUs by the driver's library where it answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lavender_tui.launch.identity import is_same_process
from lavender_tui.model.run import LiveProcess
from lavender_tui.model.text import plural
from lavender_tui.model.usage import GpuUse, Usage
from lavender_tui.watch.devices import DeviceUse, InUse, devices_in_use

if TYPE_CHECKING:
    import psutil

LEAST_SECONDS = 0.5  # between two samples: over less the kernel's ticks of 10 ms say little

Identity = tuple[int, int]  # pid, start ticks


@dataclass(frozen=True, slots=True)
class _Sample:
    """What one process has used since it began; None where it isn't told."""

    at: float  # monotonic
    cpu_seconds: float | None
    rss_bytes: int | None
    read_bytes: int | None
    written_bytes: int | None


class Sampler:
    """Asks the processes of live runs, and remembers what they said last. Not shared between threads.

    A process costs about a tenth of a millisecond; the GPUs are asked on a thread of their own, so that a driver that
    hangs holds up nothing.
    """

    def __init__(self, *, with_gpus: bool = True) -> None:
        self._before: dict[Identity, _Sample] = {}
        self._handles: dict[Identity, psutil.Process] = {}
        self._told: dict[str, Usage] = {}
        self._at = 0.0
        self._with_gpus = with_gpus

    def sample(self, runs: Mapping[str, Sequence[LiveProcess]]) -> Mapping[str, Usage]:
        """By run; what was sampled a moment ago is told again."""
        now = time.monotonic()
        if now - self._at < LEAST_SECONDS and runs.keys() == self._told.keys():
            return self._told
        self._at = now
        devices = devices_in_use() if runs and self._with_gpus else InUse()
        before, self._before = self._before, {}
        self._told = {run: self._of(processes, before, devices) for run, processes in runs.items()}
        self._handles = {identity: one for identity, one in self._handles.items() if identity in self._before}
        return self._told

    def _of(self, processes: Sequence[LiveProcess], before: Mapping[Identity, _Sample], devices: InUse) -> Usage:
        pairs, untold = [], 0
        for one in processes:
            identity = (one.pid, one.start_ticks)
            sample = self._ask(identity)
            if sample is None:
                continue
            self._before[identity] = sample
            pairs.append((before.get(identity), sample))
            untold += sample.cpu_seconds is None or sample.read_bytes is None
        return Usage(
            cpu_percent=_rounded(_rate(pairs, "cpu_seconds"), 100.0, 0),
            rss_bytes=_coarse(_sum(after.rss_bytes for _, after in pairs)),
            read_bytes_per_second=_rounded(_rate(pairs, "read_bytes"), 1.0, -3),
            written_bytes_per_second=_rounded(_rate(pairs, "written_bytes"), 1.0, -3),
            gpus=tuple(use for device in devices.devices if (use := _of_device(device, processes)) is not None),
            no_gpus=devices.why or _outside(devices),
            untold=untold,
        )

    def _ask(self, identity: Identity) -> _Sample | None:
        """None where the process is gone, or the pid is another's."""
        import psutil

        try:
            process = self._handles.get(identity) or psutil.Process(identity[0])
            with process.oneshot():
                times, memory = _or_none(process.cpu_times), _or_none(process.memory_info)
            disks = _or_none(process.io_counters)
        except psutil.Error:
            return None
        if not is_same_process(*identity):
            return None
        self._handles[identity] = process
        return _Sample(
            at=time.monotonic(),
            cpu_seconds=times.user + times.system if times is not None else None,
            rss_bytes=memory.rss if memory is not None else None,
            read_bytes=disks.read_bytes if disks is not None else None,
            written_bytes=disks.write_bytes if disks is not None else None,
        )


def _or_none(question: Callable[[], Any]) -> Any:
    """None for what another user's process doesn't tell; NoSuchProcess where it is gone."""
    import psutil

    try:
        return question()
    except psutil.AccessDenied:
        return None


def _rate(pairs: Sequence[tuple[_Sample | None, _Sample]], name: str) -> float | None:
    """Per second, over all processes that were asked before; None where none was."""
    rates = []
    for before, after in pairs:
        then, now = getattr(before, name, None), getattr(after, name)
        if before is not None and then is not None and now is not None and after.at > before.at:
            rates.append(max(0.0, now - then) / (after.at - before.at))
    return sum(rates) if rates else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _rounded(value: float | None, factor: float, digits: int) -> float | None:
    """So coarse that a run that goes on as before says the same."""
    return None if value is None else round(value * factor, digits)


def _coarse(count: int | None) -> int | None:
    """To three figures."""
    return None if count is None else round(count, 3 - len(str(count)))


def _outside(devices: InUse) -> str | None:
    """In a container the driver names processes by numbers that mean others here, or nobody."""
    outside = sum(one.outside for one in devices.devices)
    return f"{plural(outside, 'process', 'processes')} outside this container use the GPUs" if outside else None


def _of_device(device: DeviceUse, processes: Sequence[LiveProcess]) -> GpuUse | None:
    """The device as this run uses it; None where no process of the run computes on it."""
    own = {one.pid for one in processes} & device.processes.keys()
    if not own:
        return None
    return GpuUse(
        name=device.name,
        index=device.index,
        utilisation_percent=device.utilisation_percent,
        memory_bytes=_sum(device.processes[pid] for pid in own),
        memory_total_bytes=device.memory_total_bytes,
        temperature_celsius=device.temperature_celsius,
    )
