"""A first look at the roots, before the watcher is even imported: rows on the screen while it warms up.

Runs are listed by their names; the newest checkpoint of each is read only as long as that costs nothing one would feel.
The watcher's own first snapshot replaces all of it a moment later.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lavender_tui.model.run import Run

if TYPE_CHECKING:
    from lavender_tui.watch.index import Index

READING_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLook:
    """What a snapshot of the watcher has, of an instant before it began."""

    runs: tuple[Run, ...]
    sequence: int = -1
    mode: str = ""
    notes: tuple[str, ...] = ()
    scanned_at: float = 0.0
    changed: frozenset[str] = field(default_factory=frozenset)
    is_complete: bool = False


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
