"""The stop box: what it names and offers, that no is the default, and that an end answers the question."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch.record import read_exit, read_stop
from lavender_tui.launch.requests import read_request
from lavender_tui.model.ending import StopAt
from lavender_tui.model.plan import Launch
from lavender_tui.tui.screens.ask import Ask
from lavender_tui.tui.screens.run import RunScreen
from lavender_tui.tui.screens.stop import StopBox
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown

NAME = "run-2026-04-24_18-53-41"
Train = Callable[..., Path]

# Ignores a polite request, unless it is to save: then it ends when `saved` is there. Has a child in another session.
# The begin line is CheckpointManager's.
TRAINING = """
import json, os, signal, subprocess, sys, time
run_dir, how = os.environ["LAVENDER_RUN_DIR"], sys.argv[1]
def came(number, frame):
    if how == "saves":
        while not os.path.exists("saved"):
            time.sleep(0.05)
        os.rename(os.path.join(run_dir, "next"), os.path.join(run_dir, "pretrain-19-00-00-0002.pt"))
        os.utime(os.path.join(run_dir, "pretrain-19-00-00-0002.pt"))
        sys.exit(0)
    print("got", number, flush=True)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, came)
if how != "saves":
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(os.path.join(run_dir, "metrics.jsonl"), "a") as file:
    if how == "saves":
        file.write(json.dumps({"event": "begin", "at_step": 0, "epoch": 1, "requests": True}) + "\\n")
    file.write(json.dumps({"step": 462, "loss": 2.0}) + "\\n")
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def train(tmp_path: Path, until: Callable[..., object], nothing_survives: object) -> Iterator[Train]:
    """Starts a training that saved its first checkpoint 14 minutes ago."""

    def start(how: str) -> Path:
        run_dir = tmp_path / "checkpoints" / NAME
        path = runs.save(run_dir, 1, age_seconds=840)
        if how == "saves":
            os.rename(runs.save(run_dir, 2, age_seconds=0), run_dir / "next")
        script = tmp_path / "train.py"
        script.write_text(TRAINING)
        asked = Launch(backend="local", argv=(sys.executable, "-S", str(script), how), cwd=str(tmp_path))
        launch.start(asked, str(run_dir), world_size=4)
        until(lambda: (run_dir / "train.log").exists() and "up" in (run_dir / "train.log").read_text())
        assert path.exists()
        return run_dir

    yield start
    for run_dir in (tmp_path / "checkpoints").glob("run-*"):
        if launch.is_alive(str(run_dir)):
            launch.stop(str(run_dir), launch.KILL)


async def box(pilot: object) -> str:
    """Open it; what it says."""
    await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the process")  # type: ignore[arg-type, attr-defined]
    await until(pilot, lambda: pilot.app.screen.cursor_run.losses, "its steps")  # type: ignore[arg-type, attr-defined]
    await press(pilot, "x")  # type: ignore[arg-type]
    await until_shown(pilot, "(enter)")  # type: ignore[arg-type]
    return read(pilot)


def read(pilot: object) -> str:
    """All words on the screen; frames and line breaks left out."""
    return " ".join(text_of(pilot.app).replace("│", " ").replace("▌", " ").split())  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_the_box_names_the_run_and_what_would_be_lost(play: Play, train: Train, size: tuple[int, int]) -> None:
    run_dir = train("deaf")
    async with play(run_dir.parent, size=size) as pilot:
        words = await box(pilot)
        record = launch.record.read_launch(str(run_dir))  # type: ignore[attr-defined]
        assert f"Stop {NAME}?" in words
        assert f"host {record.host}, pid {record.leader.pid}, 4 ranks" in words
        assert "saved 0001, 14 min ago" in words
        assert "412 steps, 6,592 rows" in words and "lost up to 14 min, 412 steps, 6,592 rows since save 0001" in words
        assert "y ask it to stop SIGTERM; killed after 30 s" in words
        assert "at the next save" not in words and "end of" not in words
        for key in ("s", "e", "enter"):
            await press(pilot, key)
        await until(pilot, lambda: not isinstance(pilot.app.screen, StopBox), "the box closed")
        assert launch.is_alive(str(run_dir)) and read_stop(str(run_dir)) is None
        assert read_request(str(run_dir)) is None


async def test_a_training_that_saves_when_asked_says_so_and_shows_how_far_it_is(play: Play, train: Train) -> None:
    run_dir = train("saves")
    async with play(run_dir.parent, size=LARGE, grace_seconds=90) as pilot:
        words = await box(pilot)
        assert "lost nothing: it saves when asked" in words and "y save and stop SIGTERM; killed after 90 s" in words
        assert "s stop at the next save" in words and "e stop at the end of epoch 1" in words
        await press(pilot, "y")
        await until_shown(pilot, "stopping: saving…")
        await until_shown(pilot, "■ stopping")
        assert " s of 90" in text_of(pilot.app)
        (run_dir.parent.parent / "saved").touch()
        await until_shown(pilot, "■ stopped")
        await until_shown(pilot, "saved 0002, ended after")
        assert read_exit(str(run_dir)).code == 0  # type: ignore[union-attr]


async def test_a_request_is_shown_and_withdrawn_by_the_same_key(play: Play, train: Train) -> None:
    run_dir = train("saves")
    async with play(run_dir.parent, size=LARGE) as pilot:
        await box(pilot)
        await press(pilot, "e")
        await until_shown(pilot, "stops at the end of the epoch, asked by")
        request = read_request(str(run_dir))
        assert request is not None and request.what is StopAt.EPOCH_END
        await until(pilot, lambda: pilot.app.screen.cursor_run.request, "the request")
        assert "don't stop at the end of epoch 1" in await box(pilot)
        await press(pilot, "e")
        await until(pilot, lambda: read_request(str(run_dir)) is None, "the request withdrawn")
        await until(pilot, lambda: pilot.app.screen.cursor_run.request is None, "the list without it")
        assert launch.is_alive(str(run_dir)) and read_stop(str(run_dir)) is None


async def test_a_second_x_offers_the_kill_which_names_every_process(play: Play, train: Train) -> None:
    run_dir = train("deaf")
    async with play(run_dir.parent, size=SMALL, grace_seconds=120) as pilot:
        await box(pilot)
        await press(pilot, "y")
        await until_shown(pilot, "■ stopping")
        words = await box(pilot)
        assert f"{NAME} is stopping" in words and "asked to end…" in words and "s of 120, asked by" in words
        await press(pilot, "y")  # is not offered any more
        assert isinstance(pilot.app.screen, StopBox)
        await press(pilot, "K")
        await until_shown(pilot, f"Kill 2 processes of {NAME}?")
        record = launch.record.read_launch(str(run_dir))  # type: ignore[attr-defined]
        assert str(record.leader.pid) in text_of(pilot.app) and "time.sleep(600)" in text_of(pilot.app)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, StopBox) and launch.is_alive(str(run_dir))
        await press(pilot, "K")
        await until_shown(pilot, f"Kill 2 processes of {NAME}?")
        await press(pilot, "y")
        await until_shown(pilot, "■ stopped")
    assert read_exit(str(run_dir)).killed  # type: ignore[union-attr]


async def test_an_interrupt_is_one(play: Play, train: Train) -> None:
    run_dir = train("deaf")
    async with play(run_dir.parent, size=SMALL) as pilot:
        await box(pilot)
        await press(pilot, "i")
        await until(pilot, lambda: "got 2" in (run_dir / "train.log").read_text(), "SIGINT")
        assert read_stop(str(run_dir)).how == "interrupt"  # type: ignore[union-attr]


@pytest.mark.parametrize("second", [False, True])
async def test_an_end_answers_the_question(play: Play, train: Train, second: bool) -> None:
    run_dir = train("deaf")
    async with play(run_dir.parent, size=SMALL) as pilot:
        await box(pilot)
        if second:
            await press(pilot, "K")
            await until(pilot, lambda: isinstance(pilot.app.screen, Ask), "the second question")
        launch.stop(str(run_dir), launch.KILL)
        pilot.app.feed.rescan_soon()
        await until(pilot, lambda: not isinstance(pilot.app.screen, StopBox | Ask), "the question gone")


async def test_leaving_the_app_changes_nothing_for_the_supervisor(
    play: Play,
    train: Train,
    until: Callable[..., object],
) -> None:
    run_dir = train("saves")
    async with play(run_dir.parent, size=SMALL) as pilot:
        await box(pilot)
        await press(pilot, "y")
        await until_stop(pilot, run_dir)
    (run_dir.parent.parent / "saved").touch()
    assert until(lambda: read_exit(str(run_dir)), 30, "the end").code == 0  # type: ignore[attr-defined]


async def until_stop(pilot: object, run_dir: Path) -> None:
    await until(pilot, lambda: read_stop(str(run_dir)), "the stop on disk")  # type: ignore[arg-type]


async def test_what_a_dead_run_left_running_is_named_and_ended(play: Play, train: Train) -> None:
    run_dir = train("deaf")
    record = launch.record.read_launch(str(run_dir))  # type: ignore[attr-defined]
    for process in (record.supervisor, record.leader):
        os.kill(process.pid, 9)
    deadline = time.monotonic() + 20
    while record.is_alive and time.monotonic() < deadline:
        time.sleep(0.02)
    (run_dir / "exit.json").write_text(
        json.dumps({"schema": 1, "code": None, "signal": "SIGKILL", "ended_at": time.time()})
    )
    async with play(run_dir.parent, size=SMALL) as pilot:
        await until(pilot, lambda: pilot.app.screen.cursor_run.leftovers, "the left-over process")
        await press(pilot, "x")
        await until_shown(pilot, f"End what {NAME} left running?")
        await press(pilot, "y")
        await until(pilot, lambda: not launch.living.members(str(run_dir), record), "them gone")  # type: ignore[attr-defined]
        await until_shown(pilot, "✗ failed")
    assert read_stop(str(run_dir)) is None


async def test_a_full_disk_is_a_question_of_its_own(play: Play, train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    from lavender_tui.launch import stop_order

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    run_dir = train("deaf")
    monkeypatch.setattr(stop_order, "write_stop", full)
    async with play(run_dir.parent, size=SMALL, grace_seconds=1) as pilot:
        await box(pilot)
        await press(pilot, "y")
        await until_shown(pilot, "Stop it all the same?")
        assert "No space left on device" in text_of(pilot.app)
        await press(pilot, "enter")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Ask), "the question gone")
        assert "got" not in (run_dir / "train.log").read_text()
        await box(pilot)
        await press(pilot, "y")
        await until_shown(pilot, "Stop it all the same?")
        await press(pilot, "y")
        await until(pilot, lambda: "got 15" in (run_dir / "train.log").read_text(), "SIGTERM")
        said = "could not be recorded (No space left on device): it will look like a failure"
        await until(pilot, lambda: any(said in one.words for one in pilot.app.announcements), "what it costs")


async def test_a_stop_that_breaks_off_says_so(play: Play, train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    from lavender_tui.launch import stop_order

    def broken(*_: object) -> None:
        raise ValueError("what nobody thought of")

    run_dir = train("deaf")
    with monkeypatch.context() as patch:
        patch.setattr(stop_order, "write_stop", broken)
        async with play(run_dir.parent, size=LARGE) as pilot:
            await box(pilot)
            await press(pilot, "y")
            await until_shown(pilot, "the stop itself broke off: ValueError (what nobody thought of)")


async def test_how_a_stop_went_is_told_though_the_page_it_was_asked_on_was_left(
    play: Play, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lavender_tui.launch import stop_order

    is_left = threading.Event()

    def full_at_last(*_: object) -> None:
        assert is_left.wait(60)
        raise OSError(28, "No space left on device")

    run_dir = train("deaf")
    monkeypatch.setattr(stop_order, "write_stop", full_at_last)
    async with play(run_dir.parent, size=SMALL, grace_seconds=1) as pilot:
        await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the process")
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen), "its page")
        page = pilot.app.screen
        await box(pilot)
        await press(pilot, "y")
        await until(pilot, lambda: pilot.app.screen is page, "the box closed")
        await press(pilot, "escape")
        await until(pilot, lambda: not page.is_attached, "the page left")
        is_left.set()
        await until_shown(pilot, "Stop it all the same?")
        await press(pilot, "enter")
    assert "got" not in (run_dir / "train.log").read_text()
