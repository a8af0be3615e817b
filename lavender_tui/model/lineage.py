"""The family of runs over their resumes, and the one curve that goes through all of them.

Pure. Runs of several roots come together; an ancestor that is gone, or was moved to another root, does no harm; records
that lead in a circle end where the circle closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from posixpath import normpath

from lavender_tui.model.checkpoint import Checkpoint, parse_name
from lavender_tui.model.run import RUN_NAME, LossPoint, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One run of a chain. `run` is None where it isn't among the known ones: then only its `path` is.

    `from_step` and `from_save` are the step and the save_count of the checkpoint that it was resumed from, in the
    older run's own numbers; None for a first start, and where nothing tells it. `checkpoint` is that checkpoint's path.
    """

    path: str
    run: Run | None = None
    from_step: int | None = None
    from_save: int | None = None
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place on a stitched curve: a "checkpoint" that was saved there, or a "resume" into the run `run` (a path)."""

    kind: str
    step: int
    run: str
    checkpoint: str | None = None
    save_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stitched:
    """One curve from the first start to now: `points` by strictly increasing step, `marks` by step.

    What an older run did after the checkpoint that the younger one took is left out, its later checkpoints too: none
    of it is in the weights. `owners` has the path of each point's run. `chain` is the runs that it goes through, oldest
    first. `is_whole` is False where some ancestor is missing, or has its curve on another axis. `axis` says what steps
    count: "step", or "save" where the checkpoints tell no step.
    """

    points: tuple[LossPoint, ...] = ()
    owners: tuple[str, ...] = ()
    axis: str = "step"
    marks: tuple[Mark, ...] = ()
    chain: tuple[Link, ...] = ()
    is_whole: bool = True


class Family:
    """The runs of one snapshot, with who was resumed from whom. Cheap to make: relations are found when asked for.

    >>> family = Family(snapshot.runs)
    >>> family.ancestry(run)  # Link, Link, …: the first start … the run itself
    >>> family.stitched(run)  # the curve through all of them, with its marks
    >>> family.children(run), family.heads  # the tree
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = tuple(runs)
        self._by_path = {normpath(run.path): run for run in self._runs}

    @cached_property
    def _by_name(self) -> dict[str, Run | None]:
        """Runs by their own name, where only one has it: a root that was moved takes its runs' names along."""
        named: dict[str, Run | None] = {}
        for run in self._runs:
            named[run.name] = None if run.name in named else run
        return named

    @cached_property
    def _children(self) -> dict[str, list[Run]]:
        children: dict[str, list[Run]] = {}
        for run in self._runs:
            if (parent := self.parent(run)) is not None:
                children.setdefault(parent.path, []).append(run)
        return children

    def find(self, path: str) -> Run | None:
        """The run with this directory; else the only one of its name `run-…`, wherever its root is now."""
        found = self._by_path.get(normpath(path))
        name = normpath(path).rpartition("/")[2]
        return found or (self._by_name.get(name) if RUN_NAME.fullmatch(name) else None)

    def parent(self, run: Run) -> Run | None:
        """The run that this one was resumed from; None for a first start and for one that isn't known here."""
        found = self.find(run.resumed_from.run) if run.resumed_from else None
        return None if found is None or found.path == run.path else found

    def children(self, run: Run) -> tuple[Run, ...]:
        """The runs that were resumed from this one, by their start."""
        return tuple(sorted(self._children.get(run.path, ()), key=lambda one: (one.started_at or 0.0, one.name)))

    @cached_property
    def heads(self) -> tuple[Run, ...]:
        """The runs from which all others are reached by `children`, each once; of a circle, its earliest run."""
        reached: set[str] = set()
        heads = []
        ordered = sorted(self._runs, key=lambda run: (self.parent(run) is not None, run.started_at or 0.0, run.name))
        for run in ordered:
            if run.path not in reached:
                head = self._head_of(run)
                heads.append(head)
                self._reach(head, reached)
        return tuple(heads)

    def _head_of(self, run: Run) -> Run:
        """The first start above a run; where its ancestors go in a circle, the earliest run of that circle."""
        path: list[Run] = []
        here: Run | None = run
        while here is not None and here not in path:
            path.append(here)
            here = self.parent(here)
        if here is None:
            return path[-1]
        return min(path[path.index(here) :], key=lambda one: (one.started_at or 0.0, one.name))

    def _reach(self, head: Run, reached: set[str]) -> None:
        waiting = [head]
        while waiting:
            run = waiting.pop()
            if run.path not in reached:
                reached.add(run.path)
                waiting += self._children.get(run.path, ())

    def ancestry(self, run: Run) -> tuple[Link, ...]:
        """The chain from the first start to `run`, oldest first; at least `run` itself.

        The oldest link has no `run` where the first start isn't known here.
        """
        links: list[Link] = []
        seen: set[str] = set()
        here: Run | None = run
        while here is not None and here.path not in seen:
            seen.add(here.path)
            parent, told = self.parent(here), here.resumed_from
            step, save = _source(here, parent)
            checkpoint = told.checkpoint if told else None
            links.append(Link(path=here.path, run=here, from_step=step, from_save=save, checkpoint=checkpoint))
            if told is not None and parent is None and normpath(told.run) != normpath(here.path):
                links.append(Link(path=told.run))
            here = parent
        return tuple(reversed(links))

    def stitched(self, run: Run) -> Stitched:
        """The curve from the first start to now, and where checkpoints and resumes lie on it."""
        return stitch(self.ancestry(run))


def stitch(chain: Sequence[Link]) -> Stitched:
    """One curve through a chain, oldest first: each run up to the checkpoint that the next one was resumed from.

    The axis is that of the last run, steps or saves (`Run.losses_by`). A run that counts from its own start, as saves
    always do, is moved on to where it was resumed.
    """
    axis = chain[-1].run.losses_by if chain and chain[-1].run else "step"
    points: list[LossPoint] = []
    owners: list[str] = []
    marks: list[Mark] = []
    is_whole, offset = True, 0
    for link in chain:
        run = link.run
        if run is None or run.losses_by != axis:
            is_whole = False
            continue
        own = _ascending(run.losses)
        at, offset = _joint(link, own, points, offset, axis)
        if at is not None:
            points = [point for point in points if point.step <= at]
            owners = owners[: len(points)]
            marks = [mark for mark in marks if mark.step <= at]
            marks.append(Mark(kind="resume", step=at, run=run.path, checkpoint=link.checkpoint))
        moved = [replace(point, step=point.step + offset) for point in own] if offset else own
        points += [point for point in moved if at is None or point.step > at]
        owners += [run.path] * (len(points) - len(owners))
        marks += _saves(run, axis, offset)
    marks.sort(key=lambda mark: mark.step)  # stable: the save first, then the resume from it
    return Stitched(
        points=tuple(points),
        owners=tuple(owners),
        axis=axis,
        marks=tuple(marks),
        chain=tuple(chain),
        is_whole=is_whole,
    )


def _joint(
    link: Link, own: Sequence[LossPoint], points: Sequence[LossPoint], offset: int, axis: str
) -> tuple[int | None, int]:
    """(where on the stitched axis this run was resumed, None for a first start; how far its own numbers are moved).

    `offset` is how far those of the run before were. Where nothing tells the place, it is where the run begins.
    """
    source = link.from_step if axis == "step" else link.from_save
    if source is not None:
        counts_anew = axis == "save" or (bool(own) and own[0].step <= source)
        at = source + offset
        return at, at if counts_anew else offset
    if not points:
        return None, 0
    if axis == "step" and own and own[0].step + offset > points[0].step:
        return own[0].step + offset - 1, offset
    return points[-1].step, points[-1].step


def _ascending(points: Sequence[LossPoint]) -> list[LossPoint]:
    """By strictly increasing step: where a run went back (its workers were started again), the later pass counts."""
    kept: list[LossPoint] = []
    for point in reversed(points):
        if not kept or point.step < kept[-1].step:
            kept.append(point)
    kept.reverse()
    return kept


def _saves(run: Run, axis: str, offset: int) -> list[Mark]:
    marks = []
    for one in run.checkpoints:
        count = _save_count(one)
        at = one.step if axis == "step" else count
        if at is not None:
            marks.append(Mark(kind="checkpoint", step=at + offset, run=run.path, checkpoint=one.path, save_count=count))
    return marks


def _save_count(checkpoint: Checkpoint) -> int | None:
    return checkpoint.save_count if checkpoint.save_count is not None else checkpoint.name_save_count


def _source(run: Run, parent: Run | None) -> tuple[int | None, int | None]:
    """(step, save_count) of the checkpoint that the run was resumed from: by the file, its name, or the run's begin."""
    told = run.resumed_from
    if told is None:
        return None, None
    name = told.checkpoint.rstrip("/").rpartition("/")[2] if told.checkpoint else ""
    held = parent.checkpoints if parent is not None else ()
    found = next((one for one in held if name and one.path.rpartition("/")[2] == name), None)
    step = found.step if found is not None else None
    if step is None and run.begin is not None:
        step = run.begin.at_step or None  # 0: the training was not told
    return step, _save_count(found) if found is not None else parse_name(name)[1]
