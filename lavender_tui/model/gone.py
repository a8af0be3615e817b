"""A run whose directory was deleted or moved away, while its training may live on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lavender_tui.model.run import ALIVE, GONE, LiveProcess, Run, RunState
from lavender_tui.model.text import plural


def as_gone(run: Run, alive: Sequence[LiveProcess] = ()) -> Run:
    """As it was last seen, without what went with its directory. `alive` are its processes that live on.

    They are left over: what they save is kept nowhere.
    """
    lived = run.state in ALIVE or bool(run.leftovers)
    state = RunState.FAILED if alive or lived else run.state
    reason = _living_on(run, alive) if alive else GONE  # the one before may be of a look at what was half deleted
    return replace(
        run,
        is_gone=True,
        unreadable=None,
        state=state,
        state_reason=reason,
        checkpoints=(),
        processes=(),
        leftovers=tuple(alive),
        usage=None,
        request=None,
        keeper=None,
        proof=None,
        job=None,
        end=run.end if state is run.state else None,
        pid=_pid(run, alive),
        known_bad=(),
        warnings=(),
    )


def _living_on(run: Run, alive: Sequence[LiveProcess]) -> str:
    """What goes on, and what can be done about it."""
    count, them = plural(len(alive), "process", "processes"), "it" if len(alive) == 1 else "them"
    by_key = "x, or " if any(one.tells_itself for one in alive) else ""
    verb = "lives" if len(alive) == 1 else "live"
    return f"{GONE}, deleted or moved; {count} of it {verb} on: {by_key}`kill {_pid(run, alive)}` ends {them}"


def _pid(run: Run, alive: Sequence[LiveProcess]) -> int | None:
    """The leader, which all others end with; without it any, the supervisor last."""
    pids = [one.pid for one in sorted(alive, key=lambda one: (one.role == "supervisor", one.pid))]
    return run.pid if run.pid in pids else next(iter(pids), None)
