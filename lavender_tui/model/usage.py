"""What a run uses of its machine. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """One device that a run computes on; what the driver doesn't tell is None."""

    name: str  # its UUID
    index: int  # its place among the machine's devices, as nvidia-smi counts
    utilisation_percent: int | None = None  # of the whole device, whoever uses it
    memory_bytes: int | None = None  # what this run has of it
    memory_total_bytes: int | None = None
    temperature_celsius: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What all processes of a run use together. Rates are those between two looks, None at the first one.

    `untold` counts the processes that don't tell everything, such as another user's.
    """

    cpu_percent: float | None = None  # 100 is one processor
    rss_bytes: int | None = None
    read_bytes_per_second: float | None = None  # from and to disks, as the kernel counts
    written_bytes_per_second: float | None = None
    gpus: tuple[GpuUse, ...] = ()
    no_gpus: str | None = None  # why none can be told: "no NVIDIA GPU (driver library not found)"
    untold: int = 0
