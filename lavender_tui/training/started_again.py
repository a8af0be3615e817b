"""A training that is started again in its own run directory: what it saved itself is newer than what it began from.

The newest save that can be gone on from: what is damaged, or whose position in the data can't be trusted, is passed
over, and that is said in the log, in the journal of the root and in the line that the training begins with.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from lavender_tui.checkpoints.integrity import look_through
from lavender_tui.config import load
from lavender_tui.errors import BadState, LavenderError
from lavender_tui.launch import journal
from lavender_tui.training.loading import LOG, newest_usable
from lavender_tui.training.ranks import current_ranks, first_does

# By torchrun, whose workers died (--max-restarts), and by Slurm, whose job was queued again: how often before.
_COUNTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
Begun = TypeVar("Begun")
PassedOver = dict[str, str]  # checkpoint -> why


def is_started_again() -> bool:
    return any(os.environ.get(name, "0") not in ("", "0") for name in _COUNTS)


def from_own_saves(stage: str | None, begin_from: Callable[[str], Begun]) -> tuple[Begun | None, PassedOver]:
    """What `begin_from` makes of the newest save of this run's own that it takes, and why newer ones were passed over.

    (None, {}) on a first start, and where nothing of the stage is saved there yet. All ranks come to the same: rank 0
    looks, and a save that one of them can't begin from is none's.
    """
    refused: PassedOver = {}
    while (path := _own_newest(stage, refused)) is not None:
        begun, error = _attempt(path, begin_from)
        if current_ranks().vote([error is not None])[0]:
            refused[path] = error.what if error is not None else "another rank can't begin from it"
            LOG.warning("%s: passed over: %s", path, refused[path])
            continue
        LOG.warning("started again in the same run: it goes on from its own %s", os.path.basename(path))
        return begun, refused
    return None, refused


def note_passed_over(passed_over: PassedOver, instead: str | None) -> None:
    """Rank 0 writes into the journal of the root what was passed over, and what is gone on from `instead`."""
    run_dir = os.environ.get("LAVENDER_RUN_DIR")
    if not passed_over or not run_dir or not current_ranks().is_first:
        return
    listed = [[os.path.basename(path), why] for path, why in passed_over.items()]
    why = f"started again; {listed[0][0]} was passed over: {listed[0][1]}"
    facts: dict[str, Any] = {"next": "start", "why": why, "checkpoint": instead, "passed_over": listed[:8]}
    journal.note(journal.root_of(run_dir), "decided", run=run_dir, **facts)


def _attempt(path: str, begin_from: Callable[[str], Begun]) -> tuple[Begun | None, LavenderError | None]:
    try:
        first_does(current_ranks(), lambda: _refuse_unsound(path))
        return begin_from(path), None
    except LavenderError as error:
        return None, error


def _own_newest(stage: str | None, refused: PassedOver) -> str | None:
    run_dir = os.environ.get("LAVENDER_RUN_DIR")
    if not run_dir or not is_started_again():
        return None
    run_dir = os.path.abspath(run_dir)
    return first_does(
        current_ranks(), lambda: newest_usable(run_dir, stage, but_not=refused) if os.path.isdir(run_dir) else None
    )


def _refuse_unsound(path: str) -> None:
    """As before every resume, up to the size that is set: torch compares no checksum, and a NaN spreads."""
    if os.path.getsize(path) > load()[0].verify_gb * 1e9:
        return
    found = look_through(path, keep_cached=True)
    if found.problems:
        raise BadState(f"it is damaged: {found.problems[0].what}", where=path)
    for one in found.non_finite or ():
        if one.part in ("model", "optimizer") and not one.is_meant:
            raise BadState(f"{one.name} holds numbers that are none", where=path)
