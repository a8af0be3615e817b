"""The first looks at the roots, before the watcher is even imported: rows on the screen while it warms up.

With the first frame come the names of the runs, and that they aren't read yet. Then what the newest checkpoints of
those on the screen hold, which needs a reader and nothing else. Then every run is listed with its state, and more of
the newest are read as long as that costs nothing one would feel. The watcher's own first snapshot replaces all of it a
moment later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lavender_tui.model.choosing import run_order
from lavender_tui.model.run import RUN_NAME, Run, unread_run

if TYPE_CHECKING:
    from lavender_tui.model.checkpoint import Checkpoint
    from lavender_tui.watch.index import Index

READING_SECONDS = 0.03
NAMES, NEWEST, LOOK = -3, -2, -1  # sequence numbers of the first looks
ON_THE_SCREEN = 24  # runs; on a high terminal the others follow with their states
TRIES = 3  # files of a run that are read, looking for one that is whole
MOST_NAMES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLook:
    """What a snapshot of the watcher has, of an instant before it began."""

    runs: tuple[Run, ...]
    sequence: int = LOOK
    mode: str = ""
    notes: tuple[str, ...] = ()
    scanned_at: float = 0.0
    changed: frozenset[str] = field(default_factory=frozenset)
    is_complete: bool = False


def names_under(roots: Sequence[str]) -> FirstLook:
    """The directories right under the roots that have a run's name; nothing in them is looked at. Never raises."""
    runs: list[Run] = []
    for root in dict.fromkeys(roots):
        try:
            with os.scandir(root) as entries:
                found = [one for one in entries if RUN_NAME.fullmatch(one.name) and one.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        runs += [unread_run(os.path.join(root, one.name), root) for one in found[:MOST_NAMES]]
    return FirstLook(runs=tuple(sorted(runs, key=run_order, reverse=True)), sequence=NAMES)


def newest_of(names: FirstLook, index: Index) -> FirstLook:
    """The same runs; of those on the screen also what the newest checkpoint holds, as far as the time reaches.

    Their states aren't known yet, so that they count as unread. What is read is remembered in `index`.
    """
    import lavender_tui.checkpoints.reading  # not out of the time for reading
    import lavender_tui.watch.listing  # noqa: F401

    deadline = time.monotonic() + READING_SECONDS
    runs, changed = list(names.runs), set[str]()
    for at, run in enumerate(runs[:ON_THE_SCREEN]):
        if time.monotonic() >= deadline:
            break
        if (newest := _newest(run.path, index)) is not None:
            runs[at] = replace(run, checkpoints=(newest,), newest=newest)
            changed.add(run.key)
    return replace(names, runs=tuple(runs), sequence=NEWEST, changed=frozenset(changed))


def _newest(run_dir: str, index: Index) -> Checkpoint | None:
    """By the numbers in the names; the first of the last few that is whole."""
    from lavender_tui.watch.listing import list_run, name_order

    for found in sorted(list_run(run_dir).found, key=name_order, reverse=True)[:TRIES]:
        if (checkpoint := index.get(found.path, found.facts, found.companions)).is_whole:
            return checkpoint
    return None


def look(roots: Sequence[str], index: Index) -> FirstLook:
    """Every run under the roots, by name at least; what is read is remembered in `index`."""
    from lavender_tui.watch.scan import in_order
    from lavender_tui.watch.survey import Survey

    survey = Survey(roots, index)
    survey.explore()
    deadline = time.monotonic() + READING_SECONDS
    for path in sorted(survey.tree.runs, key=os.path.basename, reverse=True):
        may_read = time.monotonic() < deadline
        survey.look(path, may_read=lambda: False, must_read_newest=may_read, metrics_budget_bytes=0)
    return FirstLook(runs=in_order(survey.runs.values()), scanned_at=time.time())
