"""A line of what to press next, shown where somebody is being led through."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from lavender_tui.model.text import clean
from lavender_tui.tui.widgets.inks import fit, text_of

_ARROW = 3


class HintLine(Widget):
    """One line in the accent's ground."""

    def __init__(self, hint: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hint = hint

    def say(self, hint: str) -> None:
        """Another one; nothing at all where it is empty."""
        if hint != self._hint:
            self._hint = hint
            self.refresh()
        self.display = bool(hint)

    def render(self) -> Text:
        room = self.size.width - _ARROW
        words = fit(fitting(clean(self._hint, 400), room), room)
        return text_of(self, [(" → ", "accent"), (words, "strong")])


def fitting(words: str, width: int) -> str:
    """The words up to the last stop that `width` cells have room for: no half sentence. All where there is none."""
    if cell_len(words) <= width:
        return words
    ends = [at for at, char in enumerate(words) if char in ",.:;" and cell_len(words[:at]) <= width]
    return words[: ends[-1]] if ends else words
