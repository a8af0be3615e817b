"""How a curve is looked at: which part of it, smoothed, on which scale, and where it is read off. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

SMOOTHINGS = (0, 10, 50)  # points that an average reaches back over
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class CurveView:
    """`window` is the steps that are shown, None for all of them; `cursor` the step that is read off, None for none."""

    smoothing: int = 0
    is_log: bool = False
    window: Span | None = None
    cursor: float | None = None

    def zoomed(self, factor: float, whole: Span) -> CurveView:
        """So many times closer, around the cursor, else the middle; never beyond the whole, never below two steps."""
        low, high = self.window or whole
        centre = self.cursor if self.cursor is not None and low <= self.cursor <= high else (low + high) / 2
        span = max(2.0, (high - low) / factor)
        if span >= whole[1] - whole[0]:
            return replace(self, window=None)
        low = min(max(whole[0], centre - span / 2), whole[1] - span)
        return replace(self, window=(low, low + span))

    def moved(self, places: int, steps: Sequence[float], whole: Span) -> CurveView:
        """The cursor so many points on, from the newest if there is none; the window comes along."""
        if not steps:
            return self
        at = len(steps) if self.cursor is None else bisect_left(steps, self.cursor)
        at = max(0, min(len(steps) - 1, at + places))
        view = replace(self, cursor=steps[at])
        if self.window is None or self.window[0] <= steps[at] <= self.window[1]:
            return view
        span = self.window[1] - self.window[0]
        low = min(max(whole[0], steps[at] - span / 2), whole[1] - span)
        return replace(view, window=(low, low + span))


def smoothed(points: Sequence[tuple[float, float]], reach: int) -> list[tuple[float, float]]:
    """An exponential average, unbiased at its beginning; 0 leaves the points as they are."""
    if reach <= 0:
        return list(points)
    decay, mean, weight, out = 1 - 1 / reach, 0.0, 0.0, []
    for step, value in points:
        mean = decay * mean + (1 - decay) * value
        weight = decay * weight + (1 - decay)
        out.append((step, mean / weight))
    return out


def shown_part(points: Sequence[tuple[float, float]], view: CurveView) -> list[tuple[float, float]]:
    """The points that are drawn; with `is_log` without those that have no logarithm."""
    kept = smoothed(points, view.smoothing)
    if view.window is not None:
        low, high = view.window
        kept = [point for point in kept if low <= point[0] <= high]
    return [point for point in kept if point[1] > 0] if view.is_log else kept


def nearest(points: Sequence[tuple[float, float]], step: float) -> tuple[float, float] | None:
    """The point closest to that step; `points` in order of steps."""
    if not points:
        return None
    at = bisect_left([one for one, _ in points], step)
    return min(points[max(0, at - 1) : at + 1], key=lambda point: abs(point[0] - step))
