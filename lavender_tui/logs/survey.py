"""Goes once through a whole file: where its lines are, how many errors it has, how many lines match a query."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable

from lavender_tui.logs.errors import feed
from lavender_tui.logs.pager import PAGE, Pager
from lavender_tui.logs.search import Words
from lavender_tui.model.log_errors import ErrorBlock, ErrorFinder

STEP = 16 * PAGE
MOST_PLACED = 100_000  # lines that match whose place among them can be told
MOST_KEPT = 10_000  # errors that are remembered; more are only counted


class Survey:
    """Line counts for each page and the errors in order, up to `at`; `go_on` does one step more."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        self._rest = 0  # line ends after the last whole page
        self._lines = array("Q", [0])  # line ends before each page
        self._finder = ErrorFinder()
        self._fed = 0  # the finder has seen all before that offset
        self.at = 0
        self.errors: list[ErrorBlock] = []
        self.error_count = 0

    @property
    def is_whole(self) -> bool:
        """Was the file seen to its end, as it was when it was looked at last?"""
        return self.at >= self._pager.size

    @property
    def is_settled(self) -> bool:
        """Is every error up to its end known? A traceback at the file's end may still be written."""
        return self.is_whole and self._fed >= self._pager.size and not self._finder.is_inside

    @property
    def lines(self) -> int:
        """Line ends seen so far."""
        return self._lines[-1] + self._rest

    def go_on(self) -> None:
        """Read the next megabyte."""
        begin = len(self._lines) * PAGE - PAGE
        data = self._pager.read(begin, STEP)
        whole = len(data) // PAGE
        for number in range(whole):
            self._lines.append(self._lines[-1] + data.count(b"\n", number * PAGE, number * PAGE + PAGE))
        self._rest = data.count(b"\n", whole * PAGE)
        end = begin + len(data)
        self._look_for_errors(end)
        self.at = end

    def settle(self) -> None:
        """Nothing more comes, for now: what is open at the file's end is taken as it is."""
        data = self._pager.read(self._fed, self._pager.size - self._fed)
        self._keep([*feed(self._finder, self._fed, data), *self._finder.finish()])
        self._fed += len(data)

    def at_page(self, number: int) -> int | None:
        """How many line ends stand before that page; None where the survey hasn't been. Reads nothing."""
        return self._lines[number] if number < len(self._lines) else None

    def lines_before(self, offset: int) -> int | None:
        """How many line ends stand before that byte; None where the survey hasn't been."""
        number = offset // PAGE
        if number >= len(self._lines):
            return None
        return self._lines[number] + self._pager.read(number * PAGE, offset - number * PAGE).count(b"\n")

    def line_of(self, number: int) -> int | None:
        """The offset of line `number`, counted from 1; None where the survey hasn't been."""
        wanted = max(0, number - 1)
        if wanted == 0:
            return 0
        low, high = 0, len(self._lines) - 1
        if self._lines[high] < wanted and not self.is_whole:
            return None
        while low < high:
            middle = (low + high + 1) // 2
            if self._lines[middle] < wanted:
                low = middle
            else:
                high = middle - 1
        at, left = low * PAGE, wanted - self._lines[low]
        data = self._pager.read(at, 2 * PAGE)
        found = -1
        while left and (found := data.find(b"\n", found + 1)) >= 0:
            left -= 1
        return min(self._pager.size, at + found + 1) if found >= 0 else self._pager.size

    def _look_for_errors(self, until: int) -> None:
        """Whole lines up to `until`; the rest of the last one waits for the next step."""
        data = self._pager.read(self._fed, until - self._fed)
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) < STEP:
            return
        data = data[: cut or len(data)]
        self._keep(list(feed(self._finder, self._fed, data)))
        self._fed += len(data)

    def _keep(self, found: list[ErrorBlock]) -> None:
        self.error_count += len(found)
        if found and len(self.errors) < MOST_KEPT:
            self.errors += found
            self.errors.sort(key=lambda one: one.start)


class Count:
    """How many lines match, counted step by step through the whole file; `starts`: where the first ones begin."""

    def __init__(self, words: Words, size: int) -> None:
        self._words, self._size = words, size
        self._open = 0  # lines among `count` that what is appended may still change
        self.at, self.count = 0, 0
        self.starts = array("Q")

    @property
    def is_whole(self) -> bool:
        return self.at >= self._size

    @property
    def _open_from(self) -> int:
        """A line at the end of the last page may go on, and a bar there may rewrite the end of the page before."""
        return max(0, (self._size - 1) // PAGE - 1) * PAGE

    def go_on(self) -> None:
        """The next megabyte."""
        end = min(self.at + STEP, -(-self._size // PAGE) * PAGE)
        found = self._words.between(self.at, end)
        self.count += len(found)
        self._open += sum(one.start >= self._open_from for one in found)
        self.starts.extend(one.start for one in found[: MOST_PLACED - len(self.starts)])
        self.at = end

    def grow(self, size: int) -> None:
        """The file is so long now: what was appended is counted as well, and its old end once more."""
        begin = self._open_from
        self.at, self.count, self._open = min(self.at, begin), self.count - self._open, 0
        # A new array: another thread may look places up in the one that it was told of.
        self.starts = self.starts[: bisect_left(self.starts, begin)]
        self._size = size


def survey(pager: Pager, is_cancelled: Callable[[], bool] = lambda: False) -> Survey:
    """The whole file at once."""
    found = Survey(pager)
    while not found.is_whole and not is_cancelled():
        found.go_on()
    found.settle()
    return found
