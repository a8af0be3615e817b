"""Looks for words or errors in a file of any size, outwards from a place, window by window; stops when asked to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from lavender_tui.logs.pager import PAGE, Pager, may_hold_bars
from lavender_tui.model.log_errors import ErrorBlock

WINDOW = 4 * PAGE
_LARGEST_WINDOW = 64 * PAGE
_COLOURS = re.compile(rb"\x1b\[[0-9;:]*m")
_REWRITES = re.compile(rb"\r[^\r\n]|[\b\t\0]|\xc2[\x80-\x9f]")

IsCancelled = Callable[[], bool]


class Hit(Protocol):
    """Something found; `start` is its offset in the file."""

    @property
    def start(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Match:
    """A line with the words that were looked for, by its offset."""

    start: int


@dataclass(frozen=True, slots=True)
class Query:
    """Plain words: capitals count only if there is one among them. After a `\\v` in front they are a pattern."""

    words: str
    pattern: re.Pattern[str] = field(compare=False)

    @staticmethod
    def of(words: str) -> Query:
        r"""Raises ValueError, a sentence, for a pattern that is none."""
        flags = 0 if words != words.lower() else re.IGNORECASE
        if not words.startswith("\\v"):
            return Query(words, re.compile(re.escape(words), flags))
        body = words[2:]
        # `\S` and the like are no capitals that somebody typed.
        flags = 0 if re.sub(r"\\.", "", body).lower() != re.sub(r"\\.", "", body) else re.IGNORECASE
        try:
            pattern = re.compile(body, flags)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"no pattern: {error}") from None
        return Query(words, pattern)

    @property
    def is_plain(self) -> bool:
        return not self.words.startswith("\\v")

    @property
    def minds_case(self) -> bool:
        return not self.pattern.flags & re.IGNORECASE

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where it is in a line as shown; empty matches left out."""
        return [found.span() for found in self.pattern.finditer(text) if found.end() > found.start()]

    def may_be_in(self, data: bytes) -> bool:
        """A fast look at the bytes; False is sure, as long as they hold no control codes."""
        if not self.is_plain:
            return True
        if self.minds_case:
            return self.words.encode("utf-8", "replace") in data
        if self.words.isascii():
            return self.words.encode().lower() in data.lower()
        return True


class Words:
    """Finds lines with a query's words, as they are shown: what a progress bar rewrote isn't there."""

    def __init__(self, pager: Pager, query: Query) -> None:
        self._pager, self.query = pager, query

    def between(self, begin: int, end: int) -> list[Match]:
        """Lines that begin in these pages' bytes; `begin` and `end` are multiples of PAGE."""
        start, stop = self._pager.start(begin // PAGE), self._pager.start(end // PAGE)
        data = self._pager.read(start, stop - start)
        if b"\x1b" not in data and b"\b" not in data and not self.query.may_be_in(data):
            return []
        if self.query.is_plain and (self.query.minds_case or self.query.words.isascii()) and _is_plain(data):
            return list(self._in_bytes(start, data))
        found = []
        for number in range(begin // PAGE, -(-end // PAGE)):
            found += self._in_page(number)
        return found

    def _in_page(self, number: int) -> list[Match]:
        """As it is shown, where a look at the bytes without their colours doesn't rule it out."""
        start = self._pager.start(number)
        data = self._pager.read(start, self._pager.start(number + 1) - start)
        bare = _COLOURS.sub(b"", data) if b"\x1b" in data else data
        if b"\x1b" not in bare and b"\b" not in bare and not self.query.may_be_in(bare):
            return []
        return [Match(row.offset) for row in self._pager.page(number).rows if self.query.spans(row.text)]

    def _in_bytes(self, start: int, data: bytes) -> Iterator[Match]:
        """Each line once, straight from the bytes."""
        words = self.query.words.encode()
        text = data if self.query.minds_case else data.lower()
        words = words if self.query.minds_case else words.lower()
        at = text.find(words)
        while at >= 0:
            yield Match(start + text.rfind(b"\n", 0, at) + 1)
            line_end = text.find(b"\n", at)
            if line_end < 0:
                return
            at = text.find(words, line_end + 1)


def _is_plain(data: bytes) -> bool:
    """Is every line shown as it stands, and none passed over?"""
    return (
        b"\x1b" not in data
        and not ((b"\r" in data or b"\b" in data or b"\t" in data or b"\xc2" in data) and _REWRITES.search(data))
        and not may_hold_bars(data)
    )


class Finder(Protocol):
    """Something that finds hits between two multiples of PAGE."""

    def between(self, begin: int, end: int) -> list: ...  # type: ignore[type-arg]


@dataclass(frozen=True, slots=True)
class Found:
    """The nearest hit; `wrapped` where it lies beyond the file's end or beginning."""

    hit: Match | ErrorBlock
    wrapped: bool


def nearest(
    finder: Finder,
    size: int,
    origin: int,
    *,
    forward: bool,
    is_cancelled: IsCancelled = lambda: False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found | None:
    """The first hit after `origin` (or the last before it), then from the file's other end on to `origin` again.

    None where there is none, or when it was cancelled.
    """
    done = 0
    last = -(-max(1, size) // PAGE) * PAGE
    for wrapped, begin, end in _windows(last, origin, forward):
        if is_cancelled():
            return None
        hits = finder.between(begin, end)
        for hit in hits if forward else reversed(hits):
            beyond = hit.start > origin if forward else hit.start < origin
            if beyond != wrapped or (wrapped and hit.start == origin):
                return Found(hit, wrapped)
        done += end - begin
        progress(min(done, last), last)
    return None


def _windows(last: int, origin: int, forward: bool) -> Iterator[tuple[bool, int, int]]:
    """(wrapped, begin, end): growing windows from the origin to one end, then from the other end to the origin."""
    here = min(max(0, origin), max(0, last - 1)) // PAGE * PAGE
    # A line may begin up to a page before the page of the bytes that it is counted to.
    low, high = max(0, here - PAGE), min(last, here + 2 * PAGE)
    spans = [(False, low, last), (True, 0, high)] if forward else [(False, 0, high), (True, low, last)]
    for wrapped, begin, end in spans:
        width = WINDOW
        while begin < end:
            at = (begin, min(end, begin + width)) if forward else (max(begin, end - width), end)
            yield wrapped, *at
            begin, end = (at[1], end) if forward else (begin, at[0])
            width = min(width * 2, _LARGEST_WINDOW)
