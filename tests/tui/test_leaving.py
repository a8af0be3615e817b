"""Where something ends with the app, leaving it asks: enter stays, q once more leaves. The hint follows the runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.demo import guide
from lavender_tui.model.plan import Launch
from lavender_tui.model.run import LiveProcess
from lavender_tui.tui.feed import RunsChanged
from lavender_tui.tui.screens.ask import Ask, Leave
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown

NAME = "run-2026-04-24_18-53-41"


@pytest.fixture
def run_dir(tmp_path: Path, until: Callable[..., object], nothing_survives: object) -> Iterator[Path]:
    path = tmp_path / "checkpoints" / NAME
    runs.save(path, 1, age_seconds=5)
    script = tmp_path / "train.py"
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    launch.start(Launch(backend="local", argv=(sys.executable, "-S", str(script)), cwd=str(tmp_path)), str(path))
    until(lambda: "up" in (path / "train.log").read_text(), what="the training")
    yield path
    if launch.is_alive(str(path)):
        launch.stop(str(path), launch.KILL)


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_it_asks_while_the_training_lives_and_the_hint_follows(
    play: Play, run_dir: Path, size: tuple[int, int]
) -> None:
    async with play(run_dir.parent, size=size, hint=guide.hint, leaving=guide.leaving) as pilot:
        await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the process")
        await until_shown(pilot, "q ends the demo")
        await press(pilot, "q")
        await until_shown(pilot, "y  leave   (q)")
        assert f"The demo's training ({NAME}) ends with it; its files stay." in " ".join(
            text_of(pilot.app).replace("│", " ").split()
        )
        await press(pilot, "enter")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Leave), "enter stays")
        assert pilot.app.is_running
        await press(pilot, "q")
        await until(pilot, lambda: isinstance(pilot.app.screen, Leave), "the question")
        launch.stop(str(run_dir), launch.KILL)
        await until(pilot, lambda: not isinstance(pilot.app.screen, Leave), "the question gone with the training")
        await until_shown(pilot, "r resumes it where it stopped")
        assert "This training is real" not in text_of(pilot.app)
        await press(pilot, "q")
        await until(pilot, lambda: not pilot.app.is_running, "the end, without a question")


async def test_q_twice_leaves(play: Play, run_dir: Path) -> None:
    async with play(run_dir.parent, hint=guide.hint, leaving=guide.leaving) as pilot:
        await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the process")
        await press(pilot, "q")
        await until(pilot, lambda: isinstance(pilot.app.screen, Leave), "the question")
        await press(pilot, "q")
        await until(pilot, lambda: not pilot.app.is_running, "the end")
    assert launch.is_alive(str(run_dir)), "what ends with it is its caller's to end"


async def test_without_such_a_training_nothing_is_asked(play: Play, run_dir: Path) -> None:
    async with play(run_dir.parent) as pilot:
        await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the process")
        await press(pilot, "q")
        await until(pilot, lambda: not pilot.app.is_running, "the end")
    assert launch.is_alive(os.fspath(run_dir))


async def test_a_question_that_another_one_stands_before_goes_after_that(play: Play, one_run: Path) -> None:
    async with play(one_run) as pilot:
        app, dead = pilot.app, pilot.app.snapshot
        lives = (LiveProcess(pid=7, start_ticks=1, role="agent"),)
        app.snapshot = replace(dead, runs=(replace(dead.runs[0], processes=lives),))
        app.push_screen(Leave("Leave?", while_alive=dead.runs[0].key))
        await pilot.pause()
        app.push_screen(Ask("Resume it once more?"))
        await pilot.pause()
        assert [type(one) for one in app.screen_stack[1:]] == [Leave, Ask]
        app.on_runs_changed(RunsChanged(replace(dead, sequence=dead.sequence + 1)))
        await pilot.pause()
        assert type(app.screen) is Ask
        await press(pilot, "n")
        await until(pilot, lambda: len(app.screen_stack) == 1, "both gone")
