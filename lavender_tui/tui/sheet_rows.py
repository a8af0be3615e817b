"""The rows of the resume sheet as they are drawn: labels, notes, and what stands below a row. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.choosing import in_run
from lavender_tui.tui import ages
from lavender_tui.tui.mends import CHECKPOINT, POLICY, STAGE, WORKERS, WORLD
from lavender_tui.tui.outlook import checkpoint_words
from lavender_tui.tui.sheet import KEEP, Sheet

FRESH = "only the weights are taken: optimizer, schedule and data position start fresh"


@dataclass(frozen=True, slots=True)
class RowView:
    """A row to draw: its options, the selected one, a quiet note beside it and a remark below it.

    `is_wrong`: the remark says why it can't be so; `is_doubtful`: what one should know first.
    """

    options: tuple[str, ...]
    selected: int
    note: str = ""
    remark: str = ""
    is_wrong: bool = False
    is_doubtful: bool = False
    is_typed: bool = False


def view(sheet: Sheet, row: str, now: float) -> RowView:
    """The row as it is drawn at `now` (unix seconds)."""
    choices, value = sheet.choices(row), sheet.value(row)
    is_typed = value not in choices
    selected = len(choices) if is_typed else choices.index(value)
    if row == CHECKPOINT:  # shows one of perhaps thousands
        labels = [""] * len(choices)
        labels[selected : selected + 1] = [_label(sheet, row, value, now)]
    else:
        labels = [_label(sheet, row, one, now) for one in (*choices, *((value,) if is_typed else ()))]
    remark = _remark(sheet, row, value, is_typed)
    return RowView(
        options=tuple(labels),
        selected=selected,
        note=_note(sheet, row),
        remark=remark,
        is_doubtful=row == CHECKPOINT and remark.startswith("! "),
        is_wrong=row in sheet.refusals or (row in (WORLD, WORKERS) and is_typed and sheet.num_splits is not None),
        is_typed=is_typed,
    )


def _label(sheet: Sheet, row: str, value: Any, now: float) -> str:
    if row == CHECKPOINT:
        if value is None:
            return "none usable"
        return f"{checkpoint_words(value)}{_elsewhere(sheet, value)}  {ages.since(ages.saved_at(value), now)}"
    if row == STAGE:
        return _stage_label(sheet, value)
    if row == KEEP:
        return "yes" if value else "no"
    if row == POLICY and sheet.begins_stage:
        return "from its first row"
    if row == POLICY:
        return str(getattr(value, "value", value)).replace("-", " ")
    return text.clean(value, 30)


def _stage_label(sheet: Sheet, value: str | None) -> str:
    if value is not None:
        is_next = sheet.choices(STAGE)[1:2] == [value]
        return f"start {text.clean(value, 20)}" if is_next else text.clean(value, 20)
    own = sheet.checkpoint.stage if sheet.checkpoint is not None else None
    return f"go on with {text.clean(own, 20)}" if own else "go on"


def _elsewhere(sheet: Sheet, checkpoint: Checkpoint) -> str:
    """The run of a checkpoint that is none of this one's."""
    run = checkpoint.path.rpartition("/")[0]
    return "" if run == sheet.run.path else f" of {text.clean(run.rpartition('/')[2], 40)}"


def _note(sheet: Sheet, row: str) -> str:
    if row == CHECKPOINT and sheet.is_before_spike:
        return "before the jump"
    if row == CHECKPOINT:
        choices = sheet.choices(CHECKPOINT)
        if len(choices) < 2 or sheet.checkpoint not in choices:
            return ""
        place = choices.index(sheet.checkpoint)
        return "newest whole" if place == 0 else f"{place} before newest"
    if row == WORLD and sheet.begins_stage:
        return "a new stage: any"
    if row == WORLD:
        return f"num_splits {sheet.num_splits}" if sheet.num_splits else "no splits known: any"
    if row == KEEP:
        return "resumed when it dies" if sheet.is_to_be_kept else ""
    return "per rank" if row == WORKERS else ""


def _remark(sheet: Sheet, row: str, value: Any, is_typed: bool) -> str:
    if row in sheet.refusals:
        return f"✗ {sheet.refusals[row]}"
    if row in (WORLD, WORKERS) and is_typed and sheet.num_splits:
        return f"✗ {_why_not(sheet, row, value)}"
    if row == STAGE and value is not None:
        return FRESH
    return (_jumped(sheet) or _passed_over(sheet)) if row == CHECKPOINT else ""


def _jumped(sheet: Sheet) -> str:
    """What a key goes back before; what was gone back before."""
    proposal = sheet.proposal
    if proposal is None or proposal.spike is None:
        return ""
    spike = text.clean(proposal.spike, 80)
    if sheet.is_before_spike:
        return f"goes back before the jump of the loss {spike}; b takes the newest again"
    if proposal.before_spike is None:
        return f"! the loss jumped {spike}, and no usable save is from before it"
    words = checkpoint_words(proposal.before_spike) + _elsewhere(sheet, proposal.before_spike)
    return f"! the loss jumped {spike}: b goes back before it, to {words}"


def _why_not(sheet: Sheet, row: str, value: Any) -> str:
    allowed = " ".join(map(str, sheet.choices(row)))
    if row == WORLD:
        return f"{sheet.num_splits} splits can't be shared by {value}: {allowed}"
    return f"a rank's splits can't be shared by {value} workers: {allowed}"


def _passed_over(sheet: Sheet) -> str:
    """Why newer files than the chosen one aren't the default."""
    if CHECKPOINT in sheet.touched:
        return ""
    shown = sheet.proposal.passed_over if sheet.proposal is not None else ()
    passed = shown or in_run(sheet.run.checkpoints, bad=dict(sheet.run.known_bad)).passed_over
    if not passed:
        return ""
    path, why = passed[0]
    more = f" (and {len(passed) - 1} more)" if len(passed) > 1 else ""
    return f"{text.clean(path.rsplit('/', 1)[-1], 48)} passed over: {text.clean(why, 200)}{more}"
