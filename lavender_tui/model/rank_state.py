"""Rank states: what one rank says of its data position, and whether a set of them may be merged.

A rank state is one rank's `StreamingDataset.state_dict()` (lancedb >= 0.36). Only what a rank says of the splits it
OWNS is true: rank r of w owns splits [r*k, (r+1)*k), k = num_splits // w (lancedb/streaming.py 0.40.0, lines 592-597).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """One rank's state, normalised: both count lists are lists of `num_splits` ints.

    `state` is what goes to `merge_state_dicts`; `origin` names where it came from, for messages
    ("pretrain-…-0060.pt dataset[3]" or "…-0060.rank3.pt").
    """

    rank: int
    origin: str
    state: dict[str, Any]

    @property
    def num_splits(self) -> int:
        return int(self.state["num_splits"])

    @property
    def samples(self) -> list[int]:
        """Samples consumed per split, length num_splits."""
        return list(self.state["samples_consumed_per_split"])

    @property
    def positions(self) -> list[int]:
        """Positions consumed per split, length num_splits; above samples only where rows were skipped."""
        return list(self.state.get("positions_consumed_per_split", self.state["samples_consumed_per_split"]))

    @property
    def mode(self) -> str:
        return "packed" if "pack_buffers" in self.state else "row"


def owned_splits(rank: int, world_size: int, num_splits: int) -> range:
    """The splits that `rank` of `world_size` owns."""
    each = num_splits // world_size
    return range(rank * each, (rank + 1) * each)
