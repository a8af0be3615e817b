"""What the supervisor costs at a launch, against Popen of the same command, measured in the same minute."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch.record import read_exit
from lavender_tui.model.plan import Launch

pytestmark = pytest.mark.bench
ROUNDS = 25
ALLOWED_TIMES = 8  # of the bare interpreter that Popen starts: 9 ms alone on the machine, more under load
# Writes when its first line runs, so that what is measured ends inside the training.
FIRST_LINE = "import sys, time; open(sys.argv[1], 'w').write(repr(time.monotonic()))"


def test_the_supervisor_adds_little_to_a_launch(
    tmp_path: Path, until: Callable[..., object], nothing_survives: object, capsys: pytest.CaptureFixture[str]
) -> None:
    direct, supervised, returned = [], [], []
    for number in range(ROUNDS):
        # By turns, so that other load on the machine meets both.
        direct.append(_direct(tmp_path / f"direct-{number}", until))
        line, call = _supervised(tmp_path / f"run-{number}", until)
        supervised.append(line)
        returned.append(call)
    added = statistics.median(supervised) - statistics.median(direct)
    with capsys.disabled():
        print(
            f"\nlaunch to first line, median of {ROUNDS}: Popen {statistics.median(direct):.1f} ms, supervised "
            f"{statistics.median(supervised):.1f} ms (+{added:.1f} ms, worst {max(supervised):.1f} ms); "
            f"start() returns after {statistics.median(returned):.1f} ms"
        )
    assert added < ALLOWED_TIMES * statistics.median(direct)


def _direct(directory: Path, until: Callable[..., object]) -> float:
    directory.mkdir()
    mark = directory / "mark"
    started = time.monotonic()
    subprocess.Popen([sys.executable, "-I", "-S", "-c", FIRST_LINE, str(mark)], start_new_session=True).wait()
    return (float(mark.read_text()) - started) * 1000


def _supervised(directory: Path, until: Callable[..., object]) -> tuple[float, float]:
    """(milliseconds to the training's first line, milliseconds until `start` returned)."""
    directory.mkdir()
    mark = directory / "mark"
    argv = (sys.executable, "-I", "-S", "-c", FIRST_LINE, str(mark))
    started = time.monotonic()
    launch.start(Launch(backend="local", argv=argv, cwd=str(directory)), str(directory))
    returned = time.monotonic()
    until(lambda: read_exit(str(directory)), 30, "the end of the run")
    assert os.path.exists(directory / "launch.json")
    return (float(mark.read_text()) - started) * 1000, (returned - started) * 1000
