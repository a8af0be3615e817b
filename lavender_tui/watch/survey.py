"""All runs under some roots, kept up to date piece by piece. No threads: the watcher's thread owns one."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lavender_tui.launch import journal, keepers
from lavender_tui.launch.identity import started_at
from lavender_tui.launch.living import members
from lavender_tui.launch.record import LaunchRecord, ProcessId, is_same_process, this_machine
from lavender_tui.launch.seen import GoneRank, Memory, end_of_status
from lavender_tui.model.gone import as_gone
from lavender_tui.model.job import Job
from lavender_tui.model.run import EndFacts, LiveProcess, Run
from lavender_tui.model.state import live_ranks
from lavender_tui.watch.assemble import MayRead, assemble, is_pending, is_unsettled
from lavender_tui.watch.discover import Tree, discover
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import Listing, list_run, why_shut
from lavender_tui.watch.metrics import METRICS_NAME
from lavender_tui.watch.naming import Naming
from lavender_tui.watch.processes import recorded_processes, remembered_process
from lavender_tui.watch.records import Papers, read_papers
from lavender_tui.watch.scan import in_order
from lavender_tui.watch.standing import Observed
from lavender_tui.watch.suspicion import Suspicion

if TYPE_CHECKING:
    from lavender_tui.model.usage import Usage
    from lavender_tui.watch.ends import Identity

COARSE_GRAIN_SECONDS = 2.0  # file times on network and old file systems
FINE_GRAIN_SECONDS = 0.02  # on local ones: a tick of the kernel is at most 10 ms
MOST_RESTLESS = 64
MOST_ENDS = 1000
MISSING_SECONDS = 1.5  # a directory that was only given another name is seen by then
ACTIVE_SECONDS = 60.0  # a run that wrote something within this time is looked at every second


class Handled(NamedTuple):
    """What a process on which there is a handle is of: the run, and its rank where it is one of several."""

    path: str
    rank: int | None = None


class Survey:
    """What is known of the roots. `changed` collects the runs that differ from what `take_changes` last told."""

    def __init__(self, roots: Sequence[str], index: Index) -> None:
        self.roots = tuple(roots)
        self.index = index
        self.memory = Memory()
        self.tree = Tree()
        self.runs: dict[str, Run] = {}
        self.records: dict[str, LaunchRecord | None] = {}
        self.ends: dict[str, EndFacts | None] = {}
        self._listings: dict[str, Listing] = {}
        self._listed_at: dict[str, float] = {}  # unix seconds
        self._found: Mapping[str, tuple[LiveProcess, ...]] = {}
        self._gone_since: dict[str, float] = {}  # when a leader was first found gone; monotonic seconds
        self._missing_since: dict[str, float] = {}  # of runs that live, without a directory; monotonic seconds
        self._searched_at: float | None = None
        self._had_all_ranks: set[str] = set()
        self._had_ranks: dict[str, set[Identity]] = {}  # by the run, what was seen to lead some
        self._ends: dict[Identity, EndFacts] = {}  # how processes were seen to end, where nothing else tells
        self._usage: Mapping[str, Usage] = {}
        self._jobs: Mapping[str, Job] = {}
        self._changed: set[str] = set()
        self._behind: set[str] = set()
        self._order: tuple[Run, ...] = ()
        self._suspicion = Suspicion()
        self._naming = Naming()
        self._keepers_at: dict[str, int | None] = {}  # root -> mtime_ns of its directory of keepers

    def explore(self) -> list[str]:
        """Walk the roots again; returns the run directories that are new. Those that vanished are forgotten."""
        before, self.tree = self.tree, discover(self.roots)
        for gone in before.runs.keys() - self.tree.runs.keys():
            if why_shut(gone):
                self.tree.runs[gone] = before.runs[gone]  # it is there, and only can't be read now
            else:
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
            self._look_at_gone(path)
            return
        now = time.time()
        listing = list_run(path)
        if listing.is_gone:
            self.tree.runs.pop(path, None)  # should it come again, the next walk finds it as a new one
            self._forget(path)
            return
        papers = read_papers(listing, self.index)
        self._listings[path], self._listed_at[path] = listing, now
        self.records[path], self.ends[path] = papers.launch, papers.end
        run = assemble(
            listing,
            root,
            papers,
            index=self.index,
            observed=self._observed(path, papers),
            now=now,
            may_read=may_read,
            must_read_newest=must_read_newest,
            metrics_budget_bytes=metrics_budget_bytes,
        )
        self._put(path, run)
        self._missing_since.pop(path, None)
        behind = run is not None and (is_pending(run) or self._is_tail_behind(listing))
        (self._behind.add if behind else self._behind.discard)(path)

    def take_changes(self) -> frozenset[str]:
        """The paths of runs that changed, appeared or went since the last call ("" stands for the roots' warnings)."""
        changed, self._changed = frozenset(self._changed), set()
        if changed or self._suspicion.has_moved():
            marked, doubted = self._suspicion.mark(in_order(self.runs.values()))
            self._order, renamed = self._naming.mark(marked)
            changed |= doubted | renamed
        return changed

    @property
    def ordered(self) -> tuple[Run, ...]:
        return self._order

    def set_found(self, found: Mapping[str, tuple[LiveProcess, ...]], searched_at: float) -> list[str]:
        """Take over what the search for processes found that began then; returns the runs of which it is another."""
        before, self._found = self._found, found
        self._searched_at = searched_at
        return [path for path in {*before, *found} if before.get(path) != found.get(path)]

    def set_jobs(self, jobs: Mapping[str, Job]) -> list[str]:
        """Take over what Slurm said; returns the runs whose job stands otherwise now."""
        before, self._jobs = self._jobs, jobs
        return [path for path in {*before, *jobs} if before.get(path) != jobs.get(path)]

    def moved_directories(self) -> tuple[list[str], bool]:
        """(run directories whose entries changed since they were listed, did some other directory change).

        One stat a directory. Appending to a file or writing it anew in place doesn't show here.
        """
        moved = [path for path in self.tree.runs if self.has_moved(path)] + self._kept_anew()
        return moved, any(_mtime_ns(path) != mtime_ns for path, mtime_ns in self.tree.containers.items())

    def _kept_anew(self) -> list[str]:
        """Runs that are named by keepers, where some keeper came, moved on or went."""
        found: set[str] = set()
        for root in self.tree.containers:
            directory = os.path.join(root, journal.DIRECTORY, keepers.DIRECTORY)
            if (moved := _mtime_ns(directory)) != self._keepers_at.get(root):
                self._keepers_at[root] = moved
                found |= keepers.seen_in(root).keys()
        return [path for path in self.tree.runs if os.path.realpath(path) in found] if found else []

    def restless(self) -> list[str]:
        """Runs to look at every second: alive, kept alive, being written to, or active within the last minute."""
        since = time.time() - ACTIVE_SECONDS
        chosen = [
            run
            for run in self.runs.values()
            if run.is_alive or run.keeper or run.leftovers or is_unsettled(run) or (run.last_sign_at or 0.0) > since
        ]
        chosen.sort(key=lambda run: (bool(run.processes), run.last_activity_at or 0.0), reverse=True)
        return [run.path for run in chosen[:MOST_RESTLESS]]

    def may_wait(self, path: str, held: Collection[Identity], seconds: float) -> bool:
        """Is it a run that just goes on, looked at within so many seconds, whose processes' end is told at once?

        `held` has those of which it is. What it writes its directory tells, of which the owner knows.
        """
        run = self.runs.get(path)
        if run is None or not run.is_alive or run.leftovers or run.keeper or run.request or run.is_stopping:
            return False
        if is_unsettled(run) or abs(time.time() - self._listed_at.get(path, 0.0)) > seconds:
            return False
        return all((one.pid, one.start_ticks) in held for one in run.processes if one.role != "helper")

    def pending(self) -> list[str]:
        """Runs with checkpoints or metrics that wait to be read, newest first."""
        return [run.path for run in in_order(self.runs[path] for path in self._behind)]

    def is_unsettled(self, path: str) -> bool:
        run = self.runs.get(path)
        return run is not None and is_unsettled(run)

    def has_moved(self, path: str, *, grain_seconds: float = COARSE_GRAIN_SECONDS) -> bool:
        """Did a file come, go or get another name since the run directory was listed, or who may read it? One stat.

        A change within the same clock tick as the one before leaves the directory's time as it was. So a directory
        that had changed less than `grain_seconds` before it was listed counts as moved once more, after that time.
        """
        listing = self._listings.get(path)
        if listing is None or _mtime_and_mode(path) != (listing.directory_mtime_ns, listing.directory_mode):
            return True
        listed = self._listed_at[path]
        return abs(listed - listing.directory_mtime_ns / 1e9) < grain_seconds <= time.time() - listed

    def set_usage(self, usage: Mapping[str, Usage]) -> list[str]:
        """Take over what the runs' processes use; returns the runs of which it is another now."""
        before, self._usage = self._usage, usage
        return [path for path in {*before, *usage} if before.get(path) != usage.get(path)]

    def has_ended(self, of: Handled, identity: Identity, status: int | None) -> None:
        """A process of the run was seen to end. Raises OSError where that can't be remembered."""
        path = of.path
        now = time.time()
        if status is not None and (end := end_of_status(status, now)) is not None:
            if len(self._ends) >= MOST_ENDS:
                self._ends.clear()
            self._ends[identity] = end
        leader, launch = ProcessId(pid=identity[0], start_ticks=identity[1]), self.records.get(path)
        if launch is not None and launch.leader == leader and launch.machine == this_machine() and status is not None:
            self.memory.leader_ended(path, launch, now, status)  # should nobody be left who records it
        else:
            self.memory.ended(path, leader, now, status)
        is_ours_to_tell = launch is None or (launch.written_by == "training" and launch.machine == this_machine())
        if of.rank is not None and status != 0 and is_ours_to_tell:
            gone = GoneRank(rank=of.rank, at=now, status=status)
            self.memory.rank_ended(path, launch, gone, started_at(identity[1]))

    def worth_a_handle(self) -> dict[Identity, Handled]:
        """The processes whose end should be noticed at once."""
        return {
            (one.pid, one.start_ticks): Handled(run.path, one.rank if (one.world_size or 0) > 1 else None)
            for run in self.runs.values()
            for one in (*run.processes, *run.leftovers)
            if one.role != "helper"
        }

    def alive(self) -> dict[str, tuple[LiveProcess, ...]]:
        """The processes of live runs."""
        return {run.path: run.processes for run in list(self.runs.values()) if run.processes}

    def by_hand(self) -> dict[str, tuple[LiveProcess, ...]]:
        """What was found of runs that nobody wrote a launch record for, without what was left over of them."""
        leading = {
            path: tuple(one for one in found if one.role != "orphan")
            for path, found in self._found.items()
            if path in self.runs and self.records.get(path) is None
        }
        return {path: found for path, found in leading.items() if found}

    def _observed(self, path: str, papers: Papers) -> Observed:
        seen = None if papers.has_launch else self.memory.of(path)
        alive = {
            one.pid: one
            for one in (*recorded_processes(papers.launch, is_over=papers.end is not None), *remembered_process(seen))
        }
        for one in self._found.get(path, ()):
            if is_same_process(one.pid, one.start_ticks):
                alive[one.pid] = one if one.pid not in alive else replace(one, role=alive[one.pid].role)
        leader = papers.launch.leader if papers.launch is not None else seen.leader if seen is not None else None
        known = self._ends.get((leader.pid, leader.start_ticks)) if leader is not None else None
        return Observed(
            processes=tuple(alive[pid] for pid in sorted(alive)),
            leader_gone_seconds=self._gone_seconds(path, leader is not None and leader.pid in alive),
            seen=seen,
            end=known or self.memory.end_of(path, papers.launch),
            usage=self._usage.get(path),
            job=self._jobs.get(path),
            had_all_ranks=self._has_had_all_ranks(path, tuple(alive.values())),
            had_ranks=self._has_had_ranks(path, tuple(alive.values())),
            searched_at=self._searched_at,
            gone=self.memory.gone_of(path, papers.launch),
        )

    def _has_had_all_ranks(self, path: str, processes: Sequence[LiveProcess]) -> bool:
        """Forgotten once none lives: torchrun starts them again then."""
        alive, world_size = live_ranks(processes)
        if not alive:
            self._had_all_ranks.discard(path)
        elif len(alive) == world_size:
            self._had_all_ranks.add(path)
        return path in self._had_all_ranks

    def _has_had_ranks(self, path: str, processes: Sequence[LiveProcess]) -> bool:
        """Has what leads the run now been seen with ranks, or is it?"""
        agents = {(one.pid, one.start_ticks) for one in processes if one.role == "agent"}
        if live_ranks(processes)[0]:
            self._had_ranks[path] = agents
        return bool(agents & self._had_ranks.get(path, set()))

    def _gone_seconds(self, path: str, is_there: bool) -> float:
        now = time.monotonic()
        if is_there:
            self._gone_since.pop(path, None)
            return 0.0
        return now - self._gone_since.setdefault(path, now)

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

    def _look_at_gone(self, path: str) -> None:
        """A run without a directory is there as long as processes of it live, unless they are another run's now: it
        was given another name."""
        run, since = self.runs.get(path), self._missing_since.get(path)
        if run is None or since is None or time.monotonic() - since < MISSING_SECONDS:
            return
        others = (one for other in self.runs.values() if other is not run for one in other.processes)
        alive = _living(run, {(one.pid, one.start_ticks) for one in others})
        if not run.is_gone:
            alive = _proved(path, alive)
        self._put(path, as_gone(run, alive) if alive else None)
        if not alive:
            del self._missing_since[path]

    def _forget(self, path: str) -> None:
        run = self.runs.get(path)
        if run is not None and _living(run):
            self._missing_since[path] = time.monotonic()
        elif run is not None:
            self._put(path, None)
        self._behind.discard(path)
        self._had_all_ranks.discard(path)
        for table in (self._listings, self._listed_at, self.records, self.ends, self._gone_since, self._had_ranks):
            table.pop(path, None)  # type: ignore[attr-defined]
        self.memory.forget(path)
        self.index.forget(path)


def _living(run: Run, others: Collection[Identity] = ()) -> list[LiveProcess]:
    """Its processes, as last seen, that live on and aren't those `others`."""
    known = [one for one in (*run.processes, *run.leftovers) if (one.pid, one.start_ticks) not in others]
    return [one for one in known if one.role != "helper" and is_same_process(one.pid, one.start_ticks)]


def _proved(path: str, alive: Sequence[LiveProcess]) -> list[LiveProcess]:
    """Those that name the run themselves are known by that from now on: the record went with the directory."""
    sure = {(one.pid, one.start_ticks) for one in members(path, None)}
    return [replace(one, found_by="environment" if (one.pid, one.start_ticks) in sure else "record") for one in alive]


def _mtime_and_mode(path: str) -> tuple[int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_mode


def _mtime_ns(path: str) -> int | None:
    found = _mtime_and_mode(path)
    return None if found is None else found[0]
