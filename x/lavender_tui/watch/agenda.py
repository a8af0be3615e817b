"""When to look where: hints from other threads become appointments of the watcher's thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Container, Iterable

from lavender_tui.watch.events import Hint
from lavender_tui.watch.listing import DOCUMENT_NAMES, is_checkpoint_name

SETTLE_SECONDS = 0.02  # the many events of one save come within this time
QUIET_SECONDS = 0.5  # a log or metrics file that grows is looked at no more often than that
ATTEND_SECONDS = 1.0  # after an event in a directory its own time is looked at closely for so long
ATTEND_STEP_SECONDS = 0.03
RESTS = 3  # after a look a directory is left alone for so many times as long as the look took
LONGEST_LOOK_SECONDS = 0.5
SHORTEST_WALK_REST_SECONDS = 0.1


class Agenda:
    """Appointments to look at run directories and to walk the roots. Safe to call from any thread.

    `runs` and `containers` are set by the owner: what the directories of hints are. All instants are
    `time.monotonic()` seconds.
    """

    def __init__(self) -> None:
        self.runs: Container[str] = ()
        self.containers: Container[str] = ()
        self.is_closed = False
        self._change = threading.Condition()
        self._due: dict[str, float] = {}
        self._walk_at = 0.0
        self._relist_at = 0.0
        self._rests_until: dict[str, float] = {}
        self._walk_rests_until = 0.0
        self._hinted: set[str] = set()
        self._completed: set[str] = set()
        self._attended: dict[str, float] = {}

    # Written from any thread

    def hint(self, hint: Hint) -> None:
        """Something happened to `hint.path`: decide whether, and how soon, that is worth a look."""
        directory, name = os.path.split(hint.path)
        now = time.monotonic()
        with self._change:
            if hint.path in self.runs or (directory in self.containers and self._may_make_a_run(hint, directory, name)):
                self._walk_at = min(self._walk_at, now + SETTLE_SECONDS)
            if directory in self.runs:
                self._hint_in_run(hint, directory, name, now)
            self._change.notify_all()

    def schedule(self, paths: Iterable[str], wait: float = 0.0) -> None:
        """Look at these run directories in `wait` seconds, or earlier where that was planned."""
        with self._change:
            at = time.monotonic() + wait
            for path in paths:
                self._due[path] = min(self._due.get(path, at), at)
            self._change.notify_all()

    def everything(self) -> None:
        """Walk the roots and list every run directory now."""
        with self._change:
            self._walk_at = self._relist_at = 0.0
            self._change.notify_all()

    def close(self) -> None:
        """No appointment is kept any more."""
        with self._change:
            self.is_closed = True
            self._change.notify_all()

    # Read by the watcher's thread

    def is_walk_due(self, every: float) -> bool:
        """Is it time to walk the roots? If so the next walk is in `every` seconds."""
        with self._change:
            now = time.monotonic()
            if now < max(self._walk_at, self._walk_rests_until):
                return False
            self._walk_at = now + every
            return True

    def is_relist_due(self, every: float) -> bool:
        with self._change:
            now = time.monotonic()
            if now < self._relist_at:
                return False
            self._relist_at = now + every
            return True

    def take_due(self) -> tuple[list[str], set[str]]:
        """(run directories to look at now, hinted ones first; files that their writer closed or renamed)."""
        with self._change:
            now = time.monotonic()
            ready = [path for path, at in self._due.items() if max(at, self._rests_until.get(path, 0.0)) <= now]
            ready.sort(key=lambda path: path not in self._hinted)
            for path in ready:
                del self._due[path]
            completed, self._completed = self._completed, set()
            self._hinted.difference_update(ready)
        return ready, completed

    def attended(self) -> list[str]:
        """Run directories in which files are being made right now."""
        with self._change:
            now = time.monotonic()
            self._attended = {path: until for path, until in self._attended.items() if until > now}
            return list(self._attended)

    def looked(self, path: str, begun: float) -> None:
        """A look that began at `begun` has ended: leave the directory alone for a while. A flood then costs little."""
        ended = time.monotonic()
        self._rests_until[path] = ended + RESTS * min(ended - begun, LONGEST_LOOK_SECONDS)

    def walked(self, begun: float) -> None:
        ended = time.monotonic()
        self._walk_rests_until = ended + max(SHORTEST_WALK_REST_SECONDS, RESTS * (ended - begun))

    def wait(self, until: float) -> None:
        """Sleep until the first appointment, at the latest until `until`; a hint or `close` ends it."""
        with self._change:
            due = (max(at, self._rests_until.get(path, 0.0)) for path, at in self._due.items())
            at = min([until, max(self._walk_at, self._walk_rests_until), self._relist_at, *due])
            now = time.monotonic()
            if self._attended:
                at = min(at, now + ATTEND_STEP_SECONDS)
            if not self.is_closed and at > now:
                self._change.wait(at - now)

    def rest(self, seconds: float) -> None:
        """Sleep; only `close` ends it early."""
        with self._change:
            self._change.wait_for(lambda: self.is_closed, seconds)

    def _may_make_a_run(self, hint: Hint, directory: str, name: str) -> bool:
        if hint.is_directory:
            return True
        return directory not in self.runs and hint.is_completed and (is_checkpoint_name(name) or name in DOCUMENT_NAMES)

    def _hint_in_run(self, hint: Hint, directory: str, name: str, now: float) -> None:
        grows = name.endswith((".log", ".jsonl"))
        wait = SETTLE_SECONDS if hint.is_completed and not grows else QUIET_SECONDS
        if not grows:
            self._attended[directory] = now + ATTEND_SECONDS
        if hint.is_completed:
            self._completed.add(hint.path)
        self._hinted.add(directory)
        self._due[directory] = min(self._due.get(directory, now + wait), now + wait)
