"""A run's processes in words: which they are, which were left over, and what they use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lavender_tui.model import text
from lavender_tui.model.run import LiveProcess, Run
from lavender_tui.model.usage import GpuUse, Usage

if TYPE_CHECKING:
    from lavender_tui.watch.devices import DeviceUse

_MOST = 8


def processes_words(processes: Sequence[LiveProcess]) -> str:
    """ "4711 agent, 4720 worker 0, 4721 worker 1"."""
    if not processes:
        return text.NONE
    shown = ", ".join(
        f"{one.pid} {one.role}" + (f" {one.rank}" if one.rank is not None else "") for one in processes[:_MOST]
    )
    return shown + (f" and {len(processes) - _MOST} more" if len(processes) > _MOST else "")


def left_over_words(run: Run) -> str:
    """Who outlived the run, and that it can be ended."""
    if not run.leftovers:
        return text.NONE
    told = [f"{one.pid}" + (f" rank {one.rank}" if one.rank is not None else "") for one in run.leftovers[:_MOST]]
    more = f" and {len(run.leftovers) - _MOST} more" if len(run.leftovers) > _MOST else ""
    ends = "" if run.is_gone else f"; x ends {'it' if len(run.leftovers) == 1 else 'them'}"  # a gone one's reason says
    return f"{', '.join(told)}{more}{ends}"


def usage_rows(run: Run) -> list[tuple[str, str]]:
    """(label, words): what a live run uses, a row for the machine and one for each GPU."""
    usage = run.usage
    if usage is None:
        return []
    rows = [("uses", _machine(usage))]
    rows += [(f"GPU {gpu.index}", gpu_words(gpu)) for gpu in usage.gpus]
    return [*rows, ("GPUs", usage.no_gpus)] if usage.no_gpus and not usage.gpus else rows


def usage_line(usage: Usage) -> str:
    """All of it in one line, for a place with little room."""
    return "; ".join([_machine(usage), *(f"GPU {gpu.index} {gpu_words(gpu)}" for gpu in usage.gpus)])


def _machine(usage: Usage) -> str:
    parts = []
    if usage.cpu_percent is not None:
        parts.append(f"{usage.cpu_percent:.0f} % CPU")
    if usage.rss_bytes is not None:
        parts.append(f"{text.size(usage.rss_bytes)} memory")
    for value, word in ((usage.read_bytes_per_second, "read"), (usage.written_bytes_per_second, "written")):
        if value is not None and value >= 1000:
            parts.append(f"{text.size(int(value))}/s {word}")
    if usage.untold:
        parts.append(f"{text.plural(usage.untold, 'process', 'processes')} of another user not counted")
    return ", ".join(parts) or text.NONE


def gpu_words(gpu: GpuUse) -> str:
    """ "97 % busy, 62.1 GB of 85.9 GB, 71 °C"; what the driver doesn't tell is left out."""
    parts = [] if gpu.utilisation_percent is None else [f"{gpu.utilisation_percent} % busy"]
    if gpu.memory_bytes is not None:
        of = f" of {text.size(gpu.memory_total_bytes)}" if gpu.memory_total_bytes is not None else ""
        parts.append(f"{text.size(gpu.memory_bytes)}{of}")
    if gpu.temperature_celsius is not None:
        parts.append(f"{gpu.temperature_celsius} °C")
    return ", ".join(parts) or "in use"


_BARS = "▁▂▃▄▅▆▇█"
_FEW = 2  # GPUs that are told one by one in a line


def machine_gpus(devices: Sequence[DeviceUse]) -> str:
    """All GPUs of this machine in a few words for the header; "" without one.

    "GPU 0 97 % 62.1/85.9 GB", or a bar a GPU where there are more than two: "8 GPUs ▇▇▇▇▁▁▁▁ 410/687 GB".
    """
    if not devices:
        return ""
    if len(devices) <= _FEW:
        return ", ".join(_one_gpu(device) for device in devices)
    bars = "".join("?" if one.utilisation_percent is None else _bar(one.utilisation_percent) for one in devices)
    used = sum(one.memory_used_bytes or 0 for one in devices)
    total = sum(one.memory_total_bytes or 0 for one in devices)
    return f"{len(devices)} GPUs {bars} {used / 1e9:.0f}/{total / 1e9:.0f} GB"


def _one_gpu(device: DeviceUse) -> str:
    busy = "" if device.utilisation_percent is None else f" {device.utilisation_percent} %"
    used, total = device.memory_used_bytes, device.memory_total_bytes
    memory = "" if used is None or total is None else f" {used / 1e9:.1f}/{total / 1e9:.1f} GB"
    return f"GPU {device.index}{busy}{memory}"


def _bar(percent: int) -> str:
    return _BARS[min(7, max(0, percent) * 8 // 101)]
