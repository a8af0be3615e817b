"""Does the Slurm job of a run live? Asked where something would be started or ended, not for the screen.

A run whose `exit.json` says that the job goes on lives until the job's next attempt has a run directory of its own.
What the controller can't be asked is taken to live: nothing may be started a second time.

A job that somebody submitted by hand may hold more than the training, and nobody records that it goes on: the training
lives as long as its end isn't recorded, and again while the job is about to start a second time.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

from lavender_tui.launch.record import GOES_ON, LaunchRecord, read_exit, read_launch
from lavender_tui.launch.slurm_job import SlurmJob, surrounding_job
from lavender_tui.launch.slurm_state import ControllerAway, NotInstalled, ask
from lavender_tui.model.job import Job, words

# Whoever waits for an end asks all the time. Only that a job lives is remembered: the error that this can make is to
# wait, or to refuse, for some seconds too long.
STANDS_SECONDS = 3.0
CLOCKS_SECONDS = 300.0  # that a node's clock may be behind the controller's
_alive_lately: dict[str, tuple[float, str]] = {}


def why_alive(run_dir: str, record: LaunchRecord) -> str | None:
    """One sentence, or None where the run is surely over. Asks the controller, at most for 15 s."""
    ended = read_exit(run_dir)
    is_over = ended is not None and (ended.stop or {}).get("how") != GOES_ON
    ended_well = ended is not None and ended.code == 0 and ended.stop is None
    if record.slurm is None or (is_over and (ended_well or not record.is_job_by_hand)):
        return None
    if next_attempt(run_dir, record) is not None or is_around_us(record):
        return None
    before = _alive_lately.get(run_dir)
    if before is not None and time.monotonic() - before[0] < STANDS_SECONDS:
        return before[1]
    why = _ask_why(record, is_over=is_over)
    _alive_lately.pop(run_dir, None)
    if why is not None:
        _alive_lately[run_dir] = (time.monotonic(), why)
    return why


def forget(run_dir: str) -> None:
    """What was said lately counts no more: something was done to the job."""
    _alive_lately.pop(run_dir, None)


def _ask_why(record: LaunchRecord, *, is_over: bool) -> str | None:
    is_gone = training_is_gone(record)
    try:
        job = facts(record)
    except NotInstalled as error:
        # Of a job by hand nobody knew before: where Slurm isn't, its run is judged like any other.
        return None if record.is_job_by_hand else _unknown(record, error.what)
    except ControllerAway as error:
        return _unknown(record, error.what)
    if job is None or not job.is_active:
        return None
    return words(job) if speaks_for(record, job, is_over=is_over or is_gone) else None


def _unknown(record: LaunchRecord, why: str) -> str:
    return f"whether its {_called(record)} lives isn't known: {why}"


def training_is_gone(record: LaunchRecord) -> bool:
    """Did the process that led a training by hand run here, and is it gone? To be looked at before Slurm is asked."""
    return record.is_job_by_hand and record.is_here and not record.is_alive


def speaks_for(record: LaunchRecord, job: Job, *, is_over: bool) -> bool:
    """Is what the job does of interest for the run? `is_over`: the training of this very attempt is.

    A job that somebody submitted by hand may go on with other things. While it ends, it says more than the training.
    """
    if not record.is_job_by_hand or not job.is_active:
        return True
    return job.restarts >= record.attempt or job.state == "COMPLETING" or not is_over


def is_around_us(record: LaunchRecord) -> bool:
    """Are we in that job ourselves, in a later attempt of it? Then the run's own attempt is over."""
    around = surrounding_job()
    if around is None or record.slurm is None:
        return False
    is_the_same = (around[0].job_id, around[0].cluster) == (record.slurm.job_id, record.slurm.cluster)
    return record.is_job_by_hand and is_the_same and around[1] > record.attempt


def facts(record: LaunchRecord) -> Job | None:
    """What Slurm says of the run's job; None where it knows none. Raises ControllerAway."""
    if record.slurm is None:
        return None
    return as_told(record, ask([record.slurm]).get(record.slurm))


def as_told(record: LaunchRecord, job: Job | None) -> Job | None:
    """The job as that of this run; None where its number is another job's by now.

    A job that we submitted is asked for by its number as long as its record is; of one by hand the number alone came
    down to us, so that the name, as far as it is known, and the time must be right as well: it ran when the training
    began, or was started again since.
    """
    if job is None or job.unasked is not None or not record.is_job_by_hand or record.slurm is None:
        return job
    is_later = job.started_at is not None and job.started_at > record.started_at + CLOCKS_SECONDS
    is_over = job.ended_at is not None and job.ended_at < record.started_at - CLOCKS_SECONDS
    is_another = not _is_called(record.slurm, job.name) or is_over or (is_later and job.restarts < record.attempt)
    return None if is_another else replace(job, is_by_hand=True)


def _is_called(job: SlurmJob, name: str) -> bool:
    """squeue's text cuts a name, at a line's end for one."""

    def shown(text: str) -> str:
        return text.split("\n")[0].rstrip("|").strip()[:200]

    return not job.name or shown(job.name) == shown(name)


def next_attempt(run_dir: str, record: LaunchRecord) -> str | None:
    """The run directory in which a later attempt of the same job goes on."""
    found = [(one.attempt, path) for path, one in attempts(run_dir, record) if one.attempt > record.attempt]
    return max(found)[1] if found else None


def attempts(run_dir: str, record: LaunchRecord) -> list[tuple[str, LaunchRecord]]:
    """Every run of this run's job beside it, this one too; first attempt first."""
    root, found = os.path.dirname(os.path.abspath(run_dir)), []
    try:
        with os.scandir(root) as entries:
            paths = [entry.path for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []
    for path in paths:
        other = read_launch(path)
        if other is not None and other.job_key == record.job_key:
            found.append((path, other))
    return sorted(found, key=lambda pair: pair[1].attempt)


def _called(record: LaunchRecord) -> str:
    job_id = record.slurm.job_id if record.slurm is not None else None
    return f"job {job_id}" if job_id is not None else "job"
