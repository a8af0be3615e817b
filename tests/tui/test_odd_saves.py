"""Saves that look whole and hold something odd: what the page, the sheet and the export say of them before a launch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from lavender_tui import cli
from tests.resume.saves import save
from tests.training.harm import aged
from tests.tui.conftest import Play, press, text_of, until, until_shown

RUN = "run-2026-04-24_18-53-41"
TALL = (100, 120)  # one column, every check on the screen
ANSWERS = ("checks passed", "can't be launched")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def saved(root: Path) -> Callable[..., str]:
    """Write one more save of the run."""

    def write(count: int, **content: Any) -> str:
        return save(str(root / RUN), count, **content)

    return write


@pytest.fixture
def sheets(play: Play, root: Path) -> Callable[..., Any]:
    """What the resume sheet says of each of the saves with these counts, as one line; `then` is pressed in it."""

    async def look(*counts: int, then: str = "", shows: str = "", command: tuple[str, ...] = ("true",)) -> list[str]:
        said = []
        async with play(root, size=TALL, command=command) as pilot:
            await press(pilot, "enter")
            await until(pilot, lambda: set(counts) <= set(rows_of(pilot.app)), "the saves")
            rows = rows_of(pilot.app)
            for count in counts:
                await press(pilot, "g", *["j"] * rows.index(count), "r")
                await until(pilot, lambda: any(one in text_of(pilot.app) for one in ANSWERS), "the answer")
                await press(pilot, *filter(None, [then]))
                await until(pilot, lambda: shows in one_line(pilot.app), shows)
                said.append(one_line(pilot.app))
                await press(pilot, "escape")
        return said

    return look


def rows_of(app: Any) -> list[int]:
    """The counts of the saves that the page lists, from the first row on."""
    return [int(found) for found in re.findall(r"^▌?\s+(\d{4})  ", text_of(app), re.M)]


def one_line(app: Any) -> str:
    return " ".join(text_of(app).split())


def exported(root: Path) -> tuple[str, dict[int, dict[str, Any]]]:
    """The export as text, and its checkpoints by save_count."""
    done = CliRunner().invoke(cli.cli, ["export", str(root)])
    assert done.exit_code == 0
    [run] = json.loads(done.stdout)["runs"]
    return done.stdout, {one["save_count"]: one for one in run["checkpoints"]}


@pytest.fixture
def weights() -> Iterator[dict[str, Any]]:
    yield {"weight": torch.ones(2, 4), "bias": torch.zeros(2)}


# ---- losses


ODD_LOSSES = {1: 1.9, 2: float("nan"), 3: float("-inf"), 4: torch.tensor(1.5), 5: torch.tensor([1.0, 2.0]), 6: "1.2"}


async def test_a_loss_that_is_none_is_shown_as_what_it_is_and_is_never_the_least(
    play: Play, root: Path, saved: Callable[..., str]
) -> None:
    for count, loss in ODD_LOSSES.items():
        saved(count, pretrain_loss=loss)
    told, found = exported(root)
    assert "NaN" not in told and "Infinity" not in told
    losses = {count: (one["loss"], one["loss_text"]) for count, one in found.items()}
    assert losses[2] == (None, "nan") and losses[3] == (None, "-inf") and losses[4] == (1.5, None)
    assert losses[5][0] is None and losses[6] == (None, "1.2")
    async with play(root, size=(120, 60)) as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "least 1.5000")
        shown = text_of(pilot.app)
        assert "2 of them no finite number" in shown and "nan" in shown and "-inf" in shown


async def test_weights_that_are_no_numbers_are_named_with_their_tensor(
    saved: Callable[..., str], weights: dict[str, Any], sheets: Callable[..., Any]
) -> None:
    saved(1)
    weights["weight"][1, 2] = float("nan")
    aged(saved(2, model_state_dict=weights))
    [said] = await sheets(2, then="v", shows="weight (1 NaN of 8)")
    assert "can't be launched" in said and "go back to pretrain-10-00-00-0001.pt" in said


# ---- what is missing


MISSING = (
    ({}, "restores: model, optimizer. Does not restore: schedule, random state"),
    ({"drop": ("optimizer_state_dict",)}, "no optimizer state: the training would go on without its moments"),
    ({"drop": ("optimizer_state_dict",)}, "weights alone are for the start of a new stage"),
    ({"optimizer_state_dict": {"state": {}, "param_groups": []}}, "its optimizer's state is empty"),
    ({"drop": ("model_state_dict",)}, "holds no model weights"),
    ({"drop": ("epoch",)}, "it lacks epoch"),
    ({"drop": ("stage", "save_count")}, "it lacks stage, save_count"),
    ({"drop": ("model_cfg",)}, "it lacks model_cfg"),
)


async def test_each_missing_part_is_named_before_a_launch(
    saved: Callable[..., str], sheets: Callable[..., Any]
) -> None:
    for count, (content, _) in enumerate(MISSING, 1):
        saved(count, **content)
    found = await sheets(*range(1, len(MISSING) + 1))
    for told, (_, said) in zip(found, MISSING, strict=True):
        assert said in told
    assert "it lacks" not in found[0] and "is empty" not in found[0] and "moments" not in found[0]
    assert "a shuffle by the global generator another order" in found[0] and "starts anew from 0.001" in found[0]


# ---- names and groups


WRAPPERS = {
    "module.": "DistributedDataParallel or DataParallel",
    "_orig_mod.": "torch.compile",
    "_orig_mod.module.": "torch.compile around DistributedDataParallel or DataParallel",
}


async def test_a_wrapper_in_the_names_is_named_and_a_weight_under_two_of_them_flagged(
    saved: Callable[..., str], weights: dict[str, Any], sheets: Callable[..., Any]
) -> None:
    for count, prefix in enumerate(WRAPPERS, 1):
        saved(count, model_state_dict={f"{prefix}{name}": tensor for name, tensor in weights.items()})
    saved(4, model_state_dict={**weights, "module.bias": torch.ones(2)})
    *wrapped, twice = await sheets(1, 2, 3, 4)
    for said, (prefix, who) in zip(wrapped, WRAPPERS.items(), strict=True):
        assert f"carry {prefix} (saved from inside {who})" in said and f"{prefix} before 2 of 2 names" in said
    assert "the same weight stands twice: bias and module.bias" in twice


async def test_an_optimizer_of_fewer_parameters_and_one_with_more_groups_are_flagged(
    saved: Callable[..., str], sheets: Callable[..., Any]
) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Linear(2, 3))
    net(torch.ones(1, 4)).sum().backward()
    first, second = list(net[0].parameters()), list(net[1].parameters())
    for count, groups in ((1, [first]), (2, [first, second])):
        optimizer = torch.optim.AdamW([{"params": group} for group in groups])
        optimizer.step()
        saved(count, model_state_dict=net.state_dict(), optimizer_state_dict=optimizer.state_dict())
    fewer, more = await sheets(1, 2)
    assert "the optimizer covers 2 of the model's 4 parameters" in fewer
    assert "2 groups (2 + 2), in the save before it had 1 group (2)" in more


# ---- the schedule


async def test_a_schedule_that_counts_epochs_is_flagged_and_so_are_other_epochs(
    saved: Callable[..., str], sheets: Callable[..., Any], tmp_path: Path
) -> None:
    schedule = {"T_max": 1000, "last_epoch": 2, "base_lrs": [0.001], "_last_lr": [0.0009]}
    saved(1, epoch=2, epochs=3, scheduler_state_dict=schedule)
    saved(2, epoch=2, epochs=12, scheduler_state_dict={**schedule, "last_epoch": 300})
    script = tmp_path / "train.py"
    script.write_text("")
    counted_wrongly, well = await sheets(1, 2, command=("python3", str(script), "--epochs", "12"))
    assert "the schedule stands at 2 of 1,000 (T_max), which is the epoch" in counted_wrongly
    assert "the command asks for 12 epochs, the checkpoint is of a training over 3" in counted_wrongly
    assert "the schedule stands at 300 of 1,000 (T_max)" in well and "which is the epoch" not in well
    assert "the command asks for" not in well
