"""A run whose directory is deleted, moved, replaced or can't be read any more: nothing false is said of it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch.record import ProcessId, read_launch
from lavender_tui.model.plan import Launch
from lavender_tui.tui.messages import LogFiles
from lavender_tui.tui.screens.run import RunScreen
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, quiet, text_of, until, until_shown
from tests.tui.sheets import FAILED, open_sheet

NAME = "run-2026-05-01_00-00-00"
GONE = "its directory is gone"
SHUT = "its directory can't be read (Too many levels of symbolic links)"

Away = Callable[[Path], None]


def moved(run: Path) -> None:
    run.rename(run.parent.parent / "elsewhere")


def a_file_instead(run: Path) -> None:
    shutil.rmtree(run)
    run.write_text("")


def shut(run: Path) -> None:
    """What nobody may read, not even root: a name that leads to itself."""
    moved(run)
    run.symlink_to(run)


def words_of(pilot: object) -> str:
    return " ".join(text_of(pilot.app).replace("│", " ").replace("▌", " ").split())  # type: ignore[attr-defined]


WAYS = pytest.mark.parametrize(
    ("away", "why"), [(shutil.rmtree, GONE), (moved, GONE), (a_file_instead, GONE), (shut, SHUT)]
)


@WAYS
async def test_its_page_promises_nothing_that_cant_be_done(play: Play, one_run: Path, away: Away, why: str) -> None:
    async with play(one_run, size=LARGE) as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "resumes from pretrain")
        away(one_run / FAILED)
        await until_shown(pilot, f"✗ {why}: ")
        assert "resumes from" not in text_of(pilot.app) and "no launch record" not in text_of(pilot.app)
        assert "r resume" not in lines_of(pilot.app)[-1] and "l log" not in lines_of(pilot.app)[-1]
        await press(pilot, "r")
        assert isinstance(pilot.app.screen, RunScreen)
        await press(pilot, "2")
        assert "✓ whole" not in text_of(pilot.app) and "nothing saved yet" not in text_of(pilot.app)


async def test_a_run_that_cant_be_read_stays_in_the_list_and_says_so(play: Play, one_run: Path) -> None:
    async with play(one_run, size=LARGE) as pilot:
        await until_shown(pilot, "resumes from pretrain")
        shut(one_run / FAILED)
        await until_shown(pilot, f"✗ {SHUT}: what it saved isn't known")
        assert not any(one in text_of(pilot.app) for one in ("resumes from", "no launch record", "nothing saved yet"))
        os.unlink(one_run / FAILED)
        (one_run.parent / "elsewhere").rename(one_run / FAILED)
        await until_shown(pilot, "resumes from pretrain")


@WAYS
async def test_its_log_keeps_what_was_read_and_says_why(play: Play, one_run: Path, away: Away, why: str) -> None:
    (one_run / FAILED / "train.log").write_text("epoch 1 begins\n")
    async with play(one_run, size=LARGE) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "epoch 1 begins")
        away(one_run / FAILED)
        await until_shown(pilot, f"! {why}; what was read is still here")
        await until(pilot, lambda: why in lines_of(pilot.app)[0], "the reason in the title")
        pilot.app.screen.post_message(LogFiles([]))  # as its thread does within two seconds
        await quiet(pilot)
        assert "epoch 1 begins" in text_of(pilot.app) and "launched by hand" not in text_of(pilot.app)


async def test_a_log_that_goes_before_its_directory_does_is_told_as_that_in_the_end(play: Play, one_run: Path) -> None:
    (one_run / FAILED / "train.log").write_text("epoch 1 begins\n")
    async with play(one_run, size=LARGE) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "epoch 1 begins")
        (one_run / FAILED / "train.log").unlink()
        await until_shown(pilot, "! train.log was deleted; what was read is still here")
        shutil.rmtree(one_run / FAILED)
        await until_shown(pilot, f"! {GONE}; what was read is still here")


async def test_an_open_sheet_notices_that_the_directory_is_gone(play: Play, one_run: Path) -> None:
    async with play(one_run, size=LARGE) as pilot:
        await open_sheet(pilot)
        await until_shown(pilot, "checks passed")
        shutil.rmtree(one_run / FAILED)
        await until_shown(pilot, f"✗ {GONE}: nothing of it can be resumed")
        assert "merge and launch" not in lines_of(pilot.app)[-1]


@pytest.fixture
def live(one_run: Path, until: Callable[..., object], nothing_survives: object) -> Path:
    run = one_run / NAME
    runs.save(run, 3, each=10, world_size=1)
    sleeping = "import time; open('ready', 'w').close(); time.sleep(600)"
    argv = (sys.executable, "-S", "-c", sleeping)
    launch.start(Launch(backend="local", argv=argv, cwd=str(one_run.parent)), str(run))
    until(lambda: (one_run.parent / "ready").exists(), what="the training")
    return run


def processes(run: Path) -> list[ProcessId]:
    record = read_launch(str(run))
    assert record is not None
    return [one for one in (record.supervisor, record.leader) if one is not None]


async def test_a_training_whose_directory_is_deleted_stays_until_it_ends(play: Play, live: Path) -> None:
    supervisor, leader = processes(live)
    async with play(live.parent, size=LARGE) as pilot:
        screen = pilot.app.screen
        screen.go_to_run(str(live))
        await until(pilot, lambda: (at := screen.cursor_run) and at.key == str(live) and len(at.processes) == 2)
        shutil.rmtree(live)
        await until_shown(pilot, f"{NAME}: failed")
        assert f"2 processes of it live on: x, or `kill {leader.pid}` ends them" in words_of(pilot)
        await press(pilot, "enter", "x")
        await until_shown(pilot, f"End what {NAME} left running?")
        assert "0 steps" not in text_of(pilot.app) and "2 processes" in text_of(pilot.app)
        await press(pilot, "y")
        await until_shown(pilot, "left-over process")
        assert not (leader.is_alive or supervisor.is_alive)
        await until(pilot, lambda: all(run.key != str(live) for run in pilot.app.runs), "it gone from the list")
        await press(pilot, "6")
        await until_shown(pilot, f"{GONE}: no log can be read")
        assert "live on" not in lines_of(pilot.app)[0]


async def test_a_training_whose_directory_is_renamed_is_no_failure(play: Play, live: Path) -> None:
    async with play(live.parent, size=SMALL) as pilot:
        await until(pilot, lambda: any(run.key == str(live) and run.is_alive for run in pilot.app.runs), "it lives")
        other = live.with_name("run-2026-05-02_00-00-00")
        live.rename(other)
        await until(pilot, lambda: any(run.key == str(other) and run.is_alive for run in pilot.app.runs), "as another")
        await until(pilot, lambda: all(run.key != str(live) for run in pilot.app.runs), "the old name gone")
        assert "failed" not in [one.title.rpartition(": ")[2] for one in pilot.app.announcements]
