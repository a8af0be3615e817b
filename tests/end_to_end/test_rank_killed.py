"""A rank is killed of a training that somebody started with torchrun: the others' errors aren't told as the reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.launch.record import read_exit
from lavender_tui.model.export import run_document
from lavender_tui.model.run import RunState
from lavender_tui.watch.observe import Snapshot, Watcher
from lavender_tui.watch.scan import scan

TRAIN = """\
import os, sys, time, torch
import torch.distributed as dist
from lavender_tui.training import CheckpointManager
dist.init_process_group("gloo")
root = sys.argv[1]
manager = CheckpointManager(root, model=torch.nn.Linear(2, 2))
with open(os.path.join(root, f".pid-{dist.get_rank()}"), "w") as file:
    file.write(str(os.getpid()))
manager.save("pretrain", epoch=1, epochs=2)
os.rename(file.name, os.path.join(root, f"pid-{dist.get_rank()}"))
step = 0
while True:
    dist.all_reduce(torch.ones(2))
    step += 1
    manager.log(step=step, loss=1.0)
    time.sleep(0.05)
"""


@pytest.fixture
def root(tmp_path: Path, nothing_survives: object, until) -> Iterator[Path]:
    """Where two ranks train, started by hand."""
    script, path = tmp_path / "train.py", tmp_path / "checkpoints"
    script.write_text(TRAIN)
    path.mkdir()
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with (tmp_path / "output").open("w") as output:
        agent = subprocess.Popen([*words, str(script), str(path)], stdout=output, stderr=output)
    until(lambda: all((path / f"pid-{rank}").exists() for rank in range(2)), seconds=90, what="both ranks")
    yield path
    agent.kill()
    agent.wait()


def kill_rank(root: Path, rank: int) -> None:
    os.kill(int((root / f"pid-{rank}").read_text()), signal.SIGKILL)


def test_what_rank_0_recorded_says_that_it_lost_another(root: Path, until) -> None:
    kill_rank(root, 1)
    (run_dir,) = root.glob("run-*")
    until(lambda: read_exit(str(run_dir)), what="the end")
    until(lambda: not scan([str(root)])[0].is_alive, what="torchrun's end")
    (run,) = scan([str(root)])
    assert run.state is RunState.FAILED
    assert run.state_reason.startswith("rank 0 lost another rank, which ended first (Connection ")
    failure = json.loads(json.dumps(run_document(run)))["failure"]
    assert failure["rank"] == 0 and "by peer" in failure["exception"]


def test_who_watched_knows_which_went_first_and_so_does_everybody_later(root: Path, until) -> None:
    reasons: list[str] = []
    runs: list[RunState] = []

    def note(snapshot: Snapshot) -> None:
        for run in snapshot.runs:
            reasons.append(run.state_reason)
            runs.append(run.state)

    watcher = Watcher([str(root)], note)
    watcher.start()
    try:
        until(lambda: reasons and reasons[-1] == "2 of 2 ranks alive", what="both ranks on the screen")
        until(lambda: len(watcher._ends.held) >= 3, what="the handles")
        begun = len(reasons)
        kill_rank(root, 1)
        until(lambda: reasons[-1].startswith("rank 1 was killed by signal 9"), what=lambda: f"the end: {reasons}")
    finally:
        watcher.close()
        watcher.join(10)
    assert runs[-1] is RunState.FAILED
    assert not [one for one in reasons[begun:] if "seen yet" in one or "starting" in one]
    (later,) = scan([str(root)])
    assert (later.state, later.state_reason) == (runs[-1], reasons[-1])
