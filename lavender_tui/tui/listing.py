"""What there is to say about a list of runs: its rows, the ways to sort it, how many are in which state. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

from lavender_tui.model.choosing import run_order
from lavender_tui.model.run import Run, RunState

_URGENCY = (RunState.FAILED, RunState.STALLED, RunState.RUNNING, RunState.STOPPED, RunState.IDLE, RunState.FINISHED)


class ListRow(NamedTuple):
    """One line of the list: a run, how deep it is in its lineage, and how many runs hang under it.

    `lead` is what stands before its name: the branches that it hangs on. A tuple, for thousands are made at once.
    """

    run: Run
    depth: int = 0
    descendants: int = 0
    is_folded: bool = False
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Sorting:
    """A way to sort; `column` is the column whose title carries the arrow."""

    name: str
    column: str
    key: Callable[[Run], Any]  # None sorts last, whatever the direction
    newest_first: bool = False


def _of_newest(name: str) -> Callable[[Run], Any]:
    return lambda run: getattr(run.newest, name) if run.newest else None


def _save_count(run: Run) -> int | None:
    newest = run.newest
    return None if newest is None else newest.save_count if newest.save_count is not None else newest.name_save_count


SORTINGS: tuple[Sorting, ...] = (
    Sorting("newest", "name", run_order, newest_first=True),
    Sorting("state", "state", lambda run: _URGENCY.index(run.state)),
    Sorting("loss", "loss", _of_newest("loss")),
    Sorting("saved", "saved", lambda run: run.last_save_at, newest_first=True),
    Sorting("left", "left", lambda run: run.hours_left),
    Sorting("stage", "stage", _of_newest("stage")),
    Sorting("epoch", "epoch", _of_newest("epoch"), newest_first=True),
    Sorting("saves", "saves", _save_count, newest_first=True),
    Sorting("step", "step", _of_newest("step"), newest_first=True),
    Sorting("world_size", "world", lambda run: run.world_size, newest_first=True),
    Sorting("host", "host", lambda run: run.host),
    Sorting("size", "size", lambda run: sum(one.facts.size_bytes for one in run.checkpoints), newest_first=True),
)


@dataclass(frozen=True, slots=True)
class View:
    """What the person asked to see."""

    sorting: Sorting = SORTINGS[0]
    is_reversed: bool = False
    query: str = ""
    folded: frozenset[str] = field(default_factory=frozenset)
    is_flat: bool = False  # no lineage: every run at its own place

    @property
    def points_up(self) -> bool:
        """The arrow in the sorted column's title: up for ascending."""
        return self.sorting.newest_first == self.is_reversed


def stays_in_place(before: Run, after: Run, view: View) -> bool:
    """Does a run that changed stand where it stood? With a query nobody knows before all are asked."""
    return (
        not view.query.strip()
        and before.resumed_from == after.resumed_from
        and run_order(before) == run_order(after)
        and view.sorting.key(before) == view.sorting.key(after)
    )


def counts(runs: Iterable[Run]) -> list[tuple[RunState, int]]:
    """How many runs are in each state, the states that ask for attention first, empty ones left out."""
    totals = Counter(map(attrgetter("state"), runs))
    order = (RunState.RUNNING, RunState.STALLED, RunState.FAILED, RunState.STOPPED, RunState.FINISHED, RunState.IDLE)
    return [(state, totals[state]) for state in order if state in totals]


class Census:
    """What is asked of all runs together, at each key: worked out once for these runs, when it is first asked."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs = tuple(runs)

    @cached_property
    def counts(self) -> list[tuple[RunState, int]]:
        return counts(self._runs)

    @cached_property
    def _resumed(self) -> dict[str, list[Run]]:
        found: dict[str, list[Run]] = {}
        for run in self._runs:
            if run.resumed_from is not None:
                found.setdefault(run.resumed_from.run, []).append(run)
        return found

    def continuations(self, source: str) -> list[Run]:
        """The runs resumed from that run, oldest first."""
        return sorted(self._resumed.get(source, ()), key=run_order)
