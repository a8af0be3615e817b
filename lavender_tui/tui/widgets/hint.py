"""A line of what to press next, shown where somebody is being led through."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from lavender_tui.model.text import clean
from lavender_tui.tui.widgets.inks import INKS, text_of


class HintLine(Widget):
    """Takes no room while there is no hint."""

    COMPONENT_CLASSES = INKS

    def __init__(self, hint: str | None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hint = hint or ""
        self.display = bool(hint)

    def render(self) -> Text:
        return text_of(self, [(" → ", "accent"), (clean(self._hint, 400), "strong")])
