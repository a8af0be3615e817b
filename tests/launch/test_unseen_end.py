"""A supervisor is killed, and later its training fails: nobody records that, and the reason is told all the same."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch import command
from lavender_tui.launch.living import members
from lavender_tui.launch.record import LaunchRecord, read_exit, send_signal
from lavender_tui.model.run import Run
from lavender_tui.watch.observe import Watcher
from lavender_tui.watch.scan import scan
from tests.launch.conftest import Lab
from tests.launch.test_real_failures import RECORDED

# Fails when it is told to; before that it got over an error of another kind, which it printed.
FAILS = """
import os, sys, time, traceback
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
print("up", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
for line in range(int(sys.argv[1])):
    print("more", line)
def main():
    raise RuntimeError("boom")
if sys.argv[2:] == ["well"]:
    sys.exit(0)
main()
"""
RANKS = f"""
import os, sys, time
{RECORDED}
@record
def main():
    print("up", flush=True)
    while not os.path.exists("go"):
        time.sleep(0.02)
    if os.environ["RANK"] == "1":
        raise RuntimeError("boom on 1")
    time.sleep(600)
main()
"""


def end_the_supervisor(lab: Lab, record: LaunchRecord) -> None:
    assert record.supervisor is not None
    assert send_signal(record.supervisor.pid, record.supervisor.start_ticks, signal.SIGKILL)
    lab.until(lambda: record.supervisor is not None and not record.supervisor.is_alive, what="the supervisor's end")


def over(lab: Lab, run_dir: str, record: LaunchRecord, seconds: float = 30.0) -> Run:
    lab.until(lambda: not members(run_dir, record), seconds, "the training's end")
    assert read_exit(run_dir) is None
    (run,) = scan([run_dir])
    return run


def test_the_reason_is_what_its_log_ends_with(lab: Lab) -> None:
    run_dir, record = lab.start(sys.executable, lab.script(FAILS), "3")
    lab.until(lambda: "up" in lab.log(run_dir), what="the training")
    end_the_supervisor(lab, record)
    (lab.directory / "go").touch()
    run = over(lab, run_dir, record)
    assert (run.state, run.state_reason) == ("failed", "ended unseen: its log ends with RuntimeError: boom")
    assert run.end is not None and run.end.is_unseen and run.end.exit_code is None
    failure = run.end.failure
    assert failure is not None and (failure.exception, failure.where) == ("RuntimeError: boom", "train.log")
    assert (failure.place or "").startswith("train.py:") and (failure.place or "").endswith(" in main")


def test_an_error_that_it_got_over_is_no_reason(lab: Lab) -> None:
    run_dir, record = lab.start(sys.executable, lab.script(FAILS), "150", "well")
    lab.until(lambda: "up" in lab.log(run_dir), what="the training")
    end_the_supervisor(lab, record)
    (lab.directory / "go").touch()
    run = over(lab, run_dir, record)
    assert run.state_reason == "its process is gone and left no exit record (killed, or the machine went down)"


def test_who_watches_sees_the_exit_code_too(lab: Lab) -> None:
    run_dir, record = lab.start(sys.executable, lab.script(FAILS), "3")
    lab.until(lambda: "up" in lab.log(run_dir), what="the training")
    seen: list[Run] = []
    watcher = Watcher([os.path.dirname(run_dir)], lambda snapshot: seen.append(snapshot.runs[0]))
    watcher.start()
    try:
        lab.until(lambda: seen and seen[-1].is_alive, what="the run alive")
        end_the_supervisor(lab, record)
        lab.until(lambda: "its supervisor is gone" in seen[-1].state_reason, what="the supervisor's end to be seen")
        (lab.directory / "go").touch()
        told = ("exit code 1: RuntimeError: boom", "ended unseen: its log ends with RuntimeError: boom")
        lab.until(lambda: seen[-1].state_reason in told, what=lambda: f"the reason: {seen[-1].state_reason}")
    finally:
        watcher.close()
        watcher.join(10)


@pytest.mark.long
def test_the_rank_that_failed_is_named_from_its_error_file(lab: Lab) -> None:
    run_dir = lab.run_dir()
    script = [sys.executable, lab.script(RANKS)]
    record = launch.start(command.build(script, world_size=2, run_dir=run_dir, cwd=str(lab.directory)), run_dir)
    outputs = Path(run_dir, "ranks")
    lab.until(lambda: len([one for one in outputs.glob("*/*/*/stdout.log") if "up" in one.read_text()]) == 2, 90, "up")
    end_the_supervisor(lab, record)
    (lab.directory / "go").touch()
    run = over(lab, run_dir, record, 60)
    assert (run.state, run.state_reason) == ("failed", "ended unseen: rank 1: RuntimeError: boom on 1")
    assert run.end is not None and run.end.failure is not None and run.end.failure.rank == 1
