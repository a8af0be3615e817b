"""Asking whether to stop: what no says, what the second time offers, and that an end answers the question."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.launch.identity import boot_id, host_name, pid_namespace, start_ticks
from lavender_tui.launch.record import LaunchRecord, ProcessId, write_launch
from lavender_tui.tui.screens.ask import Ask
from tests.tui import runs
from tests.tui.conftest import SMALL, Play, press, text_of, until, until_shown

NAME = "run-2026-04-24_18-53-41"


@pytest.fixture
def living(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose process ignores a polite request."""
    run_dir = tmp_path / "checkpoints" / NAME
    runs.save(run_dir, 1)
    code = "import signal, sys, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    ticks = start_ticks(process.pid)
    assert ticks is not None
    record = LaunchRecord(
        run_id="it", run_dir=str(run_dir), backend="local", argv=("python",), command=("python",), cwd=str(tmp_path),
        host=host_name(), boot_id=boot_id(), pid_namespace=pid_namespace(),
        leader=ProcessId(pid=process.pid, start_ticks=ticks), started_at=time.time(), written_by="supervisor",
    )  # fmt: skip
    write_launch(str(run_dir), record)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


async def test_no_leaves_it_running_and_says_so(play: Play, tmp_path: Path, living: subprocess.Popen[bytes]) -> None:
    async with play(tmp_path / "checkpoints", size=SMALL) as pilot:
        await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the process")
        await press(pilot, "x")
        await until_shown(pilot, f"Stop {NAME}?")
        assert "press x again later to kill it" in " ".join(text_of(pilot.app).replace("│", " ").split())
        await press(pilot, "enter")
        await until_shown(pilot, "Left running")
        assert living.poll() is None and not pilot.app.asked_to_stop


async def test_the_question_goes_when_the_run_has_ended(
    play: Play, tmp_path: Path, living: subprocess.Popen[bytes]
) -> None:
    async with play(tmp_path / "checkpoints") as pilot:
        await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the process")
        pilot.app.asked_to_stop.add(pilot.app.screen.cursor_run.key)
        await press(pilot, "x")
        await until_shown(pilot, f"Kill {NAME}?")
        living.kill()
        living.wait()
        pilot.app.feed.rescan_soon()
        await until(pilot, lambda: not isinstance(pilot.app.screen, Ask), "the question gone")
        await until_shown(pilot, "It has ended")
