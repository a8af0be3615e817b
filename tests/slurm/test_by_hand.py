"""A training in a job that somebody submitted by a script of their own: what Slurm says of it, and how it is stopped.

The trainings have a host name of their own, as on a real node, so that nothing is known of their processes here.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import StopOrder, living, stop
from lavender_tui.launch.record import LaunchRecord, read_exit, read_launch
from lavender_tui.launch.stop_order import CannotStop
from lavender_tui.model.run import Run, RunState
from lavender_tui.watch.scan import scan
from tests.slurm.conftest import Lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TRAIN = str(Path(__file__).with_name("by_hand.py"))


class Hand:
    """Submits scripts as a person does, and looks at the runs that come of them."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.until = lab, lab.until

    def submit(self, *options: str, srun: bool = False, then: str = "", train: tuple[str, ...] = ()) -> int:
        """The job's number. `then` is what the script does afterwards.

        A script that does nothing afterwards is the training itself: of a shell that the signal ends first, Slurm kills
        what is left, at once where the machine is busy.
        """
        words = ["unshare", "--uts", "sh", "-c", 'hostname gpu-07; exec "$@"', "sh", sys.executable, TRAIN]
        words += [str(self.lab.root), *train]
        script = self.lab.root.parent / "mine.sh"
        how = "srun " if srun else "" if then else "exec "
        script.write_text(f"#!/bin/bash\n{how}{shlex.join(words)}\n{then}\n")
        output = f"--output={self.lab.root.parent}/mine-%j.out"
        done = self.lab.cluster.run("sbatch", "--parsable", "--job-name=my own", output, *options, str(script))
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def trains(self, number: int = 1) -> LaunchRecord:
        """The record of the newest run, once there are so many and it has logged something."""

        def newest() -> LaunchRecord | None:
            runs = self.lab.runs()
            log = runs[-1] / "metrics.jsonl" if runs else None
            if len(runs) < number or log is None or not log.exists() or '"loss"' not in log.read_text():
                return None
            return read_launch(str(runs[-1]))

        record = self.until(newest, seconds=150, what=self.words)
        assert isinstance(record, LaunchRecord)
        return record

    def words(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self.lab.root.parent.glob("mine-*.out"))

    def run(self, record: LaunchRecord) -> Run:
        return next(run for run in scan((str(self.lab.root),)) if run.path == record.run_dir)

    def comes_to(self, record: LaunchRecord, state: RunState, reason: str = "", seconds: float = 60) -> Run:
        """The run, once it is in that state and its reason begins so."""

        def there() -> Run | None:
            run = self.run(record)
            return run if run.state is state and run.state_reason.startswith(reason) else None

        found: Any = self.until(
            there,
            seconds=seconds,
            what=lambda: f"it to be {state}, {reason}: {self.run(record).state_reason}\n{self.words()}",
        )
        return found


@pytest.fixture
def hand(lab: Lab) -> Hand:
    return Hand(lab)


def test_it_is_known_by_its_job_and_saves_when_stopped(hand: Hand) -> None:
    number = hand.submit()
    record = hand.trains()
    assert record.slurm is not None and record.is_job_by_hand and record.host == "gpu-07"
    assert (record.slurm.job_id, record.slurm.name, record.slurm.step) == (number, "my own", None)
    assert record.slurm.stdout.endswith(f"mine-{number}.out")
    run = hand.run(record)
    assert (run.state, run.processes, run.elsewhere) == (RunState.RUNNING, (), "gpu-07")
    assert run.state_reason.startswith(f"Slurm job {number} runs on n") and run.is_slurms
    assert living.is_alive(record.run_dir)
    outcome = stop(record.run_dir, StopOrder(grace=30, who="ann@here"))
    told = (outcome, read_exit(record.run_dir), hand.words())
    assert outcome.how == "ended" and outcome.words.startswith("saved and ended"), told
    run = hand.comes_to(record, RunState.STOPPED)
    assert "ann@here" in run.state_reason and run.newest is not None
    hand.until(lambda: not living.is_alive(record.run_dir), what="the job to be over")


def test_a_step_alone_is_told_and_the_rest_of_its_job_goes_on(hand: Hand) -> None:
    number = hand.submit("--nodelist=n1", srun=True, then="echo after; sleep 300")
    record = hand.trains()
    assert record.slurm is not None and record.slurm.step == "0"
    assert stop(record.run_dir, StopOrder(grace=30)).how == "ended"
    hand.until(lambda: "after" in hand.words(), what="the script to go on")
    run = hand.run(record)
    assert run.state is RunState.STOPPED and run.newest is not None
    assert run.job is None and not run.is_alive  # what the job does now is none of the run's
    assert not living.is_alive(record.run_dir)
    with pytest.raises(CannotStop, match=f"its training is over; job {number} runs on n1") as refused:
        stop(record.run_dir)
    assert refused.value.hint is not None and f"scancel {number}" in refused.value.hint
    assert hand.lab.state(record) == "RUNNING"


def test_what_is_deaf_is_cancelled_with_its_whole_job(hand: Hand) -> None:
    hand.submit(srun=True, train=("--deaf",))
    record = hand.trains()
    assert stop(record.run_dir, StopOrder(grace=1)).how == "killed"
    assert hand.lab.state(record) == "CANCELLED" and not living.is_alive(record.run_dir)


def test_why_it_got_its_signal_slurm_knows(hand: Hand) -> None:
    """Cancelled by hand; and its time limit, before which it is told nothing."""
    limited = hand.submit("--time=1")
    first = hand.trains()
    cancelled = hand.submit("--time=1", srun=True)
    second = hand.trains(2)
    hand.lab.cluster.run("scancel", str(cancelled))
    # Until Slurm says so, all that is known is the signal.
    run = hand.comes_to(second, RunState.STOPPED, "cancelled")
    assert f"Slurm job {cancelled}" in run.state_reason, run.state_reason
    ended: Any = hand.until(lambda: read_exit(first.run_dir), seconds=150, what="its time to be over")
    assert ended.stop["who"] == "SIGTERM"  # it saved, and didn't know why
    run = hand.comes_to(first, RunState.STOPPED, "its time limit was over")
    assert f"Slurm job {limited}" in run.state_reason and run.newest is not None


def test_put_back_it_waits_and_nothing_is_started_beside_it(hand: Hand) -> None:
    number = hand.submit("--requeue")
    first = hand.trains()
    hand.lab.cluster.run("scontrol", "requeue", str(number))
    waiting = hand.comes_to(first, RunState.IDLE)
    assert waiting.state_reason.startswith(f"Slurm job {number} waits") and waiting.is_alive
    assert living.is_alive(first.run_dir)  # no resume beside it
    second = hand.trains(2)
    assert (first.attempt, second.attempt, second.job_key) == (1, 2, first.job_key)
    assert (
        hand.run(first).state_reason == f"Slurm put its job back into the queue, where it went on (Slurm job {number})"
    )
    assert hand.run(second).state is RunState.RUNNING and not living.is_alive(first.run_dir)
    hand.lab.cluster.run("scontrol", "requeuehold", str(number))
    hand.comes_to(second, RunState.IDLE)
    outcome = stop(second.run_dir)
    assert outcome.how == "ended" and "it was to go on" in outcome.words
    assert hand.lab.state(second) == "CANCELLED"


def test_killed_in_a_job_that_goes_on(hand: Hand) -> None:
    number = hand.submit(then="sleep 300")
    record = hand.trains()
    assert record.leader is not None
    hand.lab.cluster.run("kill", "-9", str(record.leader.pid))
    run = hand.run(record)
    assert run.state is RunState.RUNNING and run.state_reason.startswith(
        f"Slurm job {number} runs"
    )  # all that is known
    assert living.is_alive(record.run_dir)
    hand.lab.cluster.run("scancel", str(number))
    hand.comes_to(record, RunState.STOPPED, "cancelled")
    hand.until(lambda: not living.is_alive(record.run_dir), what="the job to be over")
