"""Every line of a file that matches, as it is shown, with its number."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from lavender_tui.logs.pager import PAGE, Pager
from lavender_tui.logs.search import WINDOW, Query, Words
from lavender_tui.model.log_text import Row


def matching_rows(pager: Pager, query: Query, most: int | None = None) -> Iterator[tuple[int, Row]]:
    """(number counted from 1, row) in the order of the file; only the last `most` where that is given."""
    found = _all_rows(pager, query)
    return found if most is None else iter(deque(found, maxlen=most))


def _all_rows(pager: Pager, query: Query) -> Iterator[tuple[int, Row]]:
    words = Words(pager, query)
    lines, counted = 0, 0
    for begin in range(0, (pager.last + 1) * PAGE, WINDOW):
        wanted = {match.start for match in words.between(begin, begin + WINDOW)}
        numbers = {start // PAGE for start in wanted}
        # A line may begin up to a page before the one that it is counted to.
        for number in sorted({one for near in numbers for one in (near, near - 1) if one >= 0}):
            for row in pager.page(number).rows:
                if row.offset in wanted:
                    wanted.discard(row.offset)
                    lines += _line_ends(pager, counted, row.offset)
                    counted = row.offset
                    yield lines + 1, row


def _line_ends(pager: Pager, begin: int, end: int) -> int:
    found = 0
    for at in range(begin, end, 16 * PAGE):
        found += pager.read(at, min(16 * PAGE, end - at)).count(b"\n")
    return found
