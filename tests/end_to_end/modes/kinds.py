"""The ways of reading that a resume must go on with: whole rows, a filter, rows that are skipped, packed sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

TABLE, SPLITS, SEED = "rows", 8, 5
CHEAP = {"transform_parallelism": 1, "io_queue_depth": 1}


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """`reading`: options of the dataset that decide which rows come in which order; `name` says which row it is."""

    title: str
    reading: Mapping[str, Any] = field(default_factory=dict)
    name: Callable[[Any], str] = lambda row: str(row["id"])
    ends_with_its_ranks: bool = False  # at which row a rank ends depends on which splits it owns

    def __str__(self) -> str:
        return self.title


def is_bad(row: int) -> bool:
    return row % 11 == 3


def refuse_bad_rows(batch: Any) -> list[dict[str, Any]]:
    """A transform that fails on whatever holds a bad row; workers import it by its name."""
    ids = batch.column("id").to_pylist()
    if any(map(is_bad, ids)):
        raise ValueError("a bad row")
    return [{"id": one} for one in ids]


def block_name(block: Any) -> str:
    return ",".join(map(str, block["input_ids"].tolist()))


ROWS = Kind(title="rows")
FILTERED = Kind(title="filter", reading={"filter": "id % 5 != 2"})
SKIPPING = Kind(
    title="skip",
    reading={"transform": refuse_bad_rows, "on_transform_error": "skip", "read_batch_size": 4},
    ends_with_its_ranks=True,
)
PACKED = Kind(
    title="packed",
    reading={
        "columns": ["tokens"], "pack_sequences": 8, "eos_id": 1, "pad_id": 0, "blocks_per_epoch": "auto",
    },
    name=block_name,
)  # fmt: skip
KINDS = (ROWS, FILTERED, SKIPPING, PACKED)


def make_table(uri: str, rows: int) -> Any:
    """Rows of one to seven tokens; no token is in two rows, so that a packed block says which rows it is of."""
    import lancedb
    import pyarrow

    tokens = [[10 + 8 * row + place for place in range(row % 7 + 1)] for row in range(rows)]
    return lancedb.connect(uri).create_table(TABLE, pyarrow.table({"id": list(range(rows)), "tokens": tokens}))


def uninterrupted(
    uri: str, kind: Kind, step_rows: int, world_size: int = 1, *, splits: int = SPLITS
) -> list[list[str]]:
    """What each global step reads where nothing interrupts it, from the table alone."""
    import lancedb
    from lancedb.streaming import StreamingDataset

    share = step_rows // world_size
    ranks = []
    for rank in range(world_size):
        table = lancedb.connect(uri).open_table(TABLE)
        options = {"num_splits": splits, "shuffle_seed": SEED, "epoch": 0, **CHEAP, **kind.reading}
        dataset = StreamingDataset(table, rank=rank, world_size=world_size, **options)
        ranks.append([kind.name(row) for row in dataset])
    steps = max(-(-len(names) // share) for names in ranks)
    return [[one for names in ranks for one in names[k * share : (k + 1) * share]] for k in range(steps)]
