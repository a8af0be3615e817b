"""What is worth a notice: a run that failed, stalled, finished, was stopped, went NaN or didn't carry on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lavender_tui.model.proof import Outcome
from lavender_tui.model.run import Run, RunState


class Event(StrEnum):
    """The kinds of notices, by the names that settings and `--on` use."""

    FAILED = "failed"
    STALLED = "stalled"
    FINISHED = "finished"
    STOPPED = "stopped"
    NAN = "nan"
    JUMPED = "jumped"


_BY_STATE = {
    RunState.FAILED: Event.FAILED,
    RunState.STALLED: Event.STALLED,
    RunState.FINISHED: Event.FINISHED,
    RunState.STOPPED: Event.STOPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One piece of news of a run; `words` is the sentence without the run's name, as it came from disk."""

    event: Event
    run: Run
    words: str


def news(before: Mapping[str, Run], after: Iterable[Run]) -> list[Notice]:
    """What happened between two complete looks; `before` is by run key. A run that wasn't there before is no news: its
    directory may have been copied here."""
    found = []
    for run in after:
        old = before.get(run.key)
        if old is not None and old is not run:
            found += _of_run(old, run)
    return found


def _of_run(old: Run, run: Run) -> list[Notice]:
    found = []
    event = _BY_STATE.get(run.state)
    if event is not None and old.state is not run.state and old.unreadable is None:  # it was so before that, too
        found.append(Notice(event=event, run=run, words=run.state_reason))
    if _is_nan(run) and not _is_nan(old):
        found.append(Notice(event=Event.NAN, run=run, words=f"its loss is {_last_loss(run)}"))
    if _went_wrong(run) and not _went_wrong(old):
        assert run.proof is not None
        found.append(Notice(event=Event.JUMPED, run=run, words=run.proof.words))
    return found


def _is_nan(run: Run) -> bool:
    if run.losses and run.losses_by == "step":
        return run.losses[-1].is_no_number
    return run.newest is not None and run.newest.loss is None and run.newest.loss_text is not None


def _last_loss(run: Run) -> str:
    return (run.newest.loss_text if run.newest is not None else None) or "no number"


def _went_wrong(run: Run) -> bool:
    return run.proof is not None and run.proof.verdict in (Outcome.JUMPED, Outcome.WRONG_START)
