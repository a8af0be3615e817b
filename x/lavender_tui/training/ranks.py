"""The ranks of this training, and the few words that they exchange: a tiny vote a step, and objects around a save."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from lavender_tui import errors
from lavender_tui.errors import LavenderError, UsageError

# Others wait for rank 0 while it writes: longer than any write should take, shorter than a night.
PATIENCE = timedelta(hours=2)

_current: tuple[Any, Ranks] | None = None  # (torch's default process group, what was made for it)


class Ranks:
    """One process alone: every exchange is with itself. Also the interface of `ManyRanks`."""

    rank = 0
    world_size = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def vote(self, wishes: Sequence[bool]) -> list[bool]:
        """For each wish: does any rank have it? The same answer on every rank."""
        return list(wishes)

    def share(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""
        return value

    def gather(self, value: Any) -> list[Any] | None:
        """Every rank's value in rank order on rank 0, None on the others."""
        return [value]


class ManyRanks(Ranks):
    """All ranks of torch.distributed, over a gloo group of our own.

    A group of our own: its calls can't interleave with those of the training, and with NCCL as the training's backend
    nothing of ours touches the accelerator or waits for its stream.
    """

    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self._group = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._votes = torch.zeros(8, dtype=torch.uint8)

    def vote(self, wishes: Sequence[bool]) -> list[bool]:
        import torch
        import torch.distributed as dist

        votes = self._votes[: len(wishes)]
        votes.copy_(torch.tensor(wishes, dtype=torch.uint8))
        dist.all_reduce(votes, op=dist.ReduceOp.MAX, group=self._group)
        return [bool(one) for one in votes.tolist()]

    def share(self, value: Any) -> Any:
        import torch.distributed as dist

        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def gather(self, value: Any) -> list[Any] | None:
        import torch.distributed as dist

        values: list[Any] | None = [None] * self.world_size if self.is_first else None
        dist.gather_object(value, values, dst=0, group=self._group)
        return values


def current_ranks() -> Ranks:
    """The ranks of this process, as torch.distributed has them now; a process alone where it isn't initialised.

    The first call under torch.distributed is collective: every rank must make it, as every rank makes its manager.
    Raises UsageError in a process of torchrun that hasn't called `init_process_group` yet: each rank would take
    itself for the only one, and all would write over each other.
    """
    global _current
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        if _is_one_of_many():
            raise UsageError(
                f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but torch.distributed is not initialised",
                hint="Call torch.distributed.init_process_group before the first use of lavender_tui.training",
            )
        return Ranks()
    if dist.get_world_size() == 1:
        return Ranks()
    group = dist.group.WORLD
    if _current is None or _current[0] is not group:
        _current = (group, ManyRanks())
    return _current[1]


def _is_one_of_many() -> bool:
    """Did torchrun start this process with others? Slurm's and MPI's variables alone don't make a process group."""
    return "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") not in ("", "1")


def first_does(ranks: Ranks, work: Callable[[], Any]) -> Any:
    """Rank 0 does `work`; every rank gets its result, or raises the same LavenderError if it failed there.

    Nobody is left waiting: whatever rank 0's work raises is told to the others first.
    """
    outcome: tuple[bool, Any] | None = None
    if ranks.is_first:
        try:
            outcome = (True, work())
        except LavenderError as error:
            outcome = (False, (type(error).__name__, error.what, error.where, error.hint))
        except Exception as error:  # told to every rank below, as one clear error
            outcome = (False, ("LavenderError", f"{type(error).__name__}: {error}", None, None))
    worked, value = ranks.share(outcome)
    if worked:
        return value
    kind, what, where, hint = value
    raise getattr(errors, kind, LavenderError)(what, where=where, hint=hint)
