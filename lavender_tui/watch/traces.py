"""What a training leaves in its directory, by which it is told from a program that only reads there."""

from __future__ import annotations

import os

from lavender_tui.watch.listing import ACTIVITY_NAMES, may_hold_a_run


def saved_since(run_dir: str, begun: float) -> bool:
    """Is a checkpoint in the directory younger than `begun` (unix seconds)?"""
    return _has_younger(run_dir, begun, frozenset())


def trained_since(run_dir: str, begun: float) -> bool:
    """A checkpoint, or a line of its log or its curve? What an evaluation writes there is neither."""
    return _has_younger(run_dir, begun, frozenset(ACTIVITY_NAMES))


def _has_younger(run_dir: str, begun: float, names: frozenset[str]) -> bool:
    try:
        with os.scandir(run_dir) as entries:
            return any(
                entry.stat().st_mtime > begun for entry in entries if may_hold_a_run(entry.name) or entry.name in names
            )
    except OSError:
        return False
