"""Long lists are put in order on a thread of their own: the old rows stay until the new ones are whole.

Thousands of runs cost tens of milliseconds to sort or to filter, and no key waits for that. Short lists are arranged at
once, for an instant's delay would flicker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from textual.message import Message

from lavender_tui.model.run import Run, RunState
from lavender_tui.tui import ages
from lavender_tui.tui.lineup import Lineup, Pause, go_on
from lavender_tui.tui.listing import ListRow, View, counts

AT_ONCE = 500  # runs: up to so many take a millisecond or two


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """The rows of a list, and what a table would have to ask all of them for.

    `sequence`: the number of the question that it answers. `places`: where each run stands, by its key. `name_width`:
    characters of the longest name with its branches. `counts`: how many of them are in which state. `has_tree`: does
    one of them go on from another, be it folded away? `has_odd_ages`: some last save is at an impossible instant.
    """

    sequence: int
    view: View
    rows: list[ListRow]
    keys: list[str]
    places: Mapping[str, int]
    name_width: int
    counts: Sequence[tuple[RunState, int]]
    has_tree: bool
    has_odd_ages: bool


@dataclass
class Arranged(Message, bubble=False):
    """An answer; whether it is still wanted `Arranger.takes` knows."""

    arrangement: Arrangement


@dataclass
class ArrangingFailed(Message, bubble=False):
    """The rows could not be put in order: `reason` in one sentence. Those before stay."""

    sequence: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Question:
    sequence: int
    runs: tuple[Run, ...]
    view: View


class _Superseded(Exception):  # no error: another view is asked for meanwhile
    pass


class Arranger:
    """One question at a time; of those that wait only the newest is answered, and none of a view that is past.

    Runs that change while thousands are being sorted don't start it anew: the answer comes, and the next one after it.
    All methods are for the loop's thread. `post` is called from the other.
    """

    def __init__(self, post: Callable[[Message], object], at_once: int = AT_ONCE) -> None:
        self._post, self._at_once = post, at_once
        self._change = threading.Condition()
        self._sequence = 0
        self._since = 0  # the first question about the view that is wanted
        self._shown = 0
        self._view: View | None = None
        self._waiting: _Question | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Is an answer still to come?"""
        return self._shown < self._sequence

    def ask(self, runs: tuple[Run, ...], view: View) -> Arrangement | None:
        """The answer where there are few runs; None where it comes as `Arranged`, or as `ArrangingFailed`."""
        with self._change:
            self._sequence += 1
            if view != self._view:
                self._view, self._since = view, self._sequence
            question = _Question(self._sequence, runs, view)
            is_short = len(runs) <= self._at_once
            self._waiting = None if is_short else question
            if is_short:
                self._since = self._sequence
            elif self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="lavender-arrange", daemon=True)
                self._thread.start()
            self._change.notify_all()
        return arranged(Lineup(runs), question.view, question.sequence) if is_short else None

    def takes(self, sequence: int) -> bool:
        """Is this answer wanted, now that it is there? Asked once for each; a late one isn't."""
        if sequence <= self._shown or sequence < self._since:
            return False
        self._shown = sequence
        return True

    def close(self) -> None:
        """End; returns at once. Nothing is posted of what is being worked out."""
        with self._change:
            self._is_closed = True
            self._waiting = None
            self._change.notify_all()

    def _run(self) -> None:
        lineup = Lineup(())
        while (question := self._next()) is not None:
            if question.runs is not lineup.runs:
                lineup = Lineup(question.runs)
            if (message := self._answer(question, lineup)) is not None:
                self._post(message)

    def _next(self) -> _Question | None:
        with self._change:
            self._change.wait_for(lambda: self._waiting is not None or self._is_closed)
            question, self._waiting = self._waiting, None
            return None if self._is_closed else question

    def _answer(self, question: _Question, lineup: Lineup) -> Message | None:
        def pause() -> None:
            if self._is_closed or question.sequence < self._since:
                raise _Superseded

        try:
            return Arranged(arranged(lineup, question.view, question.sequence, pause))
        except _Superseded:
            return None
        except Exception as error:  # whatever it is, the next question is answered and the person is told
            return ArrangingFailed(question.sequence, f"{type(error).__name__}: {error}")


def arranged(lineup: Lineup, view: View, sequence: int, pause: Pause = go_on) -> Arrangement:
    """The runs as that view has them, now."""
    now = time.time()
    rows = lineup.rows(view, now, pause)
    pause()
    return arrangement_of(rows, view, now, sequence)


def arrangement_of(rows: list[ListRow], view: View, now: float, sequence: int = 0) -> Arrangement:
    """These rows, in their order; `now` in unix seconds."""
    keys = [row.run.key for row in rows]
    places = {key: at for at, key in enumerate(keys)}
    sources = ((row.run.key, row.run.resumed_from.run) for row in rows if row.run.resumed_from is not None)
    return Arrangement(
        sequence=sequence,
        view=view,
        rows=rows,
        keys=keys,
        places=places,
        name_width=max((len(row.run.title) + 2 + 2 * row.depth for row in rows), default=0),
        counts=counts(row.run for row in rows),
        has_tree=bool(view.folded) or any(source in places and source != key for key, source in sources),
        has_odd_ages=ages.is_any_odd((row.run for row in rows), now),
    )
