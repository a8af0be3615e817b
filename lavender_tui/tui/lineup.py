"""Runs put in order, and what was worked out for that kept for the next look at the same runs. Pure: no threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lavender_tui.model.choosing import run_order
from lavender_tui.model.run import Run
from lavender_tui.tui.listing import ListRow, Sorting, View

if TYPE_CHECKING:
    from lavender_tui.model.query import Part

PIECE = 500  # runs between two pauses
_MORE, _LAST = "├ ", "└ "
_MAX_DEPTH = 24  # levels of branches before a name; no column has room for more

Pause = Callable[[], None]  # called between pieces of the work; what it raises ends the work
Children = Mapping[str, Sequence[Run]]


def go_on() -> None:
    """The pause of who isn't waited for."""


def arrange(runs: Iterable[Run], view: View, now: float = 0.0) -> list[ListRow]:
    """The rows of these runs in order, worked out once."""
    return Lineup(runs).rows(view, now)


class Lineup:
    """These runs in any order. Not shared between threads.

    The runs by age, the values of a column and the answers to each word of a filter are worked out once: a column
    sorted the other way, a lineage folded, one more letter in the filter cost what differs.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = runs if isinstance(runs, tuple) else tuple(runs)
        self._newest_first: list[Run] | None = None
        self._values: dict[str, dict[str, Any]] = {}
        self._asked: list[tuple[Part, list[Run]]] = []
        self._nested: tuple[list[Run], Children, list[Run]] = ([], {}, [])

    def rows(self, view: View, now: float = 0.0, pause: Pause = go_on) -> list[ListRow]:
        """Sorted sources, each followed by the runs resumed from it, indented.

        A run whose source isn't shown stands for itself. With a query the matches stand in the same order. `now` (unix
        seconds) is what the query's ages count from.
        """
        shown = self._shown(view.query, now, pause)
        children, tops = ({}, shown) if view.is_flat else self._lineages(shown)
        values = self._values_of(view.sorting, pause)
        pause()
        ordered = _sorted([(_lead(run, children, values, view.sorting), run) for run in tops], view)
        rows: list[ListRow] = []
        for begun in range(0, len(ordered), PIECE):
            pause()
            for top in ordered[begun : begun + PIECE]:
                if top.key in children:
                    _append(top, children, view, rows)
                else:
                    rows.append(ListRow(top))
        return rows

    def _by_age(self, pause: Pause) -> list[Run]:
        if self._newest_first is None:
            values = self._value_of_each("newest", run_order, pause)
            self._newest_first = sorted(self.runs, key=lambda run: values[run.key], reverse=True)
        return self._newest_first

    def _shown(self, query: str, now: float, pause: Pause) -> list[Run]:
        """Those that match, newest first. Each word is asked only of those that the words before it left.

        What begins as the query before did isn't asked again, and a word with one more letter only of those that it
        held for; ages are always asked.
        """
        shown = self._by_age(pause)
        if not query.strip():
            return shown
        from lavender_tui.model.query import parts  # only with a query: the first frame doesn't pay for it

        before, self._asked = self._asked, []
        is_as_before = True
        for at, part in enumerate(parts(query, now=now)):
            known, left = before[at] if is_as_before and at < len(before) else (None, shown)
            is_as_before = known is not None and known.words == part.words and part.is_timeless
            if not is_as_before:
                left = _kept(left if known is not None and part.narrows(known) else shown, part, pause)
            self._asked.append((part, left))
            shown = left
        return shown

    def _lineages(self, shown: list[Run]) -> tuple[Children, list[Run]]:
        """(the runs resumed from each, those that stand for themselves)."""
        known, children, tops = self._nested
        if known is not shown:
            children = _children(shown)
            nested = {run.key for below in children.values() for run in below}
            tops = [run for run in shown if run.key not in nested] if nested else shown
            self._nested = (shown, children, tops)
        return children, tops

    def _values_of(self, sorting: Sorting, pause: Pause) -> Mapping[str, Any]:
        return self._value_of_each(sorting.name, sorting.key, pause)

    def _value_of_each(self, name: str, read: Callable[[Run], Any], pause: Pause) -> Mapping[str, Any]:
        """By the run's key: what the order of that name goes by."""
        if name not in self._values:
            values: dict[str, Any] = {}
            for begun in range(0, len(self.runs), PIECE):
                pause()
                values.update((run.key, read(run)) for run in self.runs[begun : begun + PIECE])
            self._values[name] = values
        return self._values[name]


def _kept(runs: Sequence[Run], part: Part, pause: Pause) -> list[Run]:
    kept: list[Run] = []
    for begun in range(0, len(runs), PIECE):
        pause()
        kept += [run for run in runs[begun : begun + PIECE] if part.holds(run)]
    return kept


def _children(newest_first: Sequence[Run]) -> dict[str, list[Run]]:
    """Source key → the runs resumed from it, oldest first; a circle of lineage is cut open."""
    resumed = [run for run in reversed(newest_first) if run.resumed_from is not None]
    by_key = {run.key: run for run in newest_first} if resumed else {}
    children: dict[str, list[Run]] = {}
    for run in resumed:
        source = run.resumed_from.run if run.resumed_from else None
        if source in by_key and source != run.key and not _descends(by_key, source, run.key):
            children.setdefault(source, []).append(run)
    return children


def _descends(by_key: dict[str, Run], start: str, ancestor: str) -> bool:
    """Does `start` come from `ancestor`? Bounded, for records that name each other."""
    seen: set[str] = set()
    current: str | None = start
    while current is not None and current not in seen:
        if current == ancestor:
            return True
        seen.add(current)
        run = by_key.get(current)
        current = run.resumed_from.run if run and run.resumed_from else None
    return False


def _lead(top: Run, children: Children, values: Mapping[str, Any], sorting: Sorting) -> Any:
    """A lineage stands where its newest member would stand by age; by any other key, where its source does."""
    if not sorting.newest_first or top.key not in children:
        return values[top.key]
    known = [found for run in _family(top, children) if (found := values[run.key]) is not None]
    return max(known, default=None)


def _family(top: Run, children: Children) -> Iterator[Run]:
    waiting = [top]
    while waiting:
        run = waiting.pop()
        yield run
        waiting += children.get(run.key, [])


def _sorted(keyed: list[tuple[Any, Run]], view: View) -> list[Run]:
    """Stable: ties stay in the order that they come in. Unknown values last in both directions."""
    known = [one for one in keyed if one[0] is not None]
    known.sort(key=itemgetter(0), reverse=view.sorting.newest_first != view.is_reversed)
    return [run for _, run in known] + [run for key, run in keyed if key is None]


def _append(top: Run, children: Children, view: View, rows: list[ListRow]) -> None:
    waiting = [(top, 0, "  ", "")]
    while waiting:
        run, depth, trunk, branch = waiting.pop()
        below = children.get(run.key, [])
        folded = bool(below) and run.key in view.folded
        count = sum(1 for _ in _family(run, children)) - 1 if below else 0
        lead = trunk[-2 * _MAX_DEPTH :] + branch if depth else ""
        rows.append(ListRow(run, depth, count, folded, lead))
        if not folded:
            inner = trunk + {"": "", _MORE: "│ ", _LAST: "  "}[branch]
            branches = [_MORE] * (len(below) - 1) + [_LAST]
            waiting += [
                (child, depth + 1, inner, mark)
                for child, mark in zip(reversed(below), reversed(branches), strict=False)
            ]
