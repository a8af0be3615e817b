"""What every plot on a page stands on: a title, and the chart below it."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container

from lavender_tui.tui.widgets.chart import Chart, ChartView
from lavender_tui.tui.widgets.inks import Span
from lavender_tui.tui.widgets.lines import Lines


class PlotFrame(Container):
    """Subclasses name their title's id (TITLE_ID) and give `draw` what is to be seen; None: nothing is."""

    TITLE_ID = ""

    def compose(self) -> ComposeResult:
        yield Lines(id=self.TITLE_ID)
        yield ChartView()

    def draw(self, title: Sequence[Span], chart: Chart | None, below: Sequence[Span] = ()) -> None:
        """`below` is a second line of the title."""
        lines = [list(title), list(below)] if below else [list(title)]
        self.query_one(f"#{self.TITLE_ID}", Lines).show(lines)
        self.query_one(ChartView).show(chart)
