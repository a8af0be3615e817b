"""`plan --verify` and `resume`: a checkpoint that went bad on the disk starts nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.resume.saves import model, save


def lavender(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lavender_tui", *args],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        timeout=60,
    )


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    script = tmp_path / "train.py"
    script.write_text("print('trained')\n")
    return ("--", sys.executable, str(script))


@pytest.fixture
def bad(tmp_path: Path) -> str:
    """A run whose newest save has a NaN in one weight; the one before is good."""
    run = str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")
    save(run, 1)
    weights, _ = model()
    weights["weight"][0, 0] = float("nan")
    save(run, 2, model_state_dict=weights)
    return run


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {one["id"]: one for one in json.loads(done.stdout)["checks"]}


@pytest.mark.parametrize("how", ["plan", "resume --dry-run", "plan --verify"])
def test_a_plan_looks_inside_as_a_resume_does(bad: str, command: tuple[str, ...], how: str) -> None:
    path = os.path.join(bad, "pretrain-10-00-00-0002.pt")
    for options, variables in ((("--no-verify",), {}), ((), {"LAVENDER_TUI_VERIFY_GB": "1e-9"})):
        quick = lavender("plan", path, "--json", *options, *command, **variables)
        assert quick.returncode == 0 and "checkpoint.finite" not in checks(quick)
    deep = lavender(*how.split(), path, "--json", *command)
    found = checks(deep)["checkpoint.finite"]
    assert deep.returncode == 1 and found["verdict"] == "refuse"
    assert "weight (1 NaN of 8)" in found["what"] and "go back to pretrain-10-00-00-0001.pt" in found["remedy"]
    assert deep.stderr == ""


def test_a_resume_always_looks_up_to_the_size_that_is_set(bad: str, command: tuple[str, ...]) -> None:
    before = os.listdir(os.path.dirname(bad))
    done = lavender("resume", bad, *command)
    assert done.returncode == 1 and done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert "not resumed" in last and "weight" in last and "Go back to pretrain-10-00-00-0001.pt" in last
    assert "Traceback" not in done.stderr and os.listdir(os.path.dirname(bad)) == before
    path = os.path.join(bad, "pretrain-10-00-00-0002.pt")  # by name: what was found is no default any more
    larger = lavender("resume", path, "--verify", *command, LAVENDER_TUI_VERIFY_GB="1e-9")
    assert larger.returncode == 1 and os.listdir(os.path.dirname(bad)) == before


@pytest.mark.usefixtures("nothing_survives")
@pytest.mark.parametrize("how", ["--no-verify", "verify_gb"])
def test_who_knows_better_may_go_on(bad: str, command: tuple[str, ...], how: str) -> None:
    options, variables = (("--no-verify",), {}) if how == "--no-verify" else ((), {"LAVENDER_TUI_VERIFY_GB": "1e-9"})
    done = lavender("resume", bad, "--follow", *options, *command, **variables)
    assert done.returncode == 0, done.stderr
    assert os.path.isdir(done.stdout.splitlines()[0])


def test_a_flipped_bit_starts_nothing(tmp_path: Path, command: tuple[str, ...]) -> None:
    run = str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")
    path = save(run, 1, model_state_dict={"weight": torch.full((64,), 1.5)})
    raw = bytearray(Path(path).read_bytes())
    raw[raw.index(torch.full((64,), 1.5).numpy().tobytes()) + 9] ^= 1
    Path(path).write_bytes(raw)
    done = lavender("resume", run, *command)
    assert done.returncode == 1 and "bytes of weight are not what was saved" in done.stderr
