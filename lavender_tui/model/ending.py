"""What a stop costs, how far it has come and what became of it, in words. Pure: the facts are handed in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lavender_tui.model import text

if TYPE_CHECKING:
    from lavender_tui.model.checkpoint import Checkpoint
    from lavender_tui.model.run import EndFacts, Run

_CLOCK_GRAIN = 0.05  # a file's time may lie that far before the instant in which it was written (seconds)

_AT_ONCE = 0.5  # seconds
_TO_BEGIN = 60.0  # seconds; what logs no step and lives longer may train without saying so


class StopAt(StrEnum):
    """Where a training that reads requests is asked to end."""

    NEXT_SAVE = "stop-at-next-save"
    EPOCH_END = "stop-at-epoch-end"

    @property
    def words(self) -> str:
        return "at the next save" if self is StopAt.NEXT_SAVE else "at the end of the epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """What request.json asks a live training for; it can be withdrawn until the training has come there."""

    what: StopAt
    asked_at: float  # unix seconds
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AtStake:
    """What a run has done since its last save: lost where it ends without another one.

    `since` names that save (None: it has none); `rows` is over all ranks. None where it isn't known.
    """

    saves_when_asked: bool
    since: str | None = None
    seconds: float | None = None
    steps: int | None = None
    rows: int | None = None

    @property
    def done(self) -> str:
        """ "14 min, 412 steps, 19,776 rows"."""
        parts = [] if self.seconds is None else [text.duration(self.seconds)]
        parts += [] if self.steps is None else [text.plural(self.steps, "step")]
        parts += [] if self.rows is None else [text.plural(self.rows, "row")]
        return ", ".join(parts) or "what it did"

    @property
    def work(self) -> str:
        """ "14 min, 412 steps, 19,776 rows since save 0060"."""
        return f"{self.done}; nothing is saved yet" if self.since is None else f"{self.done} since {self.since}"

    @property
    def when_asked(self) -> str:
        """What a polite stop loses."""
        if self.saves_when_asked:
            return "nothing: it saves when asked"
        return f"up to {self.work}" if self.since is not None else f"all of it: {self.work}"


def at_stake(run: Run, now: float) -> AtStake:
    """`now` in unix seconds."""
    newest = run.newest
    saved_at = run.last_save_at if run.last_save_at is not None else run.started_at
    steps = _steps_since(run, newest)
    batch = newest.global_batch if newest else None
    return AtStake(
        saves_when_asked=run.saves_when_asked,
        since=save_name(newest) if newest else None,
        seconds=None if saved_at is None else max(0.0, now - saved_at),
        steps=steps,
        rows=None if steps is None or batch is None else steps * batch,
    )


def _steps_since(run: Run, newest: Checkpoint | None) -> int | None:
    if run.losses_by != "step" or not run.losses:
        return None
    begun = run.begin.at_step if run.begin else None
    at = newest.step if newest else begun
    return None if at is None else max(0, run.losses[-1].step - at)


def save_name(checkpoint: Checkpoint) -> str:
    """ "save 0060", "step 1,200", else "its last save"."""
    count = checkpoint.save_count if checkpoint.save_count is not None else checkpoint.name_save_count
    if count is not None:
        return f"save {text.save_count(count)}"
    return "its last save" if checkpoint.step is None else f"step {checkpoint.step:,}"


# A stop under way


def stopping_words(run: Run, now: float) -> str | None:
    """ "stopping: saving… 12 s of 30"; None for a run that isn't asked to end at once."""
    if not run.is_stopping or run.end is None:
        return None
    end = run.end
    asked = "" if end.stop_asked_at is None else f" {_whole(now - end.stop_asked_at)} s"
    if end.stop_how == "kill":
        return f"stopping: killing…{asked}"
    saved = saved_since(run.newest, end.stop_asked_at)
    if end.stop_how in tuple(StopAt):  # it came to where it was asked to end: when that was asked tells nothing
        return f"stopping: saved {saved}, ending…" if saved else "stopping: ending…"
    what = f"saved {saved}, ending…" if saved else "saving…" if run.saves_when_asked else "asked to end…"
    grace = f" of {end.grace_seconds:.0f}" if asked and end.grace_seconds is not None else ""
    return f"stopping: {what}{asked}{grace}"


def request_words(request: StopRequest) -> str:
    """ "stops at the next save, asked by ann@gpu-03"."""
    return f"stops {request.what.words}, asked by {text.clean(request.who, 60)}"


def why_no_request(run: Run, what: StopAt) -> str | None:
    """Why this run can't be asked for that; None where it can."""
    if run.is_stopping:
        return "it was told to end already"
    if run.begin is None and _is_yet_to_begin(run):
        return (
            "not yet: it hasn't begun to train (if it uses CheckpointManager, it can be asked from its first step on)"
        )
    if run.begin is None:
        return "its training reads no requests (only one that uses CheckpointManager does, from its first step on)"
    if not run.begin.requests:
        return "its CheckpointManager is of a version that reads no requests"
    if what is StopAt.EPOCH_END and (run.newest.epoch if run.newest else run.begin.epoch) is None:
        return "it doesn't say which epoch it trains"
    return None


def _is_yet_to_begin(run: Run) -> bool:
    """Launched by us, alive, and no sign of a step so far: whether it will read requests can't be known."""
    is_ours = run.job is not None or any(one.role == "supervisor" for one in run.processes)
    return is_ours and run.is_alive and run.newest is None and not run.losses


def epoch_to_end(run: Run) -> int | None:
    """The epoch that trains now, as far as its saves tell for sure; None where they may lie in an earlier one.

    A save that completes an epoch is followed by the next one. Of any other save only a training that saves at the end
    of each epoch says that its epoch still goes on.
    """
    newest = run.newest
    if newest is None:
        return run.begin.epoch if run.begin is not None else None
    if newest.epoch is None:
        return None
    if newest.epoch_complete:
        return newest.epoch + 1 if newest.epochs is None or newest.epoch < newest.epochs else None
    begun = run.begin.epoch if run.begin is not None else None
    marks_ends = any(one.epoch_complete for one in run.checkpoints)
    return newest.epoch if marks_ends or newest.epoch == begun else None


def when_words(run: Run, what: StopAt, now: float) -> str:
    """ ", in about 16 min" for a save that comes at its usual time, else nothing."""
    if what is not StopAt.NEXT_SAVE or run.last_save_at is None or not run.save_interval_seconds:
        return ""
    left = run.last_save_at + run.save_interval_seconds - now
    return f", in about {text.duration(left)}" if left >= 1 else ""


def _whole(seconds: float) -> int:
    return max(0, int(seconds))


# What became of it


def saved_since(newest: Checkpoint | None, asked_at: float | None) -> str | None:
    """The save that was written since then, such as "0061"."""
    if newest is None or asked_at is None or newest.facts.mtime_ns / 1e9 < asked_at - _CLOCK_GRAIN:
        return None
    return save_name(newest).removeprefix("save ")


def what_is_kept(run: Run) -> str:
    """Of a run that is over: what there is to go on from, or that it never got to where something could be lost."""
    if run.newest is not None:
        return f"its newest is {save_name(run.newest)}"
    ended_at = run.end.ended_at if run.end else None
    lived = None if ended_at is None or run.started_at is None else max(0.0, ended_at - run.started_at)
    if run.losses or lived is None or lived > _TO_BEGIN:
        return "nothing of it is saved"
    return f"it lived for {lived:.1f} s and trained no step: nothing is lost"


def stopped_words(end: EndFacts, newest: Checkpoint | None) -> str:
    """How a run that was asked to end did so, and what was lost by it."""
    by = f" by {end.stop_by}" if end.stop_by else ""
    if end.stop_by == "Slurm" and end.stop_why:
        return f"{end.stop_why}{'; its job waits to go on, or went on' if end.goes_on else ''} (Slurm)"
    if end.stop_at:
        return f"stopped {end.stop_at}" + (f", asked{by}" if by else "")
    if end.stop_asked_at is None or end.ended_at is None:
        return f"stopped on request{by}"
    return f"stopped on request{by}: {_outcome(end, newest, max(0.0, end.ended_at - end.stop_asked_at))}"


def _outcome(end: EndFacts, newest: Checkpoint | None, seconds: float) -> str:
    how = f"ended after {seconds:.1f} s"
    if end.killed:
        how = "killed at once" if seconds < _AT_ONCE else f"killed after {seconds:.1f} s"
    if saved := saved_since(newest, end.stop_asked_at):
        return f"saved {saved}, {how}"
    lost = f"what it did since {save_name(newest)} is lost" if newest else "nothing of it is saved"
    return f"{how} without a save: {lost}"
