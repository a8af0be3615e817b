"""Who holds a run's training.lock is a rank of it, and only who surely is one is ever signalled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import identity, living
from lavender_tui.launch.files import HELD
from lavender_tui.watch.processes import find_processes

HOLD = """
import sys, time
held = [open(path, "r+b") for path in sys.argv[1:]]
print("up", flush=True)
time.sleep(600)
"""

Holding = Callable[..., int]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "a" / "run-2026-01-02_03-04-05", tmp_path / "a" / "run-2026-01-03_03-04-05"
    for run in made:
        run.mkdir(parents=True)
        (run / HELD).touch()
    return made


@pytest.fixture
def holding(tmp_path: Path, nothing_survives: object) -> Iterator[Holding]:
    (tmp_path / "hold.py").write_text(HOLD)
    started: list[subprocess.Popen] = []

    def start(*runs: Path, before: tuple[str, ...] = (), **environment: str) -> int:
        argv = [*before, sys.executable, str(tmp_path / "hold.py"), *(str(run / HELD) for run in runs)]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, **environment}))
        assert started[-1].stdout is not None and started[-1].stdout.readline() == b"up\n"
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.communicate()


def members(run: Path) -> list[int]:
    return [one.pid for one in living.members(str(run), None)]


def found(*runs: Path) -> dict[str, list[int]]:
    by_run = find_processes([str(run) for run in runs], {str(run): None for run in runs})
    return {os.path.basename(run): [one.pid for one in processes] for run, processes in by_run.items()}


def test_a_rank_is_a_member_of_its_run(runs: tuple[Path, Path], holding: Holding) -> None:
    pid = holding(runs[0])
    assert members(runs[0]) == [pid] and members(runs[1]) == []
    assert found(*runs) == {runs[0].name: [pid]}


def test_who_holds_two_runs_is_surely_of_neither(runs: tuple[Path, Path], holding: Holding) -> None:
    holding(*runs)
    assert members(runs[0]) == members(runs[1]) == []


def test_who_names_another_run_is_of_that_one(runs: tuple[Path, Path], holding: Holding) -> None:
    pid = holding(runs[0], LAVENDER_RUN_DIR=str(runs[1]), LAVENDER_RUN_ID="b")
    assert members(runs[0]) == [] and members(runs[1]) == [pid]


def test_a_shell_that_has_the_file_open_is_no_rank(runs: tuple[Path, Path]) -> None:
    script = f"exec 9>>'{runs[0] / HELD}'; echo up; read -r _"
    with subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None and shell.stdout.readline() == b"up\n"
        assert str(runs[0] / HELD) in identity.files_open_for_writing(shell.pid)
        assert members(runs[0]) == []
        shell.communicate(b"\n")


def test_the_file_of_the_same_name_in_a_container_is_another_one(
    tmp_path: Path, runs: tuple[Path, Path], holding: Holding
) -> None:
    unshare = shutil.which("unshare")
    other, here = tmp_path / "other", runs[0].parent
    (other / runs[0].name).mkdir(parents=True)
    (other / runs[0].name / HELD).touch()
    script = f'mount --make-rprivate / && mount --bind "{other}" "{here}" && exec "$@"'
    before = (str(unshare), "-m", "bash", "-c", script, "bash")
    if unshare is None or subprocess.run([*before, "true"], capture_output=True).returncode:
        pytest.skip("no right to make a mount namespace here")
    pid = holding(runs[0], before=before)
    assert identity.files_open_for_writing(pid) == [] and members(runs[0]) == [] and found(runs[0]) == {}
