"""Where a checkpoint lets the training start again: which epoch, which position in its data, how far the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lavender_tui.model.plan import Policy
from lavender_tui.model.rank_state import SaveFacts
from lavender_tui.model.start import starting_epoch
from lavender_tui.model.state_rules import is_done
from lavender_tui.training.data_state import merged

FIRST_DATASET_EPOCH = 0  # of the trainer's epoch 1: lancedb counts from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """`epoch` is 1-based. `dataset_state` is the merged position in that epoch's data, the same for every rank, or
    None for its beginning. `scheduler_steps` is None where the scheduler's own state is in the checkpoint.

    `dataset_epoch_offset`: what is added to the trainer's epoch to get the dataset's own.
    """

    epoch: int
    policy: Policy = Policy.REPLAY_EPOCH
    scheduler_steps: int | None = 0
    dataset_state: dict[str, Any] | None = None
    dataset_epoch_offset: int = FIRST_DATASET_EPOCH - 1


def starting_point(meta: dict[str, Any], *, num_workers: int = 0) -> StartingPoint:
    """The start that a checkpoint's metadata (the third value of `resume_from_checkpoint`) allows.

    A complete epoch: the next one, without a position. Otherwise the same epoch (1 where it says 0 or nothing), at
    the saved position where every rank's state is there, else from its first batch. A position at the end of its
    epoch counts as complete: loaded again it would read nothing at all.

    `num_workers`: of the loaders that will read on. Raises BadState where states are there but can't be trusted.
    """
    epoch, complete = whole_number(meta.get("epoch")), meta.get("epoch_complete") is True
    start = starting_epoch(epoch or 0, complete) or 1
    offset = dataset_epoch_offset(meta)
    steps = None if meta.get("scheduler_state_dict") is not None else max(0, start - 1)
    states = None if complete else meta.get("dataset")
    if states is None:
        policy = Policy.NEXT_EPOCH if complete else Policy.REPLAY_EPOCH
        return StartingPoint(epoch=start, policy=policy, scheduler_steps=steps, dataset_epoch_offset=offset)
    facts = save_facts(meta, num_workers)
    state = merged(states, facts, where=str(meta.get("checkpoint_path", "the checkpoint")))
    if is_done(state, facts.num_rows):
        steps = None if steps is None else start
        return StartingPoint(
            epoch=start + 1, policy=Policy.NEXT_EPOCH, scheduler_steps=steps, dataset_epoch_offset=offset
        )
    return StartingPoint(
        epoch=start, policy=Policy.EXACT, scheduler_steps=steps, dataset_state=state, dataset_epoch_offset=offset
    )


def dataset_epoch_offset(meta: dict[str, Any]) -> int:
    """From a saved state and the epoch that it was saved in; -1 (the trainer counts from 1) where nothing says it."""
    states = meta.get("dataset")
    first = states[0] if isinstance(states, list | tuple) and states else states
    epoch = whole_number(meta.get("epoch"))
    if isinstance(first, dict) and type(first.get("epoch")) is int and epoch:
        return first["epoch"] - epoch
    return FIRST_DATASET_EPOCH - 1


def save_facts(meta: dict[str, Any], num_workers: int = 0) -> SaveFacts:
    """What the rules on rank states need to know of the save."""
    batch, progress, data = (_table(meta.get(key)) for key in ("batch", "progress", "data"))
    return SaveFacts(
        world_size=whole_number(meta.get("world_size")),
        epoch=whole_number(meta.get("epoch")),
        epoch_complete=meta.get("epoch_complete") is True,
        global_step=whole_number(meta.get("global_step")),
        global_batch=whole_number(batch.get("global")),
        start_samples=whole_number(progress.get("start_samples")),
        start_step=whole_number(progress.get("start_step")),
        num_rows=whole_number(data.get("num_rows")),
        num_workers=num_workers,
        on_transform_error=data.get("on_transform_error"),
    )


def whole_number(value: Any) -> int | None:
    return value if type(value) is int else None


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
