"""Who counts as a living process of a run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui.launch import StopOrder, stop
from lavender_tui.launch.identity import boot_id, host_name, pid_namespace, start_ticks
from lavender_tui.launch.living import is_alive, members, tree
from lavender_tui.launch.record import ExitRecord, LaunchRecord, ProcessId, write_exit, write_launch
from lavender_tui.launch.stop_order import How
from lavender_tui.watch.scan import scan
from tests.launch.conftest import STUBBORN, Lab


def test_a_supervisor_that_has_recorded_the_end_is_on_its_way_out(tmp_path: Path) -> None:
    """The moment between exit.json and the supervisor's own end: this test stands in its place."""
    run_dir = tmp_path / "run-2026-04-24_18-53-41"
    run_dir.mkdir()
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    record = LaunchRecord(
        run_id="one", run_dir=str(run_dir), backend="local", argv=("python",), cwd=str(tmp_path), host=host_name(),
        boot_id=boot_id(), pid_namespace=pid_namespace(), supervisor=ProcessId(pid=os.getpid(), start_ticks=ticks),
        leader=ProcessId(pid=2**22 - 7, start_ticks=1), started_at=time.time(), written_by="supervisor",
    )  # fmt: skip
    write_launch(str(run_dir), record)
    assert is_alive(str(run_dir))
    write_exit(str(run_dir), ExitRecord(code=3, signal=None, ended_at=time.time()))
    assert not is_alive(str(run_dir))
    (run,) = scan([str(tmp_path)])
    assert run.processes == ()
    assert run.state == "failed"


def test_the_tree_of_a_run_is_what_a_kill_ends_children_below_their_parents(lab: Lab) -> None:
    run_dir, record = lab.train(STUBBORN)
    lab.until(lambda: lab.log(run_dir).count("up") == 2)
    leader, child = tree(run_dir)
    assert record.leader is not None and (leader.pid, leader.depth, child.depth) == (record.leader.pid, 0, 1)
    assert [one.pid for one in members(run_dir, record)] == sorted((leader.pid, child.pid))
    assert (
        leader.command.startswith("python") and "/" not in leader.command.split()[0] and child.command.endswith("child")
    )
    assert tree(str(lab.directory)) == []


def test_the_tree_shows_no_secret_of_a_command_line(lab: Lab) -> None:
    run_dir, _ = lab.start(sys.executable, "-c", "import time; time.sleep(60)", "--wandb-key", "squeamish")
    (leader,) = lab.until(lambda: [one for one in tree(run_dir) if one.command], what="its words: at first it has none")
    assert leader.command.endswith("--wandb-key ***")


# Starts a training of its own in another directory, as a script of many trainings does, and waits for TERM.
STARTS_ANOTHER = """
import os, signal, subprocess, sys, time
other = os.environ["OTHER_RUN"]
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", other],
                 env={**os.environ, "LAVENDER_RUN_DIR": other}, start_new_session=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", os.environ["LAVENDER_RUN_DIR"]])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("how", "outcome"), [("graceful", "ended"), ("kill", "killed")])
def test_a_training_that_another_one_started_outlives_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, nothing_survives: Callable[[], list[int]], how: How, outcome: str
) -> None:
    """The id in its environment is that of the first, the directory its own: both count."""
    other = lab.run_dir()
    monkeypatch.setenv("OTHER_RUN", other)
    run_dir, record = lab.train(STARTS_ANOTHER)
    lab.until(lambda: len(members(other, None)) == 1, what="the other training")
    (second,) = members(other, None)
    lab.until(lambda: len(members(run_dir, record)) == 2, what="the training and what it started")
    assert second not in members(run_dir, record)
    assert second.pid not in [one.pid for one in tree(run_dir)]
    assert stop(run_dir, StopOrder(how=how, grace=20)).how == outcome
    lab.until(lambda: record.supervisor is not None and not record.supervisor.is_alive, what="the supervisor's end")
    assert nothing_survives() == [second.pid]
