"""The log that one moves about in: keys, the wheel, the end that is followed, and when more has to be read."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.binding import Binding
from textual.message import Message

from lavender_tui.logs.pager import Page
from lavender_tui.logs.search import Query
from lavender_tui.tui.widgets.log_rows import BAR, LogRows

_WHEEL = 3


class LogView(LogRows, can_focus=True):
    """Follows the end until the person scrolls up."""

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

    class Moved(Message):
        """It shows other lines now, follows or no longer does."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LogView.Moved)

    class Wanted(Message):
        """More is needed: pages "before" or "after", the "tail", or the "place" at a share, a line or an offset."""

        def __init__(self, what: str, *, share: float | None = None, line: int | None = None) -> None:
            super().__init__()
            self.what, self.share, self.line = what, share, line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.is_following = True
        self._asked = ""
        self._put_off: tuple[int, int, int] | None = None  # a block to show as soon as there is a screen for it

    # What it holds

    def clear(self) -> None:
        self.window.clear()
        self.file_size, self.file_last = 0, -1
        self._top = self._sub = self._left = 0
        self._asked, self.current, self._put_off = "", None, None
        self.refresh()

    def put(self, pages: Sequence[Page], size: int, last: int) -> None:
        """Pages to be held as well; the place that is looked at stays, or the end if it is followed."""
        self.file_size, self.file_last = size, last
        offset = self.top_offset
        self.window.put(pages, offset)
        self._asked = ""
        self._top = self.window.index_of(offset)
        if self.is_following:
            self._to_end()
        self._settle()

    def show_block(self, start: int, end: int, last_line: int) -> None:
        """The lines between two offsets on the screen; where they don't fit, those up to `last_line`.

        Before the first layout it isn't known how many fit: then as soon as that is.
        """
        self._put_off = None if self.size.height else (start, end, last_line)
        if self._put_off is not None:
            self.follow(False)
            return
        first, after = self.window.index_of(start), self.window.index_of(max(start, end - 1)) + 1
        height = max(1, self.size.height)
        if after - first <= height - 2:
            self.go_to(start, lines_above=(height - (after - first)) // 3)
        else:
            below = after - self.window.index_of(last_line) - 1  # where torchrun names the cause
            self.go_to(last_line, lines_above=height - 3 - min(below, height * 2 // 3))

    def go_to(self, offset: int, *, lines_above: int = 0) -> None:
        """Put the row at that offset on top, or so many lines below it. It must be held."""
        self.follow(False)
        self._top, self._sub = self.window.index_of(offset), 0
        self._step(-lines_above)
        self._settle()

    def show_match(self, offset: int) -> None:
        """Like `go_to`, a third down the screen, unless it is on the screen already; sideways to what matches."""
        index = self.window.index_of(offset)
        self._bring(index, offset)
        if self.wanted is not None and not self.is_wrapped and index < len(self.window.rows):
            spans = self.wanted.spans(self.window.rows[index].text)
            if spans and not self._left <= spans[0][0] < self._left + self._room - 8:
                self._left = 0 if spans[0][1] < self._room else max(0, spans[0][0] - self._room // 3)
        self.follow(False)
        self._settle()

    def _bring(self, index: int, offset: int) -> None:
        """The row at that offset a third down the screen, unless it is on the screen already."""
        if index not in {row for row, *_ in self._layout()[: max(1, self.size.height - 1)]}:
            self.go_to(offset, lines_above=self.size.height // 3)

    def has(self, offset: int) -> bool:
        """Is the row at that offset held?"""
        pages = self.window.pages
        return bool(pages) and pages[0].start <= offset < pages[-1].end

    @property
    def held_end(self) -> int | None:
        """The number of the file's last page where it is held; it may be one of an empty file."""
        return self.file_last if self.window.pages and self.window.last >= self.file_last else None

    def follow(self, wanted: bool) -> None:
        """Go to the newest line and stay there, or stay here."""
        if wanted != self.is_following:
            self.is_following = wanted
            self.post_message(self.Moved())
        if wanted:
            self._want_end()

    def wrap(self, wanted: bool) -> None:
        """Long lines on several, or one line each to move over sideways; the top line stays the same one, unless what
        a key went to would leave the screen."""
        rows, seen = self.window.rows, [row for row, *_ in self._layout()]
        current = self.current or (0, 0)
        kept = [row for row in seen if row < len(rows) and current[0] <= rows[row].offset < current[1]]
        self.is_wrapped, self._sub, self._left = wanted, 0, 0
        if self.is_following:
            self._to_end()
        self._settle()
        if kept:
            told = next((row for row in kept if self.window.marks[row] == "!"), kept[0])
            self._bring(told, rows[told].offset)

    def mark(self, query: Query | None) -> None:
        """Mark what matches from now on."""
        self.wanted = query
        self.refresh()

    # Moving

    def _step(self, lines: int) -> None:
        """So many lines of the screen down, or up; not beyond what is held."""
        rows = self.window.rows
        while lines < 0 and (self._sub or self._top):
            if self._sub:
                self._sub -= 1
            else:
                self._top -= 1
                self._sub = self._height(self._top) - 1
            lines += 1
        while lines > 0 and self._top < len(rows):
            if self._sub + 1 < self._height(self._top):
                self._sub += 1
            elif self._top + 1 < len(rows):
                self._top, self._sub = self._top + 1, 0
            else:
                return
            lines -= 1

    def _to_end(self) -> None:
        """The last row on the last line of the screen."""
        rows = self.window.rows
        self._top, self._sub = max(0, len(rows) - 1), 0
        if rows:
            self._sub = self._height(self._top) - 1
            self._step(1 - max(1, self.size.height))

    def _settle(self) -> None:
        """No empty lines below the end while there is something above it; asks for more near the edges."""
        self._top = max(0, min(self._top, len(self.window.rows) - 1))
        missing = self.size.height - len(self._layout())
        if missing > 0 and self.window.last >= self.file_last:
            self._step(-missing)
        self.refresh()
        self.post_message(self.Moved())
        near = 2 * max(1, self.size.height)
        if not self._asked and self.window.pages:
            if self._top < near and self.window.first > 0:
                self._ask("before")
            elif len(self.window.rows) - self._top < 2 * near and self.window.last < self.file_last:
                self._ask("after")

    def _ask(self, what: str) -> None:
        self._asked = what
        self.post_message(self.Wanted(what))

    def _scroll(self, lines: int) -> None:
        before = (self._top, self._sub)
        self._step(lines)
        self._settle()
        if lines < 0 and (self._top, self._sub) != before:
            self.follow(False)

    def _want_end(self) -> None:
        if self.window.last >= self.file_last:
            self._to_end()
            self._settle()
        else:
            self.post_message(self.Wanted("tail"))

    # Events and actions

    def on_resize(self) -> None:
        if self._put_off is not None and self.size.height:
            self.show_block(*self._put_off)
        if self.is_following:
            self._to_end()
        self._settle()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-_WHEEL)

    def on_click(self, event: events.Click) -> None:
        """On the bar: to that part of the file."""
        if event.x >= self.size.width - BAR and self.size.height > 1:
            self.to_place(share=event.y / (self.size.height - 1))

    def action_by(self, lines: int) -> None:
        self._scroll(lines)

    def action_page(self, halves: int) -> None:
        self._scroll(halves * max(1, self.size.height // 2))

    def action_first(self) -> None:
        self.follow(False)
        if self.window.first == 0:
            self._top = self._sub = 0
            self._settle()
        else:
            self.post_message(self.Wanted("place", share=0.0))

    def action_last(self) -> None:
        self.follow(True)

    def to_place(self, *, line: int | None = None, share: float | None = None) -> None:
        """To that line of the file, the first one being 1, or to that share of it."""
        self.follow(False)
        self.post_message(self.Wanted("place", line=line, share=share))

    def action_aside(self, cells: int) -> None:
        if not self.is_wrapped:
            widest = max((len(part) for _, _, part in self._layout()), default=0)
            self._left = max(0, min(self._left + cells, widest - 8))
            self.refresh()
