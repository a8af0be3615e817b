"""Does the Slurm job of a run live? Asked where something would be started or ended, not for the screen.

A run whose `exit.json` says that the job goes on lives until the job's next attempt has a run directory of its own.
What the controller can't be asked is taken to live: nothing may be started a second time.
"""

from __future__ import annotations

import os
import time

from lavender_tui.launch.record import GOES_ON, LaunchRecord, read_exit, read_launch
from lavender_tui.launch.slurm_state import ControllerAway, ask
from lavender_tui.model.job import Job, words

# Whoever waits for an end asks all the time. Only that a job lives is remembered: the error that this can make is to
# wait, or to refuse, for some seconds too long.
STANDS_SECONDS = 3.0
_alive_lately: dict[str, tuple[float, str]] = {}


def why_alive(run_dir: str, record: LaunchRecord) -> str | None:
    """One sentence, or None where the run is surely over. Asks the controller, at most for 15 s."""
    ended = read_exit(run_dir)
    if record.slurm is None or (ended is not None and (ended.stop or {}).get("how") != GOES_ON):
        return None
    if next_attempt(run_dir, record) is not None:
        return None
    before = _alive_lately.get(run_dir)
    if before is not None and time.monotonic() - before[0] < STANDS_SECONDS:
        return before[1]
    why = _ask_why(record)
    _alive_lately.pop(run_dir, None)
    if why is not None:
        _alive_lately[run_dir] = (time.monotonic(), why)
    return why


def forget(run_dir: str) -> None:
    """What was said lately counts no more: something was done to the job."""
    _alive_lately.pop(run_dir, None)


def _ask_why(record: LaunchRecord) -> str | None:
    try:
        job = facts(record)
    except ControllerAway as error:
        return f"whether its {_called(record)} lives isn't known: {error.what}"
    return words(job) if job is not None and job.is_active else None


def facts(record: LaunchRecord) -> Job | None:
    """What Slurm says of the run's job; None where it knows none. Raises ControllerAway."""
    job = record.slurm
    if job is None:
        return None
    if job.job_id is not None:
        return ask(ids=[job.job_id]).get(str(job.job_id))
    return ask(names=[job.name]).get(job.name)


def next_attempt(run_dir: str, record: LaunchRecord) -> str | None:
    """The run directory in which a later attempt of the same job goes on."""
    found = [(one.attempt, path) for path, one in attempts(run_dir, record) if one.attempt > record.attempt]
    return max(found)[1] if found else None


def attempts(run_dir: str, record: LaunchRecord) -> list[tuple[str, LaunchRecord]]:
    """Every run of this run's job beside it, this one too; first attempt first."""
    assert record.slurm is not None
    root, found = os.path.dirname(os.path.abspath(run_dir)), []
    try:
        with os.scandir(root) as entries:
            paths = [entry.path for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []
    for path in paths:
        other = read_launch(path)
        if other is not None and other.slurm is not None and other.slurm.name == record.slurm.name:
            found.append((path, other))
    return sorted(found, key=lambda pair: pair[1].attempt)


def _called(record: LaunchRecord) -> str:
    job_id = record.slurm.job_id if record.slurm is not None else None
    return f"job {job_id}" if job_id is not None else "job"
