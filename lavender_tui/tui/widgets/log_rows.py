"""A log drawn by line: the rows that are held, and a bar for the whole file beside them. Text is only text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from lavender_tui.logs.search import Query
from lavender_tui.tui.log_window import Window
from lavender_tui.tui.widgets.inks import ground, ink

GUTTER, BAR = 1, 1  # cells left of the text and right of it
_GUTTERS = {"!": "!", "|": "│"}


class LogRows(Widget):
    """Holds a window of a log's rows and draws those from the top row on."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.window = Window()
        self.file_size, self.file_last = 0, -1
        self.is_wrapped = False
        self.wanted: Query | None = None
        self.current: tuple[int, int] | None = None  # offsets of the lines that a key went to
        self._top, self._sub = 0, 0  # the row, and the line of it, that is on top
        self._left = 0  # the cells that were passed on the left
        self._drawn: list[tuple[int, int, str]] = []
        self._thumb = range(0)

    @property
    def lines(self) -> Sequence[str]:
        """The rows that are held, as they are shown."""
        return [row.text for row in self.window.rows]

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
    def bottom_index(self) -> int:
        """The last row of which something is on the screen."""
        layout = self._layout()
        return layout[-1][0] if layout else self._top

    @property
    def is_at_end(self) -> bool:
        """Is the file's last row on the screen?"""
        layout = self._layout()
        return self.window.last >= self.file_last and (not layout or layout[-1][0] >= len(self.window.rows) - 1)

    def visible_text(self) -> list[str]:
        """The rows on the screen, each whole."""
        rows = dict.fromkeys(row for row, *_ in self._layout())
        return [self.window.rows[row].text for row in rows]

    # Drawing

    @property
    def _room(self) -> int:
        return max(8, self.size.width - GUTTER - BAR)

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
        body = Strip.join(text).adjust_cell_length(width - BAR, base)
        bar = ("▐", "quiet") if y in self._thumb else (" ", "")
        return Strip.join([body, Strip([Segment(bar[0], base + ink(self, bar[1]))])])

    def _draw(self, index: int, done: int, part: str, base: Style) -> Strip:
        row, mark = self.window.rows[index], self.window.marks[index]
        is_current = self.current is not None and self.current[0] <= row.offset < self.current[1]
        style = base + ink(self, "bad") if mark else base
        is_alone = self.current is not None and self.current[1] - self.current[0] == 1  # a line, no error's many
        gutter = (
            "▶"
            if is_current and not done and (is_alone or mark != "|")
            else _GUTTERS.get(mark, " ")
            if not done
            else " "
        )
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
