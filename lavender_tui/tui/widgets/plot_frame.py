"""What every plot stands on: its title, and the plotting library, imported in a thread so that no key waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.worker import Worker, WorkerState

from lavender_tui.model import text
from lavender_tui.tui.widgets.inks import Span
from lavender_tui.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from textual_plot import PlotWidget


class PlotFrame(Container):
    """Subclasses name their title's id (TITLE_ID) and draw into `_plot`, which is None until the library is there."""

    TITLE_ID = ""

    class Loaded(Message, namespace="plot_frame"):
        """The plotting library is there."""

        def __init__(self, kind: type[PlotWidget]) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plot: PlotWidget | None = None

    def compose(self) -> ComposeResult:
        yield Lines(id=self.TITLE_ID)

    def draw(self) -> None:
        """Draw what is to be seen, if there is a plot and room for it."""
        raise NotImplementedError

    @work(thread=True, exclusive=True, group="load", exit_on_error=False)
    def load_library(self) -> None:
        from textual_plot import PlotWidget

        self.post_message(self.Loaded(PlotWidget))

    @on(Worker.StateChanged)
    def _load_ended(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self.say_failure(f"can't be drawn: {text.clean(event.worker.error, 200)}")

    async def on_plot_frame_loaded(self, message: Loaded) -> None:
        plot = message.kind(allow_pan_and_zoom=False)
        plot.can_focus = False
        await self.mount(plot)
        plot.margin_top, plot.margin_bottom = 0, 2
        self._plot = plot
        self.draw()

    def say(self, spans: Sequence[Span]) -> None:
        """The line above the plot."""
        self.query_one(f"#{self.TITLE_ID}", Lines).show([list(spans)])

    def say_failure(self, words: str) -> None:
        self.say([(words, "quiet")])

    def colour(self, name: str, plain: str) -> Any:
        """Of the theme; `plain` where only the terminal's own colours are worn."""
        return plain if self.app.current_theme.ansi else self.app.theme_variables.get(name, "white")
