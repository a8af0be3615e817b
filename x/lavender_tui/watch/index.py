"""Remembered metadata: a checkpoint whose file did not change is never read twice."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lavender_tui import checkpoints
from lavender_tui.model.checkpoint import Checkpoint, FileFacts, Wholeness
from lavender_tui.watch.metrics import MetricsTail

# A growing file is looked at again after 50 ms, then ever less often, down to once a second.
FIRST_LOOK_SECONDS = 0.05
SLOWEST_LOOK_SECONDS = 1.0

Companions = tuple[tuple[str, int, int], ...]  # (name, size, mtime_ns) of a checkpoint's rank-state files


@dataclass(slots=True)
class _Entry:
    facts: FileFacts
    companions: Companions
    checkpoint: Checkpoint
    looked_at: float  # monotonic
    wait: float = FIRST_LOOK_SECONDS


class Index:
    """Checkpoints by path and FileFacts, and a tail per metrics file. In memory; safe to share between threads.

    A file that was being written when it was read is judged again as time passes, and with rests in between, whether
    it grew or not: one that stopped growing ends as cut off. All other files are read again only when their facts, or
    those of the rank-state files beside them, changed.
    """

    def __init__(self, *, read: Callable[..., Checkpoint] | None = None) -> None:
        self._read = read or checkpoints.read_checkpoint
        self._entries: dict[str, dict[str, _Entry]] = {}  # directory -> path -> entry
        self._tails: dict[str, MetricsTail] = {}
        self._documents: dict[str, tuple[FileFacts, object]] = {}
        self._lock = threading.Lock()
        self.reads = 0  # how often a file was opened

    def known(self, path: str, facts: FileFacts, companions: Companions = ()) -> Checkpoint | None:
        """What is remembered and needs no reading now; None where the file has to be read."""
        with self._lock:
            entry = self._entries.get(os.path.dirname(path), {}).get(path)
        if entry is None:
            return None
        if entry.checkpoint.wholeness is not Wholeness.WRITING:
            return entry.checkpoint if entry.facts == facts and entry.companions == companions else None
        resting = time.monotonic() - entry.looked_at < entry.wait
        return entry.checkpoint if resting and entry.facts.inode == facts.inode else None

    def get(self, path: str, facts: FileFacts, companions: Companions = ()) -> Checkpoint:
        """The checkpoint, read if it has to be. Never raises, whatever lies at `path`."""
        found = self.known(path, facts, companions)
        if found is not None:
            return found
        names = [name for name, _, _ in companions]
        entry = _Entry(facts, companions, self._read(path, known=facts, names=names), time.monotonic())
        with self._lock:
            self.reads += 1
            siblings = self._entries.setdefault(os.path.dirname(path), {})
            before = siblings.get(path)
            if before is not None and before.checkpoint.wholeness is Wholeness.WRITING:
                entry.wait = min(max(before.wait, FIRST_LOOK_SECONDS) * 2, SLOWEST_LOOK_SECONDS)
            siblings[path] = entry
        return entry.checkpoint

    def hurry(self, path: str) -> None:
        """Its writer closed or renamed the file: look at once, don't rest."""
        with self._lock:
            entry = self._entries.get(os.path.dirname(path), {}).get(path)
            if entry is not None:
                entry.wait = 0.0

    def tail(self, path: str) -> MetricsTail:
        """The tail of this metrics file, kept over calls."""
        with self._lock:
            return self._tails.setdefault(path, MetricsTail(path))

    def document(self, path: str, facts: FileFacts, load: Callable[[], object]) -> object:
        """A small parsed file (launch.json and the like), loaded again only when its facts changed."""
        with self._lock:
            held = self._documents.get(path)
        if held is not None and held[0] == facts:
            return held[1]
        value = load()
        with self._lock:
            self._documents[path] = (facts, value)
        return value

    def keep_only(self, directory: str, paths: Iterable[str]) -> None:
        """Drop the checkpoints of `directory` that are no longer there."""
        kept = set(paths)
        with self._lock:
            held = self._entries.get(directory, {})
            for path in [path for path in held if path not in kept]:
                del held[path]

    def forget(self, directory: str) -> None:
        """Drop all that is known of a run directory that vanished."""
        prefix = directory.rstrip("/") + "/"
        with self._lock:
            for held in [held for held in self._entries if held == directory or held.startswith(prefix)]:
                del self._entries[held]
            for path in [path for path in self._tails if path.startswith(prefix)]:
                del self._tails[path]
            for path in [path for path in self._documents if path.startswith(prefix)]:
                del self._documents[path]
