"""Trainings that were started in a shell, stopped by one command: each saves, and the run says who stopped it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import journal
from lavender_tui.watch.hand import judge
from tests.end_to_end.test_stop_requests import ONE_RANK, lavender, listed, logs
from tests.watch import saves
from tests.watch.saves import RUN

# Somebody else's trainer on several ranks: rank 0 saves when it is told to end, after all have agreed on it.
RANKS = """\
import os, signal, sys, time, torch
import torch.distributed as dist
run = sys.argv[1]
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
dist.init_process_group("gloo")
rank = dist.get_rank()
log = open(os.path.join(run, f"steps.{rank}"), "a", buffering=1)
step = 0
while True:
    step += 1
    flag = torch.tensor([len(asked)])
    dist.all_reduce(flag)
    print(step, file=log)
    if flag.item():
        break
    time.sleep(0.05)
if rank == 0:
    content = torch.load(os.path.join(run, "pretrain-09-30-00-0003.pt"), weights_only=True)
    torch.save(content | {"save_count": 4}, os.path.join(run, "pretrain-09-31-00-0004.pt"))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def shell(tmp_path: Path, nothing_survives: object) -> Iterator[Callable[..., subprocess.Popen]]:
    started: list[subprocess.Popen] = []

    def begin(*words: object) -> subprocess.Popen:
        """As somebody types it at a prompt; the shell ends with what it started."""
        line = " ".join(map(str, words))
        started.append(subprocess.Popen(["bash", "-c", f"{line}; exit $?"], cwd=tmp_path, start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.long
def test_one_with_our_manager_saves_and_ends(
    tmp_path: Path, shell: Callable[..., subprocess.Popen], until: Callable[..., object]
) -> None:
    (tmp_path / "train.py").write_text(ONE_RANK)
    process = shell(sys.executable, "train.py")
    root = tmp_path / "checkpoints"
    until(lambda: root.exists() and any(logs(str(run)) for run in root.glob("run-*")), 60, "its first step")
    (run,) = root.glob("run-*")
    assert listed(str(run))["state"] == "running"
    done = lavender("stop", str(run))
    assert (done.returncode, process.wait(30)) == (0, 0), done.stderr
    assert "saved and ended " in done.stderr
    ended = listed(str(run))
    assert (ended["state"], ended["save_count"]) == ("stopped", 1)
    assert str(ended["state_reason"]).startswith(f"stopped on request by {journal.person()}: saved 0001")


@pytest.mark.long
def test_torchrun_passes_it_on_and_all_ranks_end_after_the_save(
    tmp_path: Path, shell: Callable[..., subprocess.Popen], until: Callable[..., object]
) -> None:
    run = tmp_path / "checkpoints" / RUN
    saves.save(run, 3, mtime=time.time() - 100)
    (tmp_path / "train.py").write_text(RANKS)
    process = shell(sys.executable, "-m torch.distributed.run --standalone --nproc-per-node 2 train.py", run)
    until(lambda: all((run / f"steps.{rank}").exists() for rank in (0, 1)), 120, "both ranks")
    until(lambda: all((run / f"steps.{rank}").stat().st_size for rank in (0, 1)), 60, "their first step")
    judged = judge(str(run))
    assert len(judged.leads) == 1 and len(judged.members) == 3
    assert f"goes to torchrun (pid {judged.leads[0].pid}), which passes it on" in judged.heard_by
    alive = listed(str(run))
    assert (alive["state"], alive["pid"]) == ("running", judged.leads[0].pid)
    done = lavender("stop", str(run), "--grace", "60")
    assert done.returncode == 0 and "saved and ended " in done.stderr, done.stderr
    assert f"started by hand, by {journal.person().partition('@')[0]}: pid " in done.stderr
    assert process.wait(30) == 1, "torchrun's exit code is 1 whatever happened"
    assert not any(one.is_alive for one in judged.members)
    last = [(run / f"steps.{rank}").read_text().split()[-1] for rank in (0, 1)]
    assert last[0] == last[1]
    ended = listed(str(run))
    assert (ended["state"], ended["save_count"]) == ("stopped", 4)
    assert str(ended["state_reason"]).startswith(f"stopped on request by {journal.person()}: saved 0004, ended after")
    assert sorted(os.listdir(run)) == sorted(
        [f"pretrain-09-30-00-{3:04d}.pt", "pretrain-09-31-00-0004.pt", "steps.0", "steps.1"]
    ), "nothing of ours is in it"
    resumable = json.loads(lavender("plan", str(run), "--json").stdout)
    assert resumable["launch"]["argv"], "what was stopped can be resumed with the command that it was started by"
