"""The one bridge from the watcher's threads to the app: snapshots come in, messages go out, late ones are dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from lavender_tui.errors import LavenderError

if TYPE_CHECKING:
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot, Watcher

Post = Callable[[Message], bool]
FRAME_SECONDS = 1.0  # the longest that the first frame is waited for


@dataclass
class RunsChanged(Message, bubble=False):
    """The watcher saw the roots again; `snapshot.sequence` grows."""

    snapshot: Snapshot | FirstLook

    def can_replace(self, message: Message) -> bool:
        """A newer snapshot holds everything of an older one that still waits."""
        return isinstance(message, RunsChanged)


@dataclass
class WatchFailed(Message, bubble=False):
    """Watching could not begin; `reason` is one sentence."""

    reason: str


class Feed:
    """Owns the watcher. It is imported and started in a daemon thread: the first frame never waits for it.

    `start` may come before `attach`, that is, before there is an app: the newest message is kept until then. First
    come the names of the runs, which cost nothing. What else there is to know of them, and the modules that tell it,
    waits for `go_on`: two threads that import take turns, and the first frame would be the one that waits.
    """

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(roots)
        self._lock = threading.Lock()
        self._post: Post | None = None
        self._kept: Message | None = None
        self._may_go_on = threading.Event()
        self._watcher: Watcher | None = None
        self._is_started = False
        self._is_closed = False

    def start(self) -> None:
        """Begin to watch, once; returns at once."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._begin, name="lavender-feed", daemon=True).start()

    def attach(self, post: Post) -> bool:
        """Messages go there from now on; was there one already?"""
        with self._lock:
            self._post, kept, self._kept = post, self._kept, None
        return kept is not None and post(kept)

    def go_on(self) -> None:
        """The first frame is painted."""
        self._may_go_on.set()

    def close(self) -> None:
        """No snapshot is delivered after this."""
        self._may_go_on.set()
        with self._lock:
            self._is_closed = True
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()

    def rescan_soon(self) -> None:
        """Look at the disk now rather than at the next event."""
        with self._lock:
            watcher = self._watcher
        if watcher is not None:
            watcher.rescan_soon()

    def _begin(self) -> None:
        try:
            from lavender_tui.tui.first_look import names_under

            if (names := names_under(self._roots)).runs:
                self._deliver(names)
            self._may_go_on.wait(FRAME_SECONDS)
            self._watch(names)
        except (LavenderError, OSError, ImportError) as error:
            self._send(WatchFailed(str(error)))
        except Exception as error:  # whatever it is, the person is told: nothing more would ever come
            from lavender_tui.model.text import one_line

            self._send(WatchFailed(f"{type(error).__name__}: {one_line(str(error), 300)}"))

    def _watch(self, names: FirstLook) -> None:
        from lavender_tui.tui.first_look import look, newest_of
        from lavender_tui.watch.index import Index

        index = Index()
        if names.runs:
            self._deliver(newest_of(names, index))
        # the pane says it with the next rows, and the loop, which would import it then, isn't the place to
        import lavender_tui.tui.outlook
        import lavender_tui.tui.stop_choices
        import lavender_tui.tui.widgets.curve  # noqa: F401

        self._deliver(look(self._roots, index))
        from lavender_tui.watch.observe import Watcher

        watcher = Watcher(self._roots, self._deliver, index=index)
        with self._lock:
            if self._is_closed:
                return
            self._watcher = watcher
        watcher.start()

    def _deliver(self, snapshot: Snapshot | FirstLook) -> None:
        self._send(RunsChanged(snapshot))

    def _send(self, message: Message) -> None:
        with self._lock:
            if self._is_closed:
                return
            post = self._post
            if post is None:
                self._kept = message
        if post is not None:
            post(message)
