"""What Slurm says of jobs: one `squeue` for all of them, and the accounting for those that have left the queue.

Polite to the controller: one call at a time, own jobs only (the controller filters by user, and by nothing else).
`squeue --json` before 23.11 sends every job of everybody whatever filter it is given, so that its text is taken there.
Every call has a time limit: a frozen controller is waited for 10 s by the programs themselves.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lavender_tui.errors import LavenderError
from lavender_tui.model.job import Job
from lavender_tui.model.text import clean

TIMEOUT_SECONDS = 15.0
FIRST_FILTERED_JSON = (23, 11)
# The name comes last: whatever it holds, the fields before it are whole.
_FIELDS = ("JobID", "State", "Reason", "exit_code", "RestartCnt", "EndTime", "NodeList", "Name")
_QUEUE_FORMAT = ",".join(f"{name}:{240 if name in ('NodeList', 'Name', 'Reason') else 24}|" for name in _FIELDS)
_ACCOUNT_FORMAT = "JobID,State,ExitCode,NodeList,JobName"


class ControllerAway(LavenderError):
    """Slurm doesn't answer, or answers with an error: nothing is known of any job."""


def ask(ids: Iterable[int] = (), names: Iterable[str] = (), *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Job]:
    """What is known of the jobs, by name where asked by name, else by number as text; the unknown are left out.

    Raises ControllerAway where the queue can't be asked.
    """
    wanted, called = {str(job_id) for job_id in ids}, set(names)
    if not wanted and not called:
        return {}
    found: dict[str, Job] = {}
    for name, job in _queue(timeout):
        if str(job.job_id) in wanted:
            found[str(job.job_id)] = job
        if name in called:
            found[name] = job
    left = wanted - found.keys()
    if left:
        found.update(_accounted(sorted(left), timeout))
    return found


def find_by_name(name: str) -> int | None:
    """The number of the own job of that name, the newest if there are several. Raises ControllerAway."""
    ids = [job.job_id for known, job in _queue(TIMEOUT_SECONDS) if known == name and job.job_id is not None]
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


def _queue(timeout: float) -> list[tuple[str, Job]]:
    """(name, facts) of every own job that the controller remembers."""
    mine = ("--user", str(os.getuid()), "--states=all")
    if version() >= FIRST_FILTERED_JSON:
        return from_json(_call(("squeue", *mine, "--json"), timeout))
    return from_text(_call(("squeue", *mine, "--noheader", "--Format", _QUEUE_FORMAT), timeout))


def from_text(text: str) -> list[tuple[str, Job]]:
    """The lines of `squeue --Format` as we ask for them; one that isn't whole is passed over."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|", len(_FIELDS) - 1)]
        if len(fields) < len(_FIELDS) or not fields[0].isdigit():
            continue
        number, state, reason, status, restarts, ended, nodes, name = fields
        code, signal = _status(_number(status) or 0)
        facts = Job(
            job_id=int(number),
            state=clean(state, 30),
            reason=clean(reason, 240),
            nodes=clean(nodes, 240) or None,
            exit_code=code,
            signal=signal,
            restarts=_number(restarts) or 0,
            ended_at=_number(ended),
        )
        found.append((name.rstrip("|").strip(), facts))
    return found


def from_json(text: str) -> list[tuple[str, Job]]:
    """The document of `squeue --json`, of 22.05 and of 23.11 and later. Raises ControllerAway for an error in it."""
    try:
        document = json.loads(text)
        errors, jobs = document.get("errors"), document["jobs"]
        if errors:
            raise ControllerAway(f"Slurm doesn't answer ({clean(str(_what(errors[0])), 200)})")
        return [(str(job.get("name", "")), _job(job)) for job in jobs if isinstance(job, dict)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ControllerAway(f"what Slurm answers can't be read ({type(error).__name__})") from error


def _what(error: Any) -> Any:
    return (error.get("error") or error.get("description") or error) if isinstance(error, dict) else error


def _job(job: Mapping[str, Any]) -> Job:
    states = job.get("job_state")
    states = [states] if isinstance(states, str) else [str(one) for one in states or ()]
    code, signal = _ended(job.get("exit_code"))
    return Job(
        job_id=_plain_number(job.get("job_id")),
        # Flags follow the state: COMPLETING and REQUEUED say more than the state before them.
        state=clean(
            next((one for one in states if one in ("COMPLETING", "REQUEUED")), states[0] if states else ""), 30
        ),
        reason=clean(str(job.get("state_reason") or ""), 240),
        nodes=clean(str(job.get("nodes") or ""), 240) or None,
        exit_code=code,
        signal=signal,
        restarts=_plain_number(job.get("restart_cnt")) or 0,
        ended_at=_plain_number(job.get("end_time")) or None,
    )


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


def _status(status: int) -> tuple[int, int | None]:
    return status >> 8, (status & 0x7F) or None


# The accounting


def _accounted(ids: Sequence[str], timeout: float) -> dict[str, Job]:
    """Of jobs that have left the queue: from the accounting, else from the file of ended jobs; empty without both."""
    words = (
        "sacct",
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--jobs={','.join(ids)}",
        f"--format={_ACCOUNT_FORMAT}",
    )
    for more in ((), ("--completion",)):
        try:
            found = from_accounting(_call((*words, *more), timeout))
        except ControllerAway:
            continue
        if found:
            return found
    return {}


def from_accounting(text: str) -> dict[str, Job]:
    """The lines of `sacct`; of a job that was queued again the last one counts. Right after an end they may be wrong:
    then the job's name is still `allocation`, and the line is passed over."""
    found = {}
    for line in text.splitlines():
        fields = line.split("|", 4)
        if len(fields) < 5 or not fields[0].isdigit() or not fields[1] or fields[4] == "allocation":
            continue
        state, _, by = fields[1].partition(" by ")
        code, _, signal = fields[2].partition(":")
        found[fields[0]] = Job(
            job_id=int(fields[0]),
            state=clean(state.strip(), 30),
            exit_code=_number(code),
            signal=_number(signal) or None,
            cancelled_by=_user(by.strip()),
            nodes=clean(fields[3], 240) or None,
        )
    return found


def _user(number: str) -> str | None:
    if not number.isdigit():
        return None
    try:
        return pwd.getpwuid(int(number)).pw_name
    except (KeyError, OverflowError):
        return f"user {number}"


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
