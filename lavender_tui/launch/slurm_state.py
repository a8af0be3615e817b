"""What Slurm says of jobs: one `squeue` for all of them, and the accounting for those that have left the queue.

Polite to the controller: one call at a time, own jobs only (the controller filters by user, and by nothing else).
`squeue --json` before 23.11 sends every job of everybody whatever filter it is given, so that its text is taken there.
Both were compared, state by state, on 24.11.
Every call has a time limit: a frozen controller is waited for 10 s by the programs themselves.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lavender_tui.errors import LavenderError
from lavender_tui.launch.identity import user_name
from lavender_tui.launch.slurm_job import SlurmJob
from lavender_tui.model.job import WAITING, Job
from lavender_tui.model.text import clean, one_line

TIMEOUT_SECONDS = 15.0
FIRST_FILTERED_JSON = (23, 11)
# The name comes last: whatever it holds, the fields before it are whole.
_FIELDS = (
    "JobID", "State", "Reason", "exit_code", "RestartCnt", "StartTime", "EndTime", "Cluster", "NodeList", "Name",
)  # fmt: skip
_WIDE = ("NodeList", "Name", "Reason", "Cluster")
_QUEUE_FORMAT = ",".join(f"{name}:{240 if name in _WIDE else 24}|" for name in _FIELDS)
_NO_NODES = ("", "(null)", "None assigned")
_ACCOUNT_FIELDS = ("JobID", "State", "ExitCode", "NodeList", "Start", "JobName")


class ControllerAway(LavenderError):
    """Slurm doesn't answer, or answers with an error: nothing is known of any job."""


class NotInstalled(ControllerAway):
    """Slurm's programs aren't on this machine."""


def ask(jobs: Iterable[SlurmJob], *, timeout: float = TIMEOUT_SECONDS) -> dict[SlurmJob, Job]:
    """What is known of the jobs; those that Slurm doesn't know are left out.

    Another user's job is not asked for, and one of another cluster than the one that answers here only there: a number
    means nothing elsewhere. `Job.unasked` says why nothing is known. Raises ControllerAway where the queue of the own
    cluster can't be asked.
    """
    told, by_cluster = {}, dict[str | None, list[SlurmJob]]()
    for job in jobs:
        if job.uid is not None and job.uid != os.getuid():
            why = f"it belongs to {user_name(job.uid)}, and only own jobs are asked for"
            told[job] = Job(job_id=job.job_id, unasked=why)
        else:
            by_cluster.setdefault(cluster_to_name(job, timeout), []).append(job)
    for cluster, wanted in by_cluster.items():
        try:
            told.update(_ask_cluster(cluster, wanted, timeout))
        except ControllerAway:
            if cluster is None:
                raise
            why = f"it is of cluster {clean(cluster, 60)}, which can't be asked from here"
            told.update({job: Job(job_id=job.job_id, cluster=cluster, unasked=why) for job in wanted})
    return told


def _ask_cluster(cluster: str | None, wanted: Sequence[SlurmJob], timeout: float) -> dict[SlurmJob, Job]:
    told = {}
    by_id, by_name = _both_ways(_queue(timeout, cluster))
    for job in wanted:
        found = by_id.get(job.job_id) if job.job_id is not None else by_name.get(job.name)
        if found is not None and job.cluster in (None, found.cluster or job.cluster):
            told[job] = found
    left = {job.job_id: job for job in wanted if job not in told and job.job_id is not None}
    if left:
        told.update({left[number]: facts for number, facts in _accounted(left, timeout, cluster).items()})
    return told


def _both_ways(queue: Iterable[Job]) -> tuple[dict[int | None, Job], dict[str | None, Job]]:
    """By number, and by name: the last of several."""
    found = list(queue)
    return {job.job_id: job for job in found}, {job.name: job for job in found}


def cluster_to_name(job: SlurmJob, timeout: float = TIMEOUT_SECONDS) -> str | None:
    """The cluster to be named to reach the job; None for the one that answers anyway. Raises ControllerAway."""
    if job.cluster is None or job.cluster == (answering_cluster(timeout) or job.cluster):
        return None
    return job.cluster


def answering_cluster(timeout: float = TIMEOUT_SECONDS) -> str | None:
    """The name of the cluster that is asked without a word about one; None where it has none. Asked for once.

    Raises ControllerAway.
    """
    return _cluster_of(os.environ.get("SLURM_CONF"), timeout)


@lru_cache(maxsize=4)
def _cluster_of(configuration: str | None, timeout: float) -> str | None:
    found = re.search(r"^ClusterName\s*=\s*(\S+)", _call(("scontrol", "show", "config"), timeout), re.MULTILINE)
    return found[1] if found else None


def find_by_name(wanted: SlurmJob) -> int | None:
    """The number of the own job of that name, the newest if there are several. Raises ControllerAway."""
    queue = _queue(TIMEOUT_SECONDS, cluster_to_name(wanted))
    ids = [job.job_id for job in queue if job.name == wanted.name and job.job_id is not None]
    return max(ids, default=None)


def requeue_codes(configuration: str) -> frozenset[int]:
    """The exit codes with which a script asks to be queued again, from `scontrol show config`."""
    found = re.search(r"^RequeueExit\s*=\s*(\S+)", configuration, re.MULTILINE)
    codes: set[int] = set()
    for part in found[1].split(",") if found else ():
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit() and int(last or first) < 256:
            codes.update(range(int(first), int(last or first) + 1))
    return frozenset(codes)


# The queue


def _queue(timeout: float, cluster: str | None = None) -> list[Job]:
    """Every own job that the controller remembers."""
    mine = ("--user", str(os.getuid()), "--states=all")
    if cluster is None and version() >= FIRST_FILTERED_JSON:  # with a name of a cluster it is no JSON
        return from_json(_call(("squeue", *mine, "--json"), timeout))
    there = (f"--clusters={cluster}",) if cluster is not None else ()
    return from_text(_call(("squeue", *there, *mine, "--noheader", "--Format", _QUEUE_FORMAT), timeout))


def from_text(text: str) -> list[Job]:
    """The lines of `squeue --Format` as we ask for them; one that isn't whole is passed over."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|", len(_FIELDS) - 1)]
        if len(fields) < len(_FIELDS) or not fields[0].isdigit():
            continue
        number, state, reason, status, restarts, started, ended, cluster, nodes, name = fields
        code, signal = _written_status(status)
        facts = Job(
            job_id=int(number),
            name=name.rstrip("|").strip(),
            state=clean(state, 30),
            reason=clean(reason, 240),
            nodes=clean(nodes, 240) or None,
            exit_code=code,
            signal=signal,
            restarts=_number(restarts) or 0,
            started_at=_number(started),
            ended_at=_number(ended),
            cluster=cluster if cluster not in ("", "N/A") else None,
        )
        found.append(_plausible(facts))
    return found


def _written_status(text: str) -> tuple[int | None, int | None]:
    """A raw wait status (22.05), or `7:0` (24.11)."""
    code, colon, number = text.partition(":")
    if colon:
        signal = _number(number) or None
        return None if signal else _number(code), signal
    return _status(_number(text) or 0)


def _plausible(job: Job) -> Job:
    """Of a job that is not over Slurm tells when it will start and end at the latest, and the code of no end."""
    if job.is_waiting:
        return replace(job, started_at=None, ended_at=None, exit_code=None, signal=None)
    if job.is_active:
        return replace(job, ended_at=None, exit_code=None, signal=None)
    never_ran = job.state == "FAILED" and job.nodes is None
    return replace(job, exit_code=None, signal=None) if never_ran else job


def from_json(text: str) -> list[Job]:
    """The document of `squeue --json`, of 22.05 and of 23.11 and later. Raises ControllerAway for an error in it."""
    try:
        document = json.loads(text)
        errors, jobs = document.get("errors"), document["jobs"]
        if errors:
            raise ControllerAway(f"Slurm doesn't answer ({one_line(str(_what(errors[0])), 200)})")
        return [_job(job) for job in jobs if isinstance(job, dict)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ControllerAway(f"what Slurm answers can't be read ({type(error).__name__})") from error


def _what(error: Any) -> Any:
    return (error.get("error") or error.get("description") or error) if isinstance(error, dict) else error


def _job(job: Mapping[str, Any]) -> Job:
    states = job.get("job_state")
    states = [states] if isinstance(states, str) else [str(one) for one in states or ()]
    code, signal = _ended(job.get("exit_code"))
    facts = Job(
        job_id=_plain_number(job.get("job_id")),
        name=str(job.get("name") or ""),
        # Flags follow the state: COMPLETING and REQUEUED say more than the state before them.
        state=clean(
            next((one for one in states if one in ("COMPLETING", "REQUEUED")), states[0] if states else ""), 30
        ),
        reason=clean(str(job.get("state_reason") or ""), 240),
        nodes=clean(str(job.get("nodes") or ""), 240) or None,
        exit_code=code,
        signal=signal,
        restarts=_plain_number(job.get("restart_cnt")) or 0,
        started_at=_plain_number(job.get("start_time")) or None,
        ended_at=_plain_number(job.get("end_time")) or None,
        cluster=str(job.get("cluster") or "") or None,
    )
    return _plausible(facts)


def _ended(value: Any) -> tuple[int | None, int | None]:
    """A raw wait status (22.05), or an object with `return_code` and `signal` (23.11)."""
    if isinstance(value, dict) and "return_code" in value:
        signal = value.get("signal")
        number = signal.get("id", signal.get("signal_id")) if isinstance(signal, dict) else None
        return _plain_number(value.get("return_code")), _plain_number(number) or None
    return _status(_plain_number(value) or 0)


def _plain_number(value: Any) -> int | None:
    """A number, or 23.11's {"set": true, "infinite": false, "number": 7}."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    return value if type(value) is int and 0 <= value < 1 << 40 else None


def _status(status: int) -> tuple[int | None, int | None]:
    signal = status & 0x7F
    return (None, signal) if signal else (status >> 8, None)


# The accounting


def _accounted(ids: Collection[int], timeout: float, cluster: str | None = None) -> dict[int, Job]:
    """Of jobs that have left the queue: from the accounting, else from the file of ended jobs; empty without both."""
    there = (f"--clusters={cluster}",) if cluster is not None else ()
    words = (
        "sacct",
        *there,
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--jobs={','.join(map(str, sorted(ids)))}",
        f"--format={','.join(_ACCOUNT_FIELDS)}",
    )
    for more in ((), *(() if there else (("--completion",),))):
        try:
            found = from_accounting(_call((*words, *more), timeout))
        except ControllerAway:
            continue
        if found:
            return {number: job for number, job in found.items() if number in ids}
    return {}


def from_accounting(text: str) -> dict[int, Job]:
    """The lines of `sacct`; of a job that was queued again the last one counts, and that it was is no end.

    Right after an end they may be wrong: then the job's name is still `allocation`, and the line is passed over.
    """
    found = {}
    for line in text.splitlines():
        fields = line.split("|", len(_ACCOUNT_FIELDS) - 1)
        if len(fields) < len(_ACCOUNT_FIELDS) or not fields[0].isdigit() or fields[1] in ("", *WAITING):
            continue
        number, told, status, nodes, started, name = fields
        if name == "allocation":
            continue
        state, _, by = told.partition(" by ")
        code, signal = _written_status(status)
        found[int(number)] = Job(
            job_id=int(number),
            name=name,
            state=clean(state.strip(), 30),
            exit_code=code,
            signal=signal,
            cancelled_by=None if (uid := _number(by.strip())) is None else user_name(uid),
            nodes=clean(nodes, 240) if nodes not in _NO_NODES else None,
            started_at=_number(started),
        )
    return {number: _plausible(job) for number, job in found.items()}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


# Calling


def _call(words: Sequence[str], timeout: float) -> str:
    """The program's standard output. Raises ControllerAway where it fails or takes too long."""
    try:
        done = subprocess.run(
            words, env=query_environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ControllerAway(f"Slurm doesn't answer within {timeout:.0f} s") from error
    except FileNotFoundError as error:
        raise NotInstalled(f"{words[0]} is not on this machine") from error
    except OSError as error:
        raise ControllerAway(f"{words[0]} can't be executed ({error.strerror})") from error
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        told = clean(lines[-1], 200) if lines else "no reason given"
        raise ControllerAway(f"Slurm doesn't answer ({told})")
    return done.stdout.decode("utf-8", "replace")


def query_environment() -> dict[str, str]:
    """Without what would change the questions (SQUEUE_FORMAT and the like); times are asked for as unix seconds."""
    own = ("SQUEUE_", "SACCT_", "SCONTROL_", "SLURM_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own) or name == "SLURM_CONF"}
    return {**kept, "SLURM_TIME_FORMAT": "%s"}


@lru_cache(maxsize=1)
def version() -> tuple[int, int]:
    """Of the installed programs, such as (22, 5); (0, 0) where that isn't known. Asks no controller."""
    try:
        done = subprocess.run(
            ("squeue", "--version"), stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    found = re.search(rb"([0-9]{2})\.([0-9]{2})", done.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)
