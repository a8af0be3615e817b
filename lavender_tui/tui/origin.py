"""Which run a resume goes back to: the run itself, or, while it has saved nothing, the one that it began from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint, parse_name
from lavender_tui.model.lineage import Family
from lavender_tui.model.run import Lineage, Run


@dataclass(frozen=True, slots=True)
class Origin:
    """`checkpoint` is the one to begin with (None: the newest usable); `note` says why it isn't the run that was meant.

    `path` is what a resume is asked for.
    """

    run: Run
    checkpoint: Checkpoint | None = None
    note: str = ""

    @property
    def path(self) -> str:
        return self.checkpoint.path if self.checkpoint is not None else self.run.path


def origin(run: Run, runs: Iterable[Run]) -> Origin:
    """The run itself where it has a checkpoint; else its source, and that one's where it has none either."""
    family, found = Family(runs), Origin(run)
    seen = {run.path}
    while not found.run.checkpoints and (source := family.parent(found.run)) is not None and source.path not in seen:
        seen.add(source.path)
        assert found.run.resumed_from is not None
        found = Origin(source, _checkpoint(source, found.run.resumed_from))
    if found.run is run or not found.run.checkpoints:
        return Origin(run)
    lives = " still runs and" if run.is_alive else ""
    name, back = text.clean(run.title, 60), source_words(run.resumed_from) if run.resumed_from else ""
    if found.checkpoint is None or found.run.path != (run.resumed_from.run if run.resumed_from else None):
        back = text.clean(found.run.title, 60)
    return Origin(found.run, found.checkpoint, f"{name}{lives} has saved nothing yet: resume again from {back}")


def source_words(source: Lineage) -> str:
    """ "pretrain 0060 of run-…", or the run alone."""
    name = text.clean(source.run.rstrip("/").rsplit("/", 1)[-1], 80)
    return f"{_named(source.checkpoint)} of {name}" if source.checkpoint else name


def _named(path: str) -> str:
    """ "pretrain 0060" by the file's name, or that name."""
    name = path.rstrip("/").rsplit("/", 1)[-1]
    stage, count = parse_name(name)
    return text.clean(name, 60) if stage is None else f"{text.clean(stage, 20)} {text.save_count(count)}"


def _checkpoint(source: Run, told: Lineage) -> Checkpoint | None:
    """The checkpoint that was told, where it is still there and can be used."""
    name = told.checkpoint.rstrip("/").rsplit("/", 1)[-1] if told.checkpoint else None
    return next((one for one in source.checkpoints if one.is_usable and one.path.rsplit("/", 1)[-1] == name), None)
