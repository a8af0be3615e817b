"""A column of words that scrolls with the keys that every list has."""

from __future__ import annotations

from textual.binding import Binding
from textual.containers import VerticalScroll


class FactsBox(VerticalScroll, can_focus=True):
    BINDINGS = [  # noqa: RUF012
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("g", "scroll_home", "First line", show=False),
        Binding("G", "scroll_end", "Last line", show=False),
        Binding("ctrl+d", "page_down", "Down", show=False),
        Binding("ctrl+u", "page_up", "Up", show=False),
    ]
