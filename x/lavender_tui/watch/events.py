"""inotify through watchdog: hints where to look, never the truth. All that can go wrong with it ends in polling."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver, ObservedWatch

RETRY_SECONDS = 60.0  # a directory that could not be watched is tried again after that
OVERFLOWS = 3  # more than this many in the window below, and polling is the better way
OVERFLOW_WINDOW_SECONDS = 10.0

Identity = tuple[int, int]  # device, inode

RAISE_WATCHES = "raise it with: sudo sysctl fs.inotify.max_user_watches=524288"
RAISE_INSTANCES = "raise it with: sudo sysctl fs.inotify.max_user_instances=1024"


@dataclass(frozen=True, slots=True)
class Hint:
    """Something happened to `path`. `is_completed`: it was made, renamed, or closed after writing."""

    path: str
    is_completed: bool
    is_directory: bool


class Events:
    """Watches single directories, not trees: `keep` says which. Owned by one thread; hints come on watchdog's.

    After a failure the directories concerned are simply not among `watched`: the owner polls them. `notes` says why.
    """

    def __init__(self, hint: Callable[[Hint], None], lost: Callable[[], None]) -> None:
        self._hint, self._lost = hint, lost
        self._observer: BaseObserver | None = None
        self._handler: Any = None
        self._watches: dict[str, tuple[ObservedWatch, Identity]] = {}
        self._failed: dict[str, float] = {}
        self._notes: dict[str, str] = {}
        self._given_up = False
        self._log = _OverflowLog(self._overflowed)
        self._overflows: list[float] = []
        self._verified: set[Identity] = set()

    @property
    def watched(self) -> frozenset[str]:
        """Directories whose changes are told; checked against the kernel's own list."""
        return frozenset(path for path, (_, identity) in self._watches.items() if identity in self._verified)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes.values())

    def keep(self, wanted: Mapping[str, Identity]) -> None:
        """Watch exactly these directories from now on; a path whose identity changed is watched anew."""
        if self._given_up or not self._start():
            return
        for path in self._stale(wanted):
            self._drop(path)
        now = time.monotonic()
        added = False
        for path, identity in wanted.items():
            if path not in self._watches and now - self._failed.get(path, -RETRY_SECONDS) >= RETRY_SECONDS:
                added = True
                if not self._add(path, identity):
                    break  # a limit: the others would fail in the same way
        if added or len(self._verified) != len(self._watches):
            self._verify()

    def check(self) -> None:
        """Called now and then: is watchdog still there, did its queue overflow too often?"""
        if self._observer is None or self._given_up:
            return
        recent = [at for at in self._overflows if time.monotonic() - at < OVERFLOW_WINDOW_SECONDS]
        if len(recent) > OVERFLOWS:
            self._give_up("events come faster than they can be read: the directories are polled")
        elif not self._observer.is_alive():
            self._give_up("watching for events ended by itself: the directories are polled")

    def close(self) -> None:
        """Stop watchdog's threads and take the log handler away."""
        self._given_up = True
        self._stop()
        self._log.remove()

    def _start(self) -> bool:
        if self._observer is not None:
            return True
        try:
            from watchdog.observers import Observer

            self._log.install()
            self._handler = _make_handler(self._hint)
            observer = Observer()
            observer.daemon = True
            observer.start()
            self._observer = observer
        except (OSError, RuntimeError, ImportError) as error:
            self._give_up(_why_not(error))
            return False
        return True

    def _add(self, path: str, identity: Identity) -> bool:
        """False where a limit was hit."""
        assert self._observer is not None
        try:
            # watchdog doesn't follow a link at the end of a path: with a dot behind it isn't at the end.
            place = os.path.join(path, ".") if os.path.islink(path) else path
            watch = self._observer.schedule(self._handler, place, recursive=False, event_filter=_event_filter())
        except (OSError, RuntimeError) as error:
            self._failed[path] = time.monotonic()
            if isinstance(error, OSError) and not os.path.isdir(path):
                return True  # gone meanwhile
            self._notes["limit"] = _why_not(error)
            return False
        self._watches[path] = (watch, identity)
        self._failed.pop(path, None)
        return True

    def _drop(self, path: str) -> None:
        assert self._observer is not None
        watch, identity = self._watches.pop(path)
        self._verified.discard(identity)
        try:
            self._observer.unschedule(watch)
        except (KeyError, OSError, RuntimeError):
            return  # its directory is gone and watchdog has forgotten it already

    def _stale(self, wanted: Mapping[str, Identity]) -> list[str]:
        """Watches no longer wanted, of another directory than the one there now, or ended with their directory."""
        assert self._observer is not None
        ended = {emitter.watch for emitter in list(self._observer.emitters) if not emitter.is_alive()}
        return [
            path for path, (watch, identity) in self._watches.items() if wanted.get(path) != identity or watch in ended
        ]

    def _verify(self) -> None:
        """Ask the kernel which directories are watched: watchdog 7.1 says nothing where it could not add one."""
        inodes = _watched_inodes()
        self._verified = {identity for _, identity in self._watches.values() if inodes is None or identity[1] in inodes}
        missing = len({identity for _, identity in self._watches.values()}) - len(self._verified)
        if missing:
            self._notes["limit"] = f"{missing} directories can't be watched for events: they are polled"

    def _overflowed(self) -> None:
        self._overflows = [*self._overflows[-OVERFLOWS * 2 :], time.monotonic()]
        self._lost()

    def _give_up(self, note: str) -> None:
        self._given_up = True
        self._notes["end"] = note
        self._stop()

    def _stop(self) -> None:
        observer, self._observer = self._observer, None
        self._watches.clear()
        self._verified.clear()
        if observer is not None:
            # Stopping joins watchdog's threads: not worth waiting for.
            threading.Thread(target=observer.stop, name="lavender-watchdog-end", daemon=True).start()


class _OverflowLog(logging.Handler):
    """Takes watchdog's log messages: on a terminal they would tear the screen, and overflows are told nowhere else."""

    def __init__(self, overflowed: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._overflowed = overflowed
        self._logger = logging.getLogger("watchdog")
        self._propagated: bool | None = None

    def install(self) -> None:
        if self._propagated is None:
            self._propagated, self._logger.propagate = self._logger.propagate, False
            self._logger.addHandler(self)

    def remove(self) -> None:
        if self._propagated is not None:
            self._logger.removeHandler(self)
            if not self._logger.handlers:
                self._logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        if "overflow" in record.getMessage():
            self._overflowed()


def _make_handler(hint: Callable[[Hint], None]) -> Any:
    from watchdog.events import EVENT_TYPE_CLOSED, EVENT_TYPE_CREATED, EVENT_TYPE_MOVED, FileSystemEventHandler

    complete = (EVENT_TYPE_CLOSED, EVENT_TYPE_MOVED, EVENT_TYPE_CREATED)

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: Any) -> None:
            for path in (event.src_path, event.dest_path):
                if path:
                    path = os.path.normpath(os.fsdecode(path))
                    hint(Hint(path, event.event_type in complete, event.is_directory))

    return Handler()


def _event_filter() -> list[Any]:
    """Without opening and closing for reading: with them watchdog 7.1 drowns in the events of its own walks."""
    from watchdog import events

    return [
        events.FileCreatedEvent,
        events.FileMovedEvent,
        events.FileModifiedEvent,
        events.FileClosedEvent,
        events.FileDeletedEvent,
        events.DirCreatedEvent,
        events.DirMovedEvent,
        events.DirDeletedEvent,
    ]


def _watched_inodes() -> set[int] | None:
    """Inodes under inotify watch in this process, by /proc/self/fdinfo; None where that can't be read."""
    inodes: set[int] = set()
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return None
    for number in numbers:
        if _link(f"/proc/self/fd/{number}") == "anon_inode:inotify":
            inodes.update(_inodes_of(_read(f"/proc/self/fdinfo/{number}")))
    return inodes


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""  # closed meanwhile


def _inodes_of(fdinfo: bytes) -> list[int]:
    """`inotify wd:1 ino:1f00a sdev:fd00001 mask:…` (proc(5)); numbers are hexadecimal."""
    fields = (line.split() for line in fdinfo.splitlines() if line.startswith(b"inotify "))
    return [int(field[4:], 16) for line in fields for field in line if field.startswith(b"ino:")]


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _why_not(error: BaseException) -> str:
    text = str(error)
    if "instance" in text or getattr(error, "errno", None) == errno.EMFILE:
        limit = _limit("instances")
        return f"the limit of inotify instances is reached{limit}: directories are polled; {RAISE_INSTANCES}"
    if "watch limit" in text or getattr(error, "errno", None) == errno.ENOSPC:
        limit = _limit("watches")
        return f"the limit of inotify watches is reached{limit}: directories are polled; {RAISE_WATCHES}"
    return f"no events to be had ({text or type(error).__name__}): directories are polled"


def _limit(what: str) -> str:
    try:
        with open(f"/proc/sys/fs/inotify/max_user_{what}", encoding="ascii") as file:
            return f" (max_user_{what} = {int(file.read()):,})"
    except (OSError, ValueError):
        return ""
