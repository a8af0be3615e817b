"""Keys that no hand pressed: a terminal that doesn't mark a paste types it, and its letters must change nothing."""

from __future__ import annotations

import time
from collections import deque

MANY, SECONDS = 5, 0.2  # so many keys within that time; a key that is held down is one key
LATEST_SECONDS = 5.0  # so long after it was pressed a key may have its effect
SETTLE_SECONDS = 0.03  # until the rest of a paste has been read


class Hand:
    """Notes when keys came; the terminal's thread writes, the loop asks."""

    def __init__(self) -> None:
        self._keys: deque[tuple[float, str]] = deque(maxlen=64)

    def pressed(self, key: str) -> None:
        self._keys.append((time.monotonic(), key))

    @property
    def is_too_quick(self) -> bool:
        """Were the last keys typed by a machine? By when they came: a busy loop comes to them later."""
        keys = tuple(self._keys)
        if not keys or time.monotonic() - keys[-1][0] > LATEST_SECONDS:
            return False
        recent = [key for at, key in keys if at >= keys[-1][0] - SECONDS]
        return len(recent) >= MANY and len(set(recent)) > 1
