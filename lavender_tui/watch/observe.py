"""The watcher: from events and polling to snapshots of all runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lavender_tui.launch.identity import is_same_process
from lavender_tui.model.run import Run
from lavender_tui.watch.agenda import SETTLE_SECONDS, Agenda
from lavender_tui.watch.assemble import until
from lavender_tui.watch.ends import Ends
from lavender_tui.watch.ends import Identity as ProcessIdentity
from lavender_tui.watch.events import Events, Identity
from lavender_tui.watch.index import Index
from lavender_tui.watch.jobs import JobTable
from lavender_tui.watch.mounts import file_system_of, is_silent
from lavender_tui.watch.processes import ProcessTable
from lavender_tui.watch.remembering import remember
from lavender_tui.watch.scan import in_order
from lavender_tui.watch.survey import FINE_GRAIN_SECONDS, Handled, Survey
from lavender_tui.watch.usage import Sampler

UNSETTLED_SECONDS = 0.25  # a file that is being written is looked at again after this; reading it rests longer
FIRST_PASS_SECONDS = 0.1  # how long reading may go on before the first snapshot
FIRST_RUNS = 24  # the newest runs, which are on the screen: their newest checkpoint is read in any case
SLICE_SECONDS = 0.05  # background reading makes way for events after this time
PART_SECONDS = 0.3  # while there is much to read, a snapshot at most this often
WALK_SECONDS = 5.0  # the roots are walked this often, whatever events say
CALM_SECONDS = 2.5  # a run that lives, of which every end and every write is told, is looked at unasked this often
RELIST_SECONDS = 30.0  # every run is listed this often: a file overwritten in place moves no directory
PROCESS_SECONDS, IDLE_PROCESS_SECONDS = 5.0, 10.0  # the second where nothing lives; a new run is asked about at once
GONE_SECONDS = 1.0  # so soon after a leader was found gone it is made sure that no handle tells its end
PROCESS_REST_SECONDS = 0.3  # between two searches in any case
JOBS_REST_SECONDS = 1.0
FAILURE_REST_SECONDS = 1.0
WATCHED_RUNS = 64  # one watchdog thread each
WATCHED_CONTAINERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All runs at one instant, newest start first.

    `sequence` grows by one with each snapshot. `mode` says how news comes: "inotify", "polling" or "inotify + polling".
    `notes` are sentences for people on the roots and on the way of watching. `changed` holds the paths of the runs that
    differ from the snapshot before, those that went among them. `is_complete` is False while checkpoints wait to be
    read: those are `Wholeness.UNREAD`, and a later snapshot has them.
    """

    runs: tuple[Run, ...]
    sequence: int
    mode: str
    notes: tuple[str, ...]
    scanned_at: float
    changed: frozenset[str]
    is_complete: bool = True


class Watcher:
    """Delivers a Snapshot at the start and whenever something changed, from its own daemon thread.

    The first snapshot comes quickly: every run is listed, the newest checkpoint of each is read as far as 100 ms
    allow (newest runs first), all others stand there by their names. Further parts follow until `is_complete`.
    Events are hints where to look; every directory is also looked at by `poll_seconds`, by its own time, and all are
    listed anew every half minute, so that a lost event costs time and never a save.
    """

    def __init__(
        self,
        roots: Sequence[str],
        deliver: Callable[[Snapshot], None],
        *,
        poll_seconds: float = 1.0,
        index: Index | None = None,
    ) -> None:
        self.index = Index() if index is None else index
        self._deliver = deliver
        self._poll_seconds = poll_seconds
        self._survey = Survey(roots, self.index)
        self._agenda = Agenda()
        self._poll_at = 0.0
        self._events = Events(self._agenda.hint, self.rescan_soon)
        self._silent: frozenset[str] = frozenset()  # roots whose file system tells nothing of other hosts' writes
        self._troubles: dict[str, str] = {}
        self._sequence = 0
        self._told: tuple[object, ...] = ()
        self._told_at = 0.0
        self._thread = threading.Thread(target=self._run, name="lavender-watch", daemon=True)
        self._search_now = threading.Event()
        self._ends = Ends(self._process_ended)
        self._leaders: dict[str, ProcessIdentity] = {}  # of runs by hand, seen alive; by their directory
        self._gone: dict[str, ProcessIdentity] = {}
        self._search = threading.Thread(target=self._search_processes, name="lavender-processes", daemon=True)
        self._ask_now = threading.Event()
        self._asking = threading.Thread(target=self._ask_for_jobs, name="lavender-jobs", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()
        self._search.start()
        self._asking.start()

    def close(self) -> None:
        """End; returns at once. Nothing is delivered afterwards."""
        self._agenda.close()
        self._search_now.set()
        self._ends.close()
        self._ask_now.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the threads have ended, after `close()`."""
        for thread in (self._thread, self._search, self._asking):
            if thread.ident is not None:
                thread.join(timeout)

    def rescan_soon(self) -> None:
        """Look at everything now: the roots, every run directory, the processes."""
        self._agenda.everything()
        self._search_now.set()
        self._ask_now.set()

    # The thread

    def _run(self) -> None:
        begun = False
        while not self._agenda.is_closed:
            try:
                if not begun:
                    self._first_pass()
                    begun = True
                self._turn()
                self._troubles.pop("watch", None)
            except Exception as error:  # whatever it is, watching goes on and the person is told
                self._troubles["watch"] = f"watching failed and is tried again: {type(error).__name__}: {error}"
                self._tell_quietly()
                self._agenda.rest(FAILURE_REST_SECONDS)
        self._events.close()

    def _first_pass(self) -> None:
        self._explore()
        has_time = until(time.monotonic() + FIRST_PASS_SECONDS)
        newest_first = sorted(self._survey.tree.runs, key=os.path.basename, reverse=True)
        for count, path in enumerate(newest_first):
            reads = count < FIRST_RUNS or has_time()
            self._survey.look(path, may_read=lambda: False, must_read_newest=reads, metrics_budget_bytes=0)
            if self._agenda.is_closed:
                return
        self._silent = frozenset(root for root in self._survey.roots if is_silent(file_system_of(root)))
        self._tell(force=True)
        self._search_now.set()
        self._ask_now.set()
        self._agenda.is_walk_due(WALK_SECONDS)
        self._agenda.is_relist_due(RELIST_SECONDS)
        self._keep_watches()

    def _turn(self) -> None:
        """Do what is due, read a slice of what waits, tell, and sleep until something is due."""
        if self._agenda.is_relist_due(RELIST_SECONDS):
            self._agenda.schedule(self._survey.tree.runs)
        if self._agenda.is_walk_due(WALK_SECONDS):
            self._walk()
        if time.monotonic() >= self._poll_at:
            self._poll_at = time.monotonic() + self._poll_seconds
            self._poll()
        self._attend()
        is_late = self._look_at_due()
        is_late = self._read_slice() or is_late
        self._tell(is_reading=is_late)
        if not is_late:
            self._agenda.wait(self._poll_at)

    def _explore(self) -> list[str]:
        begun = time.monotonic()
        new = self._survey.explore()
        self._agenda.runs, self._agenda.containers = self._survey.tree.runs, self._survey.tree.containers
        self._agenda.walked(begun)
        return new

    def _walk(self) -> None:
        new = self._explore()
        for path in new:
            self._survey.look(path)
        self._keep_watches()
        if new:
            # What appeared between the listing and the watch has no event.
            self._agenda.schedule(new, SETTLE_SECONDS)
            self._search_now.set()
            self._ask_now.set()

    def _poll(self) -> None:
        moved, is_other_moved = self._survey.moved_directories()
        if is_other_moved:
            self._walk()
        told, held = self._events.watched, self._ends.held
        restless = (
            path
            for path in self._survey.restless()
            if not (path in told and self._survey.may_wait(path, held, CALM_SECONDS))
        )
        self._agenda.schedule([*moved, *restless])
        self._events.check()
        if moved:  # one of them may be another directory of the same name; each walk asks all
            self._keep_watches()

    def _attend(self) -> None:
        """Ask the directories in which files are being made: a rename's event may come half a second late."""
        attended = self._agenda.attended()
        self._agenda.schedule(
            path for path in attended if self._survey.has_moved(path, grain_seconds=FINE_GRAIN_SECONDS)
        )

    def _look_at_due(self) -> bool:
        """Look where it is due; True where the slice of time was not enough for all."""
        ready, completed = self._agenda.take_due()
        for path in completed:
            self.index.hurry(path)
        deadline = time.monotonic() + SLICE_SECONDS
        for count, path in enumerate(ready):
            begun = time.monotonic()
            if count and begun > deadline:
                self._agenda.schedule(ready[count:])
                return True
            self._survey.look(path, may_read=until(deadline))
            self._agenda.looked(path, begun)
            if self._survey.is_unsettled(path):
                self._agenda.schedule([path], UNSETTLED_SECONDS)
        return False

    def _read_slice(self) -> bool:
        """Read on where checkpoints wait; True while some still do. However busy the machine, something is read."""
        deadline = time.monotonic() + SLICE_SECONDS
        pending = self._survey.pending()
        for count, path in enumerate(pending):
            if self._agenda.is_closed or (count and time.monotonic() >= deadline):
                return True
            self._survey.look(path, may_read=until(deadline, at_least=0 if count else 1))
        return bool(pending)

    # What to watch

    def _keep_watches(self) -> None:
        if len(self._silent) == len(self._survey.roots):
            return
        wanted: dict[str, Identity] = {}
        for path in self._worth_watching():
            try:
                info = os.stat(path)
            except OSError:
                continue
            wanted[path] = (info.st_dev, info.st_ino)
        self._events.keep(wanted)

    def _worth_watching(self) -> list[str]:
        """The nearest directories in which new runs appear, and the live and newest runs."""
        tree = self._survey.tree
        containers = [path for path in tree.containers if not path.startswith(tuple(self._silent) or ("\0",))]
        restless = set(self._survey.restless())
        newest_first = [run.path for run in in_order(self._survey.runs.values())]
        runs = sorted(newest_first, key=lambda path: path not in restless)
        loud = [path for path in runs if tree.runs.get(path) not in self._silent]
        return [*containers[:WATCHED_CONTAINERS], *loud[:WATCHED_RUNS]]

    def _mode(self) -> str:
        watched = self._events.watched
        if not watched:
            return "polling"
        everything = watched >= self._survey.tree.runs.keys() | self._survey.tree.containers.keys()
        return "inotify" if everything else "inotify + polling"

    def _notes(self) -> tuple[str, ...]:
        silent = [
            f"{root} lies on a file system that tells nothing of changes made elsewhere: it is polled"
            for root in sorted(self._silent)
        ]
        return (*self._survey.tree.warnings, *silent, *self._events.notes, *self._troubles.values())

    # Telling

    def _tell(self, *, force: bool = False, is_reading: bool = False) -> None:
        now = time.monotonic()
        if is_reading and not force and now - self._told_at < PART_SECONDS:
            return
        changed = self._survey.take_changes()
        pending = bool(self._survey.pending())
        told = (self._mode(), self._notes(), pending)
        if not (changed or force or told != self._told):
            return
        self._told, self._told_at = told, now
        self._ends.keep(self._survey.worth_a_handle())
        self._sequence += 1
        snapshot = Snapshot(
            runs=self._survey.ordered,
            sequence=self._sequence,
            mode=told[0],
            notes=told[1],
            scanned_at=time.time(),
            changed=changed - {""},
            is_complete=not pending,
        )
        if not self._agenda.is_closed:
            self._deliver(snapshot)

    def _tell_quietly(self) -> None:
        try:
            self._tell()
        except Exception as error:
            self._troubles["deliver"] = f"a snapshot could not be shown: {type(error).__name__}: {error}"

    # Processes, on a thread of their own: a search takes tens of milliseconds on a busy machine

    def _process_ended(self, of: Handled, identity: ProcessIdentity, status: int | None) -> None:
        """Called from the thread of the handles, the instant a process of a run ends."""
        try:
            self._survey.has_ended(of, identity, status)
        except OSError as error:
            self._troubles["memory"] = _not_remembered(error)
        except Exception as error:  # whatever it is, the next end is noted
            self._troubles["ends"] = f"an end can't be noted: {type(error).__name__}: {error}"
        self._agenda.schedule([of.path])
        self._search_now.set()  # what it left behind has lost its parent

    def _remember(self) -> None:
        """Keep the commands of runs that were started by hand, for the day on which they are gone."""
        for path, processes in self._survey.by_hand().items():
            seen = remember(path, processes, self._survey.memory.of(path))
            if seen is None:
                continue
            try:
                self._survey.memory.keep(path, seen)
            except OSError as error:
                self._troubles["memory"] = _not_remembered(error)
            self._leaders[path] = (seen.leader.pid, seen.leader.start_ticks)

    def _notice_ends(self) -> None:
        """Of leaders on which there was no handle yet, or never: one that is gone at two searches has ended unnoticed.

        At the first of them the handle may be about to tell, and knows how it ended.
        """
        gone = {path: leader for path, leader in self._leaders.items() if not is_same_process(*leader)}
        for path, leader in gone.items():
            if self._gone.get(path) == leader:
                del self._leaders[path]
                self._process_ended(Handled(path), leader, None)
        self._gone = gone

    def _search_processes(self) -> None:
        table, sampler = ProcessTable(), Sampler()
        self._search_now.wait()
        while not self._agenda.is_closed:
            self._search_now.clear()
            try:
                records = dict(self._survey.records)
                seen = {path: self._survey.memory.of(path) for path, record in records.items() if record is None}
                begun = time.time()
                found = table.find(list(self._survey.tree.runs), records, seen)
                self._agenda.schedule(self._survey.set_found(found, begun))
                self._remember()
                self._notice_ends()
                self._agenda.schedule(self._survey.set_usage(sampler.sample(self._survey.alive())))
                self._troubles.pop("processes", None)
            except Exception as error:
                self._troubles["processes"] = f"processes can't be looked up: {type(error).__name__}: {error}"
            seconds = PROCESS_SECONDS if self._survey.alive() else IDLE_PROCESS_SECONDS
            if self._search_now.wait(GONE_SECONDS if self._gone else seconds):
                self._agenda.rest(PROCESS_REST_SECONDS)

    # Jobs of Slurm, on a thread of their own: a frozen controller takes 10 s to say nothing

    def _ask_for_jobs(self) -> None:
        table = JobTable()
        self._ask_now.wait()
        while not self._agenda.is_closed:
            self._ask_now.clear()
            try:
                jobs = table.ask(dict(self._survey.records), dict(self._survey.ends))
                self._agenda.schedule(self._survey.set_jobs(jobs))
                self._troubles.pop("jobs", None)
            except Exception as error:
                self._troubles["jobs"] = f"jobs can't be looked up: {type(error).__name__}: {error}"
            self._ask_now.wait(table.rest_seconds)
            self._agenda.rest(JOBS_REST_SECONDS)


def _not_remembered(error: OSError) -> str:
    return f"the commands of runs started by hand can't be remembered: {error.filename or ''} {error.strerror}".strip()
