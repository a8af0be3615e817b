"""Curves with axes, in signs: the one place that draws them, and the marks on them. Pure but for the widget at the end.

Braille has eight dots in a cell; a terminal without it gets `'`, `-`, `.`, `:` and `|` by where the dots are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from textual.strip import Strip
from textual.widget import Widget

from lavender_tui.model import axis, text
from lavender_tui.model.series import decimate
from lavender_tui.tui.widgets.curve import dots, roomy, scale, sign
from lavender_tui.tui.widgets.inks import Span, ground, spans_length, strip_of
from lavender_tui.tui.widgets.lines import cut_spans

SAVE, RESUME, CURSOR, POINT = "▴", "┊", "│", "◆"
MOST_RESUMES = 12  # lines: with more of them the curve would not be seen
_BELOW = 2  # rows: the axis and its numbers
_ROWS_A_TICK, _GAP = 3, 3  # lines from one number to the next, where there is room; cells between two numbers
_FEW, _CLOSEST = 8, 2  # with less numbers than that on the upright axis, they may stand as close as that
_LEGEND_FROM = 7  # rows: below that height all of them are for the curve
_FEWEST_ROWS, _NARROWEST = 2, 20  # rows of the curve, and cells with the axis: with less there is none
_MOST_NAMED = 3  # resumes whose step the legend says

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Line:
    """Points in order of steps; those that aren't finite are left out. The `letter` stands at its end."""

    points: Points
    ink: str = "accent"
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn. `window` is the steps that are shown, None for all of them.

    `saves` and `resumes` are steps, `cursor` the point that is read off. With `is_log` only values above 0 are drawn.
    """

    lines: tuple[Line, ...]
    x_name: str = "step"
    is_log: bool = False
    window: tuple[float, float] | None = None
    saves: tuple[float, ...] = ()
    resumes: tuple[float, ...] = ()
    cursor: tuple[float, float] | None = None
    legend: tuple[Span, ...] = ()

    @property
    def across(self) -> tuple[float, float]:
        """The first and the last step; a lone one stands between its neighbours."""
        steps = [x for line in self.lines for x, _ in line.points]
        low, high = self.window or (min(steps, default=0.0), max(steps, default=0.0))
        return (low, high) if high > low else (low - 1, high + 1)

    @property
    def up(self) -> tuple[float, float]:
        values = [y for line in self.lines for _, y in line.points]
        low, high = roomy(min(values), max(values))
        return (min(values), max(values)) if self.is_log and low <= 0 else (low, high)

    @property
    def drawable(self) -> Chart:
        """Without the points and the cursor that have no place on its axes."""
        lines = tuple(replace(line, points=tuple(filter(self._has_place, line.points))) for line in self.lines)
        cursor = self.cursor if self.cursor is not None and self._has_place(self.cursor) else None
        window = self.window if self.window is not None and all(map(math.isfinite, self.window)) else None
        return replace(self, lines=lines, cursor=cursor, window=window)

    def _has_place(self, point: tuple[float, float]) -> bool:
        x, y = point
        return math.isfinite(x) and math.isfinite(y) and (y > 0 or not self.is_log)


class Canvas:
    """Cells of a sign and an ink each; what is put later lies above."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rows: list[list[Span]] = [[(" ", "")] * width for _ in range(height)]

    def put(self, x: int, y: int, words: str, ink: str) -> None:
        for place, one in enumerate(words, x):
            if 0 <= place < self.width and 0 <= y < self.height:
                self._rows[y][place] = (one, ink)

    def has(self, x: int, y: int, signs: str) -> bool:
        return 0 <= x < self.width and 0 <= y < self.height and self._rows[y][x][0] in signs

    def lines(self) -> list[list[Span]]:
        """Each row, neighbours of one ink together."""
        return [
            [("".join(one for one, _ in group), ink) for ink, group in groupby(row, lambda cell: cell[1])]
            for row in self._rows
        ]


def paint(chart: Chart, width: int, height: int) -> list[list[Span]]:
    """The chart on at most `height` lines of `width` cells; nothing where there is nothing to draw, or no room."""
    chart = chart.drawable
    has_legend = bool(chart.legend) and height >= _LEGEND_FROM
    rows = height - _BELOW - has_legend
    if rows < _FEWEST_ROWS or width < _NARROWEST or not any(line.points for line in chart.lines):
        return []
    canvas = Canvas(width, rows + _BELOW)
    left = _draw_left(canvas, chart, rows)
    room = width - left
    to_x = _placer(chart.across, room, left)
    _draw_below(canvas, chart, rows, left, to_x)
    for step in [one for one in chart.resumes if chart.across[0] <= one <= chart.across[1]][-MOST_RESUMES:]:
        for y in range(rows):
            canvas.put(to_x(step), y, RESUME, "warn")
    for line in chart.lines:
        _draw_line(canvas, chart, line, rows, left)
    _draw_ends(canvas, chart, rows, to_x)
    legend = [[(" " * left, ""), *_cut(chart.legend, room)]] if has_legend else []
    return canvas.lines() + legend


def no_room(chart: Chart, width: int, height: int) -> list[list[Span]]:
    """Why that chart can't be seen there, on one line; nothing where there is nothing to draw."""
    if not any(line.points for line in chart.drawable.lines):
        return []
    words = "too narrow for a curve: make it wider" if width < _NARROWEST else "too low for a curve: make it higher"
    return [cut_spans([(words, "quiet")], width)]


def _height_of(chart: Chart, value: float) -> float:
    return math.log10(value) if chart.is_log else value


def _placer(limits: tuple[float, float], cells: int, first: int) -> Callable[[float], int]:
    return lambda value: first + scale(value, *limits, 2 * cells - 1) // 2


def _up(chart: Chart) -> tuple[float, float]:
    low, high = chart.up
    return _height_of(chart, low), _height_of(chart, high)


def _row(chart: Chart, value: float, rows: int) -> int:
    """The line of a value, in the same dots as the curve."""
    return (4 * rows - 1 - scale(_height_of(chart, value), *_up(chart), 4 * rows - 1)) // 4


def _draw_left(canvas: Canvas, chart: Chart, rows: int) -> int:
    """The numbers and the line of the upright axis; how many cells it all takes."""
    low, high = chart.up
    most = max(3, rows // _ROWS_A_TICK, min(_FEW, rows // _CLOSEST))
    values = axis.log_ticks(low, high, most) if chart.is_log else axis.ticks(low, high, most)
    words = (axis.log_labels if chart.is_log else axis.labels)(values)
    left = max(len(chart.x_name), *map(len, words), 0) + 2 if words else len(chart.x_name) + 2
    for y in range(rows):
        canvas.put(left - 1, y, "│", "faint")
    taken: set[int] = set()
    for value, label in zip(values, words, strict=True):
        if (y := _row(chart, value, rows)) not in taken:
            taken.add(y)
            canvas.put(left - 2 - len(label), y, label, "quiet")
            canvas.put(left - 1, y, "┤", "faint")
    return left


def _draw_below(canvas: Canvas, chart: Chart, rows: int, left: int, to_x: Callable[[float], int]) -> None:
    """The lying axis with the saves on it, its numbers, and what they count."""
    canvas.put(left - 1, rows, "└" + "─" * (canvas.width - left), "faint")
    canvas.put(left - 2 - len(chart.x_name), rows + 1, chart.x_name, "quiet")
    first, last = chart.across
    widest = len(f"{last:,.0f}") + _GAP
    values = axis.ticks(first, last, max(1, (canvas.width - left) // widest - 1), is_whole=True)
    free = left - 1
    for value, label in zip(values, axis.labels(values), strict=True):
        x = to_x(value)
        start = max(left - 1, min(x - len(label) // 2, canvas.width - len(label)))
        if start >= free:
            canvas.put(x, rows, "┴", "faint")
            canvas.put(start, rows + 1, label, "quiet")
            free = start + len(label) + 2
    for step in chart.saves:
        if first <= step <= last:
            canvas.put(to_x(step), rows, SAVE, "warn")


def _draw_line(canvas: Canvas, chart: Chart, line: Line, rows: int, left: int) -> None:
    width = canvas.width - left
    points = decimate([(x, _height_of(chart, y)) for x, y in line.points], width)
    for y, row in enumerate(dots(points, width, rows, chart.across, _up(chart))):
        for x, cell in enumerate(row, left):
            if cell:
                canvas.put(x, y, sign(cell), line.ink)


def _draw_ends(canvas: Canvas, chart: Chart, rows: int, to_x: Callable[[float], int]) -> None:
    """What must not be hidden: the letter of each curve, a curve of one point, the cursor."""
    letters = "".join(line.letter for line in chart.lines)
    for line in chart.lines:
        if line.letter and line.points:
            x, y = to_x(line.points[-1][0]), _row(chart, line.points[-1][1], rows)
            free = (one for one in range(rows) if not canvas.has(x, one, letters))
            canvas.put(x, min(free, key=lambda one: abs(one - y), default=y), line.letter, line.ink)
        elif len(set(line.points)) == 1:
            canvas.put(to_x(line.points[0][0]), _row(chart, line.points[0][1], rows), "●", line.ink)
    if chart.cursor is not None:
        x = to_x(chart.cursor[0])
        for y in range(rows):
            if canvas.has(x, y, f" {RESUME}"):
                canvas.put(x, y, CURSOR, "strong")
        canvas.put(x, _row(chart, chart.cursor[1], rows), POINT, "strong")


def _cut(spans: Sequence[Span], width: int) -> list[Span]:
    """As many of the spans as fit whole."""
    kept: list[Span] = []
    for span in spans:
        if spans_length([*kept, span]) > width:
            break
        kept.append(span)
    return kept


def marks_in_words(chart: Chart, *, runs: int = 1, missing: bool = False) -> tuple[Span, ...]:
    """What the marks on that chart mean; empty where there are none.

    `runs`: of how many runs the curve is; `missing`: earlier ones aren't known.
    """
    first, last = chart.across
    saves = sum(first <= one <= last for one in chart.saves)
    resumes = [one for one in chart.resumes if first <= one <= last]
    found: list[Span] = []
    if saves:
        found += [(SAVE, "warn"), (f" {text.plural(saves, 'save')}   ", "quiet")]
    if resumes:
        found += [(RESUME, "warn"), (f" {_resumed_at(resumes)}", "quiet")]
        found.append((f", {runs} runs" if runs > 1 else "", "quiet"))
    if missing:
        found.append((", earlier ones missing" if resumes else "this run alone, earlier ones missing", "quiet"))
    return tuple(span for span in found if span[0])


def _resumed_at(steps: Sequence[float]) -> str:
    """ "resumed at 108 and 2,004": as many as there are marks; of many how many, and the last."""
    named = [f"{step:,.0f}" for step in sorted(steps)]
    if len(named) > _MOST_NAMED:
        return f"resumed {len(named)} times, last at {named[-1]}"
    return "resumed at " + " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


class ChartView(Widget):
    """Draws a chart as large as it is, line by line."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._chart: Chart | None = None
        self._painted: tuple[Chart | None, tuple[int, int], list[list[Span]]] = (None, (0, 0), [])

    def show(self, chart: Chart | None) -> None:
        self.display = chart is not None
        if chart != self._chart:
            self._chart = chart
            self.refresh()

    def render_line(self, y: int) -> Strip:
        size = (self.content_size.width, self.content_size.height)
        if self._painted[:2] != (self._chart, size):
            lines = paint(self._chart, *size) or no_room(self._chart, *size) if self._chart is not None else []
            self._painted = (self._chart, size, lines)
        lines = self._painted[2]
        return strip_of(self, lines[y] if y < len(lines) else [], size[0], ground(self))
