"""What a loader can do to a position: each trap as the library alone has it, and what we make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from lancedb.streaming import StreamingDataLoader, StreamingDataset
from torch.utils.data import DataLoader

from lavender_tui.errors import BadState, UsageError
from lavender_tui.training import CheckpointManager, beginning, resume_from_checkpoint
from lavender_tui.training import starting_point as start_of

Manage = Callable[..., CheckpointManager]


def streaming(table: Any, **options: Any) -> Any:
    return StreamingDataset(table, **{"num_splits": 8, "io_queue_depth": 1, "transform_parallelism": 1, **options})


def consumed(state: dict[str, Any]) -> int:
    return sum(state["samples_consumed_per_split"])


def saved_by(manager: CheckpointManager) -> dict[str, Any]:
    return resume_from_checkpoint(manager.run_dir)[2]


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_a_plain_loader_without_workers_is_exact_after_every_batch(table: Any, batch_size: int) -> None:
    dataset = streaming(table)
    for step, _ in zip(range(4), DataLoader(dataset, batch_size=batch_size), strict=False):
        assert consumed(dataset.state_dict()) == (step + 1) * batch_size


@pytest.mark.long
def test_a_plain_loader_with_workers_has_no_position_to_save(manage: Manage, table: Any) -> None:
    dataset = streaming(table)
    loader = DataLoader(dataset, batch_size=16, num_workers=1, multiprocessing_context="forkserver")
    iterator = iter(loader)
    assert consumed(dataset.state_dict()) == 0  # the race: true now, and false from the first batch on
    next(iterator)
    with pytest.raises(RuntimeError, match="standard DataLoader"):
        dataset.state_dict()
    manager = manage()
    manager.set_dataset(dataset, batch_size=16)
    manager.save("pretrain", epoch=1, epochs=2)
    saved = saved_by(manager)
    assert "dataset" not in saved and "standard DataLoader" in saved["data_warnings"][0]
    assert start_of(saved).policy == "replay-epoch"  # never from a position that isn't one
    del iterator


def test_a_batch_that_failed_leaves_no_position_to_save(manage: Manage, table: Any) -> None:
    def collate(rows: list[dict[str, Any]]) -> list[int]:
        if any(row["x"] == 17 for row in rows):
            raise ValueError("boom")
        return [row["x"] for row in rows]

    dataset = streaming(table)
    with pytest.raises(ValueError, match="boom"):
        list(StreamingDataLoader(dataset, batch_size=16, collate_fn=collate))
    with pytest.raises(RuntimeError, match="failed before it was returned"):
        dataset.state_dict()
    manager = manage()
    manager.set_dataset(dataset, batch_size=16)
    manager.save("pretrain", epoch=1, epochs=2)
    assert "dataset" not in saved_by(manager) and "boom" in saved_by(manager)["data_warnings"][0]


class LookAhead:
    """As device prefetchers do: the next batch is fetched before this one is given out."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __iter__(self) -> Any:
        iterator = iter(self.loader)
        ready = next(iterator)
        for following in iterator:
            yield ready
            ready = following
        yield ready


def test_a_loader_that_looks_ahead_is_noticed_at_the_save_and_refused_at_the_resume(manage: Manage, table: Any) -> None:
    dataset = streaming(table)
    manager = manage()
    step = 0
    for step, _ in enumerate(LookAhead(manager.loader(dataset, batch_size=16)), 1):
        manager.log(step=step)
        if step == 3:
            break
    assert consumed(dataset.state_dict()) == (step + 1) * 16  # the library alone: a batch is lost
    manager.save("pretrain", epoch=1, epochs=2)
    saved = saved_by(manager)
    assert "+16 rows" in saved["data_warnings"][0] and "prefetcher" in saved["data_warnings"][0]
    with pytest.raises(BadState, match=r"64.*48|48.*64"):
        start_of(saved)


@pytest.mark.parametrize("context", ["fork", torch.multiprocessing.get_context("fork")])
def test_workers_by_fork_are_refused(manage: Manage, table: Any, context: Any) -> None:
    with pytest.raises(UsageError, match="fork"):
        manage().loader(streaming(table), batch_size=16, num_workers=1, multiprocessing_context=context)


def test_two_workers_from_inside_a_cycle_are_refused_before_they_start(manage: Manage, table: Any) -> None:
    dataset = streaming(table)
    counts = [25, 24] * 4
    state = {**dataset.state_dict(), "samples_consumed_per_split": counts, "positions_consumed_per_split": counts}
    dataset.load_state_dict(state)
    with pytest.raises(UsageError, match="inside a cycle"):
        manage().loader(dataset, batch_size=16, num_workers=2)
    assert len(next(iter(manage().loader(dataset, batch_size=16)))["x"]) == 4  # what completes the cycle


def test_without_a_seed_every_rank_would_shuffle_for_itself(uri: str) -> None:
    table = beginning().open_table(uri, "corpus")
    bare = [streaming(table, shuffle_seed=None, rank=rank, world_size=2) for rank in range(2)]
    seeds = {one.state_dict()["shuffle_seed"] for one in bare}
    assert len(seeds) == 2
    seen = [row["x"] for one in bare for row in one]
    assert len(seen) - len(set(seen)) > 10  # rows twice within one epoch
    ours = [beginning().streaming_dataset(table, 1, num_splits=8) for _ in range(2)]
    assert [one.state_dict()["shuffle_seed"] for one in ours] == [0, 0]


def test_seeds_and_epochs_may_give_the_same_order(table: Any) -> None:
    """Known of the library: harmless for a resume, which keeps both numbers."""
    one, other = streaming(table, shuffle_seed=0, epoch=1), streaming(table, shuffle_seed=100_003, epoch=0)
    assert [row["x"] for row in one] == [row["x"] for row in other]


def test_the_launchers_queue_depth_reaches_the_dataset(uri: str) -> None:
    begin = beginning()
    begin.data["io_queue_depth"] = 2
    table = begin.open_table(uri, "corpus")
    assert begin.streaming_dataset(table, 1, num_splits=8)._io_queue_depth == 2
    assert begin.streaming_dataset(table, 1, num_splits=8, io_queue_depth=3)._io_queue_depth == 3


def test_the_record_has_a_fingerprint_of_the_rows(manage: Manage, table: Any) -> None:
    manager = manage()
    manager.set_dataset(streaming(table), table=table)
    manager.save("pretrain", epoch=1, epochs=2)
    assert len(saved_by(manager)["data"]["sample"]) == 16
