"""The page of the disk, on real files that really go."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.screen import Screen

from lavender_tui.resume import pruning
from lavender_tui.tui.screens.ask import Ask
from lavender_tui.tui.screens.disk import DiskScreen
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, text_of, until, until_shown

OLD = "run-2026-04-24_18-53-41"


@pytest.fixture
def full(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoints"
    for count in range(1, 6):
        runs.save(root / OLD, count, loss=5.0 - count / 10)
    runs.launched(root / OLD, ["python", "train.py"])
    runs.save(root / "run-2026-04-25_18-53-41 [red]", 1)
    return root


def counts(root: Path) -> list[int]:
    return sorted(int(path.stem[-4:]) for path in (root / OLD).glob("*.pt"))


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_what_could_go_is_shown_with_why_the_rest_stays(play: Play, full: Path, size: tuple[int, int]) -> None:
    async with play(full, size=size) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "2 could go")
        shown = text_of(pilot.app)
        assert "of checkpoints" in shown and "free" in shown and "newest whole of pretrain" in shown
        await press(pilot, "plus")
        await until_shown(pilot, "1 could go")
        await press(pilot, "minus", "minus", "minus")
        await until_shown(pilot, "newest 1")
        await until_shown(pilot, "4 could go")
        await press(pilot, "escape")
        assert not isinstance(pilot.app.screen, DiskScreen) and counts(full) == [1, 2, 3, 4, 5]


async def test_nothing_goes_without_a_yes_and_then_only_that(play: Play, full: Path) -> None:
    async with play(full) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "2 could go")
        await press(pilot, "P")
        await until_shown(pilot, "Delete 2 checkpoints for good?")
        assert OLD in asked_about(pilot.app.screen)
        await press(pilot, "enter")  # the default is no
        assert counts(full) == [1, 2, 3, 4, 5]
        await press(pilot, "P")
        await until(pilot, lambda: isinstance(pilot.app.screen, Ask), "the question")
        await press(pilot, "y")
        await until_shown(pilot, "2 checkpoints")
        await until_shown(pilot, "0 could go")
        assert counts(full) == [3, 4, 5]


async def test_read_only_the_page_only_looks(play: Play, full: Path) -> None:
    async with play(full, readonly=True) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "2 could go")
        await press(pilot, "P")
        assert isinstance(pilot.app.screen, DiskScreen) and "prune" not in text_of(pilot.app)
        await press(pilot, "A")
        assert isinstance(pilot.app.screen, DiskScreen)


OTHER = "run-2026-04-26_18-53-41"


@pytest.fixture
def two(full: Path) -> Path:
    for count in range(1, 5):
        runs.save(full / OTHER, count, loss=5.0 - count / 10)
    runs.launched(full / OTHER, ["python", "train.py"])
    return full


def asked_about(screen: Screen[Any]) -> str:
    return "\n".join(str(one.render()) for one in screen.query("#box > *"))


async def test_one_key_is_for_the_run_under_the_cursor_another_for_all_and_each_run_is_named(
    play: Play, two: Path
) -> None:
    async with play(two, size=SMALL) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "3 could go")
        bar = lines_of(pilot.app)[-1]
        assert all(words in bar for words in ("P prune run", "A all runs", "tab list", "+ - last", "b B best"))
        await press(pilot, "g", "P")
        await until_shown(pilot, "Delete 2 checkpoints for good?")
        said = asked_about(pilot.app.screen)
        assert OLD in said and OTHER not in said
        await press(pilot, "n", "j", "P")
        await until_shown(pilot, "Delete 1 checkpoint for good?")
        said = asked_about(pilot.app.screen)
        assert OTHER in said and OLD not in said
        await press(pilot, "n", "A")
        await until_shown(pilot, "Delete 3 checkpoints of all 2 runs for good?")
        said = asked_about(pilot.app.screen)
        assert OTHER in said and OLD in said
        await press(pilot, "n", "j", "P")
        await until_shown(pilot, "nothing of this run could go; A is for all runs")


async def test_what_was_deleted_is_told_though_the_page_was_left_meanwhile(
    play: Play, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_left, prune = threading.Event(), pruning.prune

    def at_last(*asked: Any) -> pruning.Pruned:
        assert is_left.wait(60)
        return prune(*asked)

    monkeypatch.setattr(pruning, "prune", at_last)
    async with play(two, size=LARGE) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "3 could go")
        page = pilot.app.screen
        await press(pilot, "A", "y")
        await until(pilot, lambda: page._is_pruning and pilot.app.screen is page, "the answer")
        await press(pilot, "escape")
        await until(pilot, lambda: not page.is_attached, "the page left")
        is_left.set()
        await until_shown(pilot, "3 checkpoints, ")


async def test_a_question_and_the_page_behind_it_say_the_same_numbers(play: Play, two: Path) -> None:
    async with play(two) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "3 could go")
        await press(pilot, "A")
        await until(pilot, lambda: isinstance(pilot.app.screen, Ask), "the question")
        runs.save(two / OTHER, 9, loss=2.0)
        await until(pilot, lambda: sum(len(run.checkpoints) for run in pilot.app.runs) == 11, "it was seen")
        page = pilot.app.screen_stack[-2]
        assert isinstance(page, DiskScreen)
        await pilot.pause()
        assert "3 could go" in str(page.query_one("#rules").render())
        await press(pilot, "n")
        await until_shown(pilot, "4 could go")
