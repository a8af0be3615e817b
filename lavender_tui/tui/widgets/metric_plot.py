"""One logged number of a run at full size: zoom, scale, average, marks, and what it is at the cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lavender_tui.model import text
from lavender_tui.model.curve_view import SMOOTHINGS, CurveView, nearest, shown_part
from lavender_tui.model.series import decimate, drawable
from lavender_tui.tui.widgets.curve import roomy
from lavender_tui.tui.widgets.inks import Span
from lavender_tui.tui.widgets.loss_plot import AROUND, FOOT_ROWS, MOST_RESUMES, SAVE, one_a_cell
from lavender_tui.tui.widgets.plot_frame import PlotFrame

if TYPE_CHECKING:
    from textual_plot import PlotWidget

Points = Sequence[tuple[float, float]]


class MetricPlot(PlotFrame):
    """`show` gives it every metric; the first is drawn until another one is chosen."""

    TITLE_ID = "metric-title"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._metrics: Mapping[str, Points] = {}
        self._metric = ""
        self._resumes: tuple[int, ...] = ()
        self._saves: tuple[int, ...] = ()
        self._is_asked = self._is_read = False
        self._drawn: object = None
        self.view = CurveView()

    def load(self) -> None:
        """Import the library, once: a page that never shows a curve doesn't pay for it."""
        if not self._is_asked:
            self._is_asked = True
            self.load_library()

    def show(self, metrics: Mapping[str, Points], resumes: Sequence[int] = (), saves: Sequence[int] = ()) -> None:
        """Metric → points in order of steps; `resumes` and `saves` are the steps that are marked.

        What no axis can hold is left out, and a metric of which nothing is left.
        """
        self._is_read, self._drawn = True, None if not self._is_read else self._drawn
        fitting = {name: drawable(points) for name, points in metrics.items()}
        self._metrics = {name: points for name, points in fitting.items() if points}
        self._resumes, self._saves = tuple(resumes), tuple(saves)
        if self._metric not in self._metrics:
            self._metric = next(iter(self._metrics), "")
        self.draw()

    @property
    def names(self) -> list[str]:
        return list(self._metrics)

    @property
    def _points(self) -> Points:
        return self._metrics.get(self._metric, ())

    @property
    def _whole(self) -> tuple[float, float]:
        points = self._points
        return (points[0][0], points[-1][0]) if points else (0.0, 1.0)

    # What a key does

    def next_metric(self, places: int) -> None:
        names = self.names
        if names:
            self._metric = names[(names.index(self._metric) + places) % len(names)]
            self.draw()

    def zoom(self, factor: float) -> None:
        """0 shows all of it again."""
        self.view = (
            CurveView(self.view.smoothing, self.view.is_log) if not factor else self.view.zoomed(factor, self._whole)
        )
        self.draw()

    def move(self, places: int) -> None:
        """The cursor, by so many cells of the screen."""
        shown = shown_part(self._points, CurveView(window=self.view.window))
        cell = max(1, round(len(shown) / max(1, self.size.width)))
        self.view = self.view.moved(places * cell, [step for step, _ in self._points], self._whole)
        self.draw()

    def toggle_log(self) -> None:
        self.view = replace(self.view, is_log=not self.view.is_log)
        self.draw()

    def next_smoothing(self) -> None:
        after = SMOOTHINGS[(SMOOTHINGS.index(self.view.smoothing) + 1) % len(SMOOTHINGS)]
        self.view = replace(self.view, smoothing=after)
        self.draw()

    # Drawing

    def on_resize(self) -> None:
        self._drawn = None
        self.draw()

    def draw(self) -> None:
        width = self.size.width
        drawn = (self._metric, self._points, self._resumes, self._saves, self.view, width)
        if self._plot is None or drawn == self._drawn or width < 20 or not self.display:
            return
        self._drawn = drawn
        shown = decimate(shown_part(self._points, self.view), width)
        self._plot.clear()
        self._plot.display = bool(shown)
        if shown:
            self._draw_curve(self._plot, shown, width)
        self.say(self._title(bool(shown)))

    def _draw_curve(self, plot: PlotWidget, shown: Points, width: int) -> None:
        from textual_plot import HiResMode  # loaded by the thread before: costs nothing here

        first, last = self.view.window or (shown[0][0], shown[-1][0])
        first, last = (first, last) if last > first else (first - 1, last + 1)
        low, high = roomy(min(y for _, y in shown), max(y for _, y in shown))
        plot.set_xlimits(first, last)
        saves = [step for step in self._saves if first <= step <= last]
        foot = low - FOOT_ROWS * (high - low) / max(2, self.size.height - AROUND) if saves else low
        plot.set_ylimits(foot, high)
        for step in self._resumes[-MOST_RESUMES:]:
            if first <= step <= last:
                plot.add_v_line(step, line_style=self.colour("warning", "yellow"))
        if len(set(shown)) == 1:
            plot.scatter([shown[0][0]], [shown[0][1]], marker="●", marker_style=self.colour("primary", "blue"))
        else:
            steps, values = [x for x, _ in shown], [y for _, y in shown]
            style = self.colour("primary", "blue")
            plot.plot(steps, values, line_style=style, hires_mode=HiResMode.BRAILLE)
        if marks := one_a_cell(saves, first, last, width):
            plot.scatter(marks, [foot] * len(marks), marker=SAVE, marker_style=self.colour("warning", "yellow"))
        at = nearest(shown, self.view.cursor) if self.view.cursor is not None else None
        if at is not None:
            plot.add_v_line(at[0], line_style=self.colour("foreground", "white"))
            plot.scatter([at[0]], [at[1]], marker="◆", marker_style=self.colour("foreground", "white"))

    def _title(self, is_drawn: bool) -> list[Span]:
        names = self.names
        if not names:
            return [("nothing recorded yet" if self._is_read else "reading…", "quiet")]
        spans: list[Span] = [(text.clean(self._metric, 60), "strong")]
        spans.append((f"  {names.index(self._metric) + 1} of {len(names)}", "quiet"))
        if self.view.smoothing:
            spans.append((f"   averaged over {self.view.smoothing} points", "quiet"))
        if self.view.is_log:
            spans.append(("   log scale: 10 to the", "quiet"))
        if self.view.window is not None:
            low, high = self.view.window
            spans.append((f"   steps {low:,.0f} to {high:,.0f}", "quiet"))
        if not is_drawn:
            return [*spans, ("   nothing in sight", "warn")]
        return spans + self._read_off()

    def _read_off(self) -> list[Span]:
        """The number as it was logged, at the cursor, else the newest."""
        step = self.view.cursor if self.view.cursor is not None else self._points[-1][0]
        at = nearest(self._points, step)
        if at is None:
            return []
        where = "at" if self.view.cursor is not None else "last, at"
        return [("   ", ""), (f"{at[1]:.6g}", "accent"), (f" {where} step {at[0]:,.0f}", "quiet")]

    def say_failure(self, words: str) -> None:
        self.say([(words, "warn")])
