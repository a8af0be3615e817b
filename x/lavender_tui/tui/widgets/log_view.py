"""Lines of a log, drawn by line: text is text, whatever it holds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lavender_tui.model.text import clean
from lavender_tui.tui.widgets.inks import ground, ink

MOST_LINES = 20_000
_LONGEST = 2_000
_BAD = ("error", "traceback", "exception", "killed", "out of memory", "nan")


class LogView(ScrollView, can_focus=True):
    """Keeps the newest 20,000 lines; follows the end until the person scrolls up."""

    BINDINGS = [  # noqa: RUF012
        Binding("down,j", "by(1)", "Down", show=False),
        Binding("up,k", "by(-1)", "Up", show=False),
        Binding("pagedown", "page(2)", "Page down", show=False),
        Binding("pageup", "page(-2)", "Page up", show=False),
        Binding("ctrl+d", "page(1)", "Half a page down", show=False),
        Binding("ctrl+u", "page(-1)", "Half a page up", show=False),
        Binding("home,g", "first", "First line", show=False),
        Binding("end,G", "last", "Last line", show=False),
        Binding("right", "aside(8)", "Right", show=False),
        Binding("left", "aside(-8)", "Left", show=False),
    ]

    class FollowChanged(Message):
        """It follows the end, or no longer does."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: list[str] = []
        self._widest = 0
        self.is_following = True

    def clear(self) -> None:
        self._lines, self._widest = [], 0
        self.virtual_size = Size(0, 0)
        self.refresh()

    def extend(self, lines: Sequence[str]) -> None:
        """New lines at the end, made harmless here."""
        if not lines:
            return
        fresh = [clean(line.replace("\t", "    "), _LONGEST) for line in lines[-MOST_LINES:]]
        dropped = max(0, len(self._lines) + len(fresh) - MOST_LINES)
        self._lines = self._lines[dropped:] + fresh
        self._widest = max(self._widest, *(cell_len(line) for line in fresh))
        self.virtual_size = Size(self._widest + 2, len(self._lines))
        if self.is_following:
            self.scroll_to(y=len(self._lines), animate=False, force=True)
        elif dropped:
            self.scroll_to(y=max(0, self.scroll_offset.y - dropped), animate=False, force=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, ground(self)
        index = y + self.scroll_offset.y
        if index >= len(self._lines):
            return Strip.blank(width, base)
        line = self._lines[index]
        style = base + ink(self, "bad") if any(word in line.lower() for word in _BAD) else base
        strip = Strip([Segment(f" {line}", style)])
        left = self.scroll_offset.x
        return strip.crop(left, left + width).adjust_cell_length(width, base)

    def follow(self, wanted: bool) -> None:
        """Go to the newest line and stay there, or stay here."""
        if wanted:
            self.scroll_to(y=len(self._lines), animate=False, force=True)
        if wanted != self.is_following:
            self.is_following = wanted
            self.post_message(self.FollowChanged())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        at_end = round(new_value) >= self.max_scroll_y
        if new_value < old_value and not at_end:
            self.follow(False)

    def action_by(self, lines: int) -> None:
        self.scroll_relative(y=lines, animate=False)

    def action_page(self, halves: int) -> None:
        self.scroll_relative(y=halves * max(1, self.size.height // 2), animate=False)

    def action_first(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_last(self) -> None:
        self.follow(True)

    def action_aside(self, cells: int) -> None:
        self.scroll_relative(x=cells, animate=False)
