"""Reading makes thousands of objects and no garbage: the cycle collector would look through them again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cycle collection inside; some 10 ms for a large file, 5 s at the very most (Limits.deadline_seconds).

    Threads may overlap here: whoever found the collector on turns it on again, so it never stays off.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
