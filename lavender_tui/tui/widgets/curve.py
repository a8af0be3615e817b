"""A small curve in Braille: pure, a few lines high, safe for gaps and spikes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lavender_tui.model.series import Point, bounds, decimate

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # [row][column] of one Braille cell


@dataclass(frozen=True, slots=True)
class Curve:
    """`lines` of exactly the asked width, top first; the least and greatest value."""

    lines: tuple[str, ...]
    low: float
    high: float


def draw(points: Sequence[Point], width: int, height: int) -> Curve | None:
    """The curve of (step, value) points; None where nothing finite is to be drawn."""
    limits = bounds(points)
    if limits is None or width < 1 or height < 1:
        return None
    x_low, x_high, low, high = limits
    across, down = 2 * width - 1, 4 * height - 1
    pixels = [
        (_scale(x, x_low, x_high, across), down - _scale(y, low, high, down)) for x, y in decimate(points, 2 * width)
    ]
    grid = [[0] * width for _ in range(height)]
    for start, end in zip(pixels, pixels[1:] or pixels, strict=False):
        _line(grid, start, end)
    # a space for an empty cell: some fonts draw the empty Braille pattern as eight hollow dots
    return Curve(tuple("".join(chr(0x2800 + cell) if cell else " " for cell in row) for row in grid), low, high)


def _scale(value: float, low: float, high: float, most: int) -> int:
    """0..most; halves first, so that a span near the largest float doesn't overflow."""
    span = high / 2 - low / 2
    if span <= 0:
        return most // 2
    return max(0, min(most, round((value / 2 - low / 2) / span * most)))


def _line(grid: list[list[int]], start: tuple[int, int], end: tuple[int, int]) -> None:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    for step in range(steps + 1):
        x = round(start[0] + (end[0] - start[0]) * step / steps)
        y = round(start[1] + (end[1] - start[1]) * step / steps)
        grid[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
