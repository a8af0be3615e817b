"""What the script of a job runs last: record how the training ended, and say whether the job is to be queued again.

Executed by its path with `python -I -S`: `slurm_end.py RUN_DIR CODE ATTEMPT SIGNAL_SECONDS WALL_SECONDS`; its exit code
is what the script ends with. The job goes on in the queue where Slurm took its place away (a preemption), or where its
time was nearly over and this attempt has saved something to go on from. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

if __name__ == "__main__":  # by its path: the package isn't on the interpreter's path then
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from lavender_tui.checkpoints.names import has_saved
from lavender_tui.launch import cause
from lavender_tui.launch.files import EXIT, STOP, encode, open_regular, read_document, write_atomically
from lavender_tui.launch.record import GOES_ON
from lavender_tui.launch.slurm_state import query_environment, requeue_codes
from lavender_tui.model.failure import Failure

REQUEUE_CODE = 99
GRAIN_SECONDS = 90.0  # Slurm's signal comes up to a minute early, and a save takes its time
ASKING_SECONDS = 20.0
METRICS = "metrics.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """What `scontrol show job` says at the end of the script; None where it says nothing. Times are unix seconds."""

    state: str | None = None
    reason: str | None = None
    ends_at: float | None = None
    preempted_at: float | None = None
    restarts: int | None = None
    may_requeue: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """`stop`, `error` and `failure` as in `exit.json`; `asks_again`: it has to ask for its place in the queue."""

    stop: Mapping[str, Any] | None = None
    error: str | None = None
    failure: Failure | None = None
    asks_again: bool = False


def main(arguments: list[str]) -> int:
    run_dir = arguments[0]
    code, attempt, signal_seconds, wall_seconds = map(int, arguments[1:5])
    job = job_line(_scontrol("show", "job", "--oneliner", os.environ.get("SLURM_JOB_ID", "")))
    ending = decide(run_dir, code, job, attempt=attempt, signal_seconds=signal_seconds, now=time.time())
    _record(run_dir, code, ending, wall_seconds)
    if not ending.asks_again:
        return code
    if REQUEUE_CODE in requeue_codes(_scontrol("show", "config")):
        return REQUEUE_CODE
    _note("the job asks for its place in the queue again")
    _scontrol("requeue", os.environ.get("SLURM_JOB_ID", ""))  # ends this process too
    return code


def decide(run_dir: str, code: int, job: JobLine, *, attempt: int, signal_seconds: float, now: float) -> Ending:
    """Why it ended, from what was asked, what Slurm says, and what the training left. Reads, writes nothing."""
    asked, _ = read_document(os.path.join(run_dir, STOP))
    if asked is not None:
        return Ending(stop=asked)
    if job.restarts is not None and job.restarts >= attempt:
        return Ending(stop=_by_slurm("Slurm put the job back into the queue"))
    if job.state == "COMPLETING":
        return _ended_by_slurm(job)
    said = _last_words(run_dir)
    if said.get("status") == "finished":
        return _by_itself(run_dir, code)  # nothing is left to be queued for
    if job.preempted_at is not None and job.may_requeue:
        return Ending(stop=_by_slurm("it was preempted"), asks_again=True)
    if job.ends_at is not None and job.ends_at - now <= signal_seconds + GRAIN_SECONDS and job.may_requeue:
        if has_saved(run_dir):
            return Ending(stop=_by_slurm("its time limit was near"), asks_again=True)
        if code != 0:
            why = "its time limit came before its first save; queued again it would get no further"
            failure = _failure(run_dir, code)
            return Ending(error=failure.words if failure is not None else why, failure=failure)
    if said.get("status") == "stopped":
        return Ending(stop={"who": str(said.get("by") or "a signal")[:40], "how": "graceful", "why": None})
    return _by_itself(run_dir, code)


def _ended_by_slurm(job: JobLine) -> Ending:
    if job.reason == "TimeLimit":
        return Ending(stop={"who": "Slurm", "how": "time limit", "why": "its time limit was over"})
    return Ending(stop={"who": "Slurm", "how": "cancelled", "why": "the job was cancelled"})


def _by_slurm(why: str) -> dict[str, Any]:
    return {"who": "Slurm", "how": GOES_ON, "why": why}


def _by_itself(run_dir: str, code: int) -> Ending:
    failure = _failure(run_dir, code) if code else None
    return Ending(error=failure.words if failure is not None else None, failure=failure)


def _failure(run_dir: str, code: int) -> Failure | None:
    try:
        return cause.examine(run_dir, code)
    except (OSError, ValueError, RecursionError):
        return None


def _last_words(run_dir: str) -> dict[str, Any]:
    """What the training itself said of its end, in the last line of its metrics; empty where it said nothing."""
    try:
        with open(open_regular(os.path.join(run_dir, METRICS)), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
            last = file.read().splitlines()[-1:]
        said = json.loads(last[0]) if last else None
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) and said.get("event") == "end" else {}


def job_line(text: str) -> JobLine:
    """The fields that count, each the first of its name: later ones may be parts of a path."""
    fields: dict[str, str] = {}
    for name, value in re.findall(r"\b([A-Za-z]+)=(\S*)", text):
        fields.setdefault(name, value)
    restarts = fields.get("Restarts", "")
    return JobLine(
        state=fields.get("JobState"),
        reason=fields.get("Reason"),
        ends_at=_seconds(fields.get("EndTime")),
        preempted_at=_seconds(fields.get("PreemptTime")),
        restarts=int(restarts) if restarts.isdigit() else None,
        may_requeue=fields.get("Requeue") != "0",
    )


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None


def _scontrol(*words: str) -> str:
    """What it prints; nothing where it fails, for the end is recorded whatever Slurm says."""
    try:
        done = subprocess.run(
            ("scontrol", *words),
            env=query_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASKING_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _record(run_dir: str, code: int, ending: Ending, wall_seconds: int) -> None:
    document = {
        "schema": 1,
        "code": code,
        "signal": None,
        "ended_at": time.time(),
        "stop": ending.stop,
        "killed": False,
        "error": ending.error,
        "failure": ending.failure.to_json() if ending.failure is not None else None,
        "wall_s": wall_seconds,
    }
    try:
        write_atomically(os.path.join(run_dir, EXIT), encode(document))
    except FileExistsError:
        return
    except OSError as error:
        _note(f"the end can't be recorded: {error}")


def _note(text: str) -> None:
    print(f"[lavender-tui] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
