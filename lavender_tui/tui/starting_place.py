"""Where the cursor stands when the app opens: where a hand is needed, else on the newest run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lavender_tui.model.choosing import run_order
from lavender_tui.model.run import Run, RunState

RECENT_SECONDS = 24 * 3600.0  # who left an older failure as it is has seen it


def starting_run(runs: Sequence[Run], in_sight: Collection[str], now: float) -> str | None:
    """The key of that run; None without runs. `now` in unix seconds.

    A hand is needed by the newest run that nothing was resumed from and that has stalled, or has failed within the last
    day with saves to resume from; a keeper that lives takes care of its own. Only runs `in_sight` (keys) are thought
    of for that: the list isn't scrolled away from its beginning for an older one.
    """
    if not runs:
        return None
    continued = {run.resumed_from.run for run in runs if run.resumed_from is not None}
    needy = [run for run in runs if run.key in in_sight and run.key not in continued and _needs_a_hand(run, now)]
    return max(needy or runs, key=run_order).key


def _needs_a_hand(run: Run, now: float) -> bool:
    if run.keeper is not None and run.keeper.is_alive:
        return False
    if run.state is RunState.STALLED:
        return True
    ended = (run.end.ended_at if run.end else None) or run.last_save_at
    is_recent = ended is not None and now - ended < RECENT_SECONDS
    return run.state is RunState.FAILED and is_recent and run.newest is not None
