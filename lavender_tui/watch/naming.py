"""Runs that share a name get as much of their path before it as tells them apart: `fsdp/checkpoints`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lavender_tui.model.run import Run


class Naming:
    """Keeps the longer names, so that a change is told."""

    def __init__(self) -> None:
        self._longer: Mapping[str, str] = {}

    def mark(self, runs: Sequence[Run]) -> tuple[tuple[Run, ...], frozenset[str]]:
        """(the runs, each with its `longer_name`; the paths of those where that differs from the last time)."""
        before, self._longer = self._longer, longer_names(run.path for run in runs)
        both = self._longer.keys() | before.keys()
        changed = frozenset(path for path in both if self._longer.get(path) != before.get(path))
        if not self._longer:
            return tuple(runs), changed
        longer = self._longer
        return tuple(replace(run, longer_name=longer[run.path]) if run.path in longer else run for run in runs), changed


def longer_names(paths: Iterable[str]) -> dict[str, str]:
    """For each of the (absolute, different) paths whose last part is not alone: the shortest end that is.

    >>> longer_names(["/a/x/run", "/a/y/run", "/a/other"])
    {'/a/x/run': 'x/run', '/a/y/run': 'y/run'}
    """
    ends = {path: path.rstrip("/").rpartition("/")[2] for path in paths}
    found: dict[str, str] = {}
    count = 1
    while ends:
        seen = Counter(ends.values())
        if count > 1:
            found.update((path, end) for path, end in ends.items() if seen[end] == 1)
        count += 1
        ends = {
            path: path if end == path else "/".join(path.rstrip("/").split("/")[-count:])
            for path, end in ends.items()
            if seen[end] > 1
        }
    return found
