"""The instants of a run: when it saved, stepped and gave a sign of life, and at what rhythm."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from lavender_tui.model.rhythm import Rhythm, median, rhythm_of_saves
from lavender_tui.model.state import Sign
from lavender_tui.model.text import save_count
from lavender_tui.watch.listing import Listing

if TYPE_CHECKING:
    from lavender_tui.launch.record import LaunchRecord
    from lavender_tui.watch.metrics import MetricsTail

EARLIEST = 366 * 86400.0  # a file time before 1971 is no time, but a clock or a copy that lost it
CLOCK_SLACK_SECONDS = 2.0  # a file server's clock may be that far ahead without a word
GAPS_LOOKED_AT = 25


class Times:
    """None of them in the future or before there were files. Unix seconds.

    `alive_since` is when the run's processes were started, where some live.
    """

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        listing: Listing,
        tail: MetricsTail | None,
        launch: LaunchRecord | None,
        now: float,
        alive_since: float | None = None,
    ) -> None:
        self.now = now
        saved = [one for one in checkpoints if one.wholeness is not Wholeness.WRITING]
        instants = [plausible(one.facts.mtime_ns, now) for one in saved]
        self.ahead = [one for one in checkpoints if one.facts.mtime_ns / 1e9 > now + CLOCK_SLACK_SECONDS]
        self.last_save_at = instants[-1] if instants else None
        recent = instants[-GAPS_LOOKED_AT - 1 :]
        self.interval = _median_gap(recent)
        self.saves = rhythm_of_saves(recent, begun_at=alive_since) if self.interval else None
        writing = [plausible(one.facts.mtime_ns, now) for one in checkpoints if one.wholeness is Wholeness.WRITING]
        active = {name: plausible(facts.mtime_ns, now) for name, facts in listing.activity.items()}
        self.last_activity_at = latest([self.last_save_at, *writing, *active.values()])
        begun = launch.started_at if launch and launch.started_at <= now else None
        # A growing log is no progress: a rank that waits for ever writes heartbeats, too.
        self.progress_by_save_at = latest([self.last_save_at, *writing, begun])
        moved = tail.clock.progressed_at if tail is not None else None
        self.moved_at = min(moved, now) if moved is not None and moved <= now + CLOCK_SLACK_SECONDS else None
        self.steps: Rhythm | None = tail.clock.rhythm(begun) if tail is not None else None
        self.progress_by_step_at = latest([self.moved_at, alive_since]) if self.moved_at is not None else None
        by_training = begun if launch is not None and launch.written_by == "training" else None
        self._wrote_at = latest([self.last_save_at, self.moved_at, by_training])
        self.sign = self._newest_sign(saved, writing, active, listing, tail, now)

    def had_ranks(self, alive_since: float | None, searched_at: float | None) -> bool:
        """Did ranks write since what lives was started, and before its processes were looked for last?

        What writes later may be a rank that no search has found yet; what wrote earlier was another start's.
        """
        if self._wrote_at is None or alive_since is None or searched_at is None:
            return False
        return alive_since + CLOCK_SLACK_SECONDS < self._wrote_at <= searched_at

    def _newest_sign(
        self,
        saved: Sequence[Checkpoint],
        writing: Sequence[float | None],
        active: dict[str, float | None],
        listing: Listing,
        tail: MetricsTail | None,
        now: float,
    ) -> Sign | None:
        step = f"step {tail.points[-1].step}" if tail is not None and tail.points else "metrics"
        heartbeat = plausible(listing.heartbeat_ns, now) if listing.heartbeat_ns is not None else None
        metrics = active.get("metrics.jsonl")
        is_step = metrics is not None and self.moved_at is not None and metrics - self.moved_at < 1.0
        told = [
            (self.last_save_at, _save_words(saved[-1]) if saved else ""),
            (latest(writing), "a save being written"),
            (metrics if is_step else None, step),
            (active.get("train.log"), "log"),
            (None if is_step else metrics, "metrics"),
            (heartbeat, "heartbeat"),
        ]
        known = [(at, what) for at, what in told if at is not None]
        if not known:
            return None
        at, what = max(known, key=lambda one: one[0])
        return Sign(what=what, at=at)


def _save_words(one: Checkpoint) -> str:
    count = one.save_count if one.save_count is not None else one.name_save_count
    return "save" if count is None else f"save {save_count(count)}"


def plausible(mtime_ns: int, now: float) -> float | None:
    """A file's time in seconds, not after `now`; None where it lies in the future or is no time at all."""
    instant = mtime_ns / 1e9
    return min(instant, now) if EARLIEST < instant <= now + CLOCK_SLACK_SECONDS else None


def latest(instants: Sequence[float | None]) -> float | None:
    return max((instant for instant in instants if instant is not None), default=None)


def _median_gap(instants: Sequence[float | None]) -> float | None:
    gaps = [b - a for a, b in itertools.pairwise(instants) if a is not None and b is not None and b > a]
    return median(gaps) if gaps else None
