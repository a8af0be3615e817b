"""Notices the end of a process the instant it comes, and how it ended, though it is nobody's child here."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from lavender_tui.launch.identity import is_same_process

MOST = 256  # processes; others are looked at by polling alone
Identity = tuple[int, int]  # pid, start ticks
Key = TypeVar("Key")

# PIDFD_GET_INFO of <linux/pidfd.h>, with the exit status since Linux 6.15; older kernels refuse the question.
_INFO_BYTES, _WANTS_EXIT = 64, 1 << 3
_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11
_STATUS_AT = 60
_ENDED_STATUS_FIELD = 49  # of /proc/PID/stat, counted after the name


class Ends(Generic[Key]):
    """Holds a handle (pidfd) on each process of `keep` and calls `ended` once, from its own thread, when one ends.

    `ended(key, identity, status)`: `key` is what `keep` gave for it; `status` as wait(2) has it, None where it can't be
    known. A handle can't be mistaken for another process that gets the same pid.
    """

    def __init__(self, ended: Callable[[Key, Identity, int | None], None]) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._handles: dict[Identity, tuple[int, Key]] = {}
        self._told: set[Identity] = set()  # of those still asked for, as a look before their end found them alive
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="lavender-ends", daemon=True)
        self._is_started = False

    def keep(self, wanted: Mapping[Identity, Key]) -> None:
        """Watch exactly these from now on. One that has ended already is told of, too.

        So is one that isn't wanted any more because somebody found it gone before its handle was looked at.
        """
        with self._lock:
            if self._is_closed:
                return
            for identity in self._handles.keys() - wanted.keys():
                # Of a process with many threads the first may be gone long before the handle tells the end of all.
                if is_same_process(*identity):
                    os.close(self._handles.pop(identity)[0])
            self._told &= wanted.keys()
            new = wanted.keys() - self._handles.keys() - self._told
            gone = [identity for identity in wanted if identity in new and not self._open(identity, wanted)]
            self._told.update(gone)
            if not self._is_started and self._handles:
                self._is_started = True
                self._thread.start()
            os.eventfd_write(self._wake, 1)
        for identity in gone:
            self._ended(wanted[identity], identity, None)

    @property
    def held(self) -> frozenset[Identity]:
        """The processes whose end is sure to be told at once."""
        with self._lock:
            return frozenset(self._handles) if self._thread.is_alive() else frozenset()

    def close(self) -> None:
        """End; returns at once."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.eventfd_write(self._wake, 1)
                if not self._is_started:
                    os.close(self._wake)

    def _open(self, identity: Identity, wanted: Mapping[Identity, Key]) -> bool:
        """False where the process is gone; a system without handles has polling alone."""
        if len(self._handles) >= MOST:
            return True
        try:
            handle = os.pidfd_open(identity[0])
        except ProcessLookupError:
            return False
        except OSError:
            return True
        if not is_same_process(*identity):  # looked at with the handle in hand: it is this one, or it has ended
            os.close(handle)
            return False
        self._handles[identity] = (handle, wanted[identity])
        return True

    def _run(self) -> None:
        while not self._is_closed:
            for identity, handle, key in self._wait():
                status = exit_status(handle, identity)
                os.close(handle)
                self._ended(key, identity, status)
        with self._lock:
            for handle, _ in self._handles.values():
                os.close(handle)
            self._handles.clear()
            os.close(self._wake)

    def _wait(self) -> list[tuple[Identity, int, Key]]:
        """Sleep until some process ends or `keep` and `close` have news; those that ended are no longer held."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        with self._lock:
            held = dict(self._handles)
            for handle, _ in held.values():
                poll.register(handle, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if self._wake in ready:
            os.eventfd_read(self._wake)
        ended = []
        with self._lock:
            for identity, (handle, key) in held.items():
                if handle in ready and self._handles.get(identity) == (handle, key):
                    del self._handles[identity]
                    self._told.add(identity)
                    ended.append((identity, handle, key))
        return ended


def exit_status(handle: int, identity: Identity) -> int | None:
    """How the process behind the handle ended, as wait(2) has it; None where the system doesn't tell.

    Of a zombie its parent's line in /proc tells, of one that was waited for the handle itself (Linux 6.15 and later).
    """
    for ask in (_of_handle, _of_zombie, _of_handle):  # it may be waited for between the first two
        if (status := ask(handle, identity)) is not None:
            return status
    return None


def _of_handle(handle: int, identity: Identity) -> int | None:
    answer = bytearray(_INFO_BYTES)
    struct.pack_into("<Q", answer, 0, _WANTS_EXIT)
    try:
        fcntl.ioctl(handle, _GET_INFO, answer)
    except OSError:
        return None
    (told,) = struct.unpack_from("<Q", answer, 0)
    return int(struct.unpack_from("<i", answer, _STATUS_AT)[0]) if told & _WANTS_EXIT else None


def _of_zombie(handle: int, identity: Identity) -> int | None:
    """The kernel shows the status to the owner and to root; to others it shows 0."""
    try:
        is_shown = os.geteuid() in (0, os.stat(f"/proc/{identity[0]}").st_uid)
        with open(f"/proc/{identity[0]}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        is_it = fields[0] == b"Z" and int(fields[19]) == identity[1]
        return int(fields[_ENDED_STATUS_FIELD]) if is_it and is_shown else None
    except (OSError, ValueError, IndexError):
        return None
