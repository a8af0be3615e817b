"""Real torchrun with two ranks: its workers have sessions of their own, and its exit code says nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from lavender_tui import launch
from lavender_tui.launch import command
from lavender_tui.launch.living import members
from lavender_tui.launch.record import LaunchRecord, end_facts, read_exit, send_signal, start_ticks
from lavender_tui.logs.files import log_files
from tests.launch.conftest import Lab

# The standard library is enough: what is tested is torchrun, not torch.
RANK = """
import os, signal, sys, time
rank = os.environ["RANK"]
def save(signum, frame):
    open(os.path.join(os.environ["LAVENDER_RUN_DIR"], f"saved.{rank}"), "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
sys.stdout.write(f"pid {os.getpid()}\\n")  # in one piece: torchrun puts its mark before each piece that it finds
sys.stdout.flush()
print("to stderr", file=sys.stderr, flush=True)
if os.environ.get("FAILS") == rank:
    raise RuntimeError(f"boom on {rank}")
while True:
    time.sleep(0.05)
"""


@pytest.fixture(scope="module", autouse=True)
def torchrun_is_warm() -> None:
    """On a machine that has just started, importing torch takes longer than all else here: from a cold disk, without
    compiled modules, beside other tests, a minute. No test waits for that by the clock."""
    subprocess.run([sys.executable, "-c", "import torch.distributed.run"], check=True)


class Two:
    """Two ranks under torchrun, both up."""

    def __init__(self, lab: Lab, wait: bool = True) -> None:
        self.lab, self.run_dir = lab, lab.run_dir()
        asked = command.build([sys.executable, lab.script(RANK)], world_size=2, run_dir=self.run_dir, grace=12)
        self.record: LaunchRecord = launch.start(asked, self.run_dir, grace=12)
        if wait:
            lab.until(lambda: len(self.pids()) == 2 or read_exit(self.run_dir), 120, f"two ranks in {self.run_dir}")
            assert len(self.pids()) == 2, f"{read_exit(self.run_dir)}\n{lab.log(self.run_dir)}"

    def pids(self) -> dict[str, int]:
        lines = self.lab.log(self.run_dir).splitlines()
        return {line[8]: int(line.split()[-1]) for line in lines if line.startswith("[default") and ":pid " in line}

    def saved(self) -> list[str]:
        return sorted(name for name in os.listdir(self.run_dir) if name.startswith("saved"))


def test_a_stop_lets_every_rank_save_and_is_recorded_as_one(lab: Lab) -> None:
    two = Two(lab)
    assert two.record.world_size == 2 and two.record.backend == "torchrun"
    assert [os.getsid(pid) for pid in two.pids().values()] == list(two.pids().values())
    assert [label for label, _ in log_files(two.run_dir)] == [
        "train.log", "rank 0 stderr", "rank 0 stdout", "rank 1 stderr", "rank 1 stdout",
    ]  # fmt: skip
    outcome = launch.stop(two.run_dir, launch.StopOrder(who="ada@lab"))
    assert outcome.how == "ended" and two.saved() == ["saved.0", "saved.1"]
    facts = end_facts(two.run_dir)
    assert facts is not None and facts.stop_requested and facts.stop_by == "ada@lab"
    assert facts.exit_code == 1 and facts.error is None  # torchrun's code, which is no failure here


def test_a_killed_agent_leaves_no_worker_and_every_rank_saves(lab: Lab) -> None:
    two = Two(lab)
    send_signal(two.record.leader.pid, two.record.leader.start_ticks, signal.SIGKILL)
    ended = lab.ended(two.run_dir)
    assert ended.signal == "SIGKILL" and not ended.killed and "the 2 processes" in ended.error
    assert two.saved() == ["saved.0", "saved.1"] and not members(two.run_dir, two.record)


def test_a_killed_rank_is_named(lab: Lab) -> None:
    two = Two(lab)
    pid = two.pids()["1"]
    send_signal(pid, start_ticks(pid) or 0, signal.SIGKILL)
    ended = lab.ended(two.run_dir)
    assert ended.code == 1 and ended.stop is None
    assert ended.error.startswith("rank 1 was killed by signal 9")
    assert not members(two.run_dir, two.record)


def test_a_failed_rank_is_named_with_its_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", "1")
    two = Two(lab, wait=False)
    assert lab.ended(two.run_dir, 120).error == "rank 1: RuntimeError: boom on 1"


def test_agent_and_supervisor_killed_the_ranks_are_still_found_and_stopped(lab: Lab) -> None:
    two = Two(lab)
    assert two.record.supervisor is not None
    for process in (two.record.supervisor, two.record.leader):
        send_signal(process.pid, process.start_ticks, signal.SIGKILL)
    lab.until(lambda: not two.record.is_alive)
    assert {process.pid for process in members(two.run_dir, two.record)} == set(two.pids().values())
    outcome = launch.stop(two.run_dir, launch.StopOrder(grace=10))
    assert outcome.how == "ended" and two.saved() == ["saved.0", "saved.1"]
    ended = read_exit(two.run_dir)
    assert ended is not None and ended.code is None and not ended.killed


# Fails once, in the middle of its group's work, and does it all again.
FAILS_ONCE = """
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    raise RuntimeError("the first time")
dist.barrier()
sys.stdout.write(f"sum {int(total)} again {os.environ['TORCHELASTIC_RESTART_COUNT']}\\n")
dist.destroy_process_group()
"""


@pytest.mark.long
def test_ranks_that_failed_are_started_again_and_find_each_other(lab: Lab) -> None:
    run_dir = lab.run_dir()
    script = lab.script(FAILS_ONCE)
    built = command.build([sys.executable, script], world_size=2, run_dir=run_dir, hosts=command.Hosts(max_restarts=1))
    launch.start(built, run_dir)
    ended = lab.ended(run_dir, 120)
    assert ended.code == 0 and ended.error is None
    assert lab.log(run_dir).count("sum 2 again 1") == 2
    assert any(label.startswith("attempt 2 rank 1") for label, _ in log_files(run_dir))
