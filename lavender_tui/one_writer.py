"""One writer at a time of a file that several programs add to: what one of them has found isn't lost by another's."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

LOCK_SECONDS = 5.0


@contextmanager
def one_writer(path: str) -> Iterator[None]:
    """For who reads the file, adds to it and puts it back; its directory is what is locked. Never waits long.

    Raises OSError where there is no such directory.
    """
    descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(descriptor, LOCK_SECONDS)  # without it the last writer's word stands
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, seconds: float) -> bool:
    """Keep others out until the descriptor is closed; False where they don't let go within that time, and on a file
    system without locks."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        except OSError:
            return False
