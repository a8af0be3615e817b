"""The first screen where there is nothing to list: it says what is there instead, and what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from lavender_tui.tui.app import LavenderApp
from lavender_tui.tui.screens.runs import RunsScreen
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, text_of, until, until_shown


def make(kind: str, place: Path) -> str:
    """Makes such a place; returns what is said of it."""
    if kind == "empty":
        place.mkdir()
        return "is empty"
    if kind == "other things":
        (place / "src [bold]").mkdir(parents=True)
        (place / "train.py").touch()
        return "There is src [bold], train.py, but no file that looks like a checkpoint"
    return "doesn't exist"


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
@pytest.mark.parametrize("kind", ["missing", "empty", "other things"])
async def test_it_says_what_is_there_and_what_to_do(
    play: Play, tmp_path: Path, kind: str, size: tuple[int, int]
) -> None:
    place = tmp_path / "here"
    said = make(kind, place)
    (tmp_path / "elsewhere" / "run-2026-05-01_00-00-00").mkdir(parents=True)
    async with play(place, size=size) as pilot:
        await until(pilot, lambda: said in " ".join(text_of(pilot.app).split()), said)
        lines = lines_of(pilot.app)
        assert any(line.endswith("lavender-tui PATH") for line in lines)
        assert "runs lie here" in text_of(pilot.app) and "elsewhere" in text_of(pilot.app)
        assert lines[-1].strip() == "^p commands  ? help  q quit" and max(map(len, lines)) <= size[0]
        runs.save(place / "run-2026-05-02_00-00-00", 1)
        await until_shown(pilot, "○ idle")
        assert "runs lie here" not in text_of(pilot.app) and "run-2026-05-02_00-00-00" in text_of(pilot.app)


async def test_it_changes_with_what_is_there(play: Play, tmp_path: Path) -> None:
    async with play(tmp_path / "here") as pilot:
        await until_shown(pilot, "doesn't exist")
        (tmp_path / "here").mkdir()
        await until_shown(pilot, "is empty")


async def test_while_nothing_is_known_it_says_that_it_looks(tmp_path: Path) -> None:
    """The feed is held up as by a file system that doesn't answer."""
    app = LavenderApp([str(tmp_path)])
    app.feed.start = lambda: None  # type: ignore[method-assign]
    async with app.run_test(size=SMALL) as pilot:
        await until_shown(pilot, "Looking for runs …")
        lines = lines_of(app)
        assert lines[-1].strip() == "^p commands  ? help  q quit" and "RUN" not in "".join(lines[:6])
        await press(pilot, "r", "x", "enter", "slash")
        assert isinstance(app.screen, RunsScreen)


async def test_parts_of_another_programs_checkpoint_are_called_so_once(play: Play, tmp_path: Path) -> None:
    import torch

    directory = tmp_path / "out" / "checkpoint-500"
    directory.mkdir(parents=True)
    torch.save({"state": {}, "param_groups": []}, directory / "optimizer.pt")
    async with play(tmp_path / "out", size=SMALL) as pilot:
        await until_shown(pilot, "the program that saved it can go on with it")
        assert " ".join(text_of(pilot.app).split()).count("part of a Hugging Face Trainer") == 1
