"""`lavender-tui resume` as a script calls it: real checkpoints, a real child, no terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tui import runs

PARENT, CHILD = "run-2026-04-24_18-53-41", "run-2026-04-25_09-12-07"


@pytest.fixture
def root(tmp_path: Path, nothing_survives: Callable[[], list[int]]) -> Path:
    """A root with one failed run of two saves."""
    root = tmp_path / "checkpoints"
    for count in (1, 2):
        runs.save(root / PARENT, count, each=100 * count, world_size=1)
    return root


def resume(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lavender_tui", "resume", str(root / PARENT), "-w", "1", *options]
    training = ["--", sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    return subprocess.run(
        [*command, *training], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=root.parent, timeout=60
    )


def new_runs(root: Path) -> set[str]:
    return {path.name for path in root.glob("run-*")} - {PARENT, CHILD}


def test_it_prints_the_new_runs_directory_and_nothing_else(root: Path) -> None:
    done = resume(root)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(root / name) for name in new_runs(root)]
    plan = json.loads((Path(done.stdout.strip()) / "resume.json").read_text())
    assert plan["dataset"]["samples_consumed_per_split"] == [200] * 8


def test_a_run_that_went_on_as_another_needs_yes(root: Path) -> None:
    runs.save(root / CHILD, 1, each=300, world_size=1)
    runs.launched(root / CHILD, ["python", "train.py"], source=root / PARENT, world_size=1)
    done = resume(root)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert CHILD in last and "saves of its own" in last and "--yes" in last
    assert f"{root / PARENT}: not resumed" in last, "the run that isn't resumed, not the one that it went on as"
    assert new_runs(root) == set()
    assert resume(root, "--yes").returncode == 0
    assert len(new_runs(root)) == 1


def test_a_resume_that_ended_before_its_first_save_is_simply_tried_again(root: Path) -> None:
    """As after an out-of-memory at once: an unattended script must get on."""
    runs.launched(root / CHILD, ["python", "train.py"], source=root / PARENT, world_size=1)
    done = resume(root, "--verbose")
    assert done.returncode == 0, done.stderr
    assert "ended before its first save" in done.stderr


def test_beside_a_living_resume_nothing_starts_on_a_mere_yes(root: Path) -> None:
    first = resume(root)
    assert first.returncode == 0, first.stderr
    second = resume(root, "--yes")
    assert second.returncode == 1
    assert os.path.basename(first.stdout.strip()) in second.stderr.splitlines()[-1]
    assert len(new_runs(root)) == 1
