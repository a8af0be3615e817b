"""Looks through a log in a thread of its own: the next match or error, how many there are, where its lines are.

A search that somebody waits for comes first; counting and surveying go on in steps of a few milliseconds between.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lavender_tui.model.log_errors import cause_of, last_reason
from lavender_tui.tui.messages import LogCounted, LogFound, LogSought, LogSurveyed

if TYPE_CHECKING:
    from textual.message import Message

    from lavender_tui.logs.pager import Pager
    from lavender_tui.logs.search import Query
    from lavender_tui.logs.survey import Count, Survey

SURVEYED_UNASKED = 1 << 30  # a longer file is gone through only when its errors or lines are asked for
_END_BYTES = 4 << 20  # the end of a log, whose errors are all looked at
_TOLD_SECONDS = 0.2
_POLL_SECONDS = 1.0
_QUIET_SECONDS = 2.0  # a file that hasn't grown for so long: the traceback at its end is whole


@dataclass(frozen=True, slots=True)
class Order:
    """Look for the query's words, without a query for errors, from `origin` on; or for a line by its number; or, with
    `reason_of_end`, for the error that matters most at the file's end, `exception` if that is known to be the one."""

    number: int
    query: Query | None = None
    origin: int = 0
    forward: bool = True
    line: int | None = None
    reason_of_end: bool = False
    exception: str | None = None


class LogHunter:
    """One file at a time, as the reader; `session` tells them apart."""

    def __init__(self, post: Callable[[Message], bool]) -> None:
        self._post = post
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._closed = False
        self._wanted: tuple[str | None, int] = (None, 0)
        self._order: Order | None = None
        self._query: Query | None = None
        self._is_survey_asked = False
        self._session = -1
        self._pager: Pager | None = None
        self._survey: Survey | None = None
        self._count: Count | None = None
        self._counted: Query | None = None
        self._grew_at, self._is_open_ended = 0.0, False  # may what stands at the end still go on?
        self._told_at = 0.0

    def start(self) -> None:
        threading.Thread(target=self._run, name="lavender-log-hunter", daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def show(self, path: str | None, session: int) -> None:
        """Another file."""
        with self._lock:
            self._wanted, self._order, self._is_survey_asked = (path, session), None, False
        self._wake.set()

    def look(self, order: Order) -> None:
        """Look for that; what was looked for before is given up."""
        with self._lock:
            self._order = order
        self._wake.set()

    def count(self, query: Query | None) -> None:
        """Count the lines that match from now on; None for nothing."""
        self._query = query
        self._wake.set()

    def survey(self) -> None:
        """Go through the whole file, however long it is."""
        self._is_survey_asked = True
        self._wake.set()

    def stop(self) -> None:
        """Give up what is looked for."""
        with self._lock:
            self._order = None

    # The thread

    def _run(self) -> None:
        while not self._closed:
            try:
                has_more = self._turn()
            except OSError:
                self._let_go()  # the reader says why
                self._give_up()
                has_more = False
            if not has_more:
                self._wake.wait(_POLL_SECONDS)
                self._wake.clear()
        self._let_go()

    def _turn(self) -> bool:
        """One piece of work; False when there is none."""
        from lavender_tui.logs.pager import Pager
        from lavender_tui.logs.survey import Survey

        with self._lock:
            (path, session), order = self._wanted, self._order
        if session != self._session:
            self._let_go()
            self._session = session
            if path is not None:
                self._pager = Pager(path)
                self._survey = Survey(self._pager)
                self._grew_at, self._is_open_ended = time.monotonic() - _age(path), True
        if self._pager is None:
            return False
        if order is not None:
            if order.reason_of_end:
                self._seek_reason(order)
            else:
                self._seek(order) if order.line is None else self._seek_line(order, order.line)
            return True
        return self._go_on_counting() or self._go_on_surveying() or self._look_at_file()

    def _give_up(self) -> None:
        """There is nothing to look in: whoever waits is told."""
        order = self._order
        if order is not None and self._has_done(order):
            self._post(LogSought(self._session, order.number, 1.0, is_over=True))

    def _let_go(self) -> None:
        if self._pager is not None:
            self._pager.close()
        self._pager = self._survey = self._count = self._counted = None

    def _seek(self, order: Order) -> None:
        from lavender_tui.logs.errors import Errors
        from lavender_tui.logs.search import Words, nearest

        pager = self._pager
        assert pager is not None
        found = nearest(
            Errors(pager) if order.query is None else Words(pager, order.query),
            pager.size,
            order.origin,
            forward=order.forward,
            is_cancelled=lambda: self._order is not order or self._closed or self._wanted[1] != self._session,
            progress=lambda done, total: self._tell_progress(order, done / max(1, total)),
        )
        self._has_done(order)
        if found is None:
            self._post(LogSought(self._session, order.number, 1.0, is_over=True))
            return
        error = found.hit if order.query is None else None
        line = self._line_of(found.hit.start if error is None else error.last_line)  # type: ignore[union-attr]
        self._post(LogFound(self._session, order.number, found.hit.start, found.wrapped, error, line))  # type: ignore[arg-type]

    def _seek_reason(self, order: Order) -> None:
        """Among the errors of the last megabytes; where none are there, the last of all."""
        from lavender_tui.logs.errors import Errors
        from lavender_tui.logs.pager import PAGE

        pager = self._pager
        assert pager is not None
        end = -(-pager.size // PAGE) * PAGE
        reason = last_reason(Errors(pager).between(max(0, end - _END_BYTES), end), order.exception)
        if reason is None:
            back = replace(order, origin=pager.size, forward=False)
            if self._has_done(order, then=back):
                self._seek(back)
        elif self._has_done(order):
            line = self._line_of(reason.last_line)
            self._post(LogFound(self._session, order.number, reason.start, False, reason, line))

    def _seek_line(self, order: Order, line: int) -> None:
        survey, pager = self._survey, self._pager
        assert survey is not None and pager is not None
        while (found := survey.line_of(line)) is None:
            if self._order is not order or self._closed or self._wanted[1] != self._session:
                return
            survey.go_on()
            self._tell_progress(order, survey.at / max(1, pager.size))
        self._has_done(order)
        self._tell_survey()
        self._post(LogFound(self._session, order.number, found, False, line=line))

    def _has_done(self, order: Order, then: Order | None = None) -> bool:
        """It is looked for no longer; False where somebody looks for something else by now, which stays."""
        with self._lock:
            if self._order is not order:
                return False
            self._order = then
            return True

    def _tell_progress(self, order: Order, done: float) -> None:
        if time.monotonic() - self._told_at >= _TOLD_SECONDS:
            self._told_at = time.monotonic()
            self._post(LogSought(self._session, order.number, done))

    def _line_of(self, offset: int) -> int | None:
        before = self._survey.lines_before(offset) if self._survey is not None else None
        return None if before is None else before + 1

    def _go_on_counting(self) -> bool:
        from lavender_tui.logs.search import Words
        from lavender_tui.logs.survey import Count

        pager, query = self._pager, self._query
        assert pager is not None
        if query is None:
            self._count = self._counted = None
            return False
        if self._count is None or self._counted is not query:
            self._count, self._counted = Count(Words(pager, query), pager.size), query
        elif self._count.is_whole:
            return False
        self._count.go_on()
        if self._count.is_whole or time.monotonic() - self._told_at >= _TOLD_SECONDS:
            self._told_at = time.monotonic()
            done = 1.0 if self._count.is_whole else min(0.99, self._count.at / max(1, pager.size))
            self._post(LogCounted(self._session, query.words, self._count.count, done, self._count.starts))
        return True

    def _go_on_surveying(self) -> bool:
        survey, pager = self._survey, self._pager
        assert survey is not None and pager is not None
        if survey.is_whole or not (self._is_survey_asked or pager.size <= SURVEYED_UNASKED):
            return False
        started = time.monotonic()
        survey.go_on()
        if survey.is_whole or time.monotonic() - self._told_at >= _TOLD_SECONDS:
            self._tell_survey()
        # The keys and the other thread come first: at most half of the interpreter's time.
        time.sleep(min(0.02, time.monotonic() - started))
        return True

    def _tell_survey(self) -> None:
        survey, pager = self._survey, self._pager
        assert survey is not None and pager is not None
        self._told_at = time.monotonic()
        first = cause_of(survey.errors)
        line = self._line_of(first.last_line) if first is not None else None
        done = survey.at / max(1, pager.size)
        self._post(
            LogSurveyed(self._session, survey, survey.is_settled, survey.error_count, first, line, min(0.99, done))
        )

    def _look_at_file(self) -> bool:
        """Is there more of it now?"""
        from lavender_tui.logs.pager import Change

        pager, survey = self._pager, self._survey
        assert pager is not None and survey is not None
        change = pager.look()
        if change is Change.GROWN:
            self._grew_at, self._is_open_ended = time.monotonic(), True
            if self._count is not None:
                self._count.grow(pager.size)
                self._told_at = time.monotonic()  # a short rest is told as soon as it is counted, and not before
            return self._count is not None or self._is_survey_asked or pager.size <= SURVEYED_UNASKED
        if change in (Change.CUT, Change.REPLACED):
            self._let_go()  # the reader tells the screen, which opens the file anew
        elif self._is_open_ended and time.monotonic() - self._grew_at > _QUIET_SECONDS and survey.is_whole:
            self._is_open_ended = False
            survey.settle()
            self._tell_survey()
        return False


def _age(path: str) -> float:
    """Seconds since something was written to it: a log that ended long ago is whole at the first look."""
    try:
        return max(0.0, time.time() - os.stat(path).st_mtime)
    except OSError:
        return 0.0
