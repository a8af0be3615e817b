"""What stands in the list's place while there is nothing to list: what is looked at, and how to begin."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.text import Text
from textual.reactive import var
from textual.widget import Widget

from lavender_tui.model.text import clean
from lavender_tui.tui.widgets.inks import Span, shown_path, text_of


class EmptyList(Widget):
    """Friendly, and concrete: the roots by name and the next command to type."""

    has_looked: var[bool] = var(False)

    def __init__(self, roots: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._roots = roots
        self._trouble = ""

    def show_trouble(self, reason: str) -> None:
        self._trouble = reason
        self.refresh()

    def render(self) -> Text:
        text = Text(justify="left", end="")
        for number, line in enumerate(self._lines()):
            text.append("\n" if number else "")
            text.append_text(text_of(self, line))
        return text

    def _lines(self) -> list[list[Span]]:
        width = max(10, self.size.width - 4)
        if self._trouble:
            return [[("Nothing can be watched", "bad")], [], [(clean(self._trouble, 400), "")]]
        if not self.has_looked:
            return [[("looking …", "quiet")], [], *self._places(width)]
        return [
            [("No runs yet", "strong")],
            [],
            [("Watching, and any run saved here appears by itself:", "quiet")],
            *self._places(width),
            [],
            [("A run is a directory with checkpoints in it. To see one made, stopped and resumed:", "quiet")],
            [("  lavender-tui demo", "accent")],
            [],
            [("To look elsewhere:", "quiet")],
            [("  lavender-tui PATH", "accent")],
        ]

    def _places(self, width: int) -> list[list[Span]]:
        home = os.path.expanduser("~")
        return [[("  " + shown_path(root, width - 2, home=home), "")] for root in self._roots[:8]]
