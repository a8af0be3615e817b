"""What the checkpoint gives back and what it can't, and whether its schedule goes on where it was."""

from __future__ import annotations

from lavender_tui.launch.arguments import parse
from lavender_tui.model import text
from lavender_tui.model.plan import Check, Policy
from lavender_tui.model.state_rules import passed, warn
from lavender_tui.resume.contents import Contents
from lavender_tui.resume.epochs_asked import epochs_in
from lavender_tui.resume.schedules import End, Schedule
from lavender_tui.resume.situation import Situation

MUCH_LONGER = 20  # times the epochs
ROUGHLY = 0.8  # of all steps: a warm-up before the schedule is none of its own


def restore_checks(it: Situation, contents: Contents) -> list[Check]:
    return [_restores(it, contents), *_schedule(it, contents), *_epochs(it, contents)]


def _restores(it: Situation, contents: Contents) -> Check:
    """What is lost is named only where it costs something, and never what the training may not have had: without mixed
    precision there is no loss scaler, and a save without one tells nothing."""
    one = it.checkpoint
    given = {
        "model": one.has_model,
        "optimizer": one.has_optimizer,
        "schedule": _has_schedule(it, contents),
        "random state": one.has_rng,
        "loss scaler": contents.has_scaler,
    }
    if it.policy in (Policy.EXACT, Policy.REPLAY_EPOCH):  # else an epoch begins, where there is none
        given["position in the data"] = it.policy is Policy.EXACT and it.set.is_complete
    what = f"restores: {', '.join(name for name, is_there in given.items() if is_there)}"
    costs = _costs(it, contents)
    if not costs:
        return passed("checkpoint.restores", what)
    never = {"loss scaler", *(() if _may_have_had_schedule(it, contents) else ("schedule",))}
    lacking = [name for name, is_there in given.items() if not is_there and name not in never]
    if lacking:
        what += f". Does not restore: {', '.join(lacking)}"
    return warn("checkpoint.restores", what, "; ".join(costs), "a script can only go on with what its saves hold")


def _costs(it: Situation, contents: Contents) -> list[str]:
    """What each missing part means that the training had, or is likely to have had."""
    one, costs, has_schedule = it.checkpoint, [], _has_schedule(it, contents)
    if not has_schedule and contents.optimizer is not None and contents.optimizer.had_scheduler:
        costs.append("the learning rate followed a schedule, which was not saved: it starts anew or jumps")
    elif not has_schedule and _may_have_had_schedule(it, contents):
        rate = f" from {one.lr:g}" if one.lr is not None else ""
        costs.append(f"a schedule of the learning rate, if there was one, starts anew{rate}")
    if not one.has_rng:
        costs.append("dropout and augmentation draw other numbers, and a shuffle by the global generator another order")
    return costs


def _has_schedule(it: Situation, contents: Contents) -> bool:
    """Also under a key that no manager of ours reads: what a script saves it can give back."""
    return it.checkpoint.has_scheduler or contents.saved.key is not None


def _may_have_had_schedule(it: Situation, contents: Contents) -> bool:
    """Our own CheckpointManager saves the schedule that it was given; others may have forgotten theirs."""
    had = contents.optimizer is not None and contents.optimizer.had_scheduler
    return had or "lavender_tui" not in (it.checkpoint.versions or {})


def _schedule(it: Situation, contents: Contents) -> list[Check]:
    """Where the schedule stands; and a counter that should count steps but holds the epoch."""
    one, schedule = it.checkpoint, contents.schedule
    rate = f"learning rate {one.lr:g} in the optimizer" if one.lr is not None else ""
    if contents.saved.is_too_large:
        what = f"what is saved as {contents.saved.key} is too large for a schedule: where it stands can't be told"
        return [warn("checkpoint.schedule", what, rate, "look at what the training script saves there")]
    if schedule is None:
        return []
    length = schedule.length
    said = f"the schedule stands at {text.count(schedule.counter)}"
    if length is not None:
        said += f" of {text.count(length[1])} ({length[0]})"
    said += schedule.where
    if not one.has_scheduler:
        said += f"; it is saved as {contents.saved.key}, which only the training script itself restores"
    if _is_epoch_for_step(it, schedule):
        what = f"{said}, which is the epoch: a schedule that is as long as the training's steps was given its epochs"
        remedy = "step the schedule where it was stepped before, or set last_epoch to the number of steps"
        return [warn("checkpoint.schedule", what, rate, remedy)]
    after = _after_its_end(schedule)
    if after:
        remedy = f"load_state_dict brings the old {length[0]} back: set the longer one after it" if length else ""
        return [warn("checkpoint.schedule", f"{said}: {after}", rate, remedy)]
    return [passed("checkpoint.schedule", said, rate)]


def _after_its_end(schedule: Schedule) -> str:
    """What the next step of a schedule does that is over; "" where it isn't, or where it merely stays (LinearLR)."""
    if not schedule.is_over or schedule.length is None:
        return ""
    if schedule.end is End.SWINGS:
        is_at_end = schedule.counter == schedule.length[1]
        return "its learning rate climbs again from here" if is_at_end else "past its end it goes up and down"
    return "its next step raises a ValueError" if schedule.end is End.RAISES else "its learning rate stays at 0"


def _is_epoch_for_step(it: Situation, schedule: Schedule) -> bool:
    """As far ahead as the epochs, and yet as long as all steps of the training: then its length counts steps.

    One that is merely longer than the epochs may be so on purpose; and within the first epoch, where gradients are
    accumulated, one step of the optimizer may be all there was. Where the steps aren't known, no schedule of epochs is
    that much longer than the training.
    """
    one, counter, length = it.checkpoint, schedule.counter, schedule.length
    if length is None or schedule.where or not one.epoch or one.epochs is None or one.step == counter:
        return False
    if counter not in (one.epoch, one.epoch - 1) or (one.epoch < 2 and not one.epoch_complete):
        return False
    if not one.step:
        return length[1] > MUCH_LONGER * one.epochs
    steps = one.step * one.epochs // one.epoch  # of the whole training, at least
    return length[1] > 2 * one.epochs and length[1] >= steps * ROUGHLY


def _epochs(it: Situation, contents: Contents) -> list[Check]:
    """The command names another number of epochs than the training was planned for."""
    if it.command is None or it.checkpoint.epochs is None:
        return []
    wanted = epochs_in(parse(it.command.argv).script)
    if wanted is None or wanted == it.checkpoint.epochs:
        return []
    length = contents.schedule.length if contents.schedule is not None else None
    shown = f" ({length[0]} {text.count(length[1])} in the checkpoint)" if length else ""
    what = f"the command asks for {wanted} epochs, the checkpoint is of a training over {it.checkpoint.epochs}"
    cost = f"a schedule of fixed length{shown} would be too short or too long, or jump"
    return [warn("checkpoint.epochs", what, cost, "the same number, or a new schedule on purpose")]
