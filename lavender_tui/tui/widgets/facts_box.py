"""A column of words that scrolls with the keys that every list has, and says how much of it is below."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll

from lavender_tui.model import text
from lavender_tui.tui.widgets.lines import Lines


class FactsBox(VerticalScroll, can_focus=True):
    BINDINGS = [  # noqa: RUF012
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("g", "scroll_home", "First line", show=False),
        Binding("G", "scroll_end", "Last line", show=False),
        Binding("ctrl+d", "page_down", "Down", show=False),
        Binding("ctrl+u", "page_up", "Up", show=False),
    ]

    def compose(self) -> ComposeResult:
        yield Lines(hang=None, id="facts")
        yield Lines(id="facts-below")

    def on_mount(self) -> None:
        for name in ("scroll_y", "virtual_size", "has_focus"):
            self.watch(self, name, self._say_below, init=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._say_below)

    def _say_below(self) -> None:
        """A faint bar alone tells nobody that there is more, or which key leads to it."""
        below = round(self.max_scroll_y - self.scroll_y)
        words = text.plural(below, "more line")
        key = "j" if self.has_focus else "→ then j"
        self.query_one("#facts-below", Lines).show([[(f"… {words} below: {key}", "quiet")]] if below > 0 else [[]])
