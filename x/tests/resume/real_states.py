"""Rank states as lancedb really writes them, and what is really read on from a state: the ground the laws stand on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

ROWS, SPLITS, RANKS = 1000, 8, 4
State = dict[str, Any]


def make_table(uri: str, rows: int = ROWS) -> Any:
    import lancedb
    import pyarrow

    columns = {"id": list(range(rows)), "tokens": [list(range(i % 7 + 1)) for i in range(rows)]}
    return lancedb.connect(uri).create_table("rows", pyarrow.table(columns))


def dataset(table: Any, rank: int, ranks: int, *, state: State | None = None, **options: Any) -> Any:
    from lancedb.streaming import StreamingDataset

    options = {"num_splits": SPLITS, "transform_parallelism": 1, "io_queue_depth": 1, **options}
    made = StreamingDataset(table, rank=rank, world_size=ranks, **options)
    if state is not None:
        made.load_state_dict(state)
    return made


def train(
    table: Any, ranks: int = RANKS, *, rows: int | Sequence[int] | None = None, **options: Any
) -> tuple[list[State], list[int]]:
    """(one state a rank, the ids that all of them read) after each rank read `rows` rows; None: to the end."""
    states: list[State] = []
    ids: list[int] = []
    for rank in range(ranks):
        made = dataset(table, rank, ranks, **options)
        wanted = rows[rank] if isinstance(rows, Sequence) else rows
        ids += _read(made, wanted)
        states.append(made.state_dict())
    return states, ids


def train_by_loader(
    table: Any, batches: int, ranks: int = RANKS, *, batch_size: int = 8, num_workers: int = 0, **options: Any
) -> tuple[list[State], list[int]]:
    """The same through StreamingDataLoader: what it says of splits that a rank doesn't own is another thing."""
    from lancedb.streaming import StreamingDataLoader

    states: list[State] = []
    ids: list[int] = []
    for rank in range(ranks):
        made = dataset(table, rank, ranks, **options)
        context = "forkserver" if num_workers else None
        loader = StreamingDataLoader(
            made, batch_size=batch_size, num_workers=num_workers, collate_fn=ids_of, multiprocessing_context=context
        )
        iterator = iter(loader)
        for _ in range(batches):
            ids += next(iterator)
        states.append(made.state_dict())
        shut_down = getattr(iterator, "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()
        del iterator
    return states, ids


def ids_of(samples: list[State]) -> list[int]:
    return [sample["id"] for sample in samples]


def _read(made: Any, wanted: int | None) -> list[int]:
    iterator = iter(made)
    ids: list[int] = []
    try:
        for row in iterator:
            ids.append(row["id"] if "id" in row else tuple(row["input_ids"].tolist()))
            if wanted is not None and len(ids) >= wanted:
                break
    finally:
        iterator.close()
    return ids


def read_on(table: Any, merged: State, ranks: int, **options: Any) -> list[int]:
    """What `ranks` ranks read to the end of the epoch from the merged state."""
    return train(table, ranks, rows=None, state=merged, **options)[1]


def repeated_and_lost(
    before: Iterable[int], after: Iterable[int], rows: Iterable[int] = range(ROWS)
) -> tuple[int, int]:
    seen = Counter(before)
    seen.update(after)
    return sum(count - 1 for count in seen.values()), len(set(rows) - set(seen))


def skip_bad(bad: set[int]) -> Callable[[Any], list[State]]:
    """A transform that fails on the batch which holds a bad row."""

    def transform(batch: Any) -> list[State]:
        ids = batch.column("id").to_pylist()
        if bad.intersection(ids):
            raise ValueError("a bad row")
        return [{"id": one} for one in ids]

    return transform
