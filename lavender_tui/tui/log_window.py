"""The part of a log that is held: some pages side by side, their rows, and a place among them."""

from __future__ import annotations

from collections.abc import Sequence

from lavender_tui.logs.pager import Page
from lavender_tui.model.log_text import Row, row_at

MOST_ROWS = 20_000
MOST_BYTES = 4 << 20
_LEAST_PAGES = 8


class Window:
    """Neighbouring pages of one file, in their order. What lies far from the place that is looked at is dropped."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.rows: list[Row] = []
        self.marks: list[str] = []

    @property
    def first(self) -> int:
        """The number of the first page; 0 without pages."""
        return self.pages[0].number if self.pages else 0

    @property
    def last(self) -> int:
        """The number of the last page; -1 without pages."""
        return self.pages[-1].number if self.pages else -1

    def clear(self) -> None:
        self.pages, self.rows, self.marks = [], [], []

    def put(self, pages: Sequence[Page], near: int) -> None:
        """Add pages, or put them in the place of older ones of their number; `near` is the offset that is looked at.

        Pages that don't join on to what is held take its place.
        """
        known = {page.number: page for page in self.pages}
        fresh = {page.number: page for page in pages}
        if not fresh:
            return
        if known and (min(fresh) > max(known) + 1 or max(fresh) < min(known) - 1):
            known = {}
        both = known | fresh
        self.pages = [both[number] for number in sorted(both)]
        self._trim(near)
        self.rows = [row for page in self.pages for row in page.rows]
        self.marks = [mark for page in self.pages for mark in page.marks or ("",) * len(page.rows)]

    def _trim(self, near: int) -> None:
        rows = sum(len(page.rows) for page in self.pages)
        size = sum(page.end - page.start for page in self.pages)
        while len(self.pages) > _LEAST_PAGES and (rows > MOST_ROWS or size > MOST_BYTES):
            is_first_farther = near - self.pages[0].end > self.pages[-1].start - near
            gone = self.pages.pop(0 if is_first_farther else -1)
            rows -= len(gone.rows)
            size -= gone.end - gone.start

    def index_of(self, offset: int) -> int:
        """The row that shows what is at that offset."""
        return row_at(self.rows, offset)

    def line_ends_before(self, index: int) -> tuple[int, int]:
        """(page number, line ends between that page's first byte and the row): with a survey, the row's line number."""
        for page in self.pages:
            if index < len(page.rows):
                return page.number, page.numbers[index] if index < len(page.numbers) else 0
            index -= len(page.rows)
        return self.last, 0

    @property
    def bytes_per_line(self) -> float | None:
        """As the pages at hand have it; None where they tell nothing."""
        lines = sum(page.numbers[-1] + 1 for page in self.pages if page.numbers)
        size = sum(page.end - page.start for page in self.pages if page.numbers)
        return size / lines if lines else None
