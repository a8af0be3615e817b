"""One full pass: roots to runs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lavender_tui.launch.seen import Memory
from lavender_tui.model.choosing import run_order
from lavender_tui.model.run import LiveProcess, Run
from lavender_tui.watch.assemble import assemble, until
from lavender_tui.watch.discover import discover
from lavender_tui.watch.index import Index
from lavender_tui.watch.jobs import JobTable
from lavender_tui.watch.listing import list_run
from lavender_tui.watch.naming import Naming
from lavender_tui.watch.processes import find_processes
from lavender_tui.watch.records import Papers, read_papers
from lavender_tui.watch.standing import Observed
from lavender_tui.watch.suspicion import Suspicion

if TYPE_CHECKING:
    from lavender_tui.model.usage import Usage


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
    roots: Sequence[str],
    *,
    index: Index | None = None,
    now: float | None = None,
    deadline: float | None = None,
    usage_seconds: float = 0.0,
) -> Scanned:
    """As `scan`, with the warnings that belong to no run.

    With `usage_seconds` it takes so much longer where some run lives, and each live run has its usage over that time.
    """
    index = Index() if index is None else index
    now = time.time() if now is None else now
    tree = discover(roots)
    listings = {path: list_run(path) for path in tree.runs}
    papers = {path: read_papers(listing, index) for path, listing in listings.items()}
    observed = observe_now(papers)
    runs = [
        assemble(
            listing,
            tree.runs[path],
            papers[path],
            index=index,
            observed=observed[path],
            now=now,
            may_read=until(deadline),
            metrics_budget_bytes=64 << 20,
        )
        for path, listing in listings.items()
    ]
    found = [run for run in runs if run is not None]
    if usage_seconds and (alive := {run.path: run.processes for run in found if run.processes}):
        usage = _usage(alive, usage_seconds)
        found = [replace(run, usage=usage.get(run.path)) for run in found]
    marked, _ = Suspicion().mark(in_order(found))
    marked, _ = Naming().mark(marked)
    return Scanned(marked, tuple(tree.warnings))


def _usage(alive: Mapping[str, Sequence[LiveProcess]], seconds: float) -> Mapping[str, Usage]:
    from lavender_tui.watch.usage import LEAST_SECONDS, Sampler

    sampler = Sampler()
    sampler.sample(alive)
    time.sleep(max(seconds, LEAST_SECONDS))
    return sampler.sample(alive)


def observe_now(papers: Mapping[str, Papers]) -> dict[str, Observed]:
    """What lives of these runs, and what is remembered of them, looked up once."""
    memory = Memory()
    seen = {path: None if paper.has_launch else memory.of(path) for path, paper in papers.items()}
    searched_at = time.time()
    found = find_processes(papers, {path: paper.launch for path, paper in papers.items()}, seen)
    jobs = JobTable().ask({path: one.launch for path, one in papers.items()}, {p: one.end for p, one in papers.items()})
    return {
        path: Observed(
            processes=found.get(path, ()),
            seen=one,
            end=memory.end_of(path, papers[path].launch),
            job=jobs.get(path),
            searched_at=searched_at,
            gone=memory.gone_of(path, papers[path].launch),
        )
        for path, one in seen.items()
    }


def in_order(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Newest start first."""
    return tuple(sorted(runs, key=run_order, reverse=True))
