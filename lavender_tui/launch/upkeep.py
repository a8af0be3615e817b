"""What the supervisor does while it waits: its heartbeat, the size of the logs, and word from the other nodes.

The heartbeat is the time of `launch.lock`: who sees the file, on whatever host, sees that the supervisor lives. Light
imports only.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from lavender_tui.launch import files, identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEARTBEAT_SECONDS = 10.0
NEAR_SECONDS = 1.0  # between two looks at a log that has filled half of its limit
REST_SECONDS = 600.0  # after a rotation failed, as for want of room
STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR2}


class Upkeep:
    """`tend()` when `seconds_left()` is 0. It never raises, and costs some microseconds every ten seconds."""

    def __init__(self, run_dir: str, lock: int, log_bytes: int, *, run: str | None = None, waits: bool = False) -> None:
        """`run`: the directory of the run whose node this is, if it has several. `waits`: one may come back."""
        self._run_dir, self._lock, self._limit = run_dir, lock, log_bytes
        self._run, self._waits = run, waits
        self._listen_at = time.monotonic() if run is not None else float("inf")
        self._failed_since: float | None = None
        self.stop_elsewhere: dict[str, Any] | None = None
        self.failure_elsewhere: str | None = None
        self._beat_at = time.monotonic() + HEARTBEAT_SECONDS
        self._look_at = self._beat_at if log_bytes else float("inf")
        self._has_holes = True  # until the file system says otherwise
        self._said: set[str] = set()

    def seconds_left(self) -> float:
        return max(0.0, min(self._beat_at, self._look_at, self._listen_at) - time.monotonic())

    def tend(self) -> bool:
        """Do what is due; True where the heart was due to beat."""
        now = time.monotonic()
        if now >= self._listen_at:
            self.listen()
        if now >= self._look_at:
            self._look_at = time.monotonic() + self._look()
        if now < self._beat_at:
            return False
        self._beat_at = now + HEARTBEAT_SECONDS
        try:
            os.utime(self._lock)
        except OSError:
            pass  # a full or vanished disk: the next one may be seen again
        return True

    def listen(self) -> None:
        """What the records of the other nodes say now."""
        if self._run is None:
            return
        from lavender_tui.launch import nodes

        now = time.monotonic()
        self._listen_at = now + nodes.LOOK_SECONDS
        self.stop_elsewhere = nodes.stop_of_another(self._run, self._run_dir)
        self.failure_elsewhere = nodes.failure_of_another(self._run, self._run_dir)
        if self.failure_elsewhere is not None and self._failed_since is None:
            self._failed_since = now

    def await_others(self) -> None:
        """For a moment: a node that was killed lets its ranks save before it records how it ended."""
        from lavender_tui.launch import nodes

        deadline = time.monotonic() + nodes.OTHERS_END_SECONDS
        self.listen()
        while self._run and not self._waits and self.failure_elsewhere is None and time.monotonic() < deadline:
            time.sleep(0.2)
            self.listen()

    @property
    def is_left_alone(self) -> bool:
        """Another node has failed some time ago, nobody can take its place, and this one has not noticed."""
        from lavender_tui.launch import nodes

        since = self._failed_since
        return since is not None and not self._waits and time.monotonic() - since > nodes.PATIENCE_SECONDS

    def _look(self) -> float:
        """Rotate what is too large; how long until the next look."""
        try:
            fullest = max(self._own_log(), *map(self._rank_log, self._rank_logs()), 0.0)
        except OSError as error:
            reason = error.strerror or str(error)
            if reason not in self._said:
                note(f"a log stays as long as it is: {reason}")
                self._said.add(reason)
            self._has_holes &= error.errno != errno.EOPNOTSUPP
            return REST_SECONDS
        return NEAR_SECONDS if fullest > 0.5 else HEARTBEAT_SECONDS

    def _own_log(self) -> float:
        """How full it is, as a part of its limit; rotated where it is over that."""
        path = os.path.join(self._run_dir, files.LOG)
        try:
            size = os.stat(path).st_size
        except FileNotFoundError:
            return 0.0  # somebody removed it; the training writes on into nothing
        if size <= self._limit:
            return size / self._limit
        from lavender_tui.launch import rotation

        if lost := rotation.rotate(path, may_go_on=_nobody_stops):
            note(lost)
        return 1.0

    def _rank_log(self, path: str) -> float:
        try:
            size = os.stat(path).st_blocks * 512  # what it takes on disk: its front may be a hole
        except FileNotFoundError:
            return 0.0
        if size <= self._limit:
            return size / self._limit
        from lavender_tui.launch import rotation

        readers = [pid for pid, _ in identity.descendants(os.getpid())]
        rotation.hollow(path, rotation.read_position(path, readers), may_go_on=_nobody_stops)
        return 1.0

    def _rank_logs(self) -> list[str]:
        if not self._has_holes:
            return []
        return [
            os.path.join(where, name)
            for where, _, names in os.walk(os.path.join(self._run_dir, files.RANKS))
            for name in names
            if name in ("stdout.log", "stderr.log")
        ]


def _nobody_stops() -> bool:
    """Copying can take seconds; somebody who stops the run must not wait for it."""
    return not signal.sigpending() & STOPS


def note(text: str) -> None:
    """A line in the run's log: standard error is the log here."""
    os.write(2, f"[lavender-tui supervisor] {text}\n".encode("utf-8", "backslashreplace"))
