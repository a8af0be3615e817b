"""The part of a metrics file that leads to one step, found without reading the file from its start."""

from __future__ import annotations

import os

from lavender_tui.launch.files import open_regular
from lavender_tui.model.run import LossPoint
from lavender_tui.watch.metrics import parse_line

ENOUGH = 200  # points: what came long before tells nothing of the noise now
WINDOW_BYTES = 256 << 10
PROBE_BYTES = 16 << 10


def points_up_to(path: str, step: int | None, *, count: int = ENOUGH) -> tuple[LossPoint, ...]:
    """The last `count` points with a loss up to and with `step` (None: to the end), by strictly increasing step.

    Reads some hundred kilobytes of however large a file: its steps ascend, so that the place is found by halving.
    Empty where the file can't be read.
    """
    try:
        descriptor = open_regular(path)
    except (OSError, ValueError):
        return ()
    try:
        size = os.fstat(descriptor).st_size
        end = size if step is None else _end_of(descriptor, step, size)
        return _last(_points(descriptor, max(0, end - WINDOW_BYTES), end), step, count)
    except OSError:
        return ()
    finally:
        os.close(descriptor)


def _end_of(descriptor: int, step: int, size: int) -> int:
    """An offset shortly behind the line of `step`."""
    low, high = 0, size
    while high - low > PROBE_BYTES:
        middle = (low + high) // 2
        points = _points(descriptor, middle, min(size, middle + PROBE_BYTES))
        if points and points[0].step <= step:
            low = middle
        else:
            high = middle
    return min(size, high + PROBE_BYTES)


def _points(descriptor: int, start: int, end: int) -> list[LossPoint]:
    """Of the whole lines between two offsets; what is cut at either end is left out."""
    data = os.pread(descriptor, end - start, start)
    lines = data.split(b"\n")[1 if start else 0 : -1]
    return [point for line in lines if (point := parse_line(line)) is not None]


def _last(points: list[LossPoint], step: int | None, count: int) -> tuple[LossPoint, ...]:
    kept: list[LossPoint] = []
    for point in reversed(points):
        is_in = (step is None or point.step <= step) and (not kept or point.step < kept[-1].step)
        if is_in and point.loss is not None and len(kept) < count:
            kept.append(point)
    return tuple(reversed(kept))
