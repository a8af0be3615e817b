"""One writer at a time of a file that several programs add to: what one of them has found isn't lost by another's."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOCK_SECONDS = 5.0


@contextmanager
def one_writer(path: str) -> Iterator[None]:
    """For who reads the file, adds to it and puts it back; its directory is what is locked. Never waits long.

    Raises OSError where there is no such directory.
    """
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Without it, as on a file system that has none, the last writer's word stands."""
    deadline = time.monotonic() + LOCK_SECONDS
    with suppress(OSError):
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)
