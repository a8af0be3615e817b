"""Which checkpoint: the newest usable of the target's runs, or the one that was named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from lavender_tui import checkpoints
from lavender_tui.errors import NotFound
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.choosing import over_runs
from lavender_tui.model.run import Run
from lavender_tui.resume.request import Options, Target
from lavender_tui.watch.index import Index
from lavender_tui.watch.scan import scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """`run` is the run that the checkpoint lies in, None where its directory is none; `named`: the user named the file.

    `siblings` are the other runs that were seen, for what was resumed from what.
    """

    run: Run | None
    checkpoint: Checkpoint | None
    passed_over: tuple[tuple[str, str], ...] = ()
    siblings: tuple[Run, ...] = ()
    named: bool = False

    @property
    def run_path(self) -> str:
        """The old run's directory, absolute."""
        if self.run is not None:
            return self.run.path
        return os.path.dirname(self.checkpoint.path) if self.checkpoint else ""


def choose(target: Target, options: Options, index: Index | None = None) -> Chosen:
    """The checkpoint to resume from; `checkpoint` None where no run has a usable one. Raises NotFound for a bad path.

    A named file is taken whatever it is: whether it can be resumed from is for the checks to say.
    """
    for path in target.paths:
        if not os.path.lexists(path):
            raise NotFound("there is no such root, run or checkpoint", where=path)
    named = _named_checkpoint(target.paths, index)
    if named is not None:
        return named
    runs = scan(target.paths, index=index)
    choice = over_runs(runs, options.stage)
    return Chosen(run=choice.run, checkpoint=choice.checkpoint, passed_over=choice.passed_over, siblings=runs)


def _named_checkpoint(paths: Sequence[str], index: Index | None) -> Chosen | None:
    """A file, or a directory that is itself a checkpoint; a link is followed to the file that it means now."""
    if len(paths) != 1:
        return None
    path = os.path.realpath(paths[0])
    if os.path.isdir(path) and not _is_directory_checkpoint(path):
        return None
    around = os.path.dirname(path)
    siblings = scan([around, os.path.dirname(around)], index=index)
    for run in siblings:
        for checkpoint in run.checkpoints:
            if os.path.realpath(checkpoint.path) == path:
                return Chosen(run=run, checkpoint=checkpoint, siblings=siblings, named=True)
    home = next((one for one in siblings if os.path.realpath(one.path) == around), None)
    return Chosen(run=home, checkpoint=checkpoints.read_checkpoint(path), siblings=siblings, named=True)


def _is_directory_checkpoint(path: str) -> bool:
    """Saved as a directory: its own content says so, and no run lies in it."""
    is_one = getattr(checkpoints, "is_directory_checkpoint", None)
    return bool(is_one(path)) if is_one is not None else False
