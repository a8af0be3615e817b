"""`resume --latest`: one line for cron that starts, resumes, or leaves alone, with real children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import KILL, stop
from lavender_tui.launch.record import read_exit, read_launch
from tests.resume.saves import save

# A training without torch: notes how it was started, takes over a checkpoint, and lives for as long as it is told.
TRAIN = """
import json, os, shutil, sys, time
run, plan = os.environ["LAVENDER_RUN_DIR"], os.environ.get("LAVENDER_RESUME_PLAN")
begun = {"plan": json.load(open(plan)) if plan else None, "argv": sys.argv[1:], "world": os.environ.get("WORLD_SIZE")}
with open(run + "/begun.tmp", "w") as file:
    json.dump(begun, file)
os.rename(run + "/begun.tmp", run + "/begun.json")
shutil.copy(sys.argv[1], run + "/" + os.path.basename(sys.argv[1])) if sys.argv[1] else None
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def train(tmp_path: Path, nothing_survives: Any) -> Callable[..., list[str]]:
    """The command of a training that saves a copy of a checkpoint (or nothing), then lives for some seconds."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)

    def command(checkpoint: str = "", seconds: float = 0.0, *more: str) -> list[str]:
        return ["--", sys.executable, str(script), checkpoint, str(seconds), *more]

    return command


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., str]:
    """A checkpoint that lies outside every root."""
    return lambda **fields: save(str(tmp_path / "elsewhere"), **fields)


def latest(root: Path | str, *words: str) -> tuple[dict[str, Any], str]:
    """Its JSON and what it said; the exit code is 0."""
    done = lavender("resume", "--latest", str(root), "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def lavender(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lavender_tui", *words], capture_output=True, text=True, timeout=60)


def begun(document: dict[str, Any], until: Any) -> dict[str, Any]:
    path = Path(document["run_dir"], "begun.json")
    until(path.exists, what="the training to begin")
    return json.loads(path.read_text())


def ended(document: dict[str, Any], until: Any) -> None:
    until(lambda: read_exit(document["run_dir"]), what="the end")


def test_fresh_then_alive_then_resumed_then_over(
    tmp_path: Path, train: Callable[..., list[str]], saved: Callable[..., str], until: Any
) -> None:
    root, half = tmp_path / "a" / "root", saved()
    first, said = latest(root, *train(half, 60))
    assert first["started"] == "fresh" and first["plan"] is None and "starting fresh" in said
    assert Path(first["run_dir"]).parent == root and begun(first, until)["plan"] is None
    record = read_launch(first["run_dir"])
    assert record is not None and record.resumed_from is None and record.leader.pid == first["pid"]

    alive, said = latest(root, *train())
    assert (alive["started"], alive["run_dir"], alive["pid"]) == ("alive", first["run_dir"], first["pid"])
    assert "lives" in said and len(list(root.glob("run-*"))) == 1

    until(lambda: Path(first["run_dir"], os.path.basename(half)).exists(), what="a save")
    stop(first["run_dir"], KILL)
    over = saved(count=2, epoch=3, epoch_complete=True)
    second, _ = latest(root, *train(over))
    assert second["started"] == "resumed" and second["argv"][-2] == over
    plan = begun(second, until)["plan"]
    assert plan["source"]["run"] == first["run_dir"] and second["plan"].endswith("resume.json")

    ended(second, until)
    third, said = latest(root, *train())
    assert (third["started"], third["run_dir"]) == ("over", second["run_dir"])
    assert "nothing is left to train" in said and "--next-stage sft" in said and len(list(root.glob("run-*"))) == 2


def test_what_is_over_goes_on_with_more_epochs_but_not_again_and_again(
    tmp_path: Path, train: Callable[..., list[str]], saved: Callable[..., str], until: Any
) -> None:
    """A number that the run itself was started with, or that led to no save, is none that makes it longer."""
    root, over = tmp_path / "root", saved(epoch=3, epoch_complete=True)
    first, _ = latest(root, *train(over, 0, "--epochs", "4"))
    ended(first, until)
    again, said = latest(root, *train("", 0, "--epochs", "4"))
    assert again["started"] == "over" and "--epochs 8" in said
    more, said = latest(root, *train("", 0, "--epochs", "5"))
    assert more["started"] == "resumed" and "asks for 5 epochs" in said
    assert begun(more, until)["plan"]["start"]["epoch"] == 4
    ended(more, until)
    assert latest(root, *train("", 0, "--epochs", "5"))[0]["started"] == "over"
    assert latest(root, *train("", 0, "--epochs", "6"))[0]["started"] == "resumed"


def test_a_start_that_failed_before_its_first_save_is_made_again(
    tmp_path: Path, train: Callable[..., list[str]], until: Any
) -> None:
    first, _ = latest(tmp_path / "root", *train())
    ended(first, until)
    again, _ = latest(tmp_path / "root", *train())
    assert again["started"] == "fresh" and again["run_dir"] != first["run_dir"]


def test_a_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    done = lavender("resume", "--latest", str(tmp_path / "root"), "--", str(tmp_path / "no-such-program"))
    assert done.returncode == 1 and "no-such-program" in done.stderr and done.stdout == ""
    assert os.listdir(tmp_path / "root") == []


def test_a_cut_first_save_is_no_reason_to_wait_for_ever_and_an_unreadable_one_is(
    tmp_path: Path, train: Callable[..., list[str]]
) -> None:
    root = tmp_path / "root"
    path = save(str(root / "run-2026-04-24_18-53-41"))
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)
    os.utime(path, (1e9, 1e9))
    document, said = latest(root, *train())
    assert document["started"] == "fresh" and "cut off or damaged" in said
    other = tmp_path / "other"
    weightless = save(str(other / "run-2026-04-24_18-53-41"), drop=("model_state_dict",))
    done = lavender("resume", "--latest", str(other), *train())
    assert done.returncode == 1 and os.path.basename(weightless) in done.stderr
    assert len(os.listdir(other)) == 1


def test_the_world_size_goes_into_a_first_start_and_into_a_resume(
    tmp_path: Path, train: Callable[..., list[str]], saved: Callable[..., str], until: Any
) -> None:
    root = tmp_path / "root"
    words = train(saved(), 0, "{world_size}")
    first, _ = latest(root, "--world-size", "2", "--backend", "local", *words)
    assert begun(first, until)["argv"][-1] == "2" and read_launch(first["run_dir"]).world_size == 2
    ended(first, until)
    second, _ = latest(root, "--world-size", "3", "--backend", "local", *words)
    assert second["started"] == "resumed" and begun(second, until)["argv"][-1] == "3"


def test_two_at_once_start_one(tmp_path: Path, train: Callable[..., list[str]]) -> None:
    root, found = tmp_path / "root", []
    threads = [
        threading.Thread(target=lambda: found.append(latest(root, *train("", 60))[0]["started"])) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["alive", "alive", "fresh"] and len(list(root.glob("run-*"))) == 1


def test_the_next_stage_begins_once_and_goes_on_from_its_own_saves(
    tmp_path: Path, train: Callable[..., list[str]], saved: Callable[..., str], until: Any
) -> None:
    root = tmp_path / "root"
    save(str(root / "run-2026-04-24_18-53-41"), epoch=3, epoch_complete=True)
    first, _ = latest(root, "--next-stage", "sft", *train(saved(stage="sft"), 0, "{stage}"))
    told = begun(first, until)
    assert told["plan"]["start"]["stage"] == "sft" and told["argv"][-1] == "sft"
    ended(first, until)
    second, _ = latest(root, "--next-stage", "sft", *train("", 0, "{stage}"))
    told = begun(second, until)
    assert told["plan"]["start"]["stage"] is None and told["plan"]["source"]["stage"] == "sft"
    empty = lavender("resume", "--latest", str(tmp_path / "empty"), "--next-stage", "sft", *train())
    assert empty.returncode == 1 and "no checkpoint" in empty.stderr


def test_dry_run_starts_nothing_and_what_makes_no_sense_is_said(
    tmp_path: Path, train: Callable[..., list[str]]
) -> None:
    document, said = latest(tmp_path / "root", "--dry-run", *train())
    assert document["started"] == "fresh" and document["argv"] and "would start fresh" in said
    assert not (tmp_path / "root").exists()
    path = save(str(tmp_path / "root" / "run-2026-04-24_18-53-41"))
    for words in ((path,), (os.path.dirname(path),), (str(tmp_path), "--root", "x"), (str(tmp_path), "--before-spike")):
        assert lavender("resume", "--latest", *words, *train()).returncode == 2
    unknown = subprocess.run(
        [sys.executable, "-m", "lavender_tui", "resume", "--latest", str(tmp_path / "none")],
        capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert unknown.returncode == 2 and "not known" in unknown.stderr and os.listdir(tmp_path / "none") == []


@pytest.mark.parametrize("policy", ["exact", "next-epoch", "replay-epoch", "skip-epoch"])
def test_every_policy_can_be_asked_for(tmp_path: Path, policy: str) -> None:
    from tests.resume.saves import row

    run = tmp_path / "run-2026-04-24_18-53-41"
    save(str(run), dataset=[row(), row()], world_size=2)
    done = lavender("plan", str(run), "-w", "1", "--policy", policy, "--json", "--", sys.executable, "-c", "pass")
    start = json.loads(done.stdout)["start"]
    expected = {"exact": 1, "next-epoch": 2, "replay-epoch": 1, "skip-epoch": 2}
    assert done.returncode == 0 and (start["policy"], start["epoch"]) == (policy, expected[policy])
