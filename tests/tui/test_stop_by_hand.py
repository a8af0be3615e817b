"""The box for a training that somebody started in a shell: who, the proof, no as the default, and what comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import journal
from lavender_tui.tui.screens.stop import StopBox
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown

NAME = "run-2026-04-24_18-53-41"
TRAINING = """
import os, signal, sys, time
run_dir, number = sys.argv[1:]
def came(*_):
    os.utime(os.path.join(os.path.dirname(__file__), "next"))
    os.rename(os.path.join(os.path.dirname(__file__), "next"), os.path.join(run_dir, "pretrain-19-00-00-0002.pt"))
    sys.exit(0)
signal.signal(signal.SIGTERM, came)
log = open(os.path.join(run_dir, "metrics.jsonl"), "a", buffering=1)
log.write('{"step": 462, "loss": 2.0}\\n')
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def training(tmp_path: Path, nothing_survives: object) -> Iterator[subprocess.Popen]:
    run_dir = tmp_path / "checkpoints" / NAME
    runs.save(run_dir, 1, age_seconds=840)
    os.rename(runs.save(run_dir, 2, age_seconds=0), tmp_path / "next")
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    argv = ["bash", "-c", '"$@"; exit $?', "bash", sys.executable, "-S", str(script), str(run_dir), "1"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        yield process
        process.kill()


async def opened(pilot: object) -> str:
    await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the process")  # type: ignore[arg-type, attr-defined]
    await press(pilot, "x")  # type: ignore[arg-type]
    await until_shown(pilot, "which catches it")  # type: ignore[arg-type]
    return " ".join(text_of(pilot.app).replace("│", " ").replace("▌", " ").split())  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_it_is_asked_saves_and_the_list_says_by_whom(
    play: Play, training: subprocess.Popen, tmp_path: Path, size: tuple[int, int]
) -> None:
    root = tmp_path / "checkpoints"
    async with play(root, size=size) as pilot:
        words = await opened(pilot)
        assert f"started by hand, by {journal.person()}" in words
        assert ": it writes metrics.jsonl there" in words and "SIGTERM goes to pid" in words
        await press(pilot, "enter")
        await until(pilot, lambda: not isinstance(pilot.app.screen, StopBox), "the box closed")
        assert training.poll() is None, "no is the default"
        await opened(pilot)
        await press(pilot, "y")
        await until_shown(pilot, "■ stopped")
        await until(pilot, lambda: training.poll() == 0, "its end")
        await until(
            pilot,
            lambda: pilot.app.screen.cursor_run.state_reason.startswith(
                f"stopped on request by {journal.person()}: saved 0002, ended after"
            ),
            "who stopped it",
        )
    assert {name for name in os.listdir(root / NAME) if not name.endswith(".pt")} == {"metrics.jsonl"}
