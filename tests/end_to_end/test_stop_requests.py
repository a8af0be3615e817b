"""Asked from the command line to end at a save of its own: real trainings, one rank and two, and no row lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.demo.coverage import logged_steps
from lavender_tui.launch.living import members
from lavender_tui.launch.record import read_exit, read_launch, read_stop
from lavender_tui.launch.requests import read_request
from lavender_tui.model.plan import Launch

ONE_RANK = """
import os, time, torch
from lavender_tui.training import CheckpointManager
manager = CheckpointManager(model=torch.nn.Linear(1, 1), every_seconds=1e9)
step = 0
with manager:
    for epoch in range(1, 100):
        while not os.path.exists(f"end-{epoch}"):  # the test says when an epoch is over
            step += 1
            manager.log(step=step, loss=1.0 / step)
            manager.maybe_save("pretrain", epoch=epoch, epochs=100)
            time.sleep(0.02)
        manager.save("pretrain", epoch=epoch, epochs=100, epoch_complete=True)
"""


def lavender(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lavender_tui", *words],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip


def listed(run_dir: str) -> dict[str, object]:
    (run,) = json.loads(lavender("ls", run_dir, "--json").stdout)
    return run


def logs(run_dir: str) -> list[dict[str, object]]:
    """Its whole lines: the last one may be half written."""
    path = Path(run_dir, "metrics.jsonl")
    lines = path.read_text().splitlines(True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def test_one_rank_is_asked_withdrawn_and_asked_again(
    tmp_path: Path, until: Callable[..., object], nothing_survives: object
) -> None:
    run_dir = str(tmp_path / "checkpoints" / "run-2026-01-02_03-04-05")
    os.makedirs(run_dir)
    script = tmp_path / "train.py"
    script.write_text(ONE_RANK)
    launch.start(Launch(backend="local", argv=(sys.executable, str(script)), cwd=str(tmp_path)), run_dir)
    until(lambda: logs(run_dir), 60, "its first step")
    asked = lavender("stop", run_dir, "--at-next-save")
    assert asked.returncode == 0 and "stops at the next save, asked by " in asked.stderr, asked.stderr
    assert "--withdraw takes that back" in asked.stderr
    request = listed(run_dir)["request"]
    assert isinstance(request, dict) and request["what"] == "stop-at-next-save"
    assert "stops at the next save" in lavender("ls", run_dir).stdout
    withdrawn = lavender("stop", run_dir, "--withdraw")
    assert withdrawn.returncode == 0 and "withdrawn: it goes on" in withdrawn.stderr
    assert read_request(run_dir) is None and lavender("stop", run_dir, "--withdraw").returncode == 1
    (tmp_path / "end-1").touch()
    until(lambda: any(name.endswith("-0001.pt") for name in os.listdir(run_dir)), 60, "the save that ends nothing")
    assert lavender("stop", run_dir, "--at-epoch-end").returncode == 0
    (tmp_path / "end-2").touch()
    ended = until(lambda: read_exit(run_dir), 60, "its end")
    assert ended.code == 0 and ended.stop is None  # type: ignore[attr-defined]
    stop = read_stop(run_dir)
    assert stop is not None and stop.at == "at the end of epoch 2"
    told = listed(run_dir)
    assert (told["state"], told["state_reason"]) == ("stopped", f"stopped at the end of epoch 2, asked by {stop.who}")
    assert told["request"] is None and told["epoch_complete"] is True
    steps = [line["step"] for line in logs(run_dir) if "step" in line]
    assert told["step"] == steps[-1]  # nothing was trained after the save
    refused = lavender("stop", run_dir, "--at-epoch-end")
    assert refused.returncode == 1 and "it isn't running" in refused.stderr


def test_a_training_that_reads_no_requests_is_not_left_to_guess(
    tmp_path: Path, until: Callable[..., object], nothing_survives: object
) -> None:
    run_dir = str(tmp_path / "checkpoints" / "run-2026-01-02_03-04-05")
    os.makedirs(run_dir)
    asked = Launch(backend="local", argv=(sys.executable, "-c", "import time; time.sleep(60)"), cwd=str(tmp_path))
    launch.start(asked, run_dir)
    refused = lavender("stop", run_dir, "--at-next-save")
    assert refused.returncode == 1 and "not yet: it hasn't begun to train" in refused.stderr
    assert read_request(run_dir) is None
    assert lavender("stop", run_dir, "--kill").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize(("option", "epochs"), [("--at-epoch-end", 2), ("--at-next-save", 1)])
def test_two_ranks_end_together_after_the_save_and_no_row_is_lost(make_chain, coverage_of, until, option, epochs):
    # The command takes seconds on a busy machine: that long neither the first save nor the end of the epoch may come.
    chain = make_chain(save_seconds=1e9 if option == "--at-epoch-end" else 10.0, pause=0.4, epochs=epochs)
    chain.start(2)
    chain.wait_until(lambda: chain.trained_step() >= 3, "three steps")
    record = read_launch(chain.run_dir)
    workers = [one for one in members(chain.run_dir, record) if one.pid != record.leader.pid]
    assert len(workers) >= 2
    asked = lavender("stop", chain.run_dir, option)
    assert asked.returncode == 0, asked.stderr
    assert chain.wait_for_end() == 0  # torchrun's code is that of all its ranks
    assert not any(one.is_alive for one in workers)
    at = "at the end of epoch 1" if option == "--at-epoch-end" else "at save 0001"
    assert read_stop(chain.run_dir).at == at
    last = {}
    for rank, _, step, _ in logged_steps(chain.run_dir):
        last[rank] = step
    assert len(last) == 2 and set(last.values()) == {chain.newest_save().step}
    chain.resume(1)
    assert chain.wait_for_end() == 0
    for epoch in range(1, epochs + 1):
        coverage = coverage_of(chain, epoch)
        assert coverage.is_exact and coverage.forgotten == 0, coverage
