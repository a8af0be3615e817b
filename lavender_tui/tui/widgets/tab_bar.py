"""The names of a page's tabs on one line, each with the number that opens it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widget import Widget

from lavender_tui.tui.widgets.inks import Span, spans_length, text_of


class TabBar(Widget):
    """The open one is in the accent's ink and between brackets: it is told apart without colour too."""

    class Chosen(Message):
        """A tab was clicked; `number` is 1-based."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, names: Sequence[str], number: int = 1, *, id: str | None = None) -> None:
        """`number` of the one that is open, 1-based."""
        super().__init__(id=id)
        self._names = tuple(names)
        self._open = number
        self._places: list[tuple[int, int, int]] = []

    def show(self, number: int) -> None:
        if number != self._open:
            self._open = number
            self.refresh()

    def render(self) -> Text:
        spans: list[Span] = []
        self._places = []
        is_short = sum(len(name) + 4 for name in self._names) > self.size.width
        for number, name in enumerate(self._names, 1):
            is_open = number == self._open
            words = name[:4] if is_short and not is_open else name
            start = spans_length(spans)
            if is_open:
                spans += [("[", "accent"), (f"{number} {words}", "accent"), ("] ", "accent")]
            else:
                spans += [(f" {number} ", "quiet"), (words, "quiet"), ("  ", "")]
            self._places.append((start, spans_length(spans), number))
        return text_of(self, spans)

    def on_click(self, event: events.Click) -> None:
        for start, end, number in self._places:
            if start <= event.x < end:
                self.post_message(self.Chosen(number))
