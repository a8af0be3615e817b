"""A training that is started again in its own run directory: what it saved itself is newer than what it began from."""

from __future__ import annotations

import os

from lavender_tui.training.loading import LOG, newest_usable
from lavender_tui.training.ranks import current_ranks, first_does

# By torchrun, whose workers died (--max-restarts), and by Slurm, whose job was queued again: how often before.
_COUNTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")


def is_started_again() -> bool:
    return any(os.environ.get(name, "0") not in ("", "0") for name in _COUNTS)


def own_newest(stage: str | None) -> str | None:
    """The newest usable checkpoint of this run's own directory, where its training is started again in it.

    None on a first start, and where nothing of the stage is saved there yet. Rank 0 looks, for all.
    """
    run_dir = os.environ.get("LAVENDER_RUN_DIR")
    if not run_dir or not is_started_again():
        return None
    return first_does(current_ranks(), lambda: _look(os.path.abspath(run_dir), stage))


def _look(run_dir: str, stage: str | None) -> str | None:
    path = newest_usable(run_dir, stage) if os.path.isdir(run_dir) else None
    if path is not None:
        LOG.warning("started again in the same run: it goes on from its own %s", os.path.basename(path))
    return path
