"""By what a run's job is known to Slurm, and which job this very process runs in. Standard library only."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lavender_tui.launch import fields

_NUMBER = re.compile(r"[0-9]{1,10}")
MOST_JOB_ID = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """The job that a run is known by; until `sbatch` has answered it has no `job_id`, and is found by its `name`.

    `script` and `stdout` are "" where we didn't submit it and they aren't known. `uid` is its user's number, `step` the
    part of the job ("0") in which `srun` started the training, where it did.
    """

    job_id: int | None
    name: str  # of a job that we submit it carries the run's id; "" where it isn't known
    script: str = ""
    stdout: str = ""
    cluster: str | None = None
    uid: int | None = None
    step: str | None = None


def job_of(value: Any) -> SlurmJob:
    """As a record holds it. Raises fields.Foreign."""
    if not isinstance(value, dict):
        raise fields.Foreign("`slurm` is no object")
    job_id, uid, step = value.get("job_id"), value.get("uid"), value.get("step")
    if job_id is not None and (type(job_id) is not int or not 0 < job_id < MOST_JOB_ID):
        raise fields.Foreign("`job_id` is no job's")
    if step is not None and (not isinstance(step, str) or not _NUMBER.fullmatch(step)):
        raise fields.Foreign("`step` is no step's")
    return SlurmJob(
        job_id=job_id,
        name=fields.text(value, "name"),
        script=fields.text(value, "script"),
        stdout=fields.text(value, "stdout"),
        cluster=fields.optional(value, "cluster", fields.text),
        uid=uid if type(uid) is int and 0 <= uid < MOST_JOB_ID else None,
        step=step,
    )


def surrounding_job(environ: Mapping[str, str] | None = None) -> tuple[SlurmJob, int] | None:
    """(the job that this process runs in, which attempt of it this is: 1 or more); None outside of one.

    A shell that `salloc` opened has a job's number as well, but isn't in the job: only slurmd names the node.
    """
    told = os.environ if environ is None else environ
    number = told.get("SLURM_JOB_ID", "")
    if not told.get("SLURMD_NODENAME") or not _NUMBER.fullmatch(number) or not 0 < int(number) < MOST_JOB_ID:
        return None
    restarts, step = told.get("SLURM_RESTART_COUNT", ""), told.get("SLURM_STEP_ID", "")
    job = SlurmJob(
        job_id=int(number),
        name="" if step else told.get("SLURM_JOB_NAME", ""),  # `srun -J` puts the step's name there
        stdout=_output(),
        cluster=told.get("SLURM_CLUSTER_NAME") or None,
        uid=os.getuid(),
        step=step if _NUMBER.fullmatch(step) else None,
    )
    return job, (int(restarts) if _NUMBER.fullmatch(restarts) else 0) + 1


def _output() -> str:
    """The file that this process prints into; "" for anything else, such as srun's pipe."""
    try:
        if not stat.S_ISREG(os.fstat(1).st_mode):
            return ""
        return os.readlink("/proc/self/fd/1")
    except OSError:
        return ""
