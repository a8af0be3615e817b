"""How long ago something was, for a person; a time that no clock of ours can have set is called so."""

from __future__ import annotations

import time
from collections.abc import Iterable

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from lavender_tui.model.run import Run

CLOCK_DIFFERS = "clock differs"
AGE_WIDTH, CLOCK_WIDTH = 10, len(CLOCK_DIFFERS)  # cells of a column of ages, without and with such a time
_MINUTE = 60.0  # seconds; from then on all ages are minutes at least
_EARLIEST = 366 * 86_400.0  # before 1971: a clock that was never set, or a copy that lost the time
_SLACK_SECONDS = 2.0  # a file server may be that far ahead without a word


def is_odd(moment: float, now: float) -> bool:
    """Is this instant (unix seconds, as `now`) in the future, or older than any checkpoint can be?"""
    return moment > now + _SLACK_SECONDS or moment < _EARLIEST


def is_any_odd(runs: Iterable[Run], now: float) -> bool:
    """Is the last save of any of these runs at such an instant? Asked of thousands, at each change."""
    latest = now + _SLACK_SECONDS
    for run in runs:
        saved = run.last_save_at
        if saved is None:
            saved = last_save(run) if run.checkpoints else None
        if saved is not None and not _EARLIEST <= saved <= latest:
            return True
    return False


def since(moment: float | None, now: float) -> str:
    """ "3 h ago", "40 s ago"; "clock differs" for an odd time, "–" for none. Seconds in tens."""
    if moment is None:
        return text.NONE
    if is_odd(moment, now):
        return CLOCK_DIFFERS
    seconds = max(0.0, now - moment)
    return text.age(seconds if seconds >= _MINUTE else seconds // 10 * 10)


def minutes_since(moment: float | None, now: float) -> str:
    """The same for a column of many: "<1 min ago", "1 min ago".

    Where the ages of fifty runs that saved at once count seconds, they are ten kilobytes a second over ssh.
    """
    words = since(moment, now)
    if moment is None or words == CLOCK_DIFFERS or now - moment >= _MINUTE:
        return words
    return "<1 min ago"


def clock(moment: float) -> str:
    """The time of day, "14:02:33": what tells apart what happened within seconds, and never changes."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return text.NONE


def saved_at(checkpoint: Checkpoint) -> float:
    """The file's time, in unix seconds."""
    return checkpoint.facts.mtime_ns / 1e9


def named(checkpoint: Checkpoint) -> str:
    """ "pretrain 0060"; a file that counts no saves goes by its own name."""
    count = checkpoint.save_count if checkpoint.save_count is not None else checkpoint.name_save_count
    if count is None:
        return text.clean(checkpoint.path.rsplit("/", 1)[-1], 40)
    return f"{text.clean(checkpoint.stage or checkpoint.name_stage or 'save', 20)} {text.save_count(count)}"


def last_save(run: Run) -> float | None:
    """When the run saved last; where the watcher took no file's time for true, the time that the newest one claims."""
    if run.last_save_at is not None:
        return run.last_save_at
    saved = [one for one in run.checkpoints if one.wholeness is not Wholeness.WRITING]
    return saved_at(saved[-1]) if saved else None


def next_save(run: Run, now: float) -> str:
    """When a living run saves next by its own habit: "next save in 4 min"; "" where that can't be said, as of one
    that ends.

    In whole minutes: what changes every second would be drawn every second.
    """
    every, last = run.save_interval_seconds, run.last_save_at
    if not run.is_alive or run.is_stopping or not every or every < 1 or last is None or is_odd(last, now):
        return ""
    left = last + every - now
    if abs(left) < 60:
        longest = "a minute" if every >= 60 else text.duration(max(1, round(every)))
        return f"next save within {longest}" if left > 0 else "next save due now"
    minutes = round(abs(left) / 60)
    words = f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
    return f"next save in {words}" if left > 0 else f"next save due since {words}"
