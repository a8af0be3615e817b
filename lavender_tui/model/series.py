"""Curves: bounds, decimation and the small trend in a row. NaN and infinity are gaps, never poison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Point = tuple[float, float | None]  # (step, value or None for a gap)
_BARS = "▁▂▃▄▅▆▇█"
# Axes are computed as high - low and in cells of it: near the largest float that overflows, and steps beyond 2**53 fall
# together.
_GREATEST, _LAST_STEP = 1e300, 1e15


def finite(points: Iterable[Point]) -> list[tuple[float, float]]:
    """Only the points that can be drawn."""
    return [(x, y) for x, y in points if y is not None and math.isfinite(y) and math.isfinite(x)]


def drawable(points: Iterable[Point]) -> list[tuple[float, float]]:
    """Only the points that an axis can hold beside any other."""
    return [(x, y) for x, y in finite(points) if abs(y) < _GREATEST and abs(x) < _LAST_STEP]


def bounds(points: Iterable[Point]) -> tuple[float, float, float, float] | None:
    """(x min, x max, y min, y max) over finite points; None when there are none."""
    kept = finite(points)
    if not kept:
        return None
    xs, ys = [x for x, _ in kept], [y for _, y in kept]
    return min(xs), max(xs), min(ys), max(ys)


def decimate(points: Sequence[Point], width: int) -> list[tuple[float, float]]:
    """At most 2 * width points: the least and the greatest of each of `width` buckets, in order of x.

    Extremes survive, so a spike of one step is still seen.
    """
    kept = finite(points)
    if width < 1 or len(kept) <= 2 * width:
        return kept
    out: list[tuple[float, float]] = []
    for bucket in range(width):
        part = kept[bucket * len(kept) // width : (bucket + 1) * len(kept) // width]
        low = min(part, key=lambda point: point[1])
        high = max(part, key=lambda point: point[1])
        out += [low] if low is high else sorted((low, high))
    return out


def trend(values: Iterable[float | None], width: int = 10) -> str:
    """A bar a bucket, newest right; empty without a finite value. A gap in the newest place shows as "×"."""
    series = list(values)
    shown = [value for value in series if value is not None and math.isfinite(value)]
    if not shown or width < 1:
        return ""
    diverged = series[-1] is None or not math.isfinite(series[-1])
    room = max(1, width - 1) if diverged else width
    means = _bucket_means(shown, min(room, len(shown)))
    low, high = min(means), max(means)
    span = high - low
    if not math.isfinite(span) or span <= 0:
        bars = _BARS[3] * len(means)
    else:
        bars = "".join(_BARS[min(7, int((mean - low) / span * 8))] for mean in means)
    return (bars + "×")[-width:] if diverged else bars


def _bucket_means(values: list[float], buckets: int) -> list[float]:
    total = len(values)
    means = []
    for bucket in range(buckets):
        part = values[bucket * total // buckets : (bucket + 1) * total // buckets]
        means.append(2 * math.fsum(value / 2 / len(part) for value in part))  # the sum itself may be no float
    return means
