"""List, page and box say what a run is asked for: asked, withdrawn by whomever, served, and when it is over."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch.asking import why_nothing_to_withdraw
from lavender_tui.launch.requests import read_request
from lavender_tui.launch.stop_order import CannotStop
from lavender_tui.model.ending import StopAt
from lavender_tui.model.plan import Launch
from lavender_tui.tui.screens.stop import StopBox
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown

NAME = "run-2026-04-24_18-53-41"
# Reads requests as CheckpointManager does; saves when there is a file "save", and ends after that when "end" is there.
TRAINING = """
import json, os, sys, time
from lavender_tui.launch.record import StopRecord, write_stop
from lavender_tui.launch.requests import read_request, remove_request
run_dir = os.environ["LAVENDER_RUN_DIR"]
with open(os.path.join(run_dir, "metrics.jsonl"), "a") as file:
    file.write(json.dumps({"event": "begin", "at_step": 0, "epoch": 1, "requests": True}) + "\\n")
    file.write(json.dumps({"step": 462, "loss": 2.0}) + "\\n")
print("up", flush=True)
while not os.path.exists("save"):
    time.sleep(0.02)
request = read_request(run_dir)
os.utime("next")
os.rename("next", os.path.join(run_dir, "pretrain-19-00-00-0002.pt"))
asked = StopRecord(who=request.who, how=request.what.value, asked_at=request.asked_at - 7200, at="at save 0002")
write_stop(run_dir, asked)
remove_request(run_dir)
while not os.path.exists("end"):
    time.sleep(0.02)
"""


@pytest.fixture
def run_dir(tmp_path: Path, until: Callable[..., object], nothing_survives: object) -> Iterator[Path]:
    path = tmp_path / "checkpoints" / NAME
    runs.save(path, 1, age_seconds=840)
    os.rename(runs.save(path, 2, age_seconds=0), tmp_path / "next")
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    launch.start(Launch(backend="local", argv=(sys.executable, str(script)), cwd=str(tmp_path)), str(path))
    until(lambda: "up" in (path / "train.log").read_text(), what="the training")
    yield path
    if launch.is_alive(str(path)):
        launch.stop(str(path), launch.KILL)


def read(pilot: object) -> str:
    return " ".join(text_of(pilot.app).replace("│", " ").replace("▌", " ").split())  # type: ignore[attr-defined]


async def box(pilot: object) -> None:
    await press(pilot, "x")  # type: ignore[arg-type]
    await until(pilot, lambda: isinstance(pilot.app.screen, StopBox), "the box")  # type: ignore[arg-type, attr-defined]


async def says(pilot: object, words: str, *, is_there: bool = True) -> None:
    await until(pilot, lambda: (words in read(pilot)) is is_there, f"{words!r} {'there' if is_there else 'gone'}")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_it_is_true_from_the_first_word_to_the_last(
    play: Play, run_dir: Path, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with play(run_dir.parent, size=size) as pilot:
        await until(pilot, lambda: pilot.app.screen.cursor_run.reads_requests, "its begin")
        await box(pilot)
        await says(pilot, "s stop at the next save")
        await press(pilot, "s")
        await until(pilot, lambda: read_request(str(run_dir)), "the request")
        await box(pilot)  # before the list has looked
        await says(pilot, "s withdraw that don't stop at the next save")
        launch.withdraw(str(run_dir))  # by somebody else, while the box is open
        await says(pilot, "s stop at the next save")
        await says(pilot, "asked stops", is_there=False)
        launch.ask_to_stop(str(run_dir), StopAt.EPOCH_END, who="ann@gpu-03")
        await says(pilot, "e withdraw that don't stop at the end of epoch 1")
        await says(pilot, "asked stops at the end of the epoch, by ann@gpu-03")
        await press(pilot, "e")
        await until(pilot, lambda: read_request(str(run_dir)) is None, "it withdrawn")
        await until(pilot, lambda: pilot.app.screen.cursor_run.request is None, "the list without it")
        await says(pilot, "stops at the end of the epoch", is_there=False)
        launch.ask_to_stop(str(run_dir), StopAt.NEXT_SAVE, who="ann@gpu-03")
        await until(
            pilot, lambda: "asked by ann@gpu-03" in pilot.app.screen.cursor_run.state_reason, "the list with it"
        )
        (tmp_path / "save").touch()
        await until_shown(pilot, "■ stopping")
        await says(pilot, "stopping: saved 0002, ending…")
        await press(pilot, "enter")
        await says(pilot, "stopping: saved 0002, ending…")
        assert "7200" not in read(pilot) and "2 h" not in read(pilot), "when it was asked is not when it began to end"
        await box(pilot)
        await says(pilot, f"{NAME} is stopping")
        await says(pilot, "at the next save", is_there=False)
        assert "of the epoch" not in read(pilot)
        with pytest.raises(CannotStop, match="told to end already"):
            launch.ask_to_stop(str(run_dir), StopAt.NEXT_SAVE)
        assert why_nothing_to_withdraw(str(run_dir)) == "too late to withdraw: it has come to its end at save 0002"
        (tmp_path / "end").touch()
        await until(pilot, lambda: not isinstance(pilot.app.screen, StopBox), "the box answered by the end")
        await says(pilot, "stopped at save 0002, asked by ann@gpu-03")
        assert not (run_dir / "request.json").exists()
