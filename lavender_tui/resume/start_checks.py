"""Starts that are more than going on: a new stage from the weights, a schedule that lacks a step, a known bad file."""

from __future__ import annotations

import os
import re

from lavender_tui.model import text
from lavender_tui.model.plan import Check
from lavender_tui.model.start import is_training_over
from lavender_tui.model.state_rules import passed, refuse, warn
from lavender_tui.resume.going_back import Back
from lavender_tui.resume.situation import Situation

# What may stand in a checkpoint's file name, as the training writes it.
_STAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
FRESH = "only the weights are taken over: optimizer, schedule and data position are new, epoch 1"


def stage_checks(it: Situation) -> list[Check]:
    """Whether the next stage can begin here, and with the right command."""
    stage, before = it.options.next_stage or "", it.checkpoint.stage
    shown = text.clean(stage, 60)
    if not _STAGE.fullmatch(stage):
        what = f"{shown or 'nothing'} can't be a stage"
        return [refuse("stage.next", what, remedy="use a word such as sft or dpo: letters, digits, - _ . +")]
    if it.options.policy is not None:
        what = f"a new stage starts with its first row: {it.options.policy.value} has no meaning there"
        return [refuse("stage.next", what, remedy="leave the policy out")]
    if stage == before:
        what = f"the checkpoint is of stage {shown} itself"
        return [refuse("stage.next", what, text.clean(it.checkpoint.path), "resume it, or name the stage after it")]
    return [_begins(it, shown), *_command(it, shown)]


def _begins(it: Situation, stage: str) -> Check:
    one = it.checkpoint
    before = f"stage {text.clean(one.stage)}" if one.stage else text.clean(os.path.basename(one.path), 120)
    what = f"stage {stage} starts from the weights of {before}"
    if is_training_over(one):
        return passed("stage.next", what, FRESH)
    unfinished = f"{what}, which was not over (epoch {text.count(one.epoch)} of {text.count(one.epochs)})"
    return warn("stage.next", unfinished, FRESH, "resume that stage first, unless its weights are good enough")


def _command(it: Situation, stage: str) -> list[Check]:
    """A command that was found, not given, is the one of the stage before."""
    if it.command is None or it.options.command:
        return []
    if any("{stage}" in word for word in (*it.command.argv, *it.command.env.values())):
        return []
    what = f"the command is the one that trained before; whether it can train {stage} isn't known"
    return [warn("stage.command", what, text.clean(it.command.where, 120), "give it after --, or use {stage} in it")]


def schedule_checks(it: Situation) -> list[Check]:
    """A scheduler that is stepped once per epoch, saved before that step, of an epoch that won't be gone on with."""
    if not it.scheduler_extra:
        return []
    one = it.checkpoint
    what = "the saved schedule is one step short: it is stepped once per epoch, and this epoch's step was not made yet"
    evidence = f"last_epoch {it.scheduler_epoch} in epoch {one.epoch}, going on in epoch {it.epoch}"
    remedy = "beginning().restore steps it once; a script that restores by itself must do so"
    return [warn("scheduler.step", what, evidence, remedy)]


def known_bad_checks(it: Situation) -> list[Check]:
    """Only where it is taken nevertheless: by its name, or for want of another."""
    if it.known_bad is None:
        return []
    what = f"this checkpoint is known to be bad: {text.clean(it.known_bad, 300)}"
    return [warn("checkpoint.known-bad", what, text.clean(it.checkpoint.path), "take an earlier one, unless mended")]


def spike_checks(it: Situation) -> list[Check]:
    """The jump of the loss that is gone back before, or that the checkpoint was saved after."""
    if it.behind is not None:
        return [_behind(it.behind)]
    if it.spike is None:
        return []
    what = f"goes back before the jump of the loss {text.clean(it.spike)}"
    return [passed("spike.before", what, "the same rows come again; --policy skip-epoch leaves the epoch's rest out")]


def _behind(back: Back) -> Check:
    what = f"the loss jumped before this checkpoint was saved, {text.clean(back.spike)}"
    if back.checkpoint is None:
        return warn("spike.after", what, remedy="no usable checkpoint is from before it: look at the curve first")
    before = text.clean(os.path.basename(back.checkpoint.path), 120)
    return warn("spike.after", what, remedy=f"go back before it, to {before} (--before-spike)")
