"""The page of the disk, on real files that really go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from lavender_tui.model.disk import Fate, KeepRules
from lavender_tui.model.run import Run
from lavender_tui.resume import pruning
from lavender_tui.tui.feed import RunsChanged
from lavender_tui.tui.screens.ask import Ask
from lavender_tui.tui.screens.disk import DiskScreen
from lavender_tui.tui.start import Look
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


@pytest.mark.parametrize("ascii_only", [False, True], ids=["usual", "ascii"])
async def test_a_broken_file_is_not_marked_as_fine(play: Play, full: Path, ascii_only: bool) -> None:
    runs.save(full / OLD, 6, cut_at=0.5)
    async with play(full, look=Look(ascii=ascii_only)) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "2 could go")
        await press(pilot, "g")
        await until_shown(pilot, "! stays: not a whole checkpoint (cut off)")
        [line] = [one for one in lines_of(pilot.app) if "-0006.pt" in one]
        fine = "+ " if ascii_only else "✓ "
        assert "! stays: not a whole checkpoint (cut off): look at it yourself" in line and fine not in line
        assert f"{fine}newest whole of pretrain" in text_of(pilot.app)


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


class Held:
    """Judging as it is, each time held until it is let go; with how many runs and saves it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        self._may_go, self._judged = threading.Semaphore(0), pruning.judged
        monkeypatch.setattr(pruning, "judged", self.judged)

    def judged(self, runs: tuple[Run, ...], rules: KeepRules) -> list[Fate]:
        self.asked.append(sum(len(run.checkpoints) for run in runs))
        assert self._may_go.acquire(timeout=60)
        return self._judged(runs, rules)

    def let_go(self, times: int = 1) -> None:
        self._may_go.release(times)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made = Held(monkeypatch)
    yield made
    made.let_go(1000)


async def test_nothing_is_stated_before_it_is_counted_and_runs_that_change_hold_no_answer_up(
    play: Play, full: Path, held: Held
) -> None:
    async with play(full) as pilot:
        await press(pilot, "D")
        await until(pilot, lambda: held.asked == [6], "the first question")
        shown = text_of(pilot.app)
        assert shown.count("counting…") == 2 and " 0 B" not in shown and "could go:" not in shown
        assert "esc back" in lines_of(pilot.app)[-1] and "newest 3" in shown
        for count in (6, 7):
            runs.save(full / OLD, count, loss=2.0)
            saves = count + 1
            await until(pilot, lambda saves=saves: sum(len(one.checkpoints) for one in pilot.app.runs) == saves, "it")
        assert held.asked == [6]
        held.let_go()
        await until_shown(pilot, "2 could go: ")
        await until(pilot, lambda: held.asked == [6, 8], "the next question, with all that came")
        assert "2 could go: " in text_of(pilot.app) and "counting…" not in text_of(pilot.app)
        held.let_go()
        await until_shown(pilot, "4 could go: ")


async def test_other_rules_are_counted_at_once_and_till_then_nothing_goes(play: Play, full: Path, held: Held) -> None:
    async with play(full) as pilot:
        await press(pilot, "D")
        held.let_go()
        await until_shown(pilot, "2 could go: ")
        await press(pilot, "plus")
        await until_shown(pilot, "newest 4 and the best 1   counting…")
        await press(pilot, "P")
        await until_shown(pilot, "it is still being counted")
        await press(pilot, "minus", "minus")
        held.let_go(2)
        await until_shown(pilot, "newest 2 and the best 1   3 could go: ")
        assert held.asked == [6, 6, 6]


async def test_while_runs_are_still_being_read_it_is_so_far_alone(play: Play, full: Path) -> None:
    async with play(full) as pilot:
        last = pilot.app.snapshot
        pilot.app.post_message(RunsChanged(replace(last, sequence=last.sequence + 1, is_complete=False)))
        await press(pilot, "D")
        await until_shown(pilot, "of checkpoints so far, counting…")
        await until_shown(pilot, "2 could go so far: ")
        pilot.app.post_message(RunsChanged(replace(last, sequence=last.sequence + 2)))
        await until_shown(pilot, "2 could go: ")
        assert "so far" not in text_of(pilot.app)


async def yes_and_away(pilot: Pilot[int], is_left: threading.Event) -> None:
    """Says yes to all that could go, and leaves the page as soon as it has heard that."""
    page = pilot.app.screen
    assert isinstance(page, DiskScreen)
    await press(pilot, "A", "y")
    await until(pilot, lambda: page._is_pruning and pilot.app.screen is page, "the answer")
    await press(pilot, "escape")
    await until(pilot, lambda: not page.is_attached, "the page left")
    is_left.set()


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
        await yes_and_away(pilot, is_left)
        await until_shown(pilot, "3 checkpoints, ")


async def test_what_was_said_yes_to_is_done_though_the_page_was_left_before_any_thread_had_begun_it(
    play: Play, two: Path
) -> None:
    is_left = threading.Event()
    async with play(two, size=LARGE) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "3 could go")
        pool = ThreadPoolExecutor(1)
        pool.submit(is_left.wait, 60)
        asyncio.get_running_loop().set_default_executor(pool)
        await yes_and_away(pilot, is_left)
        await until_shown(pilot, "3 checkpoints, ")
        assert len(list(two.glob("*/*.pt"))) == 7


async def test_a_deletion_that_breaks_off_is_told_and_can_be_asked_for_again(
    play: Play, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> pruning.Pruned:
        raise ValueError("no such rule")

    async with play(two, size=LARGE) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "3 could go")
        with monkeypatch.context() as patch:
            patch.setattr(pruning, "prune", broken)
            await press(pilot, "A", "y")
            await until_shown(pilot, "ValueError: no such rule")
        await press(pilot, "A", "y")
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
