"""A job of Slurm as its controller tells of it, and what that means for the run that it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lavender_tui.model.state import JobFacts

# Slurm's own words (squeue's manual, "JOB STATE CODES"); all others are ends.
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
AT_WORK = frozenset({
    "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED",
})  # fmt: skip
WENT_ON = "WENT_ON"  # our own word: started again since
_STOPPED = {"CANCELLED": "cancelled", "REVOKED": "revoked"}
_FAILED = {
    "TIMEOUT": "reached its time limit",
    "DEADLINE": "reached its deadline",
    "PREEMPTED": "was preempted",
    "NODE_FAIL": "lost its node",
    "BOOT_FAIL": "could not start its node",
    "OUT_OF_MEMORY": "ran out of memory",
    "LAUNCH_FAILED": "could not be started by Slurm",
    "RECONFIG_FAIL": "could not start its node",
}
_REASONS = {
    "Resources": "nothing is free for it yet",
    "Priority": "others come first",
    "BeginTime": "it may not begin yet",
    "Dependency": "another job comes first",
    "DependencyNeverSatisfied": "the job that it waits for will never end as it must",
    "JobHeldUser": "held by its owner",
    "JobHeldAdmin": "held by an administrator",
    "PartitionConfig": "it asks for more than the partition has",
    "PartitionTimeLimit": "it asks for more time than the partition gives",
    "ReqNodeNotAvail": "a node that it asks for isn't available",
    "BadConstraints": "no node has what it asks for",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`state` is Slurm's word, such as `RUNNING`; "" where Slurm knows no such job. Times are unix seconds.

    `exit_code` and `signal` are the batch script's. `restarts` counts how often Slurm started the job again.
    `away_since` is set while the controller doesn't answer: the rest is what it said last. `unasked` is why it can't be
    asked for at all. `is_by_hand`: a training of ours runs in it, but it was not submitted by us.
    """

    job_id: int | None
    name: str = ""
    state: str = ""
    reason: str | None = None
    nodes: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    cancelled_by: str | None = None
    restarts: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    cluster: str | None = None
    is_by_hand: bool = False
    unasked: str | None = None
    away_since: float | None = None

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def is_active(self) -> bool:
        """Does it hold its place in the queue or on nodes, as far as was said last?"""
        return self.is_waiting or self.state in AT_WORK

    @property
    def is_cancelled(self) -> bool:
        return self.state in _STOPPED

    @property
    def ended_badly(self) -> bool:
        return self.state in _FAILED or self.state == "FAILED"

    @property
    def called(self) -> str:
        return f"job {self.job_id}" if self.job_id is not None else "its job"


def facts(job: Job) -> JobFacts:
    """As the rules on a run's state take it."""
    name = f"Slurm job {job.job_id}" if job.job_id is not None else "its Slurm job"
    if job.away_since is not None:
        return JobFacts(name=name, state="", words=_away(job))
    if job.unasked is not None:
        return JobFacts(name=name, state="", words=job.unasked)
    if not job.state:
        return JobFacts(name=name, state="GONE")
    if job.is_waiting:
        return JobFacts(name=name, state=job.state, words=_reason(job))
    if job.state == "FAILED" and job.nodes is None and job.exit_code is None and (why := _reason(job)) is not None:
        return JobFacts(name=name, state="LAUNCH_FAILED", words=why)
    said = f"by {job.cancelled_by}" if job.cancelled_by else f"on {job.nodes}" if job.nodes else None
    signal = f"signal {job.signal}" if job.signal else None
    return JobFacts(name=name, state=job.state, words=said, exit_code=job.exit_code, signal=signal)


NOT_ASKED = JobFacts(name="its Slurm job", state="", words="Slurm hasn't been asked yet")


def words(job: Job) -> str:
    """One sentence, without a full stop; says since when nobody knows."""
    return _words(job) if job.away_since is None else f"{job.called}: {_away(job)}"


def _away(job: Job) -> str:
    since = datetime.fromtimestamp(job.away_since or 0).strftime("%H:%M")
    before = f"; before that: {_words(job)}" if job.state else ""
    return f"the Slurm controller can't be reached since {since}{before}"


def _words(job: Job) -> str:
    if job.unasked is not None:
        return f"{job.called}: {job.unasked}"
    if job.is_waiting:
        why = f": {reason}" if (reason := _reason(job)) else ""
        return f"{job.called} waits in the queue{' to go on' if job.restarts else ''}{why}"
    if job.state == "COMPLETING":
        return f"{job.called} is ending"
    if job.state == WENT_ON:
        return f"{job.called} was put back into the queue, and went on"
    if job.state in AT_WORK:
        how = "runs" if job.state == "RUNNING" else f"is {job.state.lower().replace('_', ' ')}"
        return f"{job.called} {how}" + (f" on {job.nodes}" if job.nodes else "")
    if job.is_cancelled:
        return f"{job.called} was {_STOPPED[job.state]}" + (f" by {job.cancelled_by}" if job.cancelled_by else "")
    if job.state in _FAILED:
        return f"{job.called} {_FAILED[job.state]}" + (f" ({job.nodes})" if job.nodes else "")
    if job.state == "COMPLETED":
        return f"{job.called} ended well"
    if job.state == "FAILED":
        return f"{job.called} failed{_code(job)}"
    return (
        f"{job.called} is unknown to Slurm (it has left the queue)" if not job.state else f"{job.called}: {job.state}"
    )


def _reason(job: Job) -> str | None:
    reason = job.reason
    if not reason or reason == "None":
        return None
    return f"{reason} ({_REASONS[reason]})" if reason in _REASONS else reason


def _code(job: Job) -> str:
    if job.signal:
        return f", by signal {job.signal}"
    return f" with exit code {job.exit_code}" if job.exit_code is not None else ""
