"""The loss of a run, full size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lavender_tui.model import series, text
from lavender_tui.model.run import LossPoint
from lavender_tui.model.series import decimate, finite
from lavender_tui.tui.widgets.curve import roomy
from lavender_tui.tui.widgets.plot_frame import PlotFrame

if TYPE_CHECKING:
    from textual_plot import PlotWidget

_FEW_STEPS = 6
SAVE = "▴"
FOOT_ROWS, AROUND = 1.5, 5  # added below the curve for the marks of the saves; rows of title, frame and numbers
MOST_RESUMES = 12  # lines: with more of them the curve would not be seen


class LossPlot(PlotFrame):
    """Shows `points`; gaps and values that can't be drawn are left out and counted in the title."""

    TITLE_ID = "loss-title"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._points: Sequence[LossPoint] = ()
        self._resumes: tuple[int, ...] = ()
        self._saves: tuple[int, ...] = ()
        self._is_whole = True
        self._drawn: object = None

    def on_mount(self) -> None:
        self.load_library()

    def show(
        self,
        points: Sequence[LossPoint],
        resumes: Sequence[int] = (),
        *,
        saves: Sequence[int] = (),
        is_whole: bool = True,
    ) -> None:
        """`points` may go through several runs, `resumes` being the steps where one went on as the next.

        `saves` are the steps of the checkpoints. `is_whole` False: some of those runs are missing.
        """
        self._points, self._resumes, self._saves, self._is_whole = points, tuple(resumes), tuple(saves), is_whole
        self.draw()

    def on_resize(self) -> None:
        self._drawn = None
        self.draw()

    def draw(self) -> None:
        """Draw again if the points or the room changed."""
        width = self.size.width
        drawn = (self._points, self._resumes, self._saves, width)
        if self._plot is None or drawn == self._drawn or width < 20:
            return
        self._drawn = drawn
        shown = drawable(self._points, width)
        self._plot.clear()
        marked = self._draw_curve(self._plot, shown, width) if shown else 0
        self._say(_summary(self._points, shown) + _saved(marked) + _through(self._resumes, self._is_whole))
        self._plot.display = bool(shown)

    def _draw_curve(self, plot: PlotWidget, shown: Sequence[tuple[float, float]], width: int) -> int:
        """The curve, its saves at its foot, its resumes across it; how many saves lie within it."""
        from textual_plot import HiResMode  # loaded by the thread before: costs nothing here

        steps, losses = [x for x, _ in shown], [y for _, y in shown]
        first, last = _steps_shown(steps)
        low, high = roomy(min(losses), max(losses))
        saves = [step for step in self._saves if first <= step <= last]
        rows = max(2, self.size.height - AROUND)
        foot = low - FOOT_ROWS * (high - low) / rows if saves else low
        plot.set_xlimits(first, last)
        plot.set_xticks(_whole_steps(first, last))
        plot.set_ylimits(foot, high)
        for step in self._resumes[-MOST_RESUMES:]:
            if first <= step <= last:
                plot.add_v_line(step, line_style=self.colour("warning", "yellow"))
        if len(set(shown)) == 1:  # a line of one point would be nothing
            plot.scatter(steps[:1], losses[:1], marker="●", marker_style=self.colour("primary", "blue"))
        else:
            plot.plot(steps, losses, line_style=self.colour("primary", "blue"), hires_mode=HiResMode.BRAILLE)
        if marks := one_a_cell(saves, first, last, width):
            plot.scatter(marks, [foot] * len(marks), marker=SAVE, marker_style=self.colour("warning", "yellow"))
        return len(saves)

    def _say(self, words: str) -> None:
        self.say([("LOSS  ", "title"), (words, "quiet")])

    def say_failure(self, words: str) -> None:
        self._say(words)


def drawable(points: Sequence[LossPoint], width: int) -> list[tuple[float, float]]:
    """At most two points a cell, all finite and small enough for an axis."""
    return decimate(series.drawable((point.step, point.loss) for point in points), max(1, width))


def one_a_cell(steps: Sequence[int], first: float, last: float, width: int) -> list[float]:
    """The last of those steps that fall into the same cell of an axis so wide."""
    return list({round((step - first) / (last - first) * width): float(step) for step in steps}.values())


def _saved(count: int) -> str:
    return f"   {SAVE} {text.plural(count, 'save')}" if count else ""


def _steps_shown(steps: Sequence[float]) -> tuple[float, float]:
    """A lone step stands between its neighbours."""
    low, high = min(steps), max(steps)
    return (low, high) if high > low else (low - 1, high + 1)


def _whole_steps(first: float, last: float) -> list[float] | None:
    """Marks at whole steps where the library would put some between them; None: as it likes."""
    return [first + step for step in range(round(last - first) + 1)] if last - first <= _FEW_STEPS else None


def _through(resumes: Sequence[int], is_whole: bool) -> str:
    """Of how many runs the curve is, and where the last of them took over."""
    missing = "" if is_whole else ", earlier ones missing"
    if not resumes:
        return f"   this run alone{missing}" if missing else ""
    return f"   {len(resumes) + 1} runs, resumed at {text.count(resumes[-1])}{missing}"


def _summary(points: Sequence[LossPoint], shown: Sequence[tuple[float, float]]) -> str:
    if not points:
        return "nothing recorded yet"
    gaps = len(points) - len(finite([(point.step, point.loss) for point in points]))
    words = text.plural(len(points), "point") + (f", {gaps:,} of them no finite number" if gaps else "")
    if not shown:
        return words
    return f"{words}   least {text.loss(min(y for _, y in shown))}   last {text.loss(shown[-1][1])}"
