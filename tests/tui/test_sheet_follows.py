"""The sheet while its run goes on: saves that come, a stop that ends, and a run that began from it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, start, stop
from lavender_tui.model.plan import Launch
from lavender_tui.tui.sheet import CHECKPOINT, POLICY
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, text_of, until, until_shown
from tests.tui.sheets import FAILED, open_sheet

# Ends after it was asked to as soon as `saved` is there, as a training that saves first.
SLOW = """
import os, signal, sys, time
def end(*_):
    while not os.path.exists("saved"):
        time.sleep(0.05)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
open("ready", "w").close()
time.sleep(600)
"""


@pytest.fixture
def live(one_run: Path, until: Callable[..., object]) -> Iterator[Path]:
    """A run with a save that lives until it is told to end, and `saved` is in its working directory."""
    run = one_run / "run-2026-05-01_00-00-00"
    script = one_run.parent / "slow.py"
    script.write_text(SLOW)
    runs.save(run, 3, each=10, world_size=1)
    start(Launch(backend="local", argv=(sys.executable, "-S", str(script)), cwd=str(one_run.parent)), str(run))
    until(lambda: (one_run.parent / "ready").exists(), what="the training")
    yield run
    stop(str(run), KILL)


async def on_live(pilot, run: Path) -> None:
    pilot.app.screen.go_to_run(str(run))
    await until(pilot, lambda: (at := pilot.app.screen.cursor_run) and at.key == str(run) and at.is_alive, "it lives")


async def test_the_default_follows_the_saves_that_come(play: Play, one_run: Path) -> None:
    async with play(one_run, size=LARGE) as pilot:
        screen = await open_sheet(pilot)
        for count in (61, 62):
            runs.save(one_run / FAILED, count, each=2 * count, age_seconds=0)
            await until_shown(pilot, f"pretrain 00{count}")
            await until_shown(pilot, f"after {2 * count * runs.SPLITS:,} rows")
            await until_shown(pilot, "checks passed")
            assert "newest whole" in text_of(pilot.app) and "before newest" not in text_of(pilot.app)
        assert [one.save_count for one in screen._sheet.choices(CHECKPOINT)] == [62, 61, 60, 59, 58]
        await press(pilot, "shift+tab", "shift+tab", "right", "left")
        await until_shown(pilot, "after 992 rows")
        assert "newest whole" in text_of(pilot.app), "what was left can be come back to"


async def test_a_chosen_save_stays_when_another_one_comes(play: Play, one_run: Path) -> None:
    async with play(one_run, size=LARGE) as pilot:
        screen = await open_sheet(pilot)
        await press(pilot, "shift+tab", "shift+tab", "right")
        await until_shown(pilot, "1 before newest")
        runs.save(one_run / FAILED, 61, each=122, age_seconds=0)
        await until_shown(pilot, "2 before newest")
        await until_shown(pilot, "checks passed")
        assert "pretrain 0059" in text_of(pilot.app) and "after 944 rows" in text_of(pilot.app)
        assert screen._sheet.paths[0].endswith("-0059.pt")


async def test_an_answer_from_before_a_save_is_not_shown(play: Play, one_run: Path) -> None:
    """It would name the save before as the chosen one, and the choices would lack the new one, or lead elsewhere."""
    async with play(one_run, size=LARGE) as pilot:
        screen = await open_sheet(pilot)
        sheet, old = screen._sheet, screen._proposal
        runs.save(one_run / FAILED, 61, each=122, age_seconds=0)
        await until_shown(pilot, "pretrain 0061")
        await until_shown(pilot, "checks passed")
        new, run = screen._proposal, sheet.run
        before = next(one for one in run.checkpoints if one.save_count == 60)
        # The answer knows a save that the list has not heard of yet.
        sheet.follow(type(run)(**{name: getattr(run, name) for name in run.__slots__} | {
            "checkpoints": tuple(one for one in run.checkpoints if one.save_count != 61)}))  # fmt: skip
        sheet.adopt(new)
        assert [one.save_count for one in sheet.choices(CHECKPOINT)] == [61, 60, 59, 58]
        assert sheet.choices(CHECKPOINT).index(sheet.value(CHECKPOINT)) == 0
        sheet.follow(run)
        sheet.adopt(old)
        assert sheet.checkpoint == before, "what is adopted is what the answer is of"


async def test_a_policy_that_the_new_save_can_not_have_is_given_up(play: Play, one_run: Path) -> None:
    async with play(one_run, size=LARGE) as pilot:
        screen = await open_sheet(pilot)
        await press(pilot, "down", "down", "right", "right")
        await until_shown(pilot, "[skip epoch]")
        runs.save(one_run / FAILED, 61, each=122, complete=True, age_seconds=0)
        await until_shown(pilot, "[next epoch]")
        await until_shown(pilot, "checks passed")
        assert POLICY not in screen._sheet.touched


async def test_it_is_checked_again_when_the_stop_ends(play: Play, live: Path) -> None:
    async with play(live.parent, size=SMALL) as pilot:
        await on_live(pilot, live)
        await press(pilot, "r")
        await until_shown(pilot, "can't be launched: see checkpoint   x stops it first", 60)
        await until_shown(pilot, "⏎ show what refuses")
        await press(pilot, "x")
        await until_shown(pilot, "Stop run-2026-05-01")
        await press(pilot, "y")
        await until_shown(pilot, "stopping: ")
        runs.save(live, 4, each=20, world_size=1, age_seconds=0)
        (live.parent.parent / "saved").touch()
        await until_shown(pilot, "pretrain 0004")
        await until_shown(pilot, "checks passed", 60)
        assert "⏎ merge and launch" in text_of(pilot.app) and "newest whole" in text_of(pilot.app)


async def test_an_end_that_somebody_else_brings_is_noticed(
    play: Play, live: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    async with play(live.parent, size=SMALL) as pilot:
        await on_live(pilot, live)
        await press(pilot, "r")
        await until_shown(pilot, "x stops it first", 60)
        (live.parent.parent / "saved").touch()
        await asyncio.to_thread(stop, str(live))
        await until_shown(pilot, "checks passed", 60)
    assert nothing_survives() == []


@contextmanager
def saving_all_the_time(run: Path) -> Iterator[list[int]]:
    """Saves faster than one can be checked, until the end; what it yields grows by each one's number."""
    saved: list[int] = []
    is_enough = threading.Event()

    def go_on() -> None:
        for number in count(61):
            runs.save(run, number, each=2 * number, age_seconds=0)
            saved.append(number)
            if is_enough.wait(0.1):
                return

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield saved
    finally:
        is_enough.set()
        thread.join()


async def test_answers_are_shown_though_the_run_saves_faster_than_it_is_checked(play: Play, one_run: Path) -> None:
    async with play(one_run, size=LARGE) as pilot:
        screen = await open_sheet(pilot)
        first = screen._sequence
        with saving_all_the_time(one_run / FAILED) as saved:
            await until(pilot, lambda: screen._sequence > first and not screen._is_waiting, "an answer of a later one")
            assert "⏎ launches" in text_of(pilot.app)
            await until(pilot, lambda: screen._is_outdated and not screen._is_waiting, "an answer that is over")
            before = screen._sequence
            screen.action_launch()
            assert screen._launching_since is None and screen._sequence > before, "it is checked first"
            screen.action_back()
        await until_shown(pilot, f"after {2 * saved[-1] * runs.SPLITS:,} rows")
        await until_shown(pilot, f"pretrain {saved[-1]:04}")


async def test_the_note_on_a_run_without_a_save_ends_with_its_first_one(play: Play, one_run: Path) -> None:
    again = one_run / "run-2026-05-02_00-00-00"
    runs.launched(again, runs.script(one_run.parent), source=one_run / FAILED)
    async with play(one_run, size=SMALL) as pilot:
        pilot.app.screen.go_to_run(str(again))
        await until(pilot, lambda: (at := pilot.app.screen.cursor_run) and at.key == str(again), "the cursor on it")
        await press(pilot, "r")
        await until_shown(pilot, "has saved nothing yet")
        await until_shown(pilot, "checks passed")
        last = lines_of(pilot.app)
        rule = next(place for place, line in enumerate(last) if line.startswith("────"))
        assert "─" not in last[rule - 1] and last[rule - 1].strip(), "something stands between two rules"
        runs.save(again, 1, each=130, age_seconds=0)
        await until_shown(pilot, "run-2026-05-02_00-00-00 has a save by now: esc, then r resumes that one")
