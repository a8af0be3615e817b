"""Stop a run that is a job of Slurm: told to save and end, and cancelled when its time is over.

`scancel -s TERM` reaches the steps alone and is never followed by a SIGKILL; a plain `scancel` gives the cluster's
KillWait (often 30 s) and no more. A job that still waits has nothing to save.

A training in a job that was submitted by hand is told in its own step, where `srun` started it. Else it is a child of
the batch script, which only `--full` reaches: the shell ends of it, the training may save.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import replace
from signal import Signals

from lavender_tui.launch import journal, slurm_living
from lavender_tui.launch.files import LAUNCH
from lavender_tui.launch.record import ExitRecord, LaunchRecord, read_exit, write_exit
from lavender_tui.launch.slurm_state import ControllerAway, cluster_to_name, query_environment
from lavender_tui.launch.stop_order import CannotStop, StopOrder, StopOutcome, announce, ended_words, saves
from lavender_tui.model.job import Job, words
from lavender_tui.model.text import one_line

CALL_SECONDS = 20.0
TICK, SLOWEST_TICK = 0.5, 4.0  # the queue is asked less and less often
PATIENCE = 60.0  # for Slurm to have ended what it was told to cancel


def scancel(record: LaunchRecord, signal: Signals | None = None) -> None:
    """Tell the training of the job, or (without a signal) cancel the job.

    Raises ControllerAway where the controller doesn't take it; an unknown job is no error.
    """
    assert record.slurm is not None and record.slurm.job_id is not None
    argv = ["scancel", str(record.slurm.job_id)]
    if signal is not None:
        argv[1:1] = [f"--signal={signal.name.removeprefix('SIG')}"]
        if record.is_job_by_hand and record.slurm.step is None:
            argv[1:1] = ["--full"]
        elif record.is_job_by_hand:
            argv[-1] += f".{record.slurm.step}"
    if (cluster := cluster_to_name(record.slurm)) is not None:
        argv[1:1] = [f"--clusters={cluster}"]
    try:
        done = subprocess.run(
            argv, env=query_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=CALL_SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ControllerAway(f"scancel did not answer within {CALL_SECONDS:.0f} s") from error
    except OSError as error:
        raise ControllerAway(f"scancel can't be executed ({error.strerror})") from error
    told = one_line(done.stderr.decode("utf-8", "replace"), 300)
    if done.returncode != 0 and "Invalid job id" not in told and "already completing" not in told:
        raise ControllerAway(f"scancel failed ({told or f'exit code {done.returncode}'})")


def stop(run_dir: str, record: LaunchRecord, order: StopOrder) -> StopOutcome:
    """As `stopping.stop`. Where it isn't waited for, nobody cancels what doesn't end by itself: ask again.

    Raises CannotStop where the controller can't be asked or doesn't do it.
    """
    try:
        found = _job_to_stop(run_dir, record)
        if found is None:
            return StopOutcome(how="not running", words="it isn't running: its job has left the queue")
        return _Stopping(run_dir, *found, order).carry_out()
    except ControllerAway as error:
        raise CannotStop(error.what, where=run_dir, hint="Try again when the Slurm controller answers") from error


def _job_to_stop(run_dir: str, record: LaunchRecord) -> tuple[LaunchRecord, Job] | None:
    """(the record with its job's number, what Slurm says of it); None where no job of the run is left."""
    _refuse_strangers(run_dir, record)
    is_over = (read_exit(run_dir) is not None) or slurm_living.training_is_gone(record)
    job = slurm_living.facts(record)
    if job is not None and job.unasked is not None:
        raise CannotStop(f"its {job.called} can't be stopped from here: {job.unasked}", where=run_dir)
    if job is None or not job.is_active or record.slurm is None:
        return None
    if not slurm_living.speaks_for(record, job, is_over=is_over):
        what = f"its training is over; {words(job)} with what else it does"
        raise CannotStop(what, where=run_dir, hint=f"`scancel {job.job_id}` ends all of it")
    following = slurm_living.next_attempt(run_dir, record)
    if following is not None:
        name = os.path.basename(following)
        raise CannotStop(f"its job goes on as {name}", where=run_dir, hint=f"Stop {name}")
    slurm = replace(record.slurm, job_id=record.slurm.job_id or job.job_id)
    return replace(record, slurm=slurm), job


def _refuse_strangers(run_dir: str, record: LaunchRecord) -> None:
    """In a root that many people write to anybody can write down the number of anybody's job."""
    try:
        owner = os.lstat(os.path.join(run_dir, LAUNCH)).st_uid
    except OSError:
        return
    if owner not in (0, os.getuid()):
        number = record.slurm.job_id if record.slurm is not None else None
        raise CannotStop(
            f"its {LAUNCH} was written by another user (number {owner}): whose job it names isn't sure",
            where=run_dir,
            hint=f"`scancel {number}`, if you know that it is this one" if number is not None else None,
        )


class _Stopping:
    """A job on its way out."""

    def __init__(self, run_dir: str, record: LaunchRecord, job: Job, order: StopOrder) -> None:
        self.run_dir, self.record, self.job, self.order = run_dir, record, job, order
        self.saves_before = saves(run_dir)
        self.since = time.monotonic()

    def carry_out(self) -> StopOutcome:
        announced = announce(self.run_dir, self.order)
        try:
            is_cancelled = self.ask()
        except ControllerAway:
            announced.take_back()  # nobody was told: the run isn't stopped
            raise
        announced.note_asked(**self.record.identity)
        if not self.order.wait:
            return announced.conclude(self.asked(is_cancelled))
        outcome = self.finish(is_cancelled)
        slurm_living.forget(self.run_dir)
        return announced.conclude(outcome)

    def ask(self) -> bool:
        """Tell the job; True where it was cancelled for good."""
        if self.order.how == "kill" or self.job.is_waiting or self.job.state == "CONFIGURING":
            scancel(self.record)
            return True
        scancel(self.record, self.order.signum)
        return False

    def asked(self, is_cancelled: bool) -> StopOutcome:
        if is_cancelled:
            return StopOutcome(how="asked", words="its job was cancelled")
        more = "nobody is left to cancel it later, should it not end"
        return StopOutcome(how="asked", words=f"its job was {self.order.words}; {more}")

    def finish(self, is_cancelled: bool) -> StopOutcome:
        if not is_cancelled and self.wait_for_end(self.order.seconds_to_end):
            return self.outcome("ended", ended_words(self.run_dir, self.saves_before, time.monotonic() - self.since))
        if not is_cancelled:
            scancel(self.record)
        if not self.wait_for_end(PATIENCE):
            words_left = self.what_is_left()
            return self.outcome("alive", f"still there after scancel: {words_left}")
        if self.job.is_waiting:
            self.record_end()
            before = "it was to go on" if self.job.restarts else "it had not started"
            return self.outcome("ended", f"its job was taken out of the queue; {before}")
        return self.outcome("killed", "cancelled" if is_cancelled else "had to be cancelled: it did not end in time")

    def outcome(self, how: str, said: str) -> StopOutcome:
        return StopOutcome(how=how, words=said, waited_seconds=time.monotonic() - self.since, supervised=True)

    def wait_for_end(self, seconds: float) -> bool:
        """Until the job has left the queue; False where the time is over. Asks less and less often."""
        deadline, tick = time.monotonic() + seconds, TICK
        while True:
            is_recorded = read_exit(self.run_dir) is not None
            if is_recorded and self.record.is_job_by_hand and not self.job.is_waiting:
                return True  # what else the job does is its own affair
            try:
                job = slurm_living.facts(self.record)
                if job is None or not job.is_active:
                    return True
            except ControllerAway:
                if is_recorded:
                    return True
            if time.monotonic() + tick > deadline:
                return False
            time.sleep(tick)
            tick = min(tick * 1.5, SLOWEST_TICK)

    def what_is_left(self) -> str:
        try:
            job = slurm_living.facts(self.record)
        except ControllerAway as error:
            return error.what
        return words(job) if job is not None else "its job is gone"

    def record_end(self) -> None:
        """No script ever ran that would have recorded it."""
        stop = {"who": journal.person(), "how": "cancelled", "why": "its job had not started"}
        with contextlib.suppress(OSError):
            write_exit(self.run_dir, ExitRecord(code=None, signal=None, ended_at=time.time(), stop=stop))
