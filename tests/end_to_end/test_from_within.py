"""A training whose script starts the next one as its last act, as scripts that loop do: its end ends nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, keepers, stop
from lavender_tui.launch.identity import descendants
from lavender_tui.launch.record import LaunchRecord, read_exit, read_launch
from tests.launch.conftest import Lab, lab
from tests.resume.saves import save

__all__ = ["lab"]  # a fixture

# The next training, and a helper of it that is started with an empty environment, as some wrappers do.
NEXT = "env -i {sleep} '{mark}' & exec {sleep} '{mark}'"
SLEEP = f"{sys.executable} -c 'import time; time.sleep(300)'"
LAVENDER = f"{sys.executable} -m lavender_tui"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A run that ended long ago, with a checkpoint."""
    run = str(tmp_path / "checkpoints" / "run-2025-04-24_18-53-41")
    save(run)
    return run


def start_script(lab: Lab, text: str) -> tuple[str, LaunchRecord]:
    return lab.start("sh", lab.script(text, "train.sh"), grace=20.0)


def launched(tmp_path: Path, but: str) -> list[str]:
    found = map(str, (tmp_path / "checkpoints").iterdir())
    return [path for path in found if read_launch(path) is not None and path != but]


@pytest.mark.parametrize("code", [0, 1], ids=["ended well", "failed"])
def test_the_resume_that_a_training_ends_with_outlives_it(lab: Lab, source: str, tmp_path: Path, code: int) -> None:
    following = lab.script(NEXT.format(sleep=SLEEP, mark=f"{tmp_path}/mark"), "next.sh")
    run_dir, _ = start_script(
        lab,
        f"{LAVENDER} resume {source} --backend local --no-verify -- sh {following} > {tmp_path}/said 2>&1\n"
        f"exit {code}\n",
    )
    ended = lab.ended(run_dir, 60.0)
    told = (tmp_path / "said").read_text()
    assert ended.code == code and "left" not in (ended.error or ""), told
    (after,) = launched(tmp_path, run_dir)
    resumed = read_launch(after)
    assert resumed is not None and read_exit(after) is None, told
    assert resumed.supervisor is not None and resumed.supervisor.is_alive and resumed.leader is not None
    lab.until(lambda: len(descendants(resumed.supervisor.pid)) == 2, what="the next training and its helper")
    assert stop(run_dir).how == "not running"
    assert resumed.leader.is_alive and len(descendants(resumed.supervisor.pid)) == 2
    assert stop(after, KILL).has_ended and descendants(resumed.supervisor.pid) == []


def test_the_keeper_that_a_training_starts_outlives_it_and_resumes_it(lab: Lab, source: str, tmp_path: Path) -> None:
    (saved,) = Path(source).iterdir()
    run_dir, _ = start_script(
        lab,
        f'[ -n "$LAVENDER_RESUME_PLAN" ] && exec {SLEEP} {tmp_path}/mark\n'
        f'cp {saved} "$LAVENDER_RUN_DIR"\n'
        f'{LAVENDER} supervise "$LAVENDER_RUN_DIR" --detach --backoff 0.1 2>&1\n'
        "exit 7\n",
    )
    assert lab.ended(run_dir, 60.0).code == 7, lab.log(run_dir)

    (after,) = lab.until(lambda: launched(tmp_path, run_dir), 60.0, what=lambda: lab.log(run_dir))
    resumed = read_launch(after)
    assert resumed is not None and resumed.leader is not None and resumed.leader.is_alive
    kept = lab.until(lambda: keepers.keeper_of(after), what="its keeper to follow the new run")
    assert kept.is_alive
    assert stop(after, KILL).has_ended
    lab.until(lambda: not os.path.exists(f"/proc/{kept.pid}"), what="the keeper's end")


def test_a_training_that_would_resume_itself_hears_what_does_that(lab: Lab, source: str, tmp_path: Path) -> None:
    (saved,) = Path(source).iterdir()
    run_dir, _ = start_script(
        lab, f'cp {saved} "$LAVENDER_RUN_DIR"\n{LAVENDER} resume "$LAVENDER_RUN_DIR" --no-verify -- true 2>&1\n'
    )
    assert lab.ended(run_dir, 60.0).code == 1
    assert "lavender-tui supervise" in lab.log(run_dir) and launched(tmp_path, run_dir) == []
