"""A merging process that warms up while the person reads the sheet, so that a launch doesn't wait for its imports."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lavender_tui.errors import LavenderError

if TYPE_CHECKING:
    from lavender_tui.resume.child import Child


class WarmChild:
    """At most one child. Starting and ending it happen in threads: neither blocks a key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._is_wanted = False
        self._is_closed = False

    def start(self) -> None:
        """Begin to warm one up, once."""
        with self._lock:
            if self._is_wanted or self._is_closed:
                return
            self._is_wanted = True
        threading.Thread(target=self._begin, name="lavender-warm", daemon=True).start()

    @property
    def child(self) -> Child | None:
        """The child as far as it is there; without one the launch makes its own."""
        return self._child

    def close(self) -> None:
        """End it; a merge that it is busy with ends as cancelled."""
        with self._lock:
            self._is_closed = True
            child, self._child = self._child, None
        if child is not None:
            threading.Thread(target=child.close, name="lavender-warm-end", daemon=True).start()

    def _begin(self) -> None:
        from lavender_tui.resume import warm_child

        try:
            child = warm_child()
        except LavenderError:
            return  # the launch tries again, and says why it can't
        with self._lock:
            if not self._is_closed:
                self._child = child
                return
        child.close()
