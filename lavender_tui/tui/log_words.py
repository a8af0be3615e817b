"""What the line below a log says: where one is in it, what is looked for, what was found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lavender_tui.logs.survey import STEP
from lavender_tui.model import text
from lavender_tui.model.log_errors import ErrorBlock, summary

if TYPE_CHECKING:
    from lavender_tui.logs.survey import Survey
    from lavender_tui.tui.messages import LogSurveyed
    from lavender_tui.tui.widgets.log_view import LogView

_ROLE = re.compile(r"\[[A-Za-z]\w{0,40}?([0-9]{1,6})\]:")


def about(number: float) -> str:
    """ "~1.2 M", "~34 k", "~900"."""
    if number >= 999_500:
        return f"~{number / 1e6:,.1f} M"
    return f"~{number / 1e3:.0f} k" if number >= 10_000 else f"~{number:,.0f}"


def position_words(view: LogView, survey: Survey | None, *, short: bool = False) -> str:
    """ "lines 63-79 of 79  100 %": those on the screen, of the file's, and how much of it lies above the last of them;
    with a ~ what is only estimated so far."""
    if not view.window.rows:
        return ""
    first, last = (line_number(view, survey, index) for index in (view.top_index, view.bottom_index))
    share = f"{100 if view.is_at_end else min(99, 100 * view.bottom_offset // max(1, view.file_size))} %"
    usual = view.window.bytes_per_line
    # What was appended since the survey's last look, a second ago at most, makes it no estimate.
    if first is None or last is None or survey is None or survey.at < view.file_size - STEP:
        lines = about(view.file_size / usual) if usual else "?"
        near = (
            about(view.top_offset / usual) if usual and first is None else "?" if first is None else text.count(first)
        )
        return f"{near} / {lines}  {share}" if short else f"line {near} of {lines}  {share}"
    span = text.count(first) if first == last else f"{text.count(first)}-{text.count(last)}"
    if short:
        return f"{span} of {text.count(max(survey.lines, last))}"
    return f"line{'' if first == last else 's'} {span} of {text.count(max(survey.lines, last))}  {share}"


def line_number(view: LogView, survey: Survey | None, index: int) -> int | None:
    """Of a row that is held, the first line being 1; None where the survey hasn't been."""
    page, ends = view.window.line_ends_before(index)
    before = survey.at_page(page) if survey is not None else None
    if before is None:
        return ends + 1 if page == 0 else None
    return before + ends + 1


def prefix_words(lines: Sequence[str], *, is_on_several_hosts: bool = False) -> str:
    """What torchrun's mark before a rank's lines means, where there is one: "[default2]: is what rank 2 printed"."""
    found = next((match for line in lines if (match := _ROLE.match(line))), None)
    if found is None:
        return ""
    of = f"rank {found[1]} of its host" if is_on_several_hosts else f"rank {found[1]}"
    return f"{found[0]} is what {of} printed"


def error_words(found: LogSurveyed | None, is_long: bool) -> str:
    """ "3 errors, first: rank 1: RuntimeError: boom (line 120,332)"; how to find any where nobody looked yet."""
    if found is None:
        return "e looks for errors" if is_long else ""
    if not found.error_count and not found.is_whole:
        return f"looking for errors … {found.done:.0%}"
    first = found.first.words if found.first else ""
    line = f" (line {found.first_line:,})" if found.first_line is not None else ""
    return summary(found.error_count, first, is_whole=found.is_whole) + line


def found_words(error: ErrorBlock, line: int | None, place: str = "") -> str:
    """ "error 2 of 3: rank 1: RuntimeError: boom (line 120,332)"."""
    where = f" (line {line:,})" if line is not None else ""
    return f"error{place}: {error.words}{where}"


def count_words(words: str, count: int, done: float, place: int | None = None) -> str:
    """ "“loss”: 120 lines", "“loss”: 120 lines so far, 34 %"; "“loss”: match 3 of 120" at one of them."""
    so_far = "" if done >= 1 else f" so far, {done:.0%}"
    if place is not None:
        return f"“{words}”: match {place:,} of {count:,}{so_far}"
    return f"“{words}”: {text.plural(count, 'line') if count else 'no line'}{so_far}"
