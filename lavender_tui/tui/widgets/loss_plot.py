"""The loss of a run on its overview, through all runs that it was resumed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lavender_tui.model import series, text
from lavender_tui.model.run import LossPoint
from lavender_tui.tui.widgets.chart import Chart, Line, marks_in_words
from lavender_tui.tui.widgets.plot_frame import PlotFrame


class LossPlot(PlotFrame):
    """Shows `points`; gaps and values that can't be drawn are left out and counted in the title."""

    TITLE_ID = "loss-title"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: object = None

    def show(
        self,
        points: Sequence[LossPoint],
        resumes: Sequence[int] = (),
        *,
        saves: Sequence[int] = (),
        counts: str = "step",
        is_whole: bool = True,
    ) -> None:
        """`points` may go through several runs, `resumes` being the steps where one went on as the next.

        `saves` are the steps of the checkpoints. `counts`: what is counted along the curve, "step" or "save".
        `is_whole` False: some of those runs are missing.
        """
        shown = (points, tuple(resumes), tuple(saves), counts, is_whole)
        if shown == self._shown:
            return
        self._shown = shown
        drawn = drawable(points)
        chart = None
        if drawn:
            chart = Chart((Line(drawn),), x_name=counts, saves=tuple(saves), resumes=tuple(resumes))
            legend = marks_in_words(chart, runs=len(resumes) + 1, missing=not is_whole)
            chart = replace(chart, legend=legend)
        self.draw([("LOSS  ", "title"), (_summary(points, drawn), "quiet")], chart)


def drawable(points: Sequence[LossPoint]) -> tuple[tuple[float, float], ...]:
    """Those that are finite and small enough for an axis."""
    return tuple(series.drawable((point.step, point.loss) for point in points))


def _summary(points: Sequence[LossPoint], shown: Sequence[tuple[float, float]]) -> str:
    if not points:
        return "nothing recorded yet"
    gaps = len(points) - len(series.finite([(point.step, point.loss) for point in points]))
    words = text.plural(len(points), "point") + (f", {gaps:,} of them no finite number" if gaps else "")
    if not shown:
        return words
    return f"{words}   least {text.loss(min(y for _, y in shown))}   last {text.loss(shown[-1][1])}"
