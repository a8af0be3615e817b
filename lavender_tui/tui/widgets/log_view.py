"""Lines of a log, drawn by line: text is text, whatever it holds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells
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
        self._laid: list[tuple[str, bool]] = []  # as drawn, and whether it is about something bad
        self._widest = 0
        self.is_following = True
        self.is_wrapped = False

    @property
    def lines(self) -> Sequence[str]:
        """What it holds, as it is shown."""
        return self._lines

    def clear(self) -> None:
        self._lines, self._laid, self._widest = [], [], 0
        self.virtual_size = Size(0, 0)
        self.refresh()

    def extend(self, lines: Sequence[str]) -> None:
        """New lines at the end, made harmless here."""
        if not lines:
            return
        fresh = [clean(line.replace("\t", "    "), _LONGEST) for line in lines[-MOST_LINES:]]
        dropped = max(0, len(self._lines) + len(fresh) - MOST_LINES)
        gone = sum(self._height(line) for line in self._lines[:dropped])
        self._lines = self._lines[dropped:] + fresh
        self._widest = max(self._widest, *(cell_len(line) for line in fresh))
        self._laid = self._laid[gone:] + [part for line in fresh for part in self._parts(line)]
        self._measure()
        if not self.is_following and gone:
            self.scroll_to(y=max(0, self.scroll_offset.y - gone), animate=False, force=True)

    def wrap(self, wanted: bool) -> None:
        """Long lines on several, or one line each to move over sideways; the top line stays the same one."""
        if wanted == self.is_wrapped:
            return
        at = self._line_at(self.scroll_offset.y)
        self.is_wrapped = wanted
        self._lay_again()
        if not self.is_following:
            above = sum(self._height(line) for line in self._lines[:at])
            self.scroll_to(x=0, y=above, animate=False, force=True)

    def on_resize(self) -> None:
        if self.is_wrapped:
            self._lay_again()

    def _lay_again(self) -> None:
        self._laid = [part for line in self._lines for part in self._parts(line)]
        self._measure()

    def _measure(self) -> None:
        self.virtual_size = Size(1 if self.is_wrapped else self._widest + 2, len(self._laid))
        if self.is_following:
            self.scroll_to(y=len(self._laid), animate=False, force=True)
        self.refresh()

    def _parts(self, line: str) -> list[tuple[str, bool]]:
        """The lines on the screen that one line of the log takes."""
        is_bad = any(word in line.lower() for word in _BAD)
        room = max(8, self.scrollable_content_region.width - 2)
        if not self.is_wrapped or len(line) <= room // 2 or cell_len(line) <= room:
            return [(line, is_bad)]
        return [(part, is_bad) for part in chop_cells(line, room)]

    def _height(self, line: str) -> int:
        return len(self._parts(line)) if self.is_wrapped else 1

    def _line_at(self, row: int) -> int:
        """Which line of the log is drawn in that row."""
        if not self.is_wrapped:
            return row
        for index, line in enumerate(self._lines):
            row -= self._height(line)
            if row < 0:
                return index
        return max(0, len(self._lines) - 1)

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, ground(self)
        index = y + self.scroll_offset.y
        if index >= len(self._laid):
            return Strip.blank(width, base)
        line, is_bad = self._laid[index]
        style = base + ink(self, "bad") if is_bad else base
        strip = Strip([Segment(f" {line}", style)])
        left = self.scroll_offset.x
        return strip.crop(left, left + width).adjust_cell_length(width, base)

    def follow(self, wanted: bool) -> None:
        """Go to the newest line and stay there, or stay here."""
        if wanted:
            self.scroll_to(y=len(self._laid), animate=False, force=True)
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
