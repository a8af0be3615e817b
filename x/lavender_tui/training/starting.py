"""Where a checkpoint lets the training start again: which epoch, which position in its data, how far the schedule."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lavender_tui.checkpoints import read_rank_states
from lavender_tui.errors import BadState
from lavender_tui.model.plan import Policy
from lavender_tui.model.rank_state import SaveFacts
from lavender_tui.model.start import missed_scheduler_steps, starting_epoch
from lavender_tui.model.state_rules import is_done
from lavender_tui.training.data_state import found_in, merged

FIRST_DATASET_EPOCH = 0  # of the trainer's epoch 1: lancedb counts from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """`epoch` is 1-based. `dataset_state` is the merged position in that epoch's data, the same for every rank, or
    None for its beginning. `scheduler_steps` is None where the scheduler's own state is in the checkpoint.

    `dataset_epoch_offset`: what is added to the trainer's epoch to get the dataset's own. `scheduler_extra`: steps to
    make after the saved scheduler is loaded, for one that is stepped once per epoch and was saved before that step of
    an epoch that isn't gone on with.
    """

    epoch: int
    policy: Policy = Policy.REPLAY_EPOCH
    scheduler_steps: int | None = 0
    dataset_state: dict[str, Any] | None = None
    dataset_epoch_offset: int = FIRST_DATASET_EPOCH - 1
    scheduler_extra: int = 0


def starting_point(meta: dict[str, Any], *, policy: str | Policy | None = None, num_workers: int = 0) -> StartingPoint:
    """The start that a checkpoint's metadata (the third value of `resume_from_checkpoint`) allows.

    A complete epoch: the next one, without a position. Otherwise the same epoch (1 where it says 0 or nothing), at
    the saved position where the ranks' states are there, in the checkpoint or beside it, else from its first batch.
    A position at the end of its epoch counts as complete: loaded again it would read nothing at all.

    `policy` asks for another start: "replay-epoch" leaves the position out, "skip-epoch" the rest of the epoch, "exact"
    takes nothing but the position. `num_workers`: of the loaders that will read on. Raises BadState where states are
    there but can't be trusted, or are asked for and missing.
    """
    wanted = None if policy is None else Policy(policy)
    complete = bool(meta.get("epoch_complete"))
    epoch = starting_epoch(whole_number(meta.get("epoch")) or 0, complete) or 1
    if complete:
        return _at(meta, epoch, Policy.NEXT_EPOCH)
    if wanted in (Policy.SKIP_EPOCH, Policy.NEXT_EPOCH):
        return _at(meta, epoch + 1, wanted)
    facts = save_facts(meta, num_workers)
    state = None if wanted is Policy.REPLAY_EPOCH else _position(meta, facts)
    if state is None:
        if wanted is Policy.EXACT:
            raise BadState("no position in the data was saved", where=_where(meta), hint="Start the epoch again")
        return _at(meta, epoch, Policy.REPLAY_EPOCH)
    if is_done(state, facts.num_rows):
        return _at(meta, epoch + 1, Policy.NEXT_EPOCH)
    return _at(meta, epoch, Policy.EXACT, state)


def _at(meta: dict[str, Any], epoch: int, policy: Policy, state: dict[str, Any] | None = None) -> StartingPoint:
    return StartingPoint(
        epoch=epoch,
        policy=policy,
        scheduler_steps=None if meta.get("scheduler_state_dict") is not None else max(0, epoch - 1),
        dataset_state=state,
        dataset_epoch_offset=state["epoch"] - epoch if state else dataset_epoch_offset(meta),
        scheduler_extra=missed_scheduler_steps(
            whole_number(_table(meta.get("scheduler_state_dict")).get("last_epoch")),
            whole_number(meta.get("epoch")),
            bool(meta.get("epoch_complete")),
            epoch,
        ),
    )


def _position(meta: dict[str, Any], facts: SaveFacts) -> dict[str, Any] | None:
    """From the states in the checkpoint, else from the files beside it; None where there are none."""
    where, path = _where(meta), meta.get("checkpoint_path")
    if meta.get("dataset") is not None:
        return merged(found_in(meta["dataset"], where), facts, where=where)
    beside = read_rank_states(path) if path and os.path.isfile(path) else []
    return merged(beside, facts, where=where) if beside else None


def _where(meta: dict[str, Any]) -> str:
    return str(meta.get("checkpoint_path", "the checkpoint"))


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
        epoch_complete=bool(meta.get("epoch_complete")),
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
