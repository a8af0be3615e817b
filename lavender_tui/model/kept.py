"""Who keeps a run alive, and what is left to it, in words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lavender_tui.model import text


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBy:
    """A keeper of a run, from what it writes beside the runs. `is_alive` is None where that can't be seen from here.

    `tries_used` are the resumes in a row that saved nothing new; `next_try_at` is in unix seconds while it waits.
    """

    pid: int
    host: str
    tries: int
    tries_used: int = 0
    next_try_at: float | None = None
    is_alive: bool | None = True

    @property
    def tries_left(self) -> int:
        return max(0, self.tries - self.tries_used)


def kept_words(keeper: KeptBy, now: float) -> str:
    """ "kept alive by pid 123 on gpu-03 (2 of 5 tries left; the next in 40 s)"."""
    who = f"pid {keeper.pid} on {text.clean(keeper.host, 60)}"
    if keeper.is_alive is False:
        return f"no longer kept alive: its keeper ({who}) is gone"
    left = f"{keeper.tries_left} of {text.plural(keeper.tries, 'try', 'tries')} left"
    if keeper.next_try_at is not None:
        wait = keeper.next_try_at - now
        left += f"; the next in {text.duration(wait)}" if wait >= 1 else "; the next now"
    unseen = "" if keeper.is_alive else ", as far as can be seen from here"
    return f"kept alive by {who} ({left}){unseen}"
