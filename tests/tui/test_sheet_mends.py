"""What the sheet offers where the first choice is not the right one: an earlier save, the next stage, a mend."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, stop
from lavender_tui.model import export
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, text_of, until, until_shown
from tests.tui.sheets import FAILED, choose_local, launched_run, open_sheet


def left_of(pilot) -> str:
    """The words of the choices, which stand left of what follows from them where there is width for both."""
    width, lines = pilot.app.size.width, lines_of(pilot.app)
    return " ".join(" ".join(line[: width // 2 if width > 104 else width] for line in lines).split())


def spiked(root: Path, tmp_path: Path) -> Path:
    """A failed run whose loss jumped after its fifth save."""
    run = root / FAILED
    for count in range(1, 9):
        loss = 2.1 if count < 6 else 5.7
        runs.save(run, count, each=140 * count, loss=loss, age_seconds=3600 - 60 * count)
    runs.metrics(run, [2.1 + 0.01 * (step % 5) + (3.6 if step >= 40 else 0.0) for step in range(1, 57)])
    runs.launched(run, runs.script(tmp_path))
    runs.ended(run, code=1)
    return run


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_one_key_goes_back_before_the_jump_of_the_loss(
    play: Play, tmp_path: Path, size: tuple[int, int], nothing_survives: Callable[[], list[int]]
) -> None:
    root = tmp_path / "checkpoints"
    run = spiked(root, tmp_path)
    async with play(root, size=size) as pilot:
        screen = await open_sheet(pilot)
        shown = left_of(pilot)
        assert "! the loss jumped at step 400 (2.12 → 5.7): b goes back before" in shown and "pretrain 0005" in shown
        await press(pilot, "b")
        await until_shown(pilot, "before the jump")
        await until_shown(pilot, "after 5,600 rows")
        assert "b takes the newest again" in left_of(pilot)
        await press(pilot, "b")
        await until_shown(pilot, "newest whole")
        await until_shown(pilot, "after 8,960 rows")
        await press(pilot, "b")
        await until_shown(pilot, "after 5,600 rows")
        await press(pilot, "shift+tab", "shift+tab", "left")
        await until_shown(pilot, "2 before newest")
        assert not screen._sheet.is_before_spike, "the row's own keys choose a checkpoint"
        await until_shown(pilot, "checks passed")
        await press(pilot, "b")
        await until_shown(pilot, "after 5,600 rows")
        await press(pilot, "tab", "tab")
        await choose_local(pilot)
        await press(pilot, "enter")
        new = await launched_run(pilot)
        plan = json.loads(Path(new.path, "resume.json").read_text())
        assert plan["source"]["run"] == str(run) and plan["source"]["save_count"] == 5
        stop(new.path, KILL)
    assert nothing_survives() == []


async def test_a_finished_training_goes_on_where_the_command_asks_for_more_epochs(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 9, epoch=3, epochs=3, complete=True, each=70)
    async with play(root, size=LARGE, command=(*runs.script(tmp_path), "--epochs", "5")) as pilot:
        await until_shown(pilot, "r offers sft")
        await press(pilot, "r")
        await until_shown(pilot, "asks for 5 epochs. next-epoch: epoch 4 from its start")
        assert "can't be launched" not in left_of(pilot)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_a_finished_training_says_so_and_one_key_starts_the_next_stage(
    play: Play, tmp_path: Path, size: tuple[int, int], nothing_survives: Callable[[], list[int]]
) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 9, epoch=3, epochs=3, complete=True, each=70)
    async with play(root, size=size, command=runs.script(tmp_path)) as pilot:
        await until_shown(pilot, "r offers sft")
        await press(pilot, "r")
        await until_shown(pilot, "can't be launched: see stage")
        shown = left_of(pilot)
        assert "nothing is left to train: stage pretrain completed epoch 3 of 3 → m starts the next stage, sft" in shown
        await press(pilot, "m")
        await until_shown(pilot, "[start sft]")
        await until_shown(pilot, "checks passed")
        shown = left_of(pilot)
        assert "only the weights are taken: optimizer, schedule and data position start fresh" in shown
        shown = text_of(pilot.app)
        assert "stage sft, epoch 1, from its first row" in shown and "the weights of pretrain 0009" in shown
        await press(pilot, "tab", "1")
        await until_shown(pilot, "[local]")
        await until_shown(pilot, "checks passed")
        await press(pilot, "enter")
        new = await launched_run(pilot)
        plan = json.loads(Path(new.path, "resume.json").read_text())
        assert plan["start"]["stage"] == "sft" and plan["start"]["epoch"] == 1 and plan["dataset"] is None
        stop(new.path, KILL)
    assert nothing_survives() == []


async def test_the_nearest_world_size_that_works_is_one_key_away(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await open_sheet(pilot)
        assert "m mend" not in text_of(pilot.app)
        await press(pilot, "3")
        await until_shown(pilot, "can't be launched: see world_size   m takes world_size 2")
        await until_shown(pilot, "[3]")
        await press(pilot, "m")
        await until_shown(pilot, "[2]")
        await until_shown(pilot, "checks passed")
        await press(pilot, "m")
        await until_shown(pilot, "[2]")


async def test_states_that_are_refused_lead_to_the_save_before_or_to_the_epoch_again(play: Play, root: Path) -> None:
    run = root / FAILED
    states = runs.rank_states(4, 130, epoch=0)
    runs.save(run, 61, each=None, dataset=states[:3], age_seconds=30)
    async with play(root) as pilot:
        await press(pilot, "r")
        await until_shown(pilot, "m goes back to pretrain 0060")
        await press(pilot, "m")
        await until_shown(pilot, "after 960 rows")
        await until_shown(pilot, "checks passed")


async def test_a_lone_save_with_refused_states_is_mended_by_its_epoch(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 8, each=None, dataset=runs.rank_states(4, 130, epoch=0)[:3])
    async with play(root, command=runs.script(tmp_path)) as pilot:
        await press(pilot, "r")
        await until_shown(pilot, "m reads the epoch again from its start")
        await press(pilot, "m")
        await until_shown(pilot, "[replay epoch]")
        await until_shown(pilot, "checks passed")


async def test_list_and_sheet_say_the_same_of_an_empty_list_of_states(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 8, epoch=2, epochs=4, each=None, dataset=[])
    async with play(root, size=LARGE, command=runs.script(tmp_path)) as pilot:
        await until_shown(pilot, "its rank states can't be merged: its list of rank states is empty")
        assert "an empty list of rank states" in text_of(pilot.app)
        await press(pilot, "r")
        await until_shown(pilot, "can't be launched: see checkpoint   m reads the epoch again from its start")
        assert "an empty list of rank states" in text_of(pilot.app)


async def test_a_chosen_save_that_is_deleted_gives_way_to_the_newest(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        screen = await open_sheet(pilot)
        await press(pilot, "shift+tab", "shift+tab", "right")
        await until_shown(pilot, "1 before newest")
        await until_shown(pilot, "checks passed")
        Path(screen._sheet.checkpoint.path).unlink()
        await until(pilot, lambda: all(one.save_count != 59 for one in screen._sheet.run.checkpoints), "the deletion")
        for _ in range(2):  # the first may only say that it is gone
            await press(pilot, "f5")
            await until(pilot, lambda: re.search("F5 checks again|pretrain 0060", text_of(pilot.app)), "an answer")
        await until_shown(pilot, "pretrain 0060")
        await until_shown(pilot, "checks passed")


async def test_a_resumed_run_shows_its_epoch_before_its_first_save(play: Play, one_run: Path) -> None:
    new = one_run / "run-2026-04-25_10-00-00"
    new.mkdir()
    source = {"run": str(one_run / FAILED), "checkpoint": None, "stage": "sft", "epochs": 4}
    plan = {"source": source, "start": {"epoch": 2, "stage": None}, "world_size": {"next": 2}}
    (new / "resume.json").write_text(json.dumps(plan))
    async with play(one_run) as pilot:
        pilot.app.screen.go_to_run(str(new))
        line = await until(pilot, lambda: [one for one in lines_of(pilot.app) if "04-25_10" in one and "idle" in one])
        line = "".join(line)  # type: ignore[arg-type]
        assert "sft" in line and " 2/4 " in line
        [document] = [one for one in export.run_documents(pilot.app.runs) if one["path"] == str(new)]
        assert (document["stage"], document["epoch"], document["epochs"]) == ("sft", 2, 4)
