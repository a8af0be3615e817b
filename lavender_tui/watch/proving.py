"""Did a resumed run carry on? Reads its plan, the old checkpoint and the end of the old curve, once and in bounds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lavender_tui import checkpoints
from lavender_tui.errors import BadState
from lavender_tui.launch.files import LARGEST_PLAN_BYTES, read_document
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.run import LossPoint
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import Listing
from lavender_tui.watch.metrics import METRICS_NAME, MetricsTail
from lavender_tui.watch.old_curve import ENOUGH, points_up_to

if TYPE_CHECKING:  # the first rows on the screen wait for none of these
    from lavender_tui.model.plan import ResumePlan
    from lavender_tui.model.proof import Begin, Proof

PLAN = "resume.json"
GENERATIONS = 3  # a run that was soon resumed again has little of a curve: that of the runs before it helps


def proof_of(listing: Listing, index: Index, tail: MetricsTail | None) -> Proof | None:
    """The proof of a run with a plan, None for others. Never raises.

    Nothing is read before the training has logged something; the index keeps what was found, and once a verdict is
    settled it stays, though the old run be deleted.
    """
    facts = listing.documents.get(PLAN)
    if facts is None:
        return None
    path = os.path.join(listing.path, PLAN)
    proving: Proving = index.document(f"{path} (proof)", facts, lambda: Proving(path))  # type: ignore[assignment]
    return proving.look(tail, index)


class Proving:
    """What is known of one resumed run, kept as long as its plan is the same file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._plan: ResumePlan | str | None = None  # or why it can't be used; None: not read yet
        self._saved: Checkpoint | None = None
        self._before: tuple[LossPoint, ...] = ()
        self._proof: Proof | None = None
        self._of: tuple[Begin | None, tuple[LossPoint, ...]] | None = None  # what the proof was made of

    def look(self, tail: MetricsTail | None, index: Index) -> Proof:
        from lavender_tui.model.proof import Outcome, Proof, prove

        seen = (tail.begin, tail.first) if tail is not None else (None, ())
        if self._proof is not None and (seen == self._of or seen == (None, ())):
            return self._proof
        if seen == (None, ()):
            return Proof(verdict=Outcome.NOT_YET, words="not yet: no step is logged")
        if self._plan is None:
            self._plan = read_plan(self._path)
            if not isinstance(self._plan, str):
                self._read_the_old(self._plan, index, seen[0])
        if isinstance(self._plan, str):
            return Proof(verdict=Outcome.NOT_YET, words=f"not yet: the plan can't be used, {self._plan}")
        self._of = seen
        self._proof = prove(self._plan, *seen, self._before, saved=self._saved)
        return self._proof

    def _read_the_old(self, plan: ResumePlan, index: Index, begin: Begin | None) -> None:
        run = _where_now(plan.source.run, self._path)
        checkpoint = plan.source.checkpoint
        if run != plan.source.run:
            checkpoint = os.path.join(run, os.path.basename(checkpoint))
        self._saved = _read_saved(checkpoint, index)
        step = self._saved.step if self._saved is not None else begin.at_step if begin is not None else None
        self._before = old_curve(run, step or None)


def read_plan(path: str) -> ResumePlan | str:
    """The plan at `path`, or why it can't be compared with."""
    from lavender_tui.model.plan import ResumePlan

    document, reason = read_document(path, most_bytes=LARGEST_PLAN_BYTES)
    if document is None:
        return reason or "is gone"
    try:
        plan = ResumePlan.from_json(document)
    except (BadState, AttributeError) as error:
        return str(error)
    return plan if _is_sound(plan) else "its values are of other kinds than a plan's"


def old_curve(run: str, step: int | None) -> tuple[LossPoint, ...]:
    """The curve that leads to `step` (None: to its end), from this run and, if it is short, those before it."""
    points = points_up_to(os.path.join(run, METRICS_NAME), step)
    for _ in range(GENERATIONS):
        document, _ = (
            read_document(os.path.join(run, PLAN), most_bytes=LARGEST_PLAN_BYTES)
            if len(points) < ENOUGH
            else (None, None)
        )
        source = document.get("source") if document else None
        before = source.get("run") if isinstance(source, dict) else None
        if not isinstance(before, str) or not points:
            break
        run = _where_now(before, os.path.join(run, PLAN))
        points = points_up_to(os.path.join(run, METRICS_NAME), points[0].step - 1) + points
    return points


def _where_now(run: str, plan_path: str) -> str:
    """Where a plan says the old run is; else beside the new one, if the whole root was moved."""
    beside = os.path.join(os.path.dirname(os.path.dirname(plan_path)), os.path.basename(run))
    return beside if not os.path.isdir(run) and os.path.isdir(beside) else run


def _read_saved(path: str, index: Index) -> Checkpoint | None:
    """The checkpoint that was resumed from, as remembered, else read; None where it is gone or no longer whole."""
    try:
        facts = checkpoints.file_facts(path)
    except (OSError, ValueError):
        return None
    found = index.known(path, facts) or checkpoints.read_checkpoint(path, known=facts)
    return found if found.is_whole else None


def _is_sound(plan: ResumePlan) -> bool:
    numbers = (plan.start.epoch, plan.world_size)
    loss, steps = plan.source.loss, plan.start.scheduler_steps
    return (
        all(type(number) is int and abs(number) < 2**63 for number in numbers)
        and isinstance(plan.source.run, str)
        and isinstance(plan.source.checkpoint, str)
        and (loss is None or type(loss) in (int, float))
        and (steps is None or type(steps) is int)
        and (plan.start.stage is None or isinstance(plan.start.stage, str))
    )
