"""A log drawn by line: the pages that are held, and a bar for the whole file beside them. Text is only text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from lavender_tui.logs.pager import Page
from lavender_tui.logs.search import Query
from lavender_tui.tui.log_window import Window
from lavender_tui.tui.widgets.inks import ground, ink

_GUTTER, _BAR = 1, 1  # cells left of the text and right of it
_WHEEL = 3
_GUTTERS = {"!": "!", "|": "│"}
_MOST_DIGITS = 12


class LogView(Widget, can_focus=True):
    """Follows the end until the person scrolls up. Digits before `%`, `g` or `G` go to a percentage or a line."""

    BINDINGS = [  # noqa: RUF012
        Binding("down,j", "by(1)", "Down", show=False),
        Binding("up,k", "by(-1)", "Up", show=False),
        Binding("pagedown", "page(2)", "Page down", show=False),
        Binding("pageup", "page(-2)", "Page up", show=False),
        Binding("ctrl+d", "page(1)", "Half a page down", show=False),
        Binding("ctrl+u", "page(-1)", "Half a page up", show=False),
        Binding("home,g", "first", "First line", show=False),
        Binding("end,G", "last", "Last line", show=False),
        Binding("percent_sign", "percent", "To a percentage", show=False),
        Binding("right", "aside(8)", "Right", show=False),
        Binding("left", "aside(-8)", "Left", show=False),
    ]

    class Moved(Message):
        """It shows other lines now, follows or no longer does, or a number is being typed."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LogView.Moved)

    class Wanted(Message):
        """More is needed: pages "before" or "after", the "tail", or the "place" at a share, a line or an offset."""

        def __init__(self, what: str, *, share: float | None = None, line: int | None = None) -> None:
            super().__init__()
            self.what, self.share, self.line = what, share, line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.window = Window()
        self.file_size, self.file_last = 0, -1
        self._top, self._sub, self._left = (
            0,
            0,
            0,
        )  # the row and the line of it on top, and the cells passed on the left
        self._asked = ""
        self._drawn: list[tuple[int, int, str]] = []
        self._thumb = range(0)
        self.is_following = True
        self.is_wrapped = False
        self.number = ""
        self.wanted: Query | None = None
        self.current: tuple[int, int] | None = None  # offsets of the lines that a key went to

    # What it holds

    @property
    def lines(self) -> Sequence[str]:
        """The rows that are held, as they are shown."""
        return [row.text for row in self.window.rows]

    def clear(self) -> None:
        self.window.clear()
        self.file_size, self.file_last = 0, -1
        self._top = self._sub = self._left = 0
        self._asked, self.current = "", None
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
        """The lines between two offsets on the screen; where they don't fit, those up to `last_line`."""
        first, after = self.window.index_of(start), self.window.index_of(max(start, end - 1)) + 1
        height = max(1, self.size.height)
        if after - first <= height - 2:
            self.go_to(start, lines_above=(height - (after - first)) // 3)
        else:
            self.go_to(last_line, lines_above=height - 3)

    def go_to(self, offset: int, *, lines_above: int = 0) -> None:
        """Put the row at that offset on top, or so many lines below it. It must be held."""
        self.follow(False)
        self._top, self._sub = self.window.index_of(offset), 0
        self._step(-lines_above)
        self._settle()

    def show_match(self, offset: int) -> None:
        """Like `go_to`, a third down the screen, unless it is on the screen already; sideways to what matches."""
        index = self.window.index_of(offset)
        shown = {row for row, *_ in self._layout()[: max(1, self.size.height - 1)]}
        if index not in shown:
            self.go_to(offset, lines_above=self.size.height // 3)
        if self.wanted is not None and not self.is_wrapped and index < len(self.window.rows):
            spans = self.wanted.spans(self.window.rows[index].text)
            if spans and not self._left <= spans[0][0] < self._left + self._room - 8:
                self._left = 0 if spans[0][1] < self._room else max(0, spans[0][0] - self._room // 3)
        self.follow(False)
        self._settle()

    def has(self, offset: int) -> bool:
        """Is the row at that offset held?"""
        pages = self.window.pages
        return bool(pages) and pages[0].start <= offset < pages[-1].end

    @property
    def top_offset(self) -> int:
        rows = self.window.rows
        return rows[min(self._top, len(rows) - 1)].offset if rows else 0

    @property
    def bottom_offset(self) -> int:
        """Where the last row on the screen begins; the file's end where that is on it."""
        if self.is_at_end:
            return self.file_size
        layout = self._layout()
        return self.window.rows[layout[-1][0]].offset if layout else 0

    @property
    def top_index(self) -> int:
        """The row on top."""
        return self._top

    @property
    def is_at_end(self) -> bool:
        """Is the file's last row on the screen?"""
        layout = self._layout()
        return self.window.last >= self.file_last and (not layout or layout[-1][0] >= len(self.window.rows) - 1)

    def visible_text(self) -> list[str]:
        """The rows on the screen, each whole."""
        rows = dict.fromkeys(row for row, *_ in self._layout())
        return [self.window.rows[row].text for row in rows]

    def follow(self, wanted: bool) -> None:
        """Go to the newest line and stay there, or stay here."""
        if wanted != self.is_following:
            self.is_following = wanted
            self.post_message(self.Moved())
        if wanted:
            self._want_end()

    def wrap(self, wanted: bool) -> None:
        """Long lines on several, or one line each to move over sideways; the top line stays the same one."""
        self.is_wrapped, self._sub, self._left = wanted, 0, 0
        if self.is_following:
            self._to_end()
        self._settle()

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

    # Drawing

    @property
    def _room(self) -> int:
        return max(8, self.size.width - _GUTTER - _BAR)

    def _parts(self, text: str) -> list[str]:
        """The lines on the screen that one row takes."""
        room = self._room
        if not self.is_wrapped or len(text) <= room // 2 or (text.isascii() and len(text) <= room):
            return [text]
        if text.isascii():
            return [text[at : at + room] for at in range(0, len(text), room)]
        return chop_cells(text, room) if cell_len(text) > room else [text]

    def _height(self, index: int) -> int:
        return len(self._parts(self.window.rows[index].text)) if self.is_wrapped else 1

    def _layout(self) -> list[tuple[int, int, str]]:
        """(row, characters of it before this line, the line's text) from the top of the screen to its end."""
        found: list[tuple[int, int, str]] = []
        rows, height = self.window.rows, self.size.height
        skip = self._sub
        for index in range(self._top, min(len(rows), self._top + height)):
            done = 0
            for number, part in enumerate(self._parts(rows[index].text)):
                if number >= skip:
                    found.append((index, done, part))
                done += len(part)
            skip = 0
            if len(found) >= height:
                break
        return found[:height]

    def render_lines(self, crop: Region) -> list[Strip]:
        self._drawn = self._layout()
        self._thumb = self._thumb_lines()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        base, width = ground(self), self.size.width
        text = [self._draw(*self._drawn[y], base)] if y < len(self._drawn) else []
        body = Strip.join(text).adjust_cell_length(width - _BAR, base)
        bar = ("▐", "quiet") if y in self._thumb else (" ", "")
        return Strip.join([body, Strip([Segment(bar[0], base + ink(self, bar[1]))])])

    def _draw(self, index: int, done: int, part: str, base: Style) -> Strip:
        row, mark = self.window.rows[index], self.window.marks[index]
        is_current = self.current is not None and self.current[0] <= row.offset < self.current[1]
        style = base + ink(self, "bad") if mark else base
        gutter = "▶" if is_current and not done and mark != "|" else _GUTTERS.get(mark, " ") if not done else " "
        segments = [Segment(gutter, base + ink(self, "accent" if is_current else "bad" if mark else ""))]
        left = 0 if self.is_wrapped else self._left
        end = left + self._room
        shown = part[:end] if part.isascii() else part[: 2 * end + 64]
        found = Style(reverse=True, underline=True, bold=is_current or None)
        at = 0
        for start, stop in self._spans(row.text, done, len(shown)):
            segments += [Segment(shown[at:start], style), Segment(shown[start:stop], style + found)]
            at = stop
        segments.append(Segment(shown[at:], style))
        strip = Strip(segments[1:])
        return Strip.join([Strip(segments[:1]), strip.crop(left, end) if left else strip.crop(0, self._room)])

    def _spans(self, text: str, done: int, length: int) -> list[tuple[int, int]]:
        """What matches in this line of the row."""
        if self.wanted is None:
            return []
        inside = ((start - done, stop - done) for start, stop in self.wanted.spans(text))
        return [(max(0, start), min(stop, length)) for start, stop in inside if stop > 0 and start < length]

    def _thumb_lines(self) -> range:
        """Lines of the screen that stand for the part of the file that is on it."""
        height, size = self.size.height, max(1, self.file_size)
        if self.window.first == 0 and self._top == 0 and self.is_at_end:
            return range(0)
        length = max(1, round(height * (self.bottom_offset - self.top_offset) / size))
        start = min(height - length, round((height - length) * self.top_offset / size))
        return range(height - length, height) if self.is_at_end else range(start, start + length)

    # Events and actions

    def on_resize(self) -> None:
        if self.is_following:
            self._to_end()
        self._settle()

    def on_key(self, event: events.Key) -> None:
        """Digits are kept for the key after them."""
        if event.character is not None and event.character in "0123456789" and (self.number or event.character != "0"):
            self.number = (self.number + event.character)[-_MOST_DIGITS:]
            event.stop()
            self.post_message(self.Moved())
        elif self.number and event.key not in ("g", "G", "percent_sign", "home", "end"):
            self.number = ""
            self.post_message(self.Moved())

    def _take_number(self) -> int | None:
        number, self.number = self.number, ""
        return int(number) if number else None

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-_WHEEL)

    def on_click(self, event: events.Click) -> None:
        """On the bar: to that part of the file."""
        if event.x >= self.size.width - _BAR and self.size.height > 1:
            self.follow(False)
            self.post_message(self.Wanted("place", share=event.y / (self.size.height - 1)))

    def action_by(self, lines: int) -> None:
        self._scroll(lines)

    def action_page(self, halves: int) -> None:
        self._scroll(halves * max(1, self.size.height // 2))

    def action_first(self) -> None:
        line = self._take_number()
        self.follow(False)
        if line is not None:
            self.post_message(self.Wanted("place", line=line))
        elif self.window.first == 0:
            self._top = self._sub = 0
            self._settle()
        else:
            self.post_message(self.Wanted("place", share=0.0))

    def action_last(self) -> None:
        if self.number:
            self.action_first()
        else:
            self.follow(True)

    def action_percent(self) -> None:
        number = self._take_number()
        if number is not None:
            self.follow(False)
            self.post_message(self.Wanted("place", share=min(100, number) / 100))

    def action_aside(self, cells: int) -> None:
        if not self.is_wrapped:
            widest = max((len(part) for _, _, part in self._layout()), default=0)
            self._left = max(0, min(self._left + cells, widest - 8))
            self.refresh()
