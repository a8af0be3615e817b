"""What somebody who watches the demo may press next, and what ends when they leave. Pure: the runs in, words out."""

from __future__ import annotations

from collections.abc import Sequence

from lavender_tui.model.proof import Outcome
from lavender_tui.model.run import Run, RunState
from lavender_tui.model.text import clean, plural

_TRAINS = "x stops it, r resumes it on another world_size"
_RESUMES = "r resumes it where it stopped, on another world_size if you like"
_PAGE = "⏎ opens its page, 3 there shows the curve through both"
_QUIT = "q ends the demo"
BEGIN = f"{_QUIT}. This training is real: {_TRAINS}, ? shows every key"
_AFTER = "r resumes it on another world_size"
_THROUGH = "through with all its epochs"


def hint(runs: Sequence[Run], cursor: Run | None = None) -> str:
    """After what happened last; empty once the newest training is seen to carry on, for there is no more to lead to.

    `cursor`: the run that keys act on, which may be another one than the newest.
    """
    run = runs[0] if runs else None
    if run is None or run.is_unread:
        return BEGIN
    words, elsewhere = _words(run)
    if cursor is None or cursor.key == run.key:
        return words
    return elsewhere.format(clean(run.title, 40))


def _words(run: Run) -> tuple[str, str]:
    """What is said with the cursor on that run, and with the cursor on another one, where {} is its name."""
    if run.is_stopping:
        return f"It saves and ends, then {_AFTER}", f"{{}} saves and ends; on its row {_AFTER} then"
    if not run.is_alive and run.state is RunState.FINISHED:
        return f"It is {_THROUGH}. {_QUIT}", f"{{}} is {_THROUGH}. {_QUIT}"
    if not run.is_alive:
        return f"{_RESUMES}. {_QUIT}", f"{{}} ended: on its row {_RESUMES}. {_QUIT}"
    if run.resumed_from is None:
        return BEGIN, f"{{}} trains: on its row {_TRAINS}. {_QUIT}"
    if run.proof is not None and run.proof.verdict is Outcome.CARRIES_ON:
        return "", ""
    return f"Resumed: {_PAGE}. {_QUIT}", f"Resumed as {{}}: on its row {_PAGE}. {_QUIT}"


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
