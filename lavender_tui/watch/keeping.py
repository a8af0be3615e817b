"""Who keeps a run alive, looked up at every look at the run: a stat, and for a kept run one small file."""

from __future__ import annotations

import os
import time

from lavender_tui.launch import journal, keepers
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.kept import KeptBy
from lavender_tui.watch.index import Index

# A directory that changed just now may change once more within the same tick of the clock of its file system.
SETTLED_SECONDS = 2.0


def keeper_of(run_dir: str, index: Index) -> KeptBy | None:
    """Its keeper, a dead one too; None where there is none. Never raises."""
    root = os.path.dirname(run_dir)
    directory = os.path.join(root, journal.DIRECTORY, keepers.DIRECTORY)
    try:
        facts = FileFacts.of(os.stat(directory))
    except OSError:
        return None
    if abs(time.time() - facts.mtime_ns / 1e9) < SETTLED_SECONDS:
        seen = keepers.seen_in(root)
    else:
        seen = index.document(directory, facts, lambda: keepers.seen_in(root))  # type: ignore[assignment]
    mine = seen.get(os.path.realpath(run_dir)) if seen else None
    return mine.now() if mine is not None else None
