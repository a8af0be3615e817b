"""The command that does what was proposed: every choice in it, the shell's quotes left to whoever shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lavender_tui.model.plan import Policy
from lavender_tui.resume import Options, Target, propose
from lavender_tui.resume.as_command import resume_command
from tests.tui import runs


@pytest.fixture
def run(tmp_path: Path) -> Path:
    found = tmp_path / "check points" / "run-2026-04-24_18-53-41"
    runs.save(found, 2, each=200, world_size=2)
    return found


def test_what_was_not_chosen_is_left_out(run: Path) -> None:
    [checkpoint] = run.glob("*.pt")
    words = resume_command(propose(Target(paths=(str(run),))))
    assert words == ("lavender-tui", "resume", str(checkpoint), "--world-size", "2")


def test_every_choice_is_said(run: Path, tmp_path: Path) -> None:
    options = Options(
        world_size=4, num_workers=1, policy=Policy.REPLAY_EPOCH, backend="torchrun", nodes=2, rdzv_endpoint="a:1",
        max_restarts=3, root=str(tmp_path), verify=False, command=("python", "train.py", "--lr=1"),
    )  # fmt: skip
    words = " ".join(resume_command(propose(Target(paths=(str(run),)), options)))
    assert words.endswith(
        " --world-size 4 --num-workers 1 --policy replay-epoch --backend torchrun --nodes 2 --rdzv-endpoint a:1"
        f" --max-restarts 3 --root {tmp_path} --no-verify -- python train.py --lr=1"
    )
    stage = resume_command(propose(Target(paths=(str(run),)), Options(next_stage="sft")))
    assert stage[-2:] == ("--next-stage", "sft")


@pytest.mark.parametrize("verb", [["plan"], ["resume", "--dry-run"]], ids=" ".join)
def test_a_plan_tells_what_runs_from_the_way_to_do_it(run: Path, verb: list[str]) -> None:
    [checkpoint] = run.glob("*.pt")
    command = [sys.executable, "-m", "lavender_tui", *verb, str(run), "-w", "1", "--", sys.executable, "-c", "pass"]
    out = subprocess.run(command, capture_output=True, text=True, cwd=run).stdout.splitlines()
    assert any(line.startswith("runs        ") and line.endswith(" -c pass") for line in out)
    assert not any(line.startswith("command") for line in out)
    assert f"to do it    lavender-tui resume '{checkpoint}' --world-size 1 -- {sys.executable} -c pass" in out
