"""One full pass: roots to runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lavender_tui.model.choosing import run_order
from lavender_tui.model.run import Run
from lavender_tui.watch.assemble import assemble, until
from lavender_tui.watch.discover import discover
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import list_run
from lavender_tui.watch.processes import find_processes
from lavender_tui.watch.records import read_papers
from lavender_tui.watch.suspicion import Suspicion


@dataclass(frozen=True, slots=True)
class Scanned:
    """`warnings` are those of no single run: missing roots, unreadable directories, limits."""

    runs: tuple[Run, ...]
    warnings: tuple[str, ...]


def scan(
    roots: Sequence[str], *, index: Index | None = None, now: float | None = None, deadline: float | None = None
) -> tuple[Run, ...]:
    """Every run under the roots, newest start first. Never raises, whatever lies there.

    Each root is a directory of runs (some levels deep), a run directory, or a file in one. With a `deadline`
    (`time.monotonic()` seconds) the newest checkpoint of each run is read and the others only while there is time:
    they are then `Wholeness.UNREAD`. `now` (unix seconds) is what ages count from.
    """
    return scan_all(roots, index=index, now=now, deadline=deadline).runs


def scan_all(
    roots: Sequence[str], *, index: Index | None = None, now: float | None = None, deadline: float | None = None
) -> Scanned:
    """As `scan`, with the warnings that belong to no run."""
    index = Index() if index is None else index
    now = time.time() if now is None else now
    tree = discover(roots)
    listings = {path: list_run(path) for path in tree.runs}
    papers = {path: read_papers(listing, index) for path, listing in listings.items()}
    processes = find_processes(listings, {path: paper.launch for path, paper in papers.items()})
    runs = [
        assemble(
            listing,
            tree.runs[path],
            papers[path],
            index=index,
            processes=processes.get(path, ()),
            now=now,
            may_read=until(deadline),
            metrics_budget_bytes=64 << 20,
        )
        for path, listing in listings.items()
    ]
    marked, _ = Suspicion().mark(in_order(run for run in runs if run is not None))
    return Scanned(marked, tuple(tree.warnings))


def in_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Newest start first."""
    return tuple(sorted(runs, key=run_order, reverse=True))
