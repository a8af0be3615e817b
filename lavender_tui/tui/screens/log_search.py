"""Search and errors in the log: what is typed, what is looked for meanwhile, where it was found."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from textual.screen import Screen

from lavender_tui.logs.search import Query
from lavender_tui.logs.survey import Survey
from lavender_tui.model.log_errors import ErrorBlock, last_reason
from lavender_tui.model.text import clean
from lavender_tui.tui import log_words
from lavender_tui.tui.log_hunter import SURVEYED_UNASKED, LogHunter, Order
from lavender_tui.tui.messages import LogCounted, LogFound, LogSought, LogSurveyed, SearchEnded, SearchTyped
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.widgets.inks import Span, fit
from lavender_tui.tui.widgets.lines import Lines
from lavender_tui.tui.widgets.log_view import LogView

_NARROW = 100
_ERRORS = "errors"


@dataclass(frozen=True, slots=True)
class Target:
    """What a key went to and is to be shown once its page is there."""

    start: int
    error: ErrorBlock | None = None
    is_line: bool = False


class LogSearch(Orderly, Screen[None], inherit_bindings=False):
    """The searching half of the log's screen."""

    def __init__(self) -> None:
        super().__init__()
        self.session = 0
        self.hunter = LogHunter(self.post_message)
        self.target: Target | None = None
        self._order = 0
        self._hunted = ""  # what is looked for now, in words
        self._sought: Query | str | None = None  # what a key steps through and is on its way to
        self._further = 0  # so many more steps were asked for meanwhile; back where it is negative
        self._done = 0.0
        self._said = ""
        self._is_from_other_end = False  # was it found only beyond an end of the file?
        self._counted: LogCounted | None = None
        self._surveyed: LogSurveyed | None = None
        self._at_error: ErrorBlock | None = None

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    @property
    def survey(self) -> Survey | None:
        """Of this file; None until something of it is known."""
        return self._surveyed.survey if self._surveyed is not None else None

    @property
    def known_exception(self) -> str | None:
        """The last line of the traceback that is known to have ended the run."""
        return None

    def begin_session(self) -> None:
        """Another file, or the same anew: what was found counts no more; what is searched for stays."""
        self.session += 1
        self.target = self._at_error = None
        self._hunted = self._said = ""
        self._is_from_other_end = False
        self._step_to(None)
        self._counted = self._surveyed = None

    def read_place(self, offset: int) -> None:
        """Have the pages around that offset read; `arrive` is called when they are there."""
        raise NotImplementedError

    # Typing

    async def action_search(self) -> None:
        if not self.query("#search"):
            from lavender_tui.tui.widgets.search_line import SearchLine

            await self.mount(SearchLine(id="search"), before="#keys")
        self.query_one("#search").focus()

    def on_search_typed(self, message: SearchTyped) -> None:
        """Mark it where one is; nothing is read yet."""
        self._is_from_other_end = False
        try:
            self.view.mark(Query.of(message.words) if message.words.removeprefix("\\v") else None)
            self._said = ""
        except ValueError as error:
            self.view.mark(None)
            self._said = str(error)
        self.show_status()

    async def on_search_ended(self, message: SearchEnded) -> None:
        if self.view.wanted is None and message.words.removeprefix("\\v"):
            return  # no pattern: it can be mended where it is typed
        await self.query("#search").remove()
        self.view.focus()
        query = self.view.wanted
        self.hunter.count(query)
        self._counted = None
        if query is None:
            self.show_status()
            return
        self._step_to(query)
        self._seek(query, self.view.top_offset - 1, forward=True, words=f"looking for “{message.words}”")

    @property
    def ended_by_escape(self) -> str:
        """In words what esc would end before it leads back; empty where there is nothing. What an error's key marked
        is left with the log."""
        if not self.is_mounted or not (self.query("#search") or self._hunted or self.view.wanted is not None):
            return ""
        return "stop looking" if self._hunted and not self.query("#search") else "end search"

    def stop_search(self) -> bool:
        """What esc ends first: the typing, then what is looked for, then the search; False where there is none."""
        typing = self.query("#search")
        if typing:
            typing.remove()
            self.view.mark(None)
            self.view.focus()
        elif self._hunted:
            self.hunter.stop()
            self._step_to(None)
            self._hunted, self._said = "", "stopped looking"
        elif self.view.wanted is not None:
            self.view.mark(None)
            self.hunter.count(None)
            self.view.current = self._counted = self._at_error = None
            self._said = ""
            self.view.refresh()
        else:
            return False
        self._is_from_other_end = False
        self.show_status()
        self.refresh_bindings()
        return True

    # Looking

    def action_next_match(self) -> None:
        self._match(forward=True)

    def action_previous_match(self) -> None:
        self._match(forward=False)

    def _match(self, *, forward: bool) -> None:
        query, current = self.view.wanted, self.view.current
        if query is not None and self._may_seek(query, forward):
            here = current[0] if current is not None else self.view.top_offset
            at = self.target.start if self.target is not None else here
            self._seek(query, at, forward=forward, words=f"looking for “{query.words}”")

    def _may_seek(self, sought: Query | str, forward: bool) -> bool:
        """While the key before is still on its way this one goes on from where that leads."""
        if self._sought == sought:
            self._further += 1 if forward else -1
            return False
        self._step_to(sought)
        return True

    def _step_to(self, sought: Query | str | None) -> None:
        """That is on its way now, and nothing was asked for beyond it."""
        self._sought, self._further = sought, 0

    def _go_further(self) -> None:
        """The steps that were asked for meanwhile; one that has to be sought carries those after it."""
        sought, further = self._sought, self._further
        self._step_to(None)
        if further and sought is not None:
            forward = further > 0
            (self.go_to_error if sought == _ERRORS else self._match)(forward=forward)
            self._further = further - (1 if forward else -1)
            if self._hunted:
                return
            self._sought = sought  # it was known where the next one is
            self._go_further()

    def action_next_error(self) -> None:
        self.go_to_error(forward=True)

    def action_previous_error(self) -> None:
        self.go_to_error(forward=False)

    def go_to_error(self, *, forward: bool) -> None:
        """The next error or the one before; the first time at the end of a log, the one that matters most."""
        view, errors = self.view, self._all_errors()
        self.hunter.survey()
        is_first = self._at_error is None and view.is_at_end
        if errors is not None:
            if not errors:
                self._say("no error in this file")
                return
            if is_first and (reason := last_reason(errors, self.known_exception)) is not None:
                index, wrapped = errors.index(reason), False
            else:
                index, wrapped = _chosen(errors, self._at_error, view.top_offset, forward)
            self._show_error(errors[index], wrapped, f" {index + 1} of {len(errors)}")
            return
        words = "looking for an error"
        if not self._may_seek(_ERRORS, forward):
            return
        if is_first:
            self._begin(Order(self._order + 1, reason_of_end=True, exception=self.known_exception), words)
        else:
            at = self._at_error.start if self._at_error is not None else view.top_offset
            self._seek(None, at, forward=forward, words=words)

    def _all_errors(self) -> list[ErrorBlock] | None:
        """Every error of the file; None where not all are known, and one has to look."""
        told = self._surveyed
        if told is None or not told.is_whole or told.survey.error_count != len(told.survey.errors):
            return None
        return told.survey.errors

    def action_place(self) -> None:
        from lavender_tui.tui.screens.ask import AskName

        ask = AskName(
            "To which place?", detail="A line of the file, such as 1200, or a percentage, such as 50%",
            placeholder="a line, or a percentage", does="goes there",
        )  # fmt: skip
        self.app.push_screen(ask, self._place_named)

    def _place_named(self, words: str | None) -> None:
        found = re.fullmatch(r"([0-9][0-9,]{0,15}) ?(%?)", words or "", re.ASCII)
        if found is not None:
            number = int(found[1].replace(",", ""))
            if found[2]:
                self.view.to_place(share=min(100, number) / 100)
            else:
                self.view.to_place(line=max(1, number))
        elif words:
            self._say(f"“{clean(words, 40)}” is neither a line nor a percentage")

    def look_for_line(self, line: int) -> None:
        self._step_to(None)
        self._begin(Order(self._order + 1, line=line), f"looking for line {line:,}")

    def _seek(self, query: Query | None, origin: int, *, forward: bool, words: str) -> None:
        self._begin(Order(self._order + 1, query, origin, forward), words)

    def _begin(self, order: Order, words: str) -> None:
        self._order, self._hunted, self._done, self._said = order.number, words, 0.0, ""
        self._is_from_other_end = False
        self.hunter.look(order)
        self.show_status()

    def on_log_sought(self, message: LogSought) -> None:
        if message.session != self.session or message.number != self._order or not self._hunted:
            return
        self._done = message.done
        if message.is_over:
            self._step_to(None)
            query = self.view.wanted
            self._say("no error in this file" if "error" in self._hunted or query is None else "no match in this file")
            return
        self.show_status()

    def on_log_found(self, message: LogFound) -> None:
        if message.session != self.session or message.number != self._order:
            return
        is_line = "line" in self._hunted
        self._hunted, self._at_error = "", None
        if message.error is not None:
            self._show_error(message.error, message.wrapped, line=message.line)
        else:
            self._say("", is_from_other_end=message.wrapped)
            self._go(Target(message.start, is_line=is_line))
        self._go_further()

    def _show_error(self, error: ErrorBlock, wrapped: bool, place: str = "", line: int | None = None) -> None:
        self._at_error = error
        if line is None and self.survey is not None:
            first = self._surveyed.first if self._surveyed is not None else None
            line = self._surveyed.first_line if self._surveyed and first == error else None
        self._say(log_words.found_words(error, line, place), is_from_other_end=wrapped)
        self._go(Target(error.start, error))

    def _go(self, target: Target) -> None:
        self.target = target
        if self.view.has(target.start):
            self.arrive(target.start)
        else:
            self.read_place(target.start)

    def arrive(self, offset: int) -> None:
        """The pages around that offset are there."""
        target, view = self.target, self.view
        self.target = None
        if target is None:
            view.go_to(offset)
        elif target.error is not None:
            view.current = (target.error.start, target.error.end)
            view.show_block(target.error.start, target.error.end, target.error.last_line)
        elif target.is_line:
            view.current = (target.start, target.start + 1)
            view.go_to(target.start)
        else:
            view.current = (target.start, target.start + 1)
            view.show_match(target.start)
        self.show_status()

    def current_lines(self) -> list[str]:
        """The lines of the error, or the line of the match, that a key went to."""
        current, rows = self.view.current, self.view.window.rows
        if current is None:
            return []
        mark = self._at_error.mark if self._at_error is not None else ""
        return [
            row.text
            for row in rows
            if current[0] <= row.offset < current[1] and (not mark or row.text.startswith(mark))
        ]

    # What is known

    def on_log_surveyed(self, message: LogSurveyed) -> None:
        if message.session == self.session:
            self._surveyed = message
            self.show_status()
            self.errors_known()

    def errors_known(self) -> None:
        """More of the file's errors is known now."""

    def on_log_counted(self, message: LogCounted) -> None:
        query = self.view.wanted
        if message.session == self.session and query is not None and message.words == query.words:
            self._counted = message
            self.show_status()

    def _say(self, words: str, *, is_from_other_end: bool = False) -> None:
        self._hunted, self._said, self._is_from_other_end = "", words, is_from_other_end
        self.show_status()

    def show_status(self) -> None:
        """One line: what is looked for or was found on the left, where one is on the right."""
        view = self.view
        right = log_words.position_words(view, self.survey, short=self.size.width < _NARROW)
        room = max(8, self.size.width - len(right) - 4)
        left: list[Span] = [(" " + fit(clean(self._status_words(), 400), room), "")]
        self.query_one("#log-status", Lines).show([[*left, ("  " + right, "quiet")]])

    def _status_words(self) -> str:
        if self._hunted:
            return f"{self._hunted} … {self._done:.0%}  esc stops"
        counted = ""
        if self._counted is not None:
            told = self._counted
            counted = log_words.count_words(told.words, told.count, told.done, self._place_of_match(told.starts))
        found = f"{self._said}  {counted}".strip()
        if found:
            return f"{found}, from the other end" if self._is_from_other_end else found
        errors = log_words.error_words(self.known_errors, self.view.file_size > SURVEYED_UNASKED)
        return "   ".join(part for part in (errors, self.prefix_words()) if part)

    def _place_of_match(self, starts: Sequence[int]) -> int | None:
        """Which of the lines that match a key went to, from 1; None where it is none of them, or not known yet."""
        current = self.view.current
        if current is None or self._at_error is not None:
            return None
        index = bisect_left(starts, current[0])
        return index + 1 if index < len(starts) and starts[index] == current[0] else None

    def prefix_words(self) -> str:
        """What a mark before the lines on the screen means, in words; for those who know whose they are."""
        return ""

    @property
    def known_errors(self) -> LogSurveyed | None:
        """What is known of the file's errors; for those who know which of them counts."""
        return self._surveyed

    @property
    def has_errors(self) -> bool | None:
        """None while nobody knows."""
        told = self.known_errors
        if told is None:
            return True if self.view.file_size > SURVEYED_UNASKED else None
        return bool(told.error_count) or (False if told.is_whole else None)


def _chosen(errors: list[ErrorBlock], at: ErrorBlock | None, top: int, forward: bool) -> tuple[int, bool]:
    """(index, did it go beyond an end): the next or the one before."""
    starts = [one.start for one in errors]
    here = at.start if at is not None else top
    index = bisect_left(starts, here + 1 if forward and at is not None else here)
    index = index if forward else index - 1
    return index % len(errors), not 0 <= index < len(errors)
