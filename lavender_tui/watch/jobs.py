"""What Slurm says of the runs that are its jobs: one question for all of them, less often where it answers slowly.

Asked only for runs whose end isn't recorded, or whose job was queued again; of several attempts of one job the last one
has it. A training in a job that was submitted by hand is asked for unless it ended well: why it got a signal, and
whether the job is to start again, only Slurm can say. While the controller doesn't answer, what it said last stands,
with since when.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lavender_tui.launch.record import LaunchRecord
from lavender_tui.launch.slurm_job import SlurmJob
from lavender_tui.launch.slurm_living import as_told, is_around_us, speaks_for, training_is_gone
from lavender_tui.launch.slurm_state import TIMEOUT_SECONDS, ControllerAway, NotInstalled, ask
from lavender_tui.model.job import WENT_ON, Job
from lavender_tui.model.run import EndFacts

ASK_SECONDS = 5.0
SLOWEST_SECONDS = 60.0
UNKNOWN_TIMES = 6  # then it isn't asked for again: the accounting lags behind by some seconds, not by more
RESTS = 20  # after an answer the controller is left alone for so many times as long as it took


class JobTable:
    """Remembers what was answered. Not shared between threads."""

    def __init__(self, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._timeout = timeout
        self._known: dict[str, Job] = {}  # by run
        self._unknown: dict[str, int] = {}  # by run, how often Slurm said that it knows no such job
        self._silent: set[str] = set()  # runs whose job has nothing to do with them any more, but lives
        self._away_since: float | None = None
        self._failures = 0
        self._took = 0.0

    def ask(self, records: Mapping[str, LaunchRecord | None], ends: Mapping[str, EndFacts | None]) -> dict[str, Job]:
        """What is known by run directory, asking where something may have changed. Never raises."""
        newest = _newest_attempts(records)
        followed = dict(_followed(records, ends, newest))
        self._known = {path: job for path, job in self._known.items() if path in followed}
        self._silent &= followed.keys()
        open_ = {path: one for path, one in followed.items() if not self._is_settled(path)}
        if open_:
            self._ask(open_)
        told = {path: job for path, job in self._known.items() if path not in self._silent}
        return {**_superseded(records, newest), **told}

    @property
    def rest_seconds(self) -> float:
        """How long to wait before the next question: longer after a slow answer, and longer still after none."""
        return min(SLOWEST_SECONDS, max(ASK_SECONDS, RESTS * self._took) * 2 ** min(self._failures, 6))

    def _is_settled(self, path: str) -> bool:
        job = self._known.get(path)
        if job is None or job.away_since is not None:
            return False
        if job.unasked is not None:
            return job.cluster is None  # another cluster may answer later, another user's job never
        return not job.is_active if job.state else self._unknown.get(path, 0) >= UNKNOWN_TIMES

    def _ask(self, open_: Mapping[str, _Followed]) -> None:
        began = time.monotonic()
        gone = {path for path, one in open_.items() if one.is_over or training_is_gone(one.record)}
        try:
            said = ask([one.job for one in open_.values()], timeout=self._timeout)
        except ControllerAway as error:
            self._failures += 1
            self._away_since = self._away_since or time.time()
            for path, one in open_.items():
                before = self._known.get(path) or Job(job_id=one.job.job_id)
                self._known[path] = replace(before, away_since=self._away_since)
                self._hush(path, isinstance(error, NotInstalled) and one.record.is_job_by_hand)
            return
        self._failures, self._away_since, self._took = 0, None, time.monotonic() - began
        for path, one in open_.items():
            job = as_told(one.record, said.get(one.job))
            self._known[path] = job or Job(job_id=one.job.job_id, is_by_hand=one.record.is_job_by_hand)
            self._unknown[path] = 0 if job is not None else self._unknown.get(path, 0) + 1
            self._hush(path, not speaks_for(one.record, self._known[path], is_over=path in gone))

    def _hush(self, path: str, is_silent: bool) -> None:
        (self._silent.add if is_silent else self._silent.discard)(path)


@dataclass(frozen=True, slots=True)
class _Followed:
    record: LaunchRecord
    job: SlurmJob
    is_over: bool  # the end of its training is recorded


def _followed(
    records: Mapping[str, LaunchRecord | None],
    ends: Mapping[str, EndFacts | None],
    newest: Mapping[str, tuple[int, str]],
) -> Iterator[tuple[str, _Followed]]:
    """Each run whose job may still say something; of several attempts the newest."""
    for path, record in records.items():
        if record is None or record.slurm is None or not _is_newest(path, record, newest) or is_around_us(record):
            continue
        end = ends.get(path)
        is_over = end is not None and end.ended_at is not None
        if end is None or not is_over or end.goes_on or (record.is_job_by_hand and not _ended_well(end)):
            yield path, _Followed(record, record.slurm, is_over)


def _ended_well(end: EndFacts) -> bool:
    return end.exit_code == 0 and not end.stop_requested


def _newest_attempts(records: Mapping[str, LaunchRecord | None]) -> dict[str, tuple[int, str]]:
    """By job: (its newest attempt, the last path of those that are of it)."""
    newest: dict[str, tuple[int, str]] = {}
    for path, record in records.items():
        if record is not None and record.job_key and _is_of(record, path):
            newest[record.job_key] = max(newest.get(record.job_key, (0, "")), (record.attempt, path))
    return newest


def _is_newest(path: str, record: LaunchRecord, newest: Mapping[str, tuple[int, str]]) -> bool:
    """A job that we submit has one run an attempt, one by hand may have several."""
    if record.is_job_by_hand:
        return record.attempt == newest.get(record.job_key, (0, ""))[0] and _is_of(record, path)
    return path == newest.get(record.job_key, (0, ""))[1]


def _superseded(records: Mapping[str, LaunchRecord | None], newest: Mapping[str, tuple[int, str]]) -> dict[str, Job]:
    """Runs by hand whose job was started again, as a later run of it shows."""
    return {
        path: Job(job_id=record.slurm.job_id, state=WENT_ON, is_by_hand=True)
        for path, record in records.items()
        if record is not None and record.slurm is not None and record.is_job_by_hand
        if record.attempt < newest.get(record.job_key, (0, ""))[0]
    }


def _is_of(record: LaunchRecord, path: str) -> bool:
    """A copied directory has the record of the original."""
    return os.path.realpath(record.run_dir) == os.path.realpath(path)
