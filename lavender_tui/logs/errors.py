"""Errors in a file: fast over what holds none, line by line where there may be one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import merge

from lavender_tui.logs.pager import PAGE, Page, Pager
from lavender_tui.model.log_errors import ErrorBlock, ErrorFinder
from lavender_tui.model.log_text import Row, prefix_of

# What a line that begins an error holds. Long words are found fastest; what is left out here (an assertion of a kernel,
# a warning of NCCL) always stands beside one of these.
HINTS = (
    b"Traceback (most recent call last)", b"ERROR", b"Exception: ", b"Killed", b"ut of memory", b"FATAL",
    b"CRITICAL", b"Segmentation fault", b"core dumped", b"terminate called after", b"collective operation timeout",
    b"Illegal instruction", b"Floating point exception", b"stack smashing detected", b"double free or corruption",
)  # fmt: skip
# Before a number it is a metric ("mean_squared_error: 0.25"), perhaps in every line.
_ERROR = re.compile(rb"rror: (?![-+.0-9])")
_GLOG = re.compile(rb"\n(?:\[[A-Za-z]+[0-9]+\]:)*\[?[EF][01][0-9][0-3][0-9] ")
_FURTHER = 4 * PAGE  # how far a traceback is followed beyond the bytes where it begins


def feed(finder: ErrorFinder, start: int, data: bytes) -> Iterator[ErrorBlock]:
    """Hand whole lines, the first of which begins at `start`, to the finder; yields what is complete.

    Lines without a hint are passed over, unless the finder is inside of an error.
    """
    at = 0
    hints = _hints(data)
    hint = next(hints, None)
    while at < len(data):
        if not finder.is_inside:
            while hint is not None and hint < at:
                hint = next(hints, None)
            if hint is None:
                return
            at = data.rfind(b"\n", at, hint) + 1 or at
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end].rstrip(b"\r\n").decode("utf-8", "replace")
        yield from finder.feed(start + at, line, end - at)
        at = end


def marked(pager: Pager, page: Page) -> Page:
    """The page with its errors marked."""
    blocks = Errors(pager).touching(page.number * PAGE, page.number * PAGE + PAGE) if page.rows else []
    if not blocks:
        return page._replace(marks=("",) * len(page.rows))
    return page._replace(marks=tuple(_mark(row, blocks) for row in page.rows))


def _mark(row: Row, blocks: Sequence[ErrorBlock]) -> str:
    for block in blocks:
        if block.start <= row.offset < block.end and prefix_of(row.text) == block.mark:
            return "!" if row.offset == block.last_line else "|"
    return ""


def _hints(data: bytes) -> Iterator[int]:
    """Offsets of all hints, in order."""
    found = [_all(data, hint) for hint in HINTS if hint in data]
    if b"rror: " in data:
        found.append(match.start() for match in _ERROR.finditer(data))
    glog = (match.start() + 1 for match in _GLOG.finditer(data))
    first = (0,) if data[:2] in (b"E1", b"E0", b"F1", b"F0") or data[:1] == b"[" else ()
    return merge(first, glog, *found)


def _all(data: bytes, words: bytes) -> Iterator[int]:
    at = data.find(words)
    while at >= 0:
        yield at
        at = data.find(words, at + len(words))


class Errors:
    """Finds errors, each as a block of all its lines."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager

    def between(self, begin: int, end: int) -> list[ErrorBlock]:
        """Errors that begin in these pages (multiples of PAGE); one that began before is passed over."""
        first, stop = self._pager.start(begin // PAGE), self._pager.start(end // PAGE)
        return [block for block in self.touching(begin, end) if first <= block.start < stop]

    def touching(self, begin: int, end: int) -> list[ErrorBlock]:
        """Errors with lines in these pages, as far as they began in the page before or later."""
        # A traceback may have begun before: from there on its lines are no errors of their own.
        start, stop = self._pager.start(max(0, begin - PAGE) // PAGE), self._pager.start(end // PAGE)
        first = self._pager.start(begin // PAGE)
        finder = ErrorFinder()
        found = list(feed(finder, start, self._pager.read(start, stop - start)))
        at = stop
        while finder.is_inside and at < min(self._pager.size, stop + _FURTHER):
            after = self._pager.start(at // PAGE + 1)
            found += feed(finder, at, self._pager.read(at, after - at))
            at = max(after, at + 1)
        found += finder.finish()
        return sorted((block for block in found if block.end > first and block.start < stop), key=lambda one: one.start)
