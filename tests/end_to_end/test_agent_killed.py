"""torchrun was started by hand, then killed alone: its ranks train on, and that is known everywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.launch.identity import is_same_process, start_ticks
from tests.end_to_end.test_stop_requests import lavender, listed

RANKS = """
import time, torch
import torch.distributed as dist
from lavender_tui.training import CheckpointManager
dist.init_process_group("gloo")
manager = CheckpointManager(model=torch.nn.Linear(1, 1), every_seconds=0.5)
with manager:
    for step in range(1, 1_000_000):
        manager.log(step=step, loss=1.0 / step)
        manager.maybe_save("pretrain", epoch=1, epochs=2)
        time.sleep(0.02)
"""

TWO_IN_TURN = """
import sys, time, torch
from lavender_tui.training import CheckpointManager
first = CheckpointManager(model=torch.nn.Linear(1, 1))
first.save("pretrain", epoch=1, epochs=1, epoch_complete=True)
if "close" in sys.argv:
    first.close()
time.sleep(1.1)  # the next run has a name of its own
with CheckpointManager(model=torch.nn.Linear(1, 1)) as second:
    for step in range(1, 1_000_000):
        second.log(step=step, loss=1.0 / step)
        second.maybe_save("pretrain", epoch=1, epochs=2)
        time.sleep(0.02)
"""

Alive = Callable[[], list[int]]


@pytest.fixture
def agent(tmp_path: Path, nothing_survives: Alive) -> Iterator[subprocess.Popen]:
    (tmp_path / "train.py").write_text(RANKS)
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with subprocess.Popen([*argv, str(tmp_path / "train.py")], cwd=tmp_path, start_new_session=True) as process:
        yield process
        process.kill()


def ranks_that_lost_it(
    tmp_path: Path, agent: subprocess.Popen, all_alive: Alive, until: Callable[..., object]
) -> tuple[Path, dict[int, int | None]]:
    """(the run, pid -> start ticks of each rank) once torchrun is killed and a save has come since."""
    root = tmp_path / "checkpoints"
    until(lambda: len(list(root.glob("run-*/pretrain-*.pt"))) > 1, 120, "two saves")
    (run,) = root.glob("run-*")
    ranks = {pid: start_ticks(pid) for pid in all_alive() if pid != agent.pid}
    assert len(ranks) == 2
    os.kill(agent.pid, signal.SIGKILL)
    agent.wait()
    saves = len(list(run.glob("pretrain-*.pt")))
    until(lambda: len(list(run.glob("pretrain-*.pt"))) > saves, 60, "a save after torchrun's death")
    return run, ranks


def are_gone(ranks: dict[int, int | None]) -> bool:
    return not any(is_same_process(pid, ticks) for pid, ticks in ranks.items() if ticks is not None)


@pytest.mark.long
def test_ranks_that_lost_their_torchrun_are_listed_never_doubled_and_ended(
    tmp_path: Path, agent: subprocess.Popen, nothing_survives: Alive, until: Callable[..., object]
) -> None:
    run, ranks = ranks_that_lost_it(tmp_path, agent, nothing_survives, until)
    root = run.parent
    told = listed(str(run))
    assert {one["pid"] for one in told["leftovers"]} == set(ranks), told  # type: ignore[index, union-attr]
    assert "2 left-over" in str(told["state_reason"]), told
    planned = json.loads(lavender("plan", str(run), "--json").stdout)
    refusing = [one for one in planned["checks"] if one["verdict"] == "refuse"]
    assert [one["id"] for one in refusing] == ["source.leftovers"] and all(str(pid) in str(refusing) for pid in ranks)
    for words in (("resume", str(run), "--yes"), ("resume", "--latest", str(root))):
        assert lavender(*words).returncode != 0, words
    assert [one.name for one in root.glob("run-*")] == [run.name] and set(nothing_survives()) == set(ranks)

    assert lavender("stop", str(run), "--yes").returncode == 0
    until(lambda: are_gone(ranks), 60, "the end of both")
    assert listed(str(run))["leftovers"] == []
    assert not [one for one in json.loads(lavender("plan", str(run), "--json").stdout)["checks"]
                if one["verdict"] == "refuse"]  # fmt: skip


@pytest.mark.long
def test_a_keeper_ends_them_before_it_resumes(
    tmp_path: Path, agent: subprocess.Popen, nothing_survives: Alive, until: Callable[..., object]
) -> None:
    run, ranks = ranks_that_lost_it(tmp_path, agent, nothing_survives, until)
    words = [sys.executable, "-m", "lavender_tui", "supervise", str(run), "--backoff", "0.1"]
    said = tmp_path / "said"
    with open(said, "wb") as file, subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=file) as keeper:
        try:
            until(lambda: len(list(run.parent.glob("run-*/launch.json"))) > 1, 120, lambda: said.read_text())
            assert are_gone(ranks), "nothing starts beside them"
        finally:
            keeper.terminate()
    assert "ends 2 processes that outlived what led them" in said.read_text()


@pytest.mark.long
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "left open"])
def test_a_script_that_trains_one_run_after_the_other_is_not_stopped_for_the_first(
    tmp_path: Path, nothing_survives: Alive, until: Callable[..., object], is_closed: bool
) -> None:
    (tmp_path / "train.py").write_text(TWO_IN_TURN)
    argv = [sys.executable, str(tmp_path / "train.py"), *(["close"] if is_closed else [])]
    root = tmp_path / "checkpoints"
    with subprocess.Popen(argv, cwd=tmp_path, start_new_session=True) as process:
        until(lambda: len(list(root.glob("run-*/metrics.jsonl"))) > 1, 120, "the second run")
        first, second = sorted(root.glob("run-*"))
        now = {Path(str(one["path"])): one for one in json.loads(lavender("ls", str(root), "--json").stdout)}
        assert (now[second]["state"], now[second]["pid"]) == ("running", process.pid)
        if is_closed:
            assert now[first]["state"] == "finished"
        for how in ((), ("--kill",)):
            done = lavender("stop", str(first), "--yes", *how)
            assert process.poll() is None, done.stderr
            if is_closed:
                assert (done.returncode, "it isn't running" in done.stderr) == (0, True), done.stderr
            else:
                assert done.returncode != 0 and f"trains {second.name} too" in done.stderr, done.stderr
        done = lavender("stop", str(second), "--yes")
        assert (done.returncode, process.wait(30)) == (0, 0) if is_closed else process.poll() is None, done.stderr
        process.kill()
