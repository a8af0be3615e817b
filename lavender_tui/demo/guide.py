"""What somebody who watches the demo may press next, and what ends when they leave. Pure: the runs in, words out."""

from __future__ import annotations

from collections.abc import Sequence

from lavender_tui.model.proof import Outcome
from lavender_tui.model.run import Run, RunState
from lavender_tui.model.text import clean, plural

BEGIN = "q ends the demo. This training is real: x stops it, r resumes it on another world_size, ? shows every key"
_ENDS = "It saves and ends, then r resumes it on another world_size"
_ENDED = "r resumes it where it stopped, on another world_size if you like. q ends the demo"
_RESUMED = "Resumed: ⏎ opens its page, 3 there shows the curve through both. q ends the demo"
_THROUGH = "It is through with all its epochs. q ends the demo"


def hint(runs: Sequence[Run]) -> str:
    """After what happened last; empty once the newest training is seen to carry on, for there is no more to lead to."""
    run = runs[0] if runs else None
    if run is None or run.is_unread:
        return BEGIN
    if run.is_stopping:
        return _ENDS
    if not run.is_alive:
        return _THROUGH if run.state is RunState.FINISHED else _ENDED
    if run.resumed_from is None:
        return BEGIN
    carries_on = run.proof is not None and run.proof.verdict is Outcome.CARRIES_ON
    return "" if carries_on else _RESUMED


def leaving(runs: Sequence[Run]) -> tuple[str, str | None] | None:
    """(what ends with the demo, the run that it is asked for); None where nothing runs any more."""
    alive = [run for run in runs if run.is_alive]
    if runs and not alive:
        return None
    if not alive:
        return "The demo's training ends with it; its files stay.", None
    if len(alive) > 1:
        return f"The demo's {plural(len(alive), 'training')} end with it; their files stay.", alive[0].key
    return f"The demo's training ({clean(alive[0].name, 40)}) ends with it; its files stay.", alive[0].key
