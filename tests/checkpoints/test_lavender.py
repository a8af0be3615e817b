"""The trainer's own format, written by torch.save: every field, every odd value, both containers."""

from __future__ import annotations

import enum
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lavender_tui.checkpoints import read_checkpoint
from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from lavender_tui.model.start import starting_epoch

Save = Callable[..., Checkpoint]
NAME = "pretrain-10-00-00-0007.pt"


class Phase(enum.Enum):
    PRE = "pretrain"


@pytest.fixture(params=["zip", "legacy"])
def save(request: pytest.FixtureRequest, tmp_path: Path) -> Save:
    """Saves a small checkpoint with changes (`...` takes a key away) and reads it back."""

    def saved(name: str = NAME, **changes: Any) -> Checkpoint:
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        content = {
            "model_state_dict": net.state_dict(),
            "optimizer_state_dict": optimizer.state_dict(),
            "model_cfg": {"dim": 3},
            "stage": "pretrain",
            "save_count": 7,
            "epoch": 2,
            "epochs": 5,
            "epoch_complete": False,
            "pretrain_loss": 2.5,
            "remaining_hours": 1.5,
        }
        content.update(changes)
        path = tmp_path / name
        kept = {key: value for key, value in content.items() if value is not ...}
        torch.save(kept, path, _use_new_zipfile_serialization=request.param == "zip")
        return read_checkpoint(str(path))

    return saved


def test_all_fields(save: Save, tmp_path: Path) -> None:
    found = save(
        global_step=1200,
        world_size=4,
        batch={"global": 48, "num_workers": 2},
        rng={"torch": torch.get_rng_state()},
        scheduler_state_dict={"last_epoch": 3},
        data={"uri": "/data", "table": "corpus", "version": 7, "columns": ["text"], "filter": None},
        versions={"torch": "2.13.0"},
    )
    assert found.path == str(tmp_path / NAME) and found.facts.size_bytes == os.path.getsize(found.path)
    assert (found.format, found.wholeness) == ("lavender", Wholeness.WHOLE)
    assert (found.stage, found.name_stage, found.save_count, found.name_save_count) == ("pretrain", "pretrain", 7, 7)
    assert (found.epoch, found.epochs, found.epoch_complete, found.step) == (2, 5, False, 1200)
    assert (found.loss, found.loss_text, found.loss_key) == (2.5, None, "pretrain_loss")
    assert (found.lr, found.remaining_hours) == (3e-4, 1.5)
    assert (found.world_size, found.global_batch, found.num_workers) == (4, 48, 2)
    assert (found.has_model, found.has_optimizer, found.has_scheduler, found.has_rng) == (True,) * 4
    assert (found.parameters, found.tensors) == (8, 2 + 2 * 3 + 1)
    assert found.data == {"uri": "/data", "table": "corpus", "version": 7, "columns": ["text"], "filter": None}
    assert found.versions == {"torch": "2.13.0"}
    assert (found.refused_globals, found.warnings) == ((), ())
    assert found.keys["model_state_dict"] == {"weight": "float32 [2, 3]", "bias": "float32 [2]"}
    assert found.keys["stage"] == "pretrain" and found.keys["data"]["table"] == "corpus"


# epoch, epoch_complete, where a resume starts, whether something is said
EPOCHS = [
    (3, True, 4, False),
    (3, False, 3, False),
    (0, False, 1, False),
    (0, True, 1, False),
    (-1, False, 1, True),
    (torch.tensor(2), torch.tensor(True), 3, False),
    (torch.tensor([2]), torch.tensor([1]), 3, False),
    (np.int64(2), np.bool_(True), 3, True),
    (2.0, 1, 3, False),
    (4, None, 4, False),
    (4, ..., 4, False),
    (None, False, None, True),
    ("3", True, None, True),
    (2.75, True, None, True),
    (math.nan, False, None, True),
    (True, False, None, True),
    (7, False, 7, True),
    ([3], False, None, True),
    (4, "yes", 4, True),
]


@pytest.mark.parametrize(("epoch", "complete", "start", "is_said"), EPOCHS)
def test_epochs_are_real_whole_numbers(save: Save, epoch: Any, complete: Any, start: int | None, is_said: bool) -> None:
    found = save(epoch=epoch, epoch_complete=complete)
    assert starting_epoch(found.epoch, found.epoch_complete) == start
    assert bool(found.warnings) == is_said
    if found.epoch is None:
        assert any("epoch is" in warning and "whole number" in warning for warning in found.warnings)


LOSSES = [
    (2.5, 2.5, None),
    (3, 3.0, None),
    (torch.tensor(1.75), 1.75, None),
    (torch.tensor(1.75, dtype=torch.bfloat16), 1.75, None),
    (torch.tensor([1.75], dtype=torch.float64), 1.75, None),
    (torch.tensor(1.75, requires_grad=True) * 1, 1.75, None),
    (np.float64(1.25), 1.25, None),
    (np.float32(1.25), 1.25, None),
    (np.array(1.25), 1.25, None),
    (np.array([1.25], dtype=">f4"), 1.25, None),
    (math.nan, None, "nan"),
    (math.inf, None, "inf"),
    (-math.inf, None, "-inf"),
    (torch.tensor(math.nan), None, "nan"),
    ("1.6", None, "1.6"),
    (None, None, "none"),
    (torch.tensor([1.0, 2.0]), None, "float32 [2]"),
    ({"train": 1.0}, None, "dict of 1"),
]


@pytest.mark.parametrize(("value", "loss", "loss_text"), LOSSES)
def test_losses(save: Save, value: Any, loss: float | None, loss_text: str | None) -> None:
    found = save(pretrain_loss=value)
    assert (found.loss, found.loss_text, found.loss_key) == (loss, loss_text, "pretrain_loss")


def test_which_loss_is_shown(save: Save) -> None:
    assert save(ce_loss=9.0).loss_key == "pretrain_loss"
    assert save(pretrain_loss=..., ce_loss=9.0, kl_loss=1.0).loss_key == "ce_loss"
    assert save(pretrain_loss=..., kl_loss=1.0).loss_key == "kl_loss"
    assert save(stage="sft", pretrain_loss=1.0, sft_loss=2.0).loss_key == "sft_loss"
    none = save(pretrain_loss=...)
    assert (none.loss, none.loss_text, none.loss_key) == (None, None, None)


@pytest.mark.parametrize(
    ("stage", "shown", "is_said"),
    [
        ("sft", "sft", False),
        ("prétrain-阶段", "prétrain-阶段", True),
        (..., None, True),
        (None, None, False),
        ("", None, True),
        ("  ", None, True),
        (3, "3", True),
        (Phase.PRE, "Phase('pretrain')", True),
        ("A" * 1_000_000, "A" * 59 + "…", True),
    ],
)
def test_stages(save: Save, stage: Any, shown: str | None, is_said: bool) -> None:
    found = save(stage=stage)
    assert found.stage == shown
    assert bool(found.warnings) == is_said


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("pretrain", ()),
        ("final", ()),
        ("rlhf", ("stage 'rlhf' is none of pretrain, sft, dpo, final",)),
        ("SFT", ("stage 'SFT' is not 'sft': the spelling differs",)),
        ("Pre-Train ", ("stage 'Pre-Train ' is not 'pretrain': the spelling differs",)),
        ("dpo\x1b[2J", ("stage 'dpo\\x1b[2J' is none of pretrain, sft, dpo, final",)),
    ],
)
def test_a_stage_that_is_not_known_is_said_and_the_checkpoint_stays_usable(
    save: Save, stage: str, said: tuple[str, ...]
) -> None:
    found = save("checkpoint_7.pt", stage=stage)
    assert (found.stage, found.is_usable, found.warnings) == (stage, True, said)


def test_name_and_content_that_disagree_are_both_there(save: Save) -> None:
    found = save("sft-11-00-00-0009.pt")
    assert (found.stage, found.name_stage, found.name_disagrees) == ("pretrain", "sft", True)
    assert (found.save_count, found.name_save_count) == (7, 9)
    assert any("save 9" in warning and "7" in warning for warning in found.warnings)


def test_weights_alone(save: Save) -> None:
    found = save(optimizer_state_dict=..., epoch_complete=...)
    assert (found.has_model, found.has_optimizer, found.lr, found.epoch_complete) == (True, False, None, None)
    assert not save(model_state_dict={}).is_usable
    assert not save(model_state_dict=...).is_usable
    assert not save(optimizer_state_dict={}).has_optimizer


def test_tied_weights_count_under_each_name(save: Save) -> None:
    weight = torch.zeros(10, 2)
    found = save(
        model_state_dict={"in": weight, "out": weight, "slice": torch.zeros(100, 2)[:3]}, optimizer_state_dict=...
    )
    assert (found.parameters, found.tensors) == (46, 2)


def test_large_numbers_and_deep_trees_stay_bounded(save: Save) -> None:
    deep: Any = {}
    for level in range(200):
        deep = {f"level{level}": deep}
    found = save(n=10**4500, cfg=deep, many={f"k{index}": index for index in range(5000)}, text="x" * 5000)
    assert "bits" in found.keys["n"]
    assert len(found.keys["many"]) <= 101 and found.keys["many"]["…"] == "4,900 more"
    assert len(found.keys["text"]) <= 200

    def depth(tree: Any) -> int:
        return 1 + max(map(depth, tree.values()), default=0) if isinstance(tree, dict) else 0

    assert depth(found.keys) <= 7
