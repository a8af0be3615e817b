"""What the line below a log says: where one is in it, what is looked for, what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lavender_tui.logs.survey import STEP
from lavender_tui.model import text
from lavender_tui.model.log_errors import ErrorBlock, summary

if TYPE_CHECKING:
    from lavender_tui.logs.survey import Survey
    from lavender_tui.tui.messages import LogSurveyed
    from lavender_tui.tui.widgets.log_view import LogView


def about(number: float) -> str:
    """ "~1.2 M", "~34 k", "~900"."""
    if number >= 999_500:
        return f"~{number / 1e6:,.1f} M"
    return f"~{number / 1e3:.0f} k" if number >= 10_000 else f"~{number:,.0f}"


def position_words(view: LogView, survey: Survey | None, *, short: bool = False) -> str:
    """ "line 1,203,332 of 3,400,120  35 %": the line on top; with a ~ what is only estimated so far."""
    if not view.window.rows:
        return ""
    page, ends = view.window.line_ends_before(view.top_index)
    before = survey.at_page(page) if survey is not None else None
    usual = view.window.bytes_per_line
    if before is not None:
        line = text.count(before + ends + 1)
    elif page == 0:
        line = text.count(ends + 1)
    else:
        line = about(view.top_offset / usual) if usual else "?"
    # What was appended since the survey's last look, a second ago at most, makes it no estimate.
    if survey is not None and survey.at >= view.file_size - STEP:
        lines = text.count(max(survey.lines, (before or 0) + ends + 1))
    else:
        lines = about(view.file_size / usual) if usual else "?"
    share = 100 if view.is_at_end else min(99, 100 * view.top_offset // max(1, view.file_size))
    return f"{line} / {lines} {share} %" if short else f"line {line} of {lines}  {share} %"


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


def count_words(words: str, count: int, done: float) -> str:
    """ "“loss”: 120 lines", "“loss”: 120 lines so far, 34 %"."""
    so_far = "" if done >= 1 else f" so far, {done:.0%}"
    return f"“{words}”: {text.plural(count, 'line') if count else 'no line'}{so_far}"
