"""Where a resumed training starts: the epoch rule and the policies (contract of the trainer's resume guide)."""

from __future__ import annotations

import itertools
from dataclasses import replace

from lavender_tui.model.checkpoint import STAGES, Checkpoint, RankStatesSummary
from lavender_tui.model.plan import Policy


def starting_epoch(epoch: int | None, epoch_complete: bool | None) -> int | None:
    """epoch + 1 after a complete epoch, else the same epoch again and never below 1; None for an unknown epoch."""
    if epoch is None:
        return None
    return epoch + 1 if epoch_complete else max(1, epoch)


def default_policy(checkpoint: Checkpoint) -> Policy:
    """The contract's table: complete → next epoch; all rank states → exact; else the epoch again from batch 0."""
    if checkpoint.epoch_complete:
        return Policy.NEXT_EPOCH
    if checkpoint.rank_states.complete:
        return Policy.EXACT
    return Policy.REPLAY_EPOCH


def policy_epoch(policy: Policy, checkpoint: Checkpoint) -> int | None:
    """The 1-based epoch that a policy starts at; None where the checkpoint names no epoch."""
    if checkpoint.epoch is None:
        return None
    if policy in (Policy.NEXT_EPOCH, Policy.SKIP_EPOCH):
        return checkpoint.epoch + 1
    return starting_epoch(checkpoint.epoch, checkpoint.epoch_complete)


def scheduler_steps(checkpoint: Checkpoint, epoch: int) -> int | None:
    """None where the scheduler's own state is saved; else epoch - 1 steps, right at epoch boundaries only."""
    return None if checkpoint.has_scheduler else max(0, epoch - 1)


def missed_scheduler_steps(last_epoch: int | None, epoch: int | None, epoch_complete: bool | None, start: int) -> int:
    """How many steps a saved scheduler lacks where the rest of its epoch is not trained any more: 0 or 1.

    One that is stepped once per epoch has made `epoch - 1` steps until the end of `epoch`; saved before that end, and
    resumed in the epoch after it, its step would never come. One that is stepped with every batch has made at least
    `epoch` by then: it lacks nothing.
    """
    if epoch is None or epoch_complete or start != epoch + 1:
        return 0
    return int(last_epoch == epoch - 1)


def weights_only(checkpoint: Checkpoint) -> Checkpoint:
    """What a new stage takes over: the weights. Batch, data, schedule and rank states are those of the stage before."""
    return replace(
        checkpoint,
        rank_states=RankStatesSummary(),
        data=None,
        lr=None,
        global_batch=None,
        num_workers=None,
        has_scheduler=False,
    )


def stage_after(stage: str | None) -> str | None:
    """The stage that usually follows: sft after pretrain, dpo after sft; None where nobody can say."""
    return {before: after for before, after in itertools.pairwise(STAGES) if after != "final"}.get(stage or "")


def stages_after(stage: str | None) -> tuple[str, ...]:
    """The stages that may follow, the usual one first: after one that isn't known, any but the first."""
    usual = [one for one in STAGES if one != "final"]
    return tuple(usual[usual.index(stage) + 1 :] if stage in usual else usual[1:])


def is_training_over(checkpoint: Checkpoint) -> bool:
    """The last epoch is complete, or the final stage is saved: there is nothing left to resume."""
    if checkpoint.stage == "final":
        return True
    known = checkpoint.epoch is not None and checkpoint.epochs is not None
    return bool(known and checkpoint.epoch_complete and checkpoint.epoch >= checkpoint.epochs)  # type: ignore[operator]
