"""Which checkpoints of the runs are known to be bad: from the runs resumed from them, and from earlier deep looks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from lavender_tui.launch import bad_files
from lavender_tui.model.run import Run
from lavender_tui.model.suspects import Follower, followers, suspects

_Marks = tuple[tuple[str, str], ...]


class Suspicion:
    """Keeps what was marked, so that a change is told; reads the memory again only when its file changed."""

    def __init__(self) -> None:
        self._remembered: dict[str, str] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._marks: dict[str, _Marks] = {}

    def has_moved(self) -> bool:
        """Was something remembered or forgotten since? One stat."""
        return _stamp(bad_files.memory_path()) != self._stamp

    def mark(self, runs: Sequence[Run]) -> tuple[tuple[Run, ...], frozenset[str]]:
        """(the runs, each with its `known_bad`; the paths of those where that differs from the last time)."""
        if self.has_moved():
            self._stamp = _stamp(bad_files.memory_path())
            self._remembered = bad_files.remembered()
        resumed = followers(runs)
        marks = {run.path: found for run in runs if (found := self._of(run, resumed.get(run.path, ())))}
        both = marks.keys() | self._marks.keys()
        changed = frozenset(path for path in both if marks.get(path) != self._marks.get(path))
        self._marks = marks
        return tuple(replace(run, known_bad=marks[run.path]) if run.path in marks else run for run in runs), changed

    def _of(self, run: Run, resumed: Sequence[Run]) -> _Marks:
        if not resumed and not self._remembered:
            return ()
        return tuple(suspects(run.checkpoints, [Follower.of(one) for one in resumed], self._remembered).items())


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
