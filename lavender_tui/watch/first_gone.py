"""Which rank failed first, where only the watcher saw it: what the others say of their end is that they lost one."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lavender_tui.model.failure import Failure, peer_gone
from lavender_tui.model.run import EndFacts

if TYPE_CHECKING:
    from lavender_tui.launch.seen import GoneRank

AT_ONCE_SECONDS = 5.0  # a process that is killed may take longer to go than its neighbours; torchrun kills much later


def with_first_gone(end: EndFacts | None, gone: Sequence[GoneRank]) -> EndFacts | None:
    """The end with the rank that came first, where it says no more than an exit code, or that a rank lost another."""
    if end is None or end.stop_requested or end.signal is not None or end.exit_code in (0, None):
        return end
    teller, lost = (end.failure.rank, _lost(end.failure)) if end.failure is not None else (None, None)
    if lost is None and end.error is not None:
        return end  # an error of its own
    first = _first(gone, teller)
    if first is None:
        return end
    words = _words(first) + (f"; then rank {teller} lost it ({lost[:120]})" if lost and not first.signal else "")
    return replace(end, error=words, failure=Failure(words=words, rank=first.rank))


def _lost(failure: Failure) -> str | None:
    return peer_gone(failure.exception) if failure.rank is not None and failure.exception is not None else None


def _first(gone: Sequence[GoneRank], teller: int | None) -> GoneRank | None:
    """One that a signal struck, though another was seen to go a moment earlier; torchrun sends SIGTERM to all others.

    None where the first was the one that says it lost another.
    """
    others = [one for one in gone if one.rank != teller and one.at - gone[0].at <= AT_ONCE_SECONDS]
    struck = next((one for one in others if one.signal not in (None, signal.SIGTERM)), None)
    return struck or next((one for one in gone[:1] if one.rank != teller), None)


def _words(one: GoneRank) -> str:
    if one.signal is not None:
        from lavender_tui.launch.cause import describe_signal

        return f"rank {one.rank} was {describe_signal(one.signal)}"
    how = f"ended first, with exit code {one.code}" if one.code is not None else "vanished first"
    return f"rank {one.rank} {how}"
