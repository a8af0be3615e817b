"""Resumed runs are held against their plans: real trainings, and directories as they are found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.model.lineage import Family
from lavender_tui.model.run import Run
from lavender_tui.watch.index import Index
from lavender_tui.watch.scan import scan
from tests.watch import saves
from tests.watch.resumed_trainings import FROM_STEP

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root with a first real training and the four that were resumed from it."""
    place = tmp_path_factory.mktemp("trainings")
    done = subprocess.run(
        [sys.executable, "-m", "tests.watch.resumed_trainings", str(place)],
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "checkpoints"


@pytest.fixture(scope="module")
def runs(trainings: Path) -> dict[str, Run]:
    return {run.name: run for run in scan([str(trainings)])}


def words(run: Run) -> tuple[str, str]:
    assert run.proof is not None
    assert run.proof.is_settled
    return run.proof.verdict.value, run.proof.words


def test_the_right_state_carries_on(runs: dict[str, Run]) -> None:
    run = runs["run-2030-01-01_00-00-00"]
    assert words(run) == ("carries on", "carries on")
    assert run.proof is not None and all(one.agrees for one in run.proof.evidence)
    assert run.begin is not None and run.begin.at_step == FROM_STEP


def test_weights_of_another_seed_jump(runs: dict[str, Run]) -> None:
    verdict, said = words(runs["run-2030-01-01_00-00-01"])
    assert verdict == "jumped"
    assert said.startswith("jumped: loss 3.")
    assert "→ 5." in said


def test_a_wrong_position_names_its_rank(runs: dict[str, Run]) -> None:
    expected = f"rank 0 began at row 0, the plan says {FROM_STEP * 32:,}"
    assert words(runs["run-2030-01-01_00-00-02"]) == ("wrong start", expected)


def test_a_wrong_epoch_is_named(runs: dict[str, Run]) -> None:
    assert words(runs["run-2030-01-01_00-00-03"]) == ("wrong start", "epoch 2 instead of 1 (and 1 more)")


def test_the_first_start_has_nothing_to_prove(runs: dict[str, Run]) -> None:
    (first,) = [run for run in runs.values() if run.resumed_from is None]
    assert first.proof is None
    assert first.begin is not None and first.begin.checkpoint is None


def test_the_curve_goes_through_both(runs: dict[str, Run]) -> None:
    run = runs["run-2030-01-01_00-00-00"]
    stitched = Family(runs.values()).stitched(run)
    assert [point.step for point in stitched.points] == list(range(1, 49))
    assert stitched.is_whole
    assert [(mark.kind, mark.step) for mark in stitched.marks if mark.kind == "resume"] == [("resume", FROM_STEP)]
    (old,) = [one for one in runs.values() if one.resumed_from is None]
    assert stitched.points[:FROM_STEP] == old.losses[:FROM_STEP]


def test_a_settled_verdict_is_remembered_and_a_moved_root_is_found(trainings: Path, tmp_path: Path) -> None:
    root = shutil.copytree(trainings, tmp_path / "moved")
    shutil.move(trainings, trainings.with_name("away"))  # what the plans name is gone
    try:
        index = Index()
        name = "run-2030-01-01_00-00-01"
        (run,) = [one for one in scan([str(root)], index=index) if one.name == name]
        assert words(run)[0] == "jumped"
        (old,) = [one for one in scan([str(root)], index=index) if one.resumed_from is None]
        shutil.rmtree(old.path)
        os.utime(root / name / "metrics.jsonl")
        (again,) = [one for one in scan([str(root)], index=index) if one.name == name]
        assert again.proof == run.proof
    finally:
        shutil.move(trainings.with_name("away"), trainings)


@pytest.fixture
def resumed(tmp_path: Path) -> Path:
    """A run directory with a plan, and the run that it comes from."""
    old, new = tmp_path / "run-2025-03-14_09-00-00", tmp_path / "run-2025-03-15_09-00-00"
    path = saves.save(old, 1, global_step=40)
    log(old, range(1, 61))
    saves.save(new, 1, global_step=45)
    document = {
        "format": "lavender-resume-plan", "version": 1,
        "source": {
            "run": str(old), "checkpoint": str(path), "size": 1, "mtime_ns": 1, "stage": "pretrain", "save_count": 1,
            "epoch": 1, "epochs": 3, "epoch_complete": False, "loss": 2.0,
        },
        "world_size": {"previous": 1, "next": 1},
        "start": {"policy": "replay-epoch", "epoch": 1, "scheduler_steps": None, "samples_replayed": None},
        "dataset": None, "data": None, "batch": {"global": 8, "per_rank": 8, "num_workers": 0},
        "run_dir": str(new), "launch": {"backend": "local", "argv": [], "cwd": "/", "env": {}}, "warnings": [],
    }  # fmt: skip
    (new / "resume.json").write_text(json.dumps(document))
    return new


def log(run: Path, steps: range, *more: dict[str, Any], loss: float = 2.0) -> None:
    with open(run / "metrics.jsonl", "a") as file:
        for record in (*more, *({"step": step, "loss": loss + step % 3 / 100} for step in steps)):
            file.write(json.dumps(record) + "\n")


def look(new: Path, index: Index | None = None) -> Run:
    (run,) = [one for one in scan([str(new.parent)], index=index) if one.path == str(new)]
    return run


BEGIN = {
    "event": "begin", "at_step": 40, "epoch": 1, "world_size": 1, "checkpoint": None, "logged": 0,
    "positions": [{"dataset_epoch": 0, "first_split": 0, "taken": [0, 0, 0, 0]}],
}  # fmt: skip


def test_the_verdict_comes_as_the_training_goes(resumed: Path) -> None:
    index = Index()
    assert look(resumed, index).proof is not None

    def said() -> tuple[str, bool]:
        proof = look(resumed, index).proof
        assert proof is not None
        return proof.words, proof.is_settled

    assert said() == ("not yet: no step is logged", False)
    log(resumed, range(41, 43), BEGIN)
    assert said() == ("not yet: 2 of 3 steps logged", False)
    log(resumed, range(43, 44))
    assert said() == ("carries on", False)
    log(resumed, range(44, 60))
    assert said() == ("carries on", True)
    log(resumed, range(60, 80), loss=9.0)  # what becomes of it later is another story
    assert said() == ("carries on", True)


def test_the_jump_is_against_the_checkpoint_not_against_what_was_left_behind(resumed: Path) -> None:
    log(resumed.parent / "run-2025-03-14_09-00-00", range(61, 200), loss=9.0)  # after the checkpoint: thrown away
    log(resumed, range(41, 50), BEGIN)
    assert look(resumed).proof.words == "carries on"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "plan",
    [
        "", "{", "[]", "{}", '{"format": "lavender-resume-plan", "version": 1}',
        {"world_size": {"previous": 1, "next": "two"}}, {"source": 7}, {"dataset": [1, 2]}, {"warnings": None},
        {"start": {"policy": "exact", "epoch": None, "scheduler_steps": None, "samples_replayed": 0}},
    ],
)  # fmt: skip
def test_a_plan_that_is_none_harms_nothing(resumed: Path, plan: str | dict[str, Any]) -> None:
    path = resumed / "resume.json"
    path.write_text(plan if isinstance(plan, str) else json.dumps({**json.loads(path.read_text()), **plan}))
    log(resumed, range(41, 50), BEGIN)
    proof = look(resumed).proof
    assert proof is not None
    assert proof.words


def test_an_old_run_that_is_gone_leaves_the_loss_in_the_plan(resumed: Path) -> None:
    shutil.rmtree(resumed.parent / "run-2025-03-14_09-00-00")
    log(resumed, range(41, 50), BEGIN, loss=5.7)
    proof = look(resumed).proof
    assert proof is not None
    assert (proof.verdict.value, proof.words) == ("jumped", "jumped: loss 2.0 → 5.7")


def test_a_short_curve_is_led_back_to_the_run_before(resumed: Path) -> None:
    from lavender_tui.watch.proving import old_curve

    log(resumed, range(41, 44))
    steps = [point.step for point in old_curve(str(resumed), 42)]
    assert steps == list(range(1, 43))


def test_a_plan_of_megabytes_is_held_against_its_run_as_well(trainings: Path, tmp_path: Path) -> None:
    """As that of a packed training is, whose position has the tokens of every split."""
    root = shutil.copytree(trainings, tmp_path / "checkpoints")
    path = root / "run-2030-01-01_00-00-00" / "resume.json"
    plan = json.loads(path.read_text())
    plan["warnings"] = ["x" * (3 << 20)]
    path.write_text(json.dumps(plan))
    [run] = [one for one in scan([str(root)]) if one.name == "run-2030-01-01_00-00-00"]
    assert run.resumed_from is not None and not [one for one in run.warnings if "resume.json" in one]
    assert words(run) == ("carries on", "carries on")
