"""A resume that is killed at each of its steps, or whose disk refuses one of them: one training that is known, or none.

Never two, never half a plan, never a run that is taken for a living one; the old run is not touched, and the next
resume works.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.errors import AlreadyRunning
from lavender_tui.launch import KILL, living, stop
from lavender_tui.launch.identity import raw_environment
from lavender_tui.launch.record import read_exit, read_launch
from lavender_tui.model.plan import PLAN_NAME, ResumePlan
from lavender_tui.model.run import RunState
from lavender_tui.resume import Child, carry_out, warm_child
from lavender_tui.watch.scan import scan
from tests.resume import faulty
from tests.resume.saves import proposed, row, save
from tests.resume.test_carrying_out import fingerprint

LIVES = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)")
OLD = "run-2026-04-24_18-53-41"
OURS = {PLAN_NAME, "state.pt", "launch.json", "launch.lock", "train.log", "exit.json"}
FAULTS = {"killed": "kill", "disk full": errno.ENOSPC, "not allowed": errno.EACCES}


@dataclass
class Tried:
    """One resume with a fault, after everything that it started has found its place."""

    root: str
    notes: str
    code: int
    said: str

    @property
    def old(self) -> str:
        return os.path.join(self.root, OLD)

    @property
    def made(self) -> list[str]:
        names = sorted(name for name in os.listdir(self.root) if name != OLD and not name.startswith("."))
        return [os.path.join(self.root, name) for name in names]

    @property
    def locks(self) -> list[str]:
        """What is left of the lock: of a killed one it is there, and holds up nobody."""
        directory = os.path.join(self.root, ".lavender-tui", "locks")
        return os.listdir(directory) if os.path.isdir(directory) else []

    @property
    def trainings(self) -> list[int]:
        """The processes that became the training: the command's words, in a run's directory of this root."""
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and self._is_training(int(name))]

    def _is_training(self, pid: int) -> bool:
        mark = os.fsencode(f"LAVENDER_RUN_DIR={self.root}/")
        if not any(entry.startswith(mark) for entry in raw_environment(pid)):
            return False
        return os.fsencode(LIVES[-1]) in words_of(pid)

    @property
    def supervisors(self) -> list[int]:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            words = words_of(int(name))
            if b"--report" in words and any(word.startswith(os.fsencode(self.root) + b"/") for word in words):
                found.append(int(name))
        return found

    @property
    def is_merging(self) -> bool:
        """Does the merging child live, though nobody asks it any more?"""
        mark = os.fsencode(self.notes)
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return any(
            entry.startswith(b"FAULTY_STEPS=") and mark in entry and b"tests.resume.faulty_merge" in words_of(pid)
            for pid in pids
            for entry in raw_environment(pid)
        )

    @property
    def has_happened(self) -> bool:
        return os.path.exists(os.path.join(self.notes, "fired"))


def words_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


@pytest.fixture
def attempt(tmp_path: Path, until: Callable[..., Any], nothing_survives: Any) -> Callable[..., Tried]:
    def make(where: str, fault: Any, at: int, **saved: Any) -> Tried:
        place = tmp_path / f"{where}-{fault}-{at}"
        root, notes = place / "checkpoints", place / "notes"
        notes.mkdir(parents=True)
        save(str(root / OLD), **saved)
        before = fingerprint(str(root / OLD))
        spec = json.dumps({"where": where, "fault": fault, "at": at, "notes": str(notes)})
        done = subprocess.run(
            [sys.executable, faulty.__file__, spec, "resume", str(root / OLD), "--yes", "--world-size=1", "--", *LIVES],
            capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        tried = Tried(root=str(root), notes=str(notes), code=done.returncode, said=done.stderr)
        until(lambda: is_settled(tried), 60, f"{where} {fault} {at} to settle: {done.stderr}")
        assert fingerprint(tried.old) == before
        return tried

    return make


def is_settled(tried: Tried) -> bool:
    """Every supervisor that lives has its training, every training its record; what is on its way is gone."""
    trainings = tried.trainings
    recorded = [record.leader.pid for record in map(read_launch, tried.made) if record is not None]
    if any(pid not in recorded for pid in trainings) or tried.is_merging:
        return False
    supervised = [record.supervisor.pid for record in map(read_launch, tried.made) if record and record.supervisor]
    return all(pid in supervised and trainings for pid in tried.supervisors)


def judge(tried: Tried, fault: Any) -> None:
    assert "Traceback" not in tried.said, tried.said
    trainings = tried.trainings
    assert len(trainings) <= 1 and len(tried.made) <= 1, (tried.made, tried.said)
    assert fault == "kill" or not tried.locks, (tried.locks, tried.said)
    for run_dir in tried.made:
        whole_or_absent(run_dir, fault)
    if trainings:
        [run_dir] = tried.made
        record = read_launch(run_dir)
        assert record is not None and record.leader.pid == trainings[0] and living.is_alive(run_dir)
        assert record.resumed_from is not None and record.resumed_from.run == tried.old
        assert os.path.exists(os.path.join(run_dir, PLAN_NAME))
        assert fault == "kill" or tried.code == 0, f"it failed, and a training runs: {tried.said}"
    else:
        # Killed before it became the training, it is a training that was killed: started, and its end is known.
        was_killed = fault == "kill" and [end.signal for end in map(read_exit, tried.made) if end] == ["SIGKILL"]
        assert tried.code != 0 or was_killed
        assert fault == "kill" or not tried.made, (tried.made, os.listdir(tried.made[0]), tried.said)
        assert [run.path for run in scan([tried.root]) if run.state is RunState.RUNNING] == []


def whole_or_absent(run_dir: str, fault: Any) -> None:
    names = set(os.listdir(run_dir))
    unknown = {
        name for name in names - OURS if not (fault == "kill" and name.startswith(".") and name.endswith(".tmp"))
    }
    assert not unknown
    if PLAN_NAME in names:
        with open(os.path.join(run_dir, PLAN_NAME), encoding="utf-8") as file:
            assert ResumePlan.from_json(json.load(file)).run_dir == run_dir


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with warm_child() as made:
        yield made


def next_resume_works(tried: Tried, until: Callable[..., Any], child: Child) -> None:
    """Beside a living training nothing is started; without one the old run is resumed as if nothing had been."""
    if tried.trainings:
        with pytest.raises(AlreadyRunning):
            carry_out(proposed(tried.old, LIVES, world_size=1), child=child)
        stop(tried.made[0], KILL)
        until(lambda: not tried.trainings, 20, "the end of the training")
    before = tried.made
    launched = carry_out(proposed(tried.old, LIVES, world_size=1), child=child)
    assert launched.run_dir not in before
    assert tried.trainings == [launched.record.leader.pid]
    stop(launched.run_dir, KILL)


def steps_of(tried: Tried, where: str) -> int:
    with open(os.path.join(tried.notes, where), encoding="utf-8") as file:
        return max(int(line.split()[0]) for line in file)


def try_all(
    attempt: Callable[..., Tried], until: Callable[..., Any], child: Child, where: str, fault: Any, **saved: Any
) -> int:
    """A resume for each step that an undisturbed one makes; returns how many had their fault."""
    undisturbed = attempt(where, fault, 0, **saved)
    assert undisturbed.code == 0 and len(undisturbed.trainings) == 1, undisturbed.said
    next_resume_works(undisturbed, until, child)
    happened, wrong = 0, []
    for at in range(1, steps_of(undisturbed, where) + 1):
        tried = attempt(where, fault, at, **saved)
        happened += tried.has_happened
        try:
            judge(tried, fault)
            next_resume_works(tried, until, child)
        except AssertionError as error:
            wrong.append(f"step {at} of the {where}: {error}")
        for run_dir in tried.made if tried.trainings else ():
            stop(run_dir, KILL)
    assert not wrong, "\n".join(wrong)
    return happened


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize(("where", "least"), [("launcher", 16), ("supervisor", 20), ("training", 3)])
def test_a_fault_at_every_step(
    attempt: Callable[..., Tried], until: Callable[..., Any], child: Child, where: str, least: int, fault: Any
) -> None:
    assert try_all(attempt, until, child, where, fault) >= least


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["kill", errno.ENOSPC], ids=["killed", "disk full"])
def test_a_fault_at_every_step_of_a_resume_that_merges(
    attempt: Callable[..., Tried], until: Callable[..., Any], child: Child, fault: Any
) -> None:
    saved = {"dataset": [row(), row()], "world_size": 2}
    assert try_all(attempt, until, child, "launcher", fault, **saved) >= 24


@pytest.mark.parametrize(("where", "at"), [("launcher", 3), ("supervisor", 9)])
def test_killed_in_the_middle(
    attempt: Callable[..., Tried], until: Callable[..., Any], child: Child, where: str, at: int
) -> None:
    tried = attempt(where, "kill", at)
    assert tried.has_happened
    judge(tried, "kill")
    next_resume_works(tried, until, child)
