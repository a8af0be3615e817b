"""A line of what to press next, shown where somebody is being led through."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from lavender_tui.model.text import clean
from lavender_tui.tui.widgets.inks import text_of


class HintLine(Widget):
    """One line in the accent's ground."""

    def __init__(self, hint: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hint = hint

    def render(self) -> Text:
        return text_of(self, [(" → ", "accent"), (clean(self._hint, 400), "strong")])
