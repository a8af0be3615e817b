"""One logged number of a run at full size: zoom, scale, average, marks, and what it is at the cursor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lavender_tui.model import text
from lavender_tui.model.curve_view import SMOOTHINGS, CurveView, nearest, shown_part
from lavender_tui.model.series import drawable
from lavender_tui.tui.widgets.chart import POINT, Chart, Line, marks_in_words
from lavender_tui.tui.widgets.inks import Span
from lavender_tui.tui.widgets.plot_frame import PlotFrame

Points = Sequence[tuple[float, float]]


class MetricPlot(PlotFrame):
    """`show` gives it every metric; the first is drawn until another one is chosen."""

    TITLE_ID = "metric-title"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._metrics: Mapping[str, Points] = {}
        self._metric = ""
        self._resumes: tuple[int, ...] = ()
        self._saves: tuple[tuple[int, int | None], ...] = ()
        self._counts = "step"
        self._lost: Mapping[str, int] = {}
        self._starts: Mapping[str, float] = {}
        self._lacking = ""
        self._is_read = False
        self._drawn: object = None
        self.view = CurveView()

    def show(
        self,
        metrics: Mapping[str, Points],
        resumes: Sequence[int] = (),
        saves: Sequence[tuple[int, int | None]] = (),
        counts: str = "step",
        starts: Mapping[str, float] | None = None,
        *,
        left_out: str = "",
    ) -> None:
        """Metric → points in order of steps; `resumes` the steps that are marked, `saves` too, each with its number.

        `counts`: what is counted along the curve, "step" or "save". What no axis can hold is left out and counted, and
        a metric of which nothing is left. `starts`: the first step of a metric whose points before it weren't read.
        `left_out`: how many metrics aren't among these, in words.
        """
        self._is_read, self._drawn = True, None if not self._is_read else self._drawn
        fitting = {name: drawable(points) for name, points in metrics.items()}
        self._metrics = {name: points for name, points in fitting.items() if points}
        self._lost = {name: len(metrics[name]) - len(points) for name, points in self._metrics.items()}
        self._resumes, self._saves, self._counts = tuple(resumes), tuple(saves), counts
        self._starts, self._lacking = starts or {}, left_out
        if self._metric not in self._metrics:
            self._metric = next(iter(self._metrics), "")
        self.redraw()

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
            self.redraw()

    def zoom(self, factor: float) -> None:
        """0 shows all of it again."""
        self.view = (
            CurveView(self.view.smoothing, self.view.is_log) if not factor else self.view.zoomed(factor, self._whole)
        )
        self.redraw()

    def move(self, places: int) -> None:
        """The cursor, by so many cells of the screen."""
        shown = shown_part(self._points, CurveView(window=self.view.window))
        cell = max(1, round(len(shown) / max(1, self.size.width)))
        self.view = self.view.moved(places * cell, [step for step, _ in self._points], self._whole)
        self.redraw()

    def toggle_log(self) -> None:
        self.view = replace(self.view, is_log=not self.view.is_log)
        self.redraw()

    def next_smoothing(self) -> None:
        after = SMOOTHINGS[(SMOOTHINGS.index(self.view.smoothing) + 1) % len(SMOOTHINGS)]
        self.view = replace(self.view, smoothing=after)
        self.redraw()

    # Drawing

    def redraw(self) -> None:
        """Draw again if anything changed that is to be seen."""
        drawn = (self._metric, self._points, self._resumes, self._saves, self._counts, self.view, self._left_out())
        if drawn == self._drawn or not self.display:
            return
        self._drawn = drawn
        shown = shown_part(self._points, self.view)
        # The second line is always there: what is switched on must not move the curve.
        chart = self._chart(shown) if shown else None
        self.draw(self._title(bool(shown)), chart, below=self._how_seen() or [(" ", "")])

    def _chart(self, shown: Points) -> Chart:
        chart = Chart(
            (Line(tuple(shown)),),
            x_name=self._counts,
            is_log=self.view.is_log,
            window=self.view.window,
            saves=tuple(step for step, _ in self._saves),
            resumes=self._resumes,
            cursor=nearest(shown, self.view.cursor) if self.view.cursor is not None else None,
        )
        return replace(chart, legend=marks_in_words(chart, runs=len(self._resumes) + 1))

    def _title(self, is_drawn: bool) -> list[Span]:
        names = self.names
        if not names:
            return [("nothing recorded yet" if self._is_read else "reading…", "quiet")]
        spans: list[Span] = [(text.clean(self._metric, 60), "strong")]
        spans += self._read_off() if is_drawn else [("   nothing in sight", "warn")]
        if len(names) > 1:
            spans.append((f"   metric {names.index(self._metric) + 1} of {len(names)}", "quiet"))
        return [*spans, *((f"   {words}", "warn") for words in self._left_out())]

    def _left_out(self) -> list[str]:
        lost, start = self._lost.get(self._metric), self._starts.get(self._metric)
        words = [f"{text.plural(lost, 'point')} can't be drawn"] if lost else []
        words += [f"from step {start:,.0f} on"] if start is not None else []
        return [*words, self._lacking] if self._lacking else words

    def _how_seen(self) -> list[Span]:
        """What of the curve is seen, and how; each only where it isn't as at first."""
        words = []
        if self.view.window is not None:
            low, high = self.view.window
            words.append(f"{self._counts}s {low:,.0f} to {high:,.0f}")
        if self.view.is_log:
            words.append("log scale")
        if self.view.smoothing:
            words.append(f"averaged over {self.view.smoothing} points")
        return [("   ".join(words), "quiet")] if words else []

    def _read_off(self) -> list[Span]:
        """The number as it was logged, at the cursor, else the newest; and the save that holds what was learnt then."""
        cursor = self.view.cursor
        at = nearest(self._points, self._points[-1][0] if cursor is None else cursor)
        if at is None:
            return []
        where = f" at {self._counts} {at[0]:,.0f}" if cursor is not None else f" last, at {self._counts} {at[0]:,.0f}"
        if self.view.smoothing and cursor is not None:
            where = f" as logged,{where}"  # the point on the curve is an average
        mark = f"  {POINT} " if cursor is not None else "   "
        return [(mark, "strong"), (f"{at[1]:.6g}", "accent"), (where + self._saved_at(at[0]), "quiet")]

    def _saved_at(self, step: float) -> str:
        """The newest save up to that step."""
        found = bisect_right([one for one, _ in self._saves], step) - 1
        if found < 0:
            return ", before any save" if self._saves else ""
        at, number = self._saves[found]
        return f", {'in' if at == step else 'after'} save {text.save_count(number)}"
