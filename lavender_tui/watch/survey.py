"""All runs under some roots, kept up to date piece by piece. No threads: the watcher's thread owns one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lavender_tui.launch.record import LaunchRecord, is_same_process
from lavender_tui.model.run import LiveProcess, Run
from lavender_tui.watch.assemble import MayRead, assemble, is_pending, is_unsettled
from lavender_tui.watch.discover import Tree, discover
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import Listing, list_run
from lavender_tui.watch.metrics import METRICS_NAME
from lavender_tui.watch.processes import recorded_processes
from lavender_tui.watch.records import read_papers
from lavender_tui.watch.scan import in_order
from lavender_tui.watch.suspicion import Suspicion

COARSE_GRAIN_SECONDS = 2.0  # file times on network and old file systems
FINE_GRAIN_SECONDS = 0.02  # on local ones: a tick of the kernel is at most 10 ms
MOST_RESTLESS = 64
ACTIVE_SECONDS = 60.0  # a run that wrote something within this time is looked at every second


class Survey:
    """What is known of the roots. `changed` collects the runs that differ from what `take_changes` last told."""

    def __init__(self, roots: Sequence[str], index: Index) -> None:
        self.roots = tuple(roots)
        self.index = index
        self.tree = Tree()
        self.runs: dict[str, Run] = {}
        self.records: dict[str, LaunchRecord | None] = {}
        self._listings: dict[str, Listing] = {}
        self._listed_at: dict[str, float] = {}  # unix seconds
        self._found: Mapping[str, tuple[LiveProcess, ...]] = {}
        self._changed: set[str] = set()
        self._behind: set[str] = set()
        self._order: tuple[Run, ...] = ()
        self._suspicion = Suspicion()

    def explore(self) -> list[str]:
        """Walk the roots again; returns the run directories that are new. Those that vanished are forgotten."""
        before, self.tree = self.tree, discover(self.roots)
        for gone in before.runs.keys() - self.tree.runs.keys():
            self._forget(gone)
        if before.warnings != self.tree.warnings:
            self._changed.add("")
        return [path for path in self.tree.runs if path not in before.runs]

    def look(
        self,
        path: str,
        *,
        may_read: MayRead = lambda: True,
        must_read_newest: bool = True,
        metrics_budget_bytes: int = 1 << 20,
    ) -> None:
        """List one run directory and bring its Run up to date."""
        root = self.tree.runs.get(path)
        if root is None:
            return
        now = time.time()
        listing = list_run(path)
        if listing.is_gone:
            self.tree.runs.pop(path, None)  # should it come again, the next walk finds it as a new one
            self._forget(path)
            return
        papers = read_papers(listing, self.index)
        self._listings[path], self._listed_at[path] = listing, now
        self.records[path] = papers.launch
        run = assemble(
            listing,
            root,
            papers,
            index=self.index,
            processes=self._processes(path, papers.launch),
            now=now,
            may_read=may_read,
            must_read_newest=must_read_newest,
            metrics_budget_bytes=metrics_budget_bytes,
        )
        self._put(path, run)
        behind = run is not None and (is_pending(run) or self._is_tail_behind(listing))
        (self._behind.add if behind else self._behind.discard)(path)

    def take_changes(self) -> frozenset[str]:
        """The paths of runs that changed, appeared or went since the last call ("" stands for the roots' warnings)."""
        changed, self._changed = frozenset(self._changed), set()
        if changed or self._suspicion.has_moved():
            self._order, doubted = self._suspicion.mark(in_order(self.runs.values()))
            changed |= doubted
        return changed

    @property
    def ordered(self) -> tuple[Run, ...]:
        return self._order

    def set_found(self, found: Mapping[str, tuple[LiveProcess, ...]]) -> list[str]:
        """Take over what the search for processes found; returns the runs whose processes are others now."""
        before, self._found = self._found, found
        return [path for path in {*before, *found} if before.get(path) != found.get(path)]

    def moved_directories(self) -> tuple[list[str], bool]:
        """(run directories whose entries changed since they were listed, did some other directory change).

        One stat a directory. Appending to a file or writing it anew in place doesn't show here.
        """
        moved = [path for path in self.tree.runs if self.has_moved(path)]
        return moved, any(_mtime_ns(path) != mtime_ns for path, mtime_ns in self.tree.containers.items())

    def restless(self) -> list[str]:
        """Runs to look at every second: alive, being written to, or active within the last minute; the latest first."""
        since = time.time() - ACTIVE_SECONDS
        chosen = [
            run
            for run in self.runs.values()
            if run.processes or is_unsettled(run) or (run.last_activity_at or 0.0) > since
        ]
        chosen.sort(key=lambda run: (bool(run.processes), run.last_activity_at or 0.0), reverse=True)
        return [run.path for run in chosen[:MOST_RESTLESS]]

    def pending(self) -> list[str]:
        """Runs with checkpoints or metrics that wait to be read, newest first."""
        return [run.path for run in in_order(self.runs[path] for path in self._behind)]

    def is_unsettled(self, path: str) -> bool:
        run = self.runs.get(path)
        return run is not None and is_unsettled(run)

    def has_moved(self, path: str, *, grain_seconds: float = COARSE_GRAIN_SECONDS) -> bool:
        """Did a file come, go or get another name since the run directory was listed? One stat.

        A change within the same clock tick as the one before leaves the directory's time as it was. So a directory
        that had changed less than `grain_seconds` before it was listed counts as moved once more, after that time.
        """
        listing = self._listings.get(path)
        if listing is None or _mtime_ns(path) != listing.directory_mtime_ns:
            return True
        listed = self._listed_at[path]
        return abs(listed - listing.directory_mtime_ns / 1e9) < grain_seconds <= time.time() - listed

    def _processes(self, path: str, record: LaunchRecord | None) -> tuple[LiveProcess, ...]:
        alive = {one.pid: one for one in recorded_processes(record)}
        for one in self._found.get(path, ()):
            if is_same_process(one.pid, one.start_ticks):
                alive[one.pid] = one if one.pid not in alive else replace(one, role=alive[one.pid].role)
        return tuple(alive[pid] for pid in sorted(alive))

    def _put(self, path: str, run: Run | None) -> None:
        before = self.runs.get(path)
        if run == before:
            return
        self._changed.add(path)
        if run is None:
            self.runs.pop(path, None)
        else:
            self.runs[path] = run

    def _is_tail_behind(self, listing: Listing) -> bool:
        if METRICS_NAME not in listing.activity:
            return False
        return self.index.tail(os.path.join(listing.path, METRICS_NAME)).is_behind

    def _forget(self, path: str) -> None:
        if self.runs.pop(path, None) is not None:
            self._changed.add(path)
        self._behind.discard(path)
        for table in (self._listings, self._listed_at, self.records):
            table.pop(path, None)  # type: ignore[attr-defined]
        self.index.forget(path)


def _mtime_ns(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
