"""Where each split of the data stands in one save, read from its rank states. To be called in a thread."""

from __future__ import annotations

from dataclasses import dataclass

from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.data_rows import epoch_rows
from lavender_tui.model.text import clean, count


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPosition:
    """`consumed` samples of split `number` by its owner's count; `rows` in the split where known."""

    number: int
    rank: int | None
    consumed: int
    rows: int | None

    @property
    def fraction(self) -> float | None:
        return min(1.0, self.consumed / self.rows) if self.rows else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPosition:
    """`splits` in order; `problems` are sentences, and stand alone where nothing can be trusted."""

    path: str
    splits: tuple[SplitPosition, ...] = ()
    problems: tuple[str, ...] = ()


def read_position(checkpoint: Checkpoint) -> DataPosition:
    """Reads the rank states inside the checkpoint and beside it."""
    from lavender_tui.checkpoints import read_rank_states
    from lavender_tui.model.rank_state import examine, owned_splits
    from lavender_tui.model.state_rules import SaveFacts, owners_merge

    found = examine(read_rank_states(checkpoint.path), SaveFacts(world_size=checkpoint.world_size))
    problems = tuple(clean(one) for one in checkpoint.rank_states.problems)
    if not found.states:
        return DataPosition(path=checkpoint.path, problems=problems or ("no rank states with this save",))
    if not found.is_complete or found.world_size is None:
        return DataPosition(path=checkpoint.path, problems=problems or ("its rank states are not complete",))
    merged = owners_merge(found.states, found.world_size)
    counts = list(merged["samples_consumed_per_split"])
    owner = {
        split: rank for rank in range(found.world_size) for split in owned_splits(rank, found.world_size, len(counts))
    }
    whole = epoch_rows(checkpoint.data, len(counts))
    rows = None if whole is None else whole // len(counts)
    splits = tuple(
        SplitPosition(number=number, rank=None if found.merged else owner.get(number), consumed=consumed, rows=rows)
        for number, consumed in enumerate(counts)
    )
    return DataPosition(path=checkpoint.path, splits=splits, problems=problems)


def total_words(position: DataPosition) -> str:
    """ "48,800 of 80,000 rows (61 %)"."""
    read = sum(split.consumed for split in position.splits)
    rows = [split.rows for split in position.splits]
    if any(one is None for one in rows):
        return f"{count(read)} rows read"
    whole = sum(one for one in rows if one is not None)
    return f"{count(read)} of {count(whole)} rows ({100 * read / whole:.0f} %)"
