"""What only a look along a run's saves shows: rank states that don't move while the training does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lavender_tui.model.checkpoint import Checkpoint

STUCK = "its rank states stand where the save before stood ({count:,} rows): its rows would be read again"
FELL = "its rank states fell from {before:,} to {count:,} rows within one epoch: its rows would be read again"
ZERO = "its rank states say that no row was read, as do those of the next save: its rows would be read again"


def flag_rank_states(checkpoints: Sequence[Checkpoint]) -> tuple[Checkpoint, ...]:
    """The same checkpoints, with a warning on each whose rank states did not move on within one epoch.

    `checkpoints` are one run's, oldest first. Compared are neighbours of the same epoch and stage that hold equally
    many rank states. Two saves at one step stand at one place: no warning.
    """
    flagged = list(checkpoints)
    last: dict[tuple[object, ...], int] = {}
    for index, checkpoint in enumerate(checkpoints):
        key = _same_epoch(checkpoint)
        if key is None:
            continue
        before = last.get(key)
        last[key] = index
        if before is None:
            continue
        warning = _compare(checkpoints[before], checkpoint)
        if warning is None:
            continue
        flagged[index] = _warn(checkpoint, warning)
        # A first save of nothing is well; a later one whose forerunners lie elsewhere isn't.
        first = checkpoints[before]
        is_zero = first.rank_states.consumed == 0 == checkpoint.rank_states.consumed
        if is_zero and (first.save_count or 0) > 1 and flagged[before] is first:
            flagged[before] = _warn(first, ZERO)
    return tuple(flagged)


def _same_epoch(checkpoint: Checkpoint) -> tuple[object, ...] | None:
    ranks = checkpoint.rank_states
    if not checkpoint.is_whole or ranks.consumed is None or not ranks.found:
        return None
    return checkpoint.stage, checkpoint.epoch, ranks.dataset_epoch, ranks.num_splits, ranks.found, ranks.expected


def _compare(before: Checkpoint, checkpoint: Checkpoint) -> str | None:
    old, new = before.rank_states.consumed or 0, checkpoint.rank_states.consumed or 0
    if new > old or (before.step is not None and before.step == checkpoint.step):
        return None
    return STUCK.format(count=new) if new == old else FELL.format(before=old, count=new)


def _warn(checkpoint: Checkpoint, warning: str) -> Checkpoint:
    if warning in checkpoint.warnings:
        return checkpoint
    return replace(checkpoint, warnings=(*checkpoint.warnings, warning))
