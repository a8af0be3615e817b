"""The one bridge from the watcher's threads to the app: snapshots come in, messages go out, late ones are dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lavender_tui.errors import LavenderError
from lavender_tui.tui.messages import RunsChanged, WatchFailed

if TYPE_CHECKING:
    from textual.message import Message

    from lavender_tui.watch.observe import Snapshot, Watcher

Post = Callable[["Message"], bool]


class Feed:
    """Owns the watcher. Importing and starting it happens in a daemon thread: the first frame never waits for it."""

    def __init__(self, roots: Sequence[str], post: Post) -> None:
        self._roots = tuple(roots)
        self._post = post
        self._lock = threading.Lock()
        self._watcher: Watcher | None = None
        self._closed = False

    def start(self) -> None:
        """Begin to watch; returns at once."""
        threading.Thread(target=self._begin, name="lavender-feed", daemon=True).start()

    def close(self) -> None:
        """No snapshot is delivered after this."""
        with self._lock:
            self._closed = True
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            threading.Thread(target=watcher.close, name="lavender-feed-end", daemon=True).start()

    def rescan_soon(self) -> None:
        """Look at the disk now rather than at the next event."""
        with self._lock:
            watcher = self._watcher
        if watcher is not None:
            watcher.rescan_soon()

    def _begin(self) -> None:
        try:
            from lavender_tui.watch.observe import Watcher

            watcher = Watcher(self._roots, self._deliver)
            with self._lock:
                if self._closed:
                    return
                self._watcher = watcher
            watcher.start()
        except (LavenderError, OSError, ImportError) as error:
            self._post(WatchFailed(str(error)))

    def _deliver(self, snapshot: Snapshot) -> None:
        if not self._closed:
            self._post(RunsChanged(snapshot))
