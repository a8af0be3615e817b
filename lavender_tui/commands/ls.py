"""`lavender-tui ls [ROOT…]`: the list of runs as text or JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lavender_tui.commands import places
from lavender_tui.commands.printing import Narrow, put_json, put_table, say
from lavender_tui.model import text
from lavender_tui.model.ending import stopping_words
from lavender_tui.model.export import run_documents
from lavender_tui.model.kept import kept_words
from lavender_tui.model.run import Run
from lavender_tui.model.series import trend

HEAD = ("RUN", "STATE", "STAGE", "EPOCH", "SAVES", "LOSS", "TREND", "SAVED", "LEFT", "WORLD", "PID")
RIGHT = (4, 5, 7, 8, 9, 10)
NARROW = Narrow(spare=(6, 8, 2, 10, 9), cut=(0, 1), last=(3, 4, 7, 5, 1))


def run(roots: Sequence[str], *, plain: bool = False, as_json: bool = False) -> int:
    from lavender_tui.watch.scan import scan

    named = places.resolve_roots(roots)
    runs = scan(named)
    if as_json:
        put_json(run_documents(runs))
        return 0
    if not runs:
        say(f"no runs in {', '.join(named)}")
        return 0
    now = time.time()
    if plain:
        for one in runs:
            print(sentences(one, now))
        return 0
    put_table(HEAD, [row(one, now) for one in runs], right=RIGHT, narrow=NARROW)
    for one in runs:
        if one.keeper is not None:
            say(f"{one.title}: {kept_words(one.keeper, now)}")
        if one.leftovers or one.elsewhere is not None:
            say(f"{one.title}: {one.state_reason}")
        for warning in one.warnings:
            say(f"{one.title}: {warning}")
    return 0


def row(run: Run, now: float) -> tuple[str, ...]:
    newest = run.newest
    saved = None if run.last_save_at is None else now - run.last_save_at
    return (
        text.clean(run.title),
        _state(run, now),
        text.clean(run.stage, 12) if run.stage else text.NONE,
        text.of(run.epoch, run.epochs),
        text.save_count(newest.save_count if newest else None),
        _loss(run),
        trend(point.loss for point in run.losses),
        text.age(saved),
        text.hours(run.hours_left),
        text.NONE if run.world_size is None else str(run.world_size),
        text.NONE if run.pid is None else str(run.pid),
    )


def sentences(run: Run, now: float) -> str:
    """All that a row says, and why, in words and without a drawing."""
    parts = [f"{text.clean(run.title)}: {_state_and_why(run, now)}."]
    count, loss = run.newest.save_count if run.newest else None, _loss(run)
    told = [
        f"stage {text.clean(run.stage)}" if run.stage else "",
        f"epoch {run.epoch} of {run.epochs or 'unknown'}" if run.epoch is not None else "",
        f"save {count}" if count is not None else "",
        f"loss {loss}" if loss != text.NONE else "",
    ]
    words = ", ".join(one for one in told if one)
    parts.append(f"{words[:1].upper()}{words[1:]}.")
    if run.last_save_at is not None:
        parts.append(f"Saved {text.age(now - run.last_save_at)}.")
    if run.hours_left is not None:
        parts.append(f"{text.hours(run.hours_left)} left.")
    if run.world_size is not None:
        parts.append(f"On {text.plural(run.world_size, 'rank')}" + (f", pid {run.pid}." if run.pid else "."))
    if run.resumed_from is not None:
        parts.append(f"Resumed from {text.clean(run.resumed_from.run.rstrip('/').rpartition('/')[2])}.")
    if run.keeper is not None:
        parts.append(f"{kept_words(run.keeper, now)}.")
    parts += [f"Warning: {text.clean(warning)}." for warning in run.warnings]
    return " ".join(part for part in parts if part != ".")


def _loss(run: Run) -> str:
    """Of its newest save; before the first one, what it logged last."""
    newest = run.newest
    return text.loss(newest.loss, newest.loss_text) if newest is not None else text.loss(run.logged_loss)


def _state_and_why(run: Run, now: float) -> str:
    """A reason that begins with the state's own word says it by itself: "stopped on request by ann@gpu-03"."""
    state, why = _state(run, now), text.clean(run.state_reason)
    return why if why.startswith(f"{state} ") else f"{state}, {why}"


def _state(run: Run, now: float) -> str:
    """The state, and what the run is asked for."""
    asked = stopping_words(run, now) or (f"stops {run.request.what.words}" if run.request else None)
    return f"{run.state.value}, {asked}" if asked else run.state.value
