"""Which runs the list shows, in which order, and under which source run. Pure: runs in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from lavender_tui.model.choosing import run_order
from lavender_tui.model.run import Run, RunState

_MORE, _LAST = "├ ", "└ "
_MAX_DEPTH = 8  # deeper lineages are drawn at this depth: the name stays readable
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
    Sorting("left", "left", _of_newest("remaining_hours")),
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


def arrange(runs: Iterable[Run], view: View, now: float = 0.0) -> list[ListRow]:
    """The rows in order: sorted sources, each followed by the runs resumed from it, indented.

    A run whose source isn't shown stands for itself. With a query the matches stand in the same order. `now` (unix
    seconds) is what the query's ages count from.
    """
    shown = _matching(runs, view.query, now) if view.query.strip() else list(runs)
    order = {run.key: run_order(run) for run in shown}
    newest_first = sorted(shown, key=lambda run: order[run.key], reverse=True)
    children = {} if view.is_flat else _children(newest_first)
    nested = {run.key for below in children.values() for run in below}
    tops = [run for run in newest_first if run.key not in nested] if nested else newest_first
    sorting = view.sorting
    key = (lambda run: order[run.key]) if sorting.key is run_order else sorting.key
    rows: list[ListRow] = []
    for top in _sorted([(_lead(run, children, key, sorting), run) for run in tops], view):
        if top.key in children:
            _append(top, children, view, rows)
        else:
            rows.append(ListRow(top))
    return rows


def stays_in_place(before: Run, after: Run, view: View) -> bool:
    """Does a run that changed stand where it stood? With a query nobody knows before all are asked."""
    return (
        not view.query.strip()
        and before.resumed_from == after.resumed_from
        and run_order(before) == run_order(after)
        and view.sorting.key(before) == view.sorting.key(after)
    )


def _matching(runs: Iterable[Run], query: str, now: float) -> list[Run]:
    from lavender_tui.model.query import compile_query  # only with a query: the first frame doesn't pay for it

    matches = compile_query(query, now=now)
    return [run for run in runs if matches(run)]


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


def _lead(top: Run, children: dict[str, list[Run]], key: Callable[[Run], Any], sorting: Sorting) -> Any:
    """A lineage stands where its newest member would stand by age; by any other key, where its source does."""
    if not sorting.newest_first or top.key not in children:
        return key(top)
    keys = [found for run in _family(top, children) if (found := key(run)) is not None]
    return max(keys) if keys else None


def _family(top: Run, children: dict[str, list[Run]]) -> Iterable[Run]:
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


def _append(top: Run, children: dict[str, list[Run]], view: View, rows: list[ListRow]) -> None:
    waiting = [(top, 0, "  ", "")]
    while waiting:
        run, depth, trunk, branch = waiting.pop()
        below = children.get(run.key, [])
        folded = bool(below) and run.key in view.folded
        count = sum(1 for _ in _family(run, children)) - 1 if below else 0
        lead = trunk[-2 * _MAX_DEPTH :] + branch if depth else ""
        rows.append(ListRow(run, min(depth, _MAX_DEPTH), count, folded, lead))
        if not folded:
            inner = trunk + {"": "", _MORE: "│ ", _LAST: "  "}[branch]
            branches = [_MORE] * (len(below) - 1) + [_LAST]
            waiting += [
                (child, depth + 1, inner, mark)
                for child, mark in zip(reversed(below), reversed(branches), strict=False)
            ]


def counts(runs: Iterable[Run]) -> list[tuple[RunState, int]]:
    """How many runs are in each state, the states that ask for attention first, empty ones left out."""
    totals: dict[RunState, int] = {}
    for run in runs:
        totals[run.state] = totals.get(run.state, 0) + 1
    order = (RunState.RUNNING, RunState.STALLED, RunState.FAILED, RunState.STOPPED, RunState.FINISHED, RunState.IDLE)
    return [(state, totals[state]) for state in order if state in totals]


def continuations(runs: Iterable[Run], source: str) -> list[Run]:
    """The runs resumed from that run, oldest first."""
    found = [run for run in runs if run.resumed_from is not None and run.resumed_from.run == source]
    return sorted(found, key=run_order)


def position(keys: Sequence[str], wanted: str | None, before: int) -> int:
    """Where the cursor goes: on its run again; if that is gone, the place where it was."""
    if wanted is not None and wanted in keys:
        return keys.index(wanted)
    return max(0, min(before, len(keys) - 1))


def newest_key(runs: Collection[Run]) -> str | None:
    return max(runs, key=run_order).key if runs else None
