"""A small curve in Braille: pure, a few lines high, safe for gaps and spikes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lavender_tui.model.series import Point, bounds, decimate

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # [row][column] of one Braille cell
_FLAT = 1e-4  # as a share of the value


@dataclass(frozen=True, slots=True)
class Curve:
    """`lines` of exactly the asked width, top first; what its lowest and its highest dot stand for."""

    lines: tuple[str, ...]
    low: float
    high: float


def roomy(low: float, high: float) -> tuple[float, float]:
    """Limits of an axis from `low` to `high`; about a flat value, a quarter of it on either side.

    What differs by less than labels can say is flat: an axis from 1.999999 to 2.000001 tells nobody anything.
    """
    greatest = max(abs(low), abs(high))
    if high - low > _FLAT * greatest:
        return low, high
    margin = greatest / 4 or 1.0
    wide = (low - margin, high + margin)
    return wide if all(map(math.isfinite, wide)) else (low, high)


def draw(points: Sequence[Point], width: int, height: int) -> Curve | None:
    """The curve of (step, value) points, a flat one at half height; None where nothing finite is to be drawn."""
    limits = bounds(points)
    if limits is None or width < 1 or height < 1:
        return None
    low, high = roomy(*limits[2:])
    grid = dots(decimate(points, 2 * width), width, height, limits[:2], (low, high))
    return Curve(tuple("".join(map(sign, row)) for row in grid), low, high)


def dots(
    points: Sequence[tuple[float, float]], width: int, height: int, across: tuple[float, float], up: tuple[float, float]
) -> list[list[int]]:
    """The dots of each cell's Braille sign, a list a line, top first. `across` and `up` are the limits of the axes."""
    right, down = 2 * width - 1, 4 * height - 1
    pixels = [(scale(x, *across, right), down - scale(y, *up, down)) for x, y in points]
    grid = [[0] * width for _ in range(height)]
    for start, end in zip(pixels, pixels[1:] or pixels, strict=False):
        _line(grid, start, end)
    return grid


def sign(cell: int) -> str:
    """A space for an empty cell: some fonts draw the empty Braille pattern as eight hollow dots."""
    return chr(0x2800 + cell) if cell else " "


def scale(value: float, low: float, high: float, most: int) -> int:
    """0..most, what lies beyond at that end; halves first, so that a span near the largest float doesn't overflow."""
    span = high / 2 - low / 2
    if span <= 0:
        return most // 2
    value = max(low, min(high, value))
    return max(0, min(most, round((value / 2 - low / 2) / span * most)))


def _line(grid: list[list[int]], start: tuple[int, int], end: tuple[int, int]) -> None:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(steps + 1):
        x = round(start[0] + (end[0] - start[0]) * step / steps)
        y = round(start[1] + (end[1] - start[1]) * step / steps)
        grid[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
