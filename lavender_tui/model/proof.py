"""Did a resumed training carry on? What it wrote when it began, held against the plan, the checkpoint and the curve.

Pure: the facts are handed in. `prove` says one of four words, and every single comparison with both values beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lavender_tui.errors import BadState
from lavender_tui.model import continuity
from lavender_tui.model.plan import Policy, ResumePlan
from lavender_tui.model.state_shapes import RankState, normalise, owned_splits
from lavender_tui.model.text import clean, plural

if TYPE_CHECKING:
    from lavender_tui.model.checkpoint import Checkpoint
    from lavender_tui.model.run import LossPoint

EVENT = "begin"
MAX_RANKS = 100_000
LR_TOLERANCE = 0.02  # relative; what a checkpoint holds and what is put back are the same number


class Outcome(StrEnum):
    """What is said of a resumed run."""

    CARRIES_ON = "carries on"
    JUMPED = "jumped"
    WRONG_START = "wrong start"
    NOT_YET = "not yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where one rank began: what it had taken of each split of its own, which are `first_split` and those after it.

    `taken` counts rows, or blocks in packed mode.
    """

    first_split: int
    taken: tuple[int, ...]
    dataset_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """What a training wrote when it began (the line `"event": "begin"` of metrics.jsonl).

    `positions` has one entry a rank, None for a rank that told none; `epoch` is 1-based, as the script named it at its
    first save or chance of one; `logged` counts the lines of steps that it had written before this line. `requests`: it
    reads what it is asked for in `request.json`.
    """

    at_step: int | None = None
    epoch: int | None = None
    lr: float | None = None
    world_size: int | None = None
    positions: tuple[Position | None, ...] = ()
    checkpoint: str | None = None
    logged: int = 0
    requests: bool = False
    time: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One comparison. `agrees` is None where one of the two values isn't known; `what` names both."""

    id: str
    agrees: bool | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """`words` is what a person reads in one line; `evidence` every comparison behind it.

    `is_settled`: nothing that this training still logs changes it.
    """

    verdict: Outcome
    words: str
    evidence: tuple[Finding, ...] = ()
    is_settled: bool = False


def read_begin(record: dict[str, Any]) -> Begin | None:
    """The line of a training's begin; None for other records. What can't be such a value counts as not told."""
    if record.get("event") != EVENT:
        return None
    told = record.get("positions")
    checkpoint = record.get("checkpoint")
    return Begin(
        at_step=_whole(record.get("at_step")),
        epoch=_whole(record.get("epoch")),
        lr=_number(record.get("lr")),
        world_size=_whole(record.get("world_size")),
        positions=tuple(_position(one) for one in told[:MAX_RANKS]) if isinstance(told, list) else (),
        checkpoint=checkpoint if isinstance(checkpoint, str) else None,
        logged=_whole(record.get("logged")) or 0,
        requests=record.get("requests") is True,
        time=_number(record.get("time")),
    )


def prove(
    plan: ResumePlan,
    begin: Begin | None,
    first_points: Sequence[LossPoint],
    curve_before: Sequence[LossPoint],
    *,
    saved: Checkpoint | None = None,
) -> Proof:
    """Hold a resumed training against its plan.

    `begin` is what it wrote when it began (None: nothing yet, or a training that writes no such line), `first_points`
    the first points that it logged, oldest first. `curve_before` is the curve of the run that it was resumed from, up
    to and with the checkpoint's step, and `saved` that checkpoint; either may be missing, and what can't be compared
    is said so. A wrong start is known at once; a jump, and that it carries on, once a few losses are there.
    """
    findings = _findings(plan, begin, first_points, curve_before, saved)
    wrong = [one for one in findings if one.agrees is False]
    started = [one for one in wrong if one.id != "loss"]
    losses = continuity.FEW - len(first_points)
    has_all = begin is not None and losses <= 0
    if started:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return Proof(verdict=Outcome.WRONG_START, words=started[0].what + more, evidence=findings, is_settled=has_all)
    if wrong:
        return Proof(verdict=Outcome.JUMPED, words=wrong[0].what, evidence=findings, is_settled=has_all)
    if len(first_points) < continuity.LEAST:
        return Proof(verdict=Outcome.NOT_YET, words=_waiting(len(first_points)), evidence=findings)
    return _carries_on(plan, findings, has_all)


def _carries_on(plan: ResumePlan, findings: tuple[Finding, ...], is_settled: bool) -> Proof:
    """Nothing speaks against it; whether enough speaks for it is another question."""
    agreeing = [one.id for one in findings if one.agrees]
    if not agreeing:
        return Proof(verdict=Outcome.NOT_YET, words="not yet: nothing to compare with", evidence=findings)
    if plan.start.stage is not None:
        words = f"{clean(plan.start.stage)} begins as planned"
    elif "loss" in agreeing:
        words = str(Outcome.CARRIES_ON)
    else:
        words = f"{Outcome.CARRIES_ON}, as far as it can be told: there is no loss to compare with"
    return Proof(verdict=Outcome.CARRIES_ON, words=words, evidence=findings, is_settled=is_settled)


def _waiting(points: int) -> str:
    if not points:
        return "not yet: no step is logged"
    return f"not yet: {points} of {plural(continuity.LEAST, 'step')} logged"


def _findings(
    plan: ResumePlan,
    begin: Begin | None,
    first_points: Sequence[LossPoint],
    curve_before: Sequence[LossPoint],
    saved: Checkpoint | None,
) -> tuple[Finding, ...]:
    """In the order in which a person would say them: the coarsest mistake first."""
    findings: list[Finding | None] = []
    if begin is not None:
        findings += [_checkpoint(plan, begin), _world_size(plan, begin), _epoch(plan, begin)]
    findings.append(_step(plan, saved, begin, first_points, curve_before))
    if begin is not None:
        findings.append(_positions(plan, begin))
    findings += [_lr(plan, begin, first_points, curve_before, saved), _loss(plan, first_points, curve_before, saved)]
    return tuple(one for one in findings if one is not None)


def _checkpoint(plan: ResumePlan, begin: Begin) -> Finding:
    planned = plan.source.checkpoint
    if begin.checkpoint is None:
        return Finding(id="checkpoint", agrees=None, what="it does not say which checkpoint it loaded")
    if begin.checkpoint == planned:
        return Finding(id="checkpoint", agrees=True, what=f"loaded {_name(planned)}")
    same = _name(begin.checkpoint) == _name(planned)  # under another path, such as another mount
    names = (begin.checkpoint, planned) if same else (_name(begin.checkpoint), _name(planned))
    what = f"loaded {clean(names[0])} instead of {clean(names[1])}"
    return Finding(id="checkpoint", agrees=None if same else False, what=what)


def _world_size(plan: ResumePlan, begin: Begin) -> Finding | None:
    if begin.world_size is None:
        return None
    agrees = begin.world_size == plan.world_size
    ranks = plural(begin.world_size, "rank")
    return Finding(
        id="world_size",
        agrees=agrees,
        what=f"{ranks}, as planned" if agrees else f"{ranks} instead of {plan.world_size:,}",
    )


def _epoch(plan: ResumePlan, begin: Begin) -> Finding:
    planned = plan.start.epoch
    if begin.epoch is None:
        return Finding(id="epoch", agrees=None, what="it does not say which epoch it trains")
    if begin.epoch == planned:
        return Finding(id="epoch", agrees=True, what=f"epoch {planned}, as planned")
    again = "again " if begin.epoch < planned else ""
    return Finding(id="epoch", agrees=False, what=f"epoch {begin.epoch:,} {again}instead of {planned:,}")


def _step(
    plan: ResumePlan,
    saved: Checkpoint | None,
    begin: Begin | None,
    points: Sequence[LossPoint],
    before: Sequence[LossPoint],
) -> Finding | None:
    """The first step follows the saved one; where not every step is logged, within the distance of two lines."""
    if saved is None or saved.step is None or plan.start.stage is not None:  # a new stage counts from its own start
        return None
    following = saved.step + 1
    if not points:
        if begin is None or begin.at_step in (None, 0, saved.step):  # 0: nobody told the manager
            return None
        what = f"goes on from step {begin.at_step:,} instead of {saved.step:,}"
        return Finding(id="step", agrees=False, what=what)
    first = points[0].step
    stride = max(continuity.stride([*before[-20:]]), continuity.stride(points), 1)
    if saved.step < first < following + 2 * stride:
        return Finding(id="step", agrees=True, what=f"step {first:,} after {saved.step:,}")
    again = "again " if first < following else ""
    return Finding(id="step", agrees=False, what=f"step {first:,} {again}instead of {following:,}")


def _lr(
    plan: ResumePlan,
    begin: Begin | None,
    points: Sequence[LossPoint],
    before: Sequence[LossPoint],
    saved: Checkpoint | None,
) -> Finding | None:
    """What it begins with is what was saved, give or take as much as the schedule moves within a few lines."""
    rates = [point.lr for point in before if point.lr is not None]
    old = saved.lr if saved is not None and saved.lr is not None else (rates[-1] if rates else None)
    told = begin.lr if begin is not None else None
    new = told if told is not None else (points[0].lr if points else None)
    if old is None or new is None or plan.start.stage is not None:
        return None
    both = f"learning rate {_rate(new)}"
    moves = max((abs(b - a) for a, b in zip(rates[-50:], rates[-49:], strict=False)), default=0.0)
    if abs(new - old) <= max(LR_TOLERANCE * max(abs(old), abs(new)), 3 * moves):
        return Finding(id="learning rate", agrees=True, what=f"{both}, saved was {_rate(old)}")
    if plan.start.scheduler_steps is not None or plan.start.scheduler_extra:  # planned so
        return Finding(id="learning rate", agrees=None, what=f"{both}, saved was {_rate(old)}: stepped, as planned")
    return Finding(id="learning rate", agrees=False, what=f"{both} instead of {_rate(old)}")


def _loss(
    plan: ResumePlan, points: Sequence[LossPoint], before: Sequence[LossPoint], saved: Checkpoint | None
) -> Finding | None:
    if len(points) < continuity.LEAST:
        return None
    if plan.start.stage is not None:
        what = f"{clean(plan.start.stage)} begins from the weights alone: its loss compares with nothing"
        return Finding(id="loss", agrees=None, what=what)
    reference = saved.loss if saved is not None and saved.loss is not None else plan.source.loss
    # Read again, or in another epoch, rows that are known by heart give a lower loss: nothing is wrong with that.
    judged = continuity.compare(
        [point.loss for point in before],
        [point.loss for point in points],
        reference=reference,
        both_ways=plan.start.policy is Policy.EXACT,
    )
    return None if judged is None else Finding(id="loss", agrees=judged.agrees, what=judged.words)


def _positions(plan: ResumePlan, begin: Begin) -> Finding | None:
    """Each rank against its own slice of the merged state; without one, against the beginning of the epoch."""
    if not begin.positions:
        return None
    try:
        merged = RankState(rank=0, origin="", state=normalise(plan.dataset)) if plan.dataset is not None else None
    except BadState as error:
        return Finding(id="position", agrees=None, what=f"the plan's position can't be read: {error.what}")
    wrong, silent = [], []
    for rank, position in enumerate(begin.positions):
        if position is None:
            silent.append(rank)
        elif what := _misplaced(rank, len(begin.positions), position, merged):
            wrong.append(what)
    if wrong:
        more = f" (and {plural(len(wrong) - 1, 'more rank')})" if len(wrong) > 1 else ""
        return Finding(id="position", agrees=False, what=wrong[0] + more)
    if silent:
        return Finding(id="position", agrees=None, what=f"rank {silent[0]} does not say where it began")
    ranks = plural(len(begin.positions), "rank")
    total = sum(sum(position.taken) for position in begin.positions if position is not None)
    unit = "blocks" if merged is not None and merged.mode == "packed" else "rows"
    return Finding(id="position", agrees=True, what=f"{ranks} began where the plan says, after {total:,} {unit} in all")


def _misplaced(rank: int, ranks: int, position: Position, merged: RankState | None) -> str | None:
    """What is wrong with one rank's position, in words; None where nothing is."""
    unit, who, taken = "row", f"rank {rank} began", sum(position.taken)
    if merged is None:
        return f"{who} at {unit} {taken:,}, the plan says 0" if taken else None
    unit = "block" if merged.mode == "packed" else "row"
    planned_epoch = merged.state["epoch"]
    if position.dataset_epoch not in (None, planned_epoch):
        return f"rank {rank} reads dataset epoch {position.dataset_epoch} instead of {planned_epoch}"
    own = owned_splits(rank, ranks, merged.num_splits)
    if (position.first_split, len(position.taken)) != (own.start, len(own)):
        last = position.first_split + len(position.taken) - 1
        return f"rank {rank} reads splits {position.first_split}-{last}, the plan says {own.start}-{own.stop - 1}"
    planned = merged.work[own.start : own.stop]
    if taken != sum(planned):
        return f"{who} at {unit} {taken:,}, the plan says {sum(planned):,}"
    pairs = zip(own, position.taken, planned, strict=True)
    return next((f"{who} split {s} at {unit} {a:,}, the plan says {b:,}" for s, a, b in pairs if a != b), None)


def _position(value: Any) -> Position | None:
    if not isinstance(value, dict) or not isinstance(taken := value.get("taken"), list):
        return None
    first, counts = _whole(value.get("first_split")), [_whole(one) for one in taken]
    if first is None or any(one is None for one in counts):
        return None
    epoch = _whole(value.get("dataset_epoch"))
    return Position(first_split=first, taken=tuple(one for one in counts if one is not None), dataset_epoch=epoch)


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _rate(value: float) -> str:
    return f"{value:.3g}"


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) < 1e300 else None


def _name(path: str) -> str:
    return clean(path.rstrip("/").rpartition("/")[2] or path)
