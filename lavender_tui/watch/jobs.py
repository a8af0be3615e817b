"""What Slurm says of the runs that are its jobs: one question for all of them, less often where it answers slowly.

Asked only for runs whose end isn't recorded, or whose job was queued again; of several attempts of one job the last one
has it. While the controller doesn't answer, what it said last stands, with since when.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lavender_tui.launch.record import LaunchRecord, SlurmJob
from lavender_tui.launch.slurm_state import TIMEOUT_SECONDS, ControllerAway, ask
from lavender_tui.model.job import Job
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
        self._away_since: float | None = None
        self._failures = 0
        self._took = 0.0

    def ask(self, records: Mapping[str, LaunchRecord | None], ends: Mapping[str, EndFacts | None]) -> dict[str, Job]:
        """What is known by run directory, asking where something may have changed. Never raises."""
        followed = dict(_followed(records, ends))
        self._known = {path: job for path, job in self._known.items() if path in followed}
        open_ = {path: job for path, job in followed.items() if not self._is_settled(path)}
        if open_:
            self._ask(open_)
        return dict(self._known)

    @property
    def rest_seconds(self) -> float:
        """How long to wait before the next question."""
        if self._failures:
            return min(SLOWEST_SECONDS, ASK_SECONDS * 2 ** min(self._failures, 6))
        return min(SLOWEST_SECONDS, max(ASK_SECONDS, RESTS * self._took))

    def _is_settled(self, path: str) -> bool:
        job = self._known.get(path)
        if job is None or job.away_since is not None:
            return False
        return not job.is_active if job.state else self._unknown.get(path, 0) >= UNKNOWN_TIMES

    def _ask(self, jobs: Mapping[str, SlurmJob]) -> None:
        began = time.monotonic()
        try:
            said = ask(
                [job.job_id for job in jobs.values() if job.job_id is not None],
                [job.name for job in jobs.values() if job.job_id is None],
                timeout=self._timeout,
            )
        except ControllerAway:
            self._failures += 1
            self._away_since = self._away_since or time.time()
            for path, job in jobs.items():
                before = self._known.get(path) or Job(job_id=job.job_id)
                self._known[path] = replace(before, away_since=self._away_since)
            return
        self._failures, self._away_since, self._took = 0, None, time.monotonic() - began
        for path, job in jobs.items():
            key = str(job.job_id) if job.job_id is not None else job.name
            self._known[path] = said.get(key) or Job(job_id=job.job_id)
            self._unknown[path] = 0 if key in said else self._unknown.get(path, 0) + 1


def _followed(
    records: Mapping[str, LaunchRecord | None], ends: Mapping[str, EndFacts | None]
) -> Iterator[tuple[str, SlurmJob]]:
    """(run, its job) of each run whose job may still say something."""
    newest: dict[str, tuple[int, str]] = {}
    for path, record in records.items():
        if record is not None and record.slurm is not None and _is_of(record, path):
            newest[record.slurm.name] = max(newest.get(record.slurm.name, (0, "")), (record.attempt, path))
    for _, path in newest.values():
        record, end = records[path], ends.get(path)
        assert record is not None and record.slurm is not None
        if end is None or end.ended_at is None or end.goes_on:
            yield path, record.slurm


def _is_of(record: LaunchRecord, path: str) -> bool:
    """A copied directory has the record of the original."""
    return os.path.realpath(record.run_dir) == os.path.realpath(path)
