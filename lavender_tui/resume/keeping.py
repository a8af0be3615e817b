"""What to do with a run that ended: leave it, resume it after a while, or give it up; and on how many ranks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lavender_tui.model.run import EndFacts, RunState
from lavender_tui.model.text import clean, plural

LONGEST_WAIT_SECONDS = 3600.0
MOST_STEPLESS = 2  # checkpoints that may fail before the first step, until it is plain that they are not to blame


class Next(StrEnum):
    """What comes after a run's end."""

    FINISHED = "finished"
    STOPPED = "stopped"
    RESUME = "resume"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended. `has_saved`: something usable of its own; `lived_seconds`: as far as that is known.

    `stepless`: so many different checkpoints failed in the last tries before the first step.
    """

    state: RunState
    reason: str
    end: EndFacts | None = None
    has_saved: bool = False
    lived_seconds: float | None = None
    stepless: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`tries_used` counts the tries in a row that saved nothing new, as they stand now."""

    next: Next
    why: str
    tries_used: int = 0
    wait_seconds: float = 0.0


def decide(ending: Ending, *, tries_used: int, tries: int, backoff_seconds: float) -> Decision:
    """What to do about a run that ended.

    A run that saved something has made progress: the count begins again. The first resume comes at once, unless the
    run lived for less than the back-off; each further one in a row that saved nothing waits twice as long.
    """
    end = ending.end
    if end is not None and end.stop_requested:
        return Decision(next=Next.STOPPED, why=ending.reason)
    if ending.state is RunState.FINISHED:
        return Decision(next=Next.FINISHED, why=ending.reason)
    if end is not None and end.exit_code == 0 and end.signal is None:
        return Decision(next=Next.FINISHED, why=f"it ended well, with exit code 0 ({ending.reason})")
    used = 0 if ending.has_saved else tries_used
    if used >= tries:
        why = f"{in_vain(used)} saved nothing new; the last one: {clean(ending.reason, 300)}"
        return Decision(next=Next.GIVE_UP, why=why, tries_used=used)
    if ending.stepless >= MOST_STEPLESS and not ending.has_saved:
        failed = f"{plural(ending.stepless, 'checkpoint')} failed before the first step, so that is not their fault"
        return Decision(next=Next.GIVE_UP, why=f"{failed}: {clean(ending.reason, 300)}", tries_used=used)
    wait = wait_seconds(used, ending.lived_seconds, backoff_seconds)
    return Decision(next=Next.RESUME, why=ending.reason, tries_used=used, wait_seconds=wait)


def in_vain(tries: int) -> str:
    """ "1 try", "3 tries in a row"."""
    return "1 try" if tries == 1 else f"{plural(tries, 'try', 'tries')} in a row"


def wait_seconds(tries_used: int, lived_seconds: float | None, backoff_seconds: float) -> float:
    """How long to wait before the next try: the same at every time, and never longer than an hour."""
    if tries_used == 0:
        is_young = lived_seconds is not None and lived_seconds < backoff_seconds
        return min(backoff_seconds, LONGEST_WAIT_SECONDS) if is_young else 0.0
    return float(min(backoff_seconds * 2.0 ** min(tries_used - 1, 40), LONGEST_WAIT_SECONDS))


# On how many ranks


def sizes(
    *, before: int | None, most: int | None, devices: int, permitted: Sequence[int], num_splits: int | None,
    global_batch: int | None,
) -> list[int | None]:  # fmt: skip
    """The world sizes to try, best first; None stands for the default of a resume, as before.

    With devices: the largest permitted one that they allow; without a permission up to the most that the family of runs
    ever had. Without devices: as before, else the nearest permitted one below, else above.
    """
    allowed: Sequence[int | None]
    if devices:
        known = permitted or range(1, min(most or before or devices, devices) + 1)
        allowed = sorted((size for size in known if size <= devices), reverse=True)
    elif not permitted:
        return [None]
    elif before is None:
        allowed = sorted(permitted, reverse=True)
    else:
        below = sorted((size for size in permitted if size <= before), reverse=True)
        allowed = [*below, *sorted(size for size in permitted if size > before)]
    return [size for size in allowed if _fits(size, num_splits, global_batch)]


def _fits(size: int | None, num_splits: int | None, global_batch: int | None) -> bool:
    return size is not None and all(not whole or whole % size == 0 for whole in (num_splits, global_batch))
