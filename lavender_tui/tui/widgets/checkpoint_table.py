"""The checkpoints of a run, newest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from rich.cells import cell_len

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from lavender_tui.model.choosing import NOTHING, why_passed_over
from lavender_tui.model.start import is_training_over
from lavender_tui.tui import ages
from lavender_tui.tui.themes import wholeness_ink, wholeness_words
from lavender_tui.tui.widgets.line_table import Cell, Column, LineTable
from lavender_tui.tui.widgets.run_table import short_loss

_CLOCK = 8  # cells of a time of day


@cache
def _columns(
    saved: int, save: int = 7, stage: int = 10, epoch: int = 7, loss: int = 8, ranks: int = 6
) -> tuple[Column, ...]:
    """The columns, that of the ages `saved` cells wide; the others as wide as what they hold."""
    return (
        Column(key="save", title="SAVE", width=save, right=True, keep=100),
        Column(key="stage", title="STAGE", width=stage, keep=85),
        Column(key="whole", title="FILE", width=15, keep=95),
        Column(key="epoch", title="EPOCH", width=epoch, right=True, keep=80),
        Column(key="step", title="STEP", width=9, right=True, keep=60),
        Column(key="loss", title="LOSS", width=loss, right=True, keep=90),
        Column(key="saved", title="SAVED", width=saved, right=True, keep=75),
        Column(key="at", title="AT", width=_CLOCK, right=True, keep=65),
        Column(key="ranks", title="RANKS", width=ranks, right=True, keep=70),
        Column(key="size", title="SIZE", width=7, right=True, keep=55),
        Column(key="why", title="", width=20, keep=40, grows_to=200),
    )


def _fitting(checkpoints: Sequence[Checkpoint], saved: int) -> tuple[Column, ...]:
    """For these: on 80 cells there is room for the time of day only where nothing else takes more than it needs."""

    def widest(of: Callable[[Checkpoint], Cell], least: int, most: int) -> int:
        return max(least, min(most, max((cell_len(of(one).text) for one in checkpoints), default=0)))

    return _columns(
        saved,
        save=widest(lambda one: Cell(text.save_count(_count(one))), 5, 7),
        stage=widest(_stage, 5, 10),
        epoch=widest(lambda one: Cell(_epoch(one)), 5, 7),
        loss=widest(lambda one: Cell(short_loss(one.loss, one.loss_text)), 6, 8),
        ranks=widest(_ranks, 5, 6),
    )


class CheckpointTable(LineTable):
    """`mark` is the checkpoint a resume takes by default."""

    BINDING_GROUP_TITLE = "Checkpoints"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._checkpoints: list[Checkpoint] = []
        self._default: str | None = None
        self._bad: Mapping[str, str] = {}
        self._columns = _columns(ages.AGE_WIDTH)

    def set_checkpoints(
        self, checkpoints: Sequence[Checkpoint], default: str | None, bad: Mapping[str, str] = NOTHING
    ) -> None:
        """Oldest first, as a run holds them; drawn newest first. `bad` has the known bad ones, path -> why.

        A cursor on the newest save goes with the newest; moved to another one, it stays there.
        """
        follows = self._cursor == 0
        self._checkpoints = list(reversed(checkpoints))
        self._default, self._bad = default, bad
        now = time.time()
        is_odd = any(ages.is_odd(ages.saved_at(one), now) for one in self._checkpoints)
        self._columns = _fitting(self._checkpoints, ages.CLOCK_WIDTH if is_odd else ages.AGE_WIDTH)
        self.set_keys([one.path for one in self._checkpoints])
        if follows and self._cursor:
            self.go_to(self._checkpoints[0].path)

    @property
    def cursor_checkpoint(self) -> Checkpoint | None:
        return self._checkpoints[self._cursor] if self._checkpoints else None

    def columns(self) -> Sequence[Column]:
        return self._columns

    def cells(self, index: int) -> Mapping[str, Cell]:
        one = self._checkpoints[index]
        return checkpoint_cells(one, one.path == self._default, time.time(), self._bad.get(one.path))


def checkpoint_cells(one: Checkpoint, is_default: bool, now: float, bad: str | None = None) -> Mapping[str, Cell]:
    """What a checkpoint's line says at the time `now` (unix seconds); `bad`: why it is known to be bad."""
    saved = ages.since(ages.saved_at(one), now)
    cells = {
        "save": Cell(text.save_count(_count(one)), "" if one.is_whole else "quiet"),
        "stage": _stage(one),
        "whole": Cell("! known bad", "warn")
        if bad is not None and one.is_whole
        else Cell(wholeness_words(one.wholeness), wholeness_ink(one.wholeness)),
        "epoch": Cell(_epoch(one)),
        "step": Cell(text.count(one.step)),
        "loss": Cell(short_loss(one.loss, one.loss_text), "bad" if one.loss_text else ""),
        "saved": Cell(saved, "warn" if saved == ages.CLOCK_DIFFERS else "quiet"),
        "at": Cell(ages.clock(ages.saved_at(one)), "quiet"),
        "ranks": _ranks(one),
        "size": Cell(text.size(one.facts.size_bytes), "quiet"),
        "why": _why(one, is_default, bad),
    }
    unknown = Cell("…" if one.wholeness is Wholeness.UNREAD else text.NONE, "faint")
    return {key: unknown if cell.text == text.NONE else cell for key, cell in cells.items()}


def _count(one: Checkpoint) -> int | None:
    return one.save_count if one.save_count is not None else one.name_save_count


def _stage(one: Checkpoint) -> Cell:
    if one.name_disagrees:
        return Cell(f"{text.clean(one.stage, 20)}≠", "warn")
    stage = one.stage or one.name_stage
    return Cell(text.clean(stage, 40) if stage else text.NONE, "" if one.stage else "quiet")


def _epoch(one: Checkpoint) -> str:
    """ "1/3", with ✓ where it is complete."""
    return text.of(one.epoch, one.epochs) + (" ✓" if one.epoch_complete else "")


def _ranks(one: Checkpoint) -> Cell:
    ranks = one.rank_states
    if not ranks.found:
        return Cell(text.NONE)
    if ranks.merged:
        return Cell("merged")
    return Cell(text.of(ranks.found, ranks.expected), "" if ranks.complete else "warn")


def _why(one: Checkpoint, is_default: bool, bad: str | None) -> Cell:
    doubt = f": {text.clean(bad, 300)}" if bad is not None else ""
    refusals, notes = one.rank_states.problems, text.clean("; ".join((*one.warnings, *one.rank_states.problems)), 300)
    if is_default and refusals and not doubt:
        return Cell(f"← its rank states can't be merged: {text.clean(refusals[0], 300)}", "warn")
    if is_default and is_training_over(one) and not doubt:
        return Cell("← the end: nothing is left to train", "good")
    if is_default:
        return Cell(f"← resumes here{doubt or (f': {notes}' if notes else '')}", "accent")
    if doubt and one.is_whole:
        return Cell(f"known to be bad{doubt}", "warn")
    if one.wholeness is Wholeness.UNREAD:
        return Cell("")  # its file's cell says so
    why = why_passed_over(one)
    if why is not None:
        return Cell(text.clean(why, 300), "quiet")
    return Cell(notes, "warn")
