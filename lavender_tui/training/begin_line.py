"""The line that a training writes when it begins: from which step, which epoch, and where each rank stands in the data.

Against it anybody can hold what was planned, and see whether a resumed training truly carries on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lavender_tui.model.state_shapes import BLOCKS, SAMPLES, owned_splits
from lavender_tui.training.data_state import take_state
from lavender_tui.training.ranks import Ranks

EVENT = "begin"
NOTHING: Mapping[str, str] = {}
MOST_SPLITS = 10_000  # more than that makes no line that is read at a glance; the positions are left out


class BeginLine:
    """What is known of the start, collected until the first `maybe_save` or `save`, where all ranks meet anyway.

    Not sooner: setting a dataset is no exchange between ranks, and made one it would hang a script that sets it on
    some of them only. And only there the script says which epoch it really trains.
    """

    def __init__(
        self, ranks: Ranks, *, at_step: int, checkpoint: str | None, passed_over: Mapping[str, str] = NOTHING
    ) -> None:
        self.is_told = False
        self._ranks, self._at_step, self._checkpoint = ranks, at_step, checkpoint
        self._passed_over = dict(passed_over)
        self._lr: Any = None
        self._position: dict[str, Any] | None = None
        self._is_data_known = False
        self._logged = 0

    def data_is_set(self, dataset: Any, optimizer: Any) -> None:
        """The first dataset, before its first batch; later ones are those of later epochs."""
        if self.is_told or self._is_data_known:
            return
        self._is_data_known = True
        self._position = position(dataset, self._ranks)
        self._lr = learning_rate(optimizer)

    def logged(self) -> None:
        """One line of a step was written."""
        self._logged += not self.is_told

    def tell(self, epoch: int | None, optimizer: Any) -> dict[str, Any] | None:
        """The line's values on rank 0, None elsewhere. Collective, and once: every rank calls it at the same point."""
        self.is_told = True
        positions = self._ranks.gather(self._position)
        if positions is None:
            return None
        return {
            "event": EVENT,
            "at_step": self._at_step,
            "epoch": epoch,
            "lr": self._lr if self._lr is not None else learning_rate(optimizer),
            "world_size": self._ranks.world_size,
            "positions": positions,
            "checkpoint": self._checkpoint,
            **({"passed_over": self._passed_over} if self._passed_over else {}),
            "requests": True,  # this training reads request.json
            "logged": self._logged,  # so many lines of steps before this one are of this training
        }


def position(dataset: Any, ranks: Ranks) -> dict[str, Any] | None:
    """What this rank has taken of each split of its own: rows, or blocks in packed mode."""
    state, _ = take_state(dataset) if dataset is not None else (None, None)
    if state is None or state["num_splits"] > MOST_SPLITS:
        return None
    own = owned_splits(ranks.rank, ranks.world_size, int(state["num_splits"]))
    counts = state[BLOCKS] if BLOCKS in state else state[SAMPLES]
    return {"dataset_epoch": state["epoch"], "first_split": own.start, "taken": [int(counts[split]) for split in own]}


def learning_rate(optimizer: Any) -> float | None:
    """Of the first group of parameters; None where there is no optimizer, or it has none."""
    groups = getattr(optimizer, "param_groups", None) or [{}]
    lr = groups[0].get("lr")
    return None if lr is None else float(lr)
