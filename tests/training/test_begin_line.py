"""The line about the beginning: before anything can be wrong with it, and once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lancedb.streaming import StreamingDataset

from lavender_tui.training import CheckpointManager, beginning
from lavender_tui.training.begin_line import MOST_SPLITS, position
from lavender_tui.training.ranks import Ranks

Manage = Callable[..., CheckpointManager]


def began(manager: CheckpointManager) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in Path(manager.run_dir, "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line.get("event") == "begin"]


def train(
    manager: CheckpointManager, table: Any, model: torch.nn.Module, *, epoch: int, steps: int, **resumed: Any
) -> None:
    """`steps` steps of 8 rows of one epoch, from where `resumed` says."""
    begin = resumed.get("begin")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    manager.set_optimizer(optimizer)
    dataset = begin.streaming_dataset(table, epoch) if begin else StreamingDataset(table, num_splits=4)
    batches = iter(manager.loader(dataset, batch_size=8))
    for _ in range(steps):
        next(batches)
        manager.log(step=manager.global_step + 1, loss=1.0)
        manager.maybe_save("pretrain", epoch=epoch, epochs=3)


def test_a_fresh_start_tells_of_itself_too(manage: Manage, table: Any, model: torch.nn.Module) -> None:
    manager = manage()
    train(manager, table, model, epoch=1, steps=3)
    (line,) = began(manager)
    assert line.pop("time") > 0
    assert line == {
        "event": "begin",
        "at_step": 0,
        "epoch": 1,
        "lr": 1e-3,
        "world_size": 1,
        "positions": [{"dataset_epoch": 0, "first_split": 0, "taken": [0, 0, 0, 0]}],
        "checkpoint": None,
        "requests": True,
        "logged": 1,
    }


def test_a_resumed_one_names_step_checkpoint_and_position(manage: Manage, table: Any, model: torch.nn.Module) -> None:
    first = manage()
    train(first, table, model, epoch=1, steps=3)
    path = first.save("pretrain", epoch=1, epochs=3)
    begin = beginning(path)
    again = manage(begin=begin)
    train(again, table, model, epoch=1, steps=2, begin=begin)
    (line,) = began(again)
    assert (line["at_step"], line["checkpoint"]) == (3, path)
    assert line["positions"] == [{"dataset_epoch": 0, "first_split": 0, "taken": [6, 6, 6, 6]}]


def test_the_first_epoch_is_told_at_its_end_where_nothing_came_before(manage: Manage, table: Any) -> None:
    manager = manage()
    manager.save("sft", epoch=2, epochs=3, epoch_complete=True)
    manager.save("sft", epoch=3, epochs=3, epoch_complete=True)
    (line,) = began(manager)
    assert (line["epoch"], line["lr"], line["positions"], line["logged"]) == (2, None, [None], 0)


@pytest.mark.parametrize("dataset", [None, object()])
def test_what_has_no_position_tells_none(dataset: Any) -> None:
    assert position(dataset, Ranks()) is None


def test_very_many_splits_make_no_endless_line() -> None:
    class Wide:
        def state_dict(self) -> dict[str, Any]:
            return {"num_splits": MOST_SPLITS + 1, "epoch": 0, "samples_consumed_per_split": [0] * (MOST_SPLITS + 1)}

    assert position(Wide(), Ranks()) is None
