"""Pages of a file of any size, without an index: each page is found from its number alone.

Page k holds the lines that begin in bytes [k * PAGE, (k + 1) * PAGE). A line without an end within a whole page is cut
where the page ends, so that a page is never more than two of them long, whatever the file holds.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from lavender_tui.launch.files import open_regular
from lavender_tui.model import log_text
from lavender_tui.model.log_text import Row

PAGE = 64 * 1024
_BEFORE = 16 * 1024  # bytes before a page that its first lines may move the cursor up into
_AFTER = 64 * 1024  # bytes after it that may rewrite its last lines
_CHECKED = 64  # bytes that are compared to see that a file is still the one that was read
_REWRITES = re.compile(rb"\r[^\r\n]")
_VERTICAL = re.compile(rb"\x1b(?:\[[0-?]*[ABEF]|M)")
_BAR_WORDS = (b"%|", b"it/s", b"s/it", b"/s]")  # a state of a progress bar holds one of them


class Change(Enum):
    """What became of the file since the last look."""

    NONE = "none"
    GROWN = "grown"
    CUT = "cut"  # shorter than before, or its text is another: rotated by copying and truncating
    REPLACED = "replaced"  # another file has its name now
    GONE = "gone"  # no file has its name; what is open can still be read


class Page(NamedTuple):
    """The rows of one page; `start` and `end` are offsets in the file.

    `numbers` says of each row how many line ends stand before it, counted from byte `number * PAGE`. `marks` says of
    each row how it is part of an error: "!" for the line that sums it up, "|" for the others, "" for none.
    """

    number: int
    start: int
    end: int
    rows: tuple[Row, ...]
    numbers: tuple[int, ...] = ()
    marks: tuple[str, ...] = ()


class Pager:
    """One open file. Every method may be called from any one thread at a time; none moves a file position."""

    def __init__(self, path: str) -> None:
        """Raises OSError where the file can't be read or is no regular file."""
        self.path = path
        self._descriptor = open_regular(path)
        self.size = os.fstat(self._descriptor).st_size
        self._end = self.read(max(0, self.size - _CHECKED), _CHECKED)
        self.is_gone = False  # as the last look had it: no file had its name
        self.first = self._first()

    def _first(self) -> int:
        """The front of a long log may have been taken away and left a hole: the page in which its bytes begin."""
        try:
            return os.lseek(self._descriptor, 0, os.SEEK_DATA) // PAGE
        except OSError as error:
            # Nothing but a hole, or a file system that can't tell.
            return self.last if error.errno == errno.ENXIO else 0

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the file, fewer at its end."""
        parts, left = [], max(0, length)
        while left and (part := os.pread(self._descriptor, left, offset)):
            parts.append(part)
            offset += len(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # What became of it

    def look(self) -> Change:
        """Compare with the last look and remember this one. After CUT and REPLACED open the path anew."""
        here = os.fstat(self._descriptor)
        try:
            there: os.stat_result | None = os.stat(self.path)
        except OSError:
            there = None
        if there is not None and (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            return Change.REPLACED
        if here.st_size < self.size or not self._is_same(self.size):
            return Change.CUT
        was_gone, self.is_gone = self.is_gone, there is None
        if self.is_gone and not was_gone:
            return Change.GONE
        if here.st_size == self.size:
            return Change.NONE
        self.size = here.st_size
        self._end = self.read(max(0, self.size - _CHECKED), _CHECKED)
        self.first = self._first()
        return Change.GROWN

    def _is_same(self, size: int) -> bool:
        """A file that was cut and has outgrown its old size already holds other bytes at its old end."""
        return self.read(max(0, size - _CHECKED), min(size, _CHECKED)) == self._end

    # Pages

    @property
    def last(self) -> int:
        """The number of the last page; 0 for an empty file."""
        return max(0, self.size - 1) // PAGE

    def start(self, number: int) -> int:
        """Where the first line of page `number` begins; that of the next page where none does."""
        at = number * PAGE
        if at <= 0:
            return 0
        if at >= self.size:
            return self.size
        around = self.read(at - PAGE, 2 * PAGE)
        before, after = around[:PAGE], around[PAGE:]
        if before.endswith(b"\n") or b"\n" not in before:
            return at
        found = after.find(b"\n")
        return min(self.size, at + (found + 1 if found >= 0 else PAGE))

    def page(self, number: int) -> Page:
        """The rows of page `number`, progress bars in their last state."""
        start, end = self.start(number), self.start(number + 1)
        if start >= end:
            return Page(number, start, end, ())
        after = self.read(end, _AFTER)
        data = self.read(start, end - start)
        if number == self.first and data.startswith(b"\0"):
            start, data = end - len(data.lstrip(b"\0")), data.lstrip(b"\0")
        if not data.endswith(b"\n") and after and _rewrites(after):
            if b"\n" not in data:
                return Page(number, start, end, ())
            data = data[: data.rfind(b"\n") + 1]  # the start of a bar's line: its last state stands further on
        rows = tuple(self._rows(start, data, end, after))
        return Page(number, start, end, rows, tuple(self._numbers(number * PAGE, start, data, rows)))

    def _numbers(self, begin: int, start: int, data: bytes, rows: Sequence[Row]) -> Iterator[int]:
        """The line ends between `begin` and each row."""
        counted, at = self.read(begin, start - begin).count(b"\n"), start
        for row in rows:
            counted += data.count(b"\n", at - start, row.offset - start)
            at = row.offset
            yield counted

    def _rows(self, start: int, data: bytes, end: int, after: bytes) -> list[Row]:
        if not (may_hold_bars(data) or _VERTICAL.search(data) or _VERTICAL.search(after)):
            return [Row(offset, log_text.plain(line)) for offset, line in lines_of(start, data)]
        begin = max(0, start - _BEFORE)
        before = self.read(begin, start - begin)
        if begin:
            first = before.find(b"\n") + 1
            before, begin = before[first:], begin + first
        lines = [*lines_of(begin, before), *lines_of(start, data), *lines_of(end, after)]
        return [row for row in log_text.fold(lines) if start <= row.offset < end]

    def pages_before(self, number: int, rows: int) -> Iterator[Page]:
        """Page `number - 1` and those before it, until there are so many rows or the file begins."""
        found = 0
        while number > self.first and found < rows:
            number -= 1
            page = self.page(number)
            found += len(page.rows)
            yield page

    def pages_after(self, number: int, rows: int) -> Iterator[Page]:
        """Page `number + 1` and those after it, until there are so many rows or the file ends."""
        found = 0
        while number < self.last and found < rows:
            number += 1
            page = self.page(number)
            found += len(page.rows)
            yield page

    def number_at(self, offset: int) -> int:
        """The page that the line at `offset` is in."""
        number = max(self.first * PAGE, min(offset, self.size - 1)) // PAGE
        return number - 1 if number > self.first and self.start(number) > offset else number

    def line_start(self, offset: int) -> int:
        """Where the line that holds byte `offset` begins, or where it is cut: at most two pages before."""
        start = self.start(offset // PAGE)
        if start > offset:
            start = self.start(offset // PAGE - 1)
        found = self.read(start, offset - start).rfind(b"\n")
        return start + found + 1


def may_hold_bars(data: bytes) -> bool:
    """Is there perhaps a progress bar that was copied line by line?"""
    return any(words in data for words in _BAR_WORDS)


def _rewrites(after: bytes) -> bool:
    """Is the line that goes on here written over, so that nothing of it before is seen?"""
    found = after.find(b"\n")
    return _REWRITES.search(after, 0, len(after) if found < 0 else found + 1) is not None


def lines_of(start: int, data: bytes) -> Iterator[tuple[int, str]]:
    """(offset, text without its line end) of each line; only a newline ends one."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for line in lines:
        yield start, line.removesuffix(b"\r").decode("utf-8", "replace")
        start += len(line) + 1
