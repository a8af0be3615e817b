"""What is stored of the ranks' positions: the owners' word, whatever the others guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lancedb
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lancedb.streaming import StreamingDataset

from lavender_tui.errors import BadState
from lavender_tui.model.rank_state import SaveFacts
from lavender_tui.training import CheckpointManager, beginning
from lavender_tui.training.data_state import RankReport, collect, correct_by_owners, found_in, merged

COUNT = st.integers(0, 1000)


def state(samples: list[int], **changes: Any) -> dict[str, Any]:
    return {
        "shuffle_seed": 0,
        "num_splits": len(samples),
        "epoch": 0,
        "samples_consumed_per_split": samples,
        "positions_consumed_per_split": list(samples),
        **changes,
    }


@st.composite
def ranks(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Any number of ranks, each saying anything about any split."""
    world_size, each = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    splits = world_size * each
    counts = st.lists(COUNT, min_size=splits, max_size=splits)
    return [state(draw(counts)) for _ in range(world_size)]


@given(ranks())
def test_the_owners_word_is_stored_in_every_state(states: list[dict[str, Any]]) -> None:
    each = states[0]["num_splits"] // len(states)
    truth = [states[split // each]["samples_consumed_per_split"][split] for split in range(states[0]["num_splits"])]
    stored = correct_by_owners(states)
    assert [one["samples_consumed_per_split"] for one in stored] == [truth] * len(states)
    assert StreamingDataset.merge_state_dicts(stored) == stored[0]
    assert StreamingDataset.merge_state_dicts(stored[::-1]) == stored[0]  # order, loss and doubling do no harm
    assert StreamingDataset.merge_state_dicts(stored[-1:] * 2) == stored[0]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (state([1, 1], shuffle_seed=9), "shuffle_seed"),
        (state([1, 1], epoch=9), "epoch"),
        (state([1, 1, 1, 1]), "num_splits"),
        (state([1, 1], num_splits=4), "entries"),
    ],
)
def test_ranks_that_do_not_read_together(other: dict[str, Any], message: str) -> None:
    with pytest.raises(BadState, match=message):
        correct_by_owners([state([1, 1]), other])
    reports = [RankReport(rng={}, state=one) for one in (state([1, 1]), other)]
    found = collect(reports)
    assert found.states == [state([1, 1]), other]  # kept as they are, and said
    assert message in found.warnings[0]


def test_a_rank_without_a_dataset() -> None:
    found = collect([RankReport(rng={}, state=state([1, 1])), RankReport(rng={})])
    assert (found.states, found.warnings) == (
        None,
        ["saved without the position in the data: no dataset is set on ranks [1]"],
    )


@given(ranks())
def test_merged_is_the_owners_word_or_refused(states: list[dict[str, Any]]) -> None:
    """States of another writer, uncorrected: what a merge by maxima would get wrong is never let through."""
    try:
        result = merged(found_in(states, "p.pt"), SaveFacts(world_size=len(states)), where="p.pt")
    except BadState as error:
        assert "p.pt" in str(error)
        return
    assert result["samples_consumed_per_split"] == correct_by_owners(states)[0]["samples_consumed_per_split"]


def test_a_thousand_ranks_take_the_room_of_one(tmp_path: Any) -> None:
    sizes = []
    for world_size in (1, 1024):
        torch.save(correct_by_owners([state([7000 + i for i in range(1024)])] * world_size), tmp_path / "states.pt")
        sizes.append((tmp_path / "states.pt").stat().st_size)
    assert sizes[1] < 20 * sizes[0]


# Packed


PACKING: dict[str, Any] = {
    "columns": ["tokens"], "pack_sequences": 16, "eos_id": 1, "pad_id": 0, "blocks_per_epoch": 64,
}  # fmt: skip


@pytest.fixture
def documents(tmp_path: Any) -> Any:
    rows = [[10 + i % 50] * (3 + i % 11) for i in range(120)]
    column = pa.array(rows, pa.list_(pa.int64()))
    return lancedb.connect(str(tmp_path / "packed")).create_table("documents", pa.table({"tokens": column}))


def blocks(dataset: StreamingDataset, count: int | None = None) -> list[list[int]]:
    read = []
    for block in dataset:
        read.append(block["input_ids"].tolist())
        if len(read) == count:
            break
    return read


def test_packed_reading_goes_on_from_the_stored_states(
    documents: Any, root: str, manage: Callable[..., CheckpointManager]
) -> None:
    def datasets(world_size: int) -> list[StreamingDataset]:
        return [
            StreamingDataset(documents, num_splits=4, rank=rank, world_size=world_size, **PACKING)
            for rank in range(world_size)
        ]

    whole = blocks(datasets(1)[0])
    two = datasets(2)
    first = [blocks(dataset, 6) for dataset in two]
    reports = [RankReport(rng={}, state=dataset.state_dict()) for dataset in two]
    found = collect(reports)
    assert found.consumed == 12
    stored = found.states or []
    assert stored[0] == stored[1] == StreamingDataset.merge_state_dicts([report.state for report in reports])
    state = merged(found_in(stored, "p.pt"), SaveFacts(world_size=2), where="p.pt")
    four = datasets(4)
    rest: list[list[int]] = []
    for dataset in four:
        dataset.load_state_dict(state)
        rest += blocks(dataset)
    assert sorted(first[0] + first[1] + rest) == sorted(whole)


def test_packed_reading_through_the_ten_lines(documents: Any, root: str, model: torch.nn.Module, tmp_path: Any) -> None:
    uri, packing = str(tmp_path / "packed"), {**PACKING, "num_splits": 4}

    def train(resume: str | None, stop: int | None) -> tuple[str, list[list[int]]]:
        begin = beginning(resume)
        table = begin.open_table(uri, "documents")
        manager = CheckpointManager(root, model=model, begin=begin)
        loader = manager.loader(begin.streaming_dataset(table, 1, **packing), batch_size=8)
        read: list[list[int]] = []
        for step, batch in enumerate(loader, start=begin.global_step + 1):
            read += batch["input_ids"].tolist()
            manager.log(step=step)
            if step == stop:
                break
        path = manager.save("pretrain", epoch=1, epochs=1)
        manager.close()
        return path, read

    _, whole = train(None, None)
    path, first = train(None, 3)
    content = torch.load(path, weights_only=True)
    assert content["data"]["blocks_per_epoch"] == 64
    assert content["progress"] == {"start_samples": 0, "start_step": 0}
    assert "data_warnings" not in content
    assert first + train(path, None)[1] == whole
