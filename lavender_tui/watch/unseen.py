"""Why did a run end whose supervisor was gone before? Nobody recorded it, but its ranks and its log are there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lavender_tui.launch import cause
from lavender_tui.launch.record import LaunchRecord
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.failure import Failure
from lavender_tui.model.run import EndFacts
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import Listing
from lavender_tui.watch.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Callable


def unseen_end(
    listing: Listing, launch: LaunchRecord | None, index: Index, stands: Standing, seen: EndFacts | None
) -> EndFacts | None:
    """`seen` (how its leader was seen to end, if it was) with the reason that the run left; None where nothing tells.

    Only for a run whose processes would be seen from here, and of which none lives. A leader that was killed, or ended
    well, needs no reason.
    """
    is_over = not (stands.processes or stands.leftovers or stands.is_ending)
    if launch is None or launch.slurm is not None or not is_over:
        return seen
    if seen is not None and (seen.signal is not None or seen.exit_code == 0):
        return seen
    code = seen.exit_code if seen is not None else None
    failure = _kept(listing, index, f"why, code {code}", lambda: _examine(listing.path, code))
    if failure is None:
        return seen
    return replace(seen or EndFacts(is_unseen=True), error=failure.words, failure=failure)


def _examine(run_dir: str, code: int | None) -> Failure | None:
    try:
        return cause.examine(run_dir, code)
    except (OSError, ValueError, RecursionError):
        return None  # what a training wrote may be anything


def _kept(listing: Listing, index: Index, what: str, look: Callable[[], Failure | None]) -> Failure | None:
    """Looked up once: its log, which torchrun ends with its report, doesn't grow any more."""
    facts = listing.activity.get("train.log") or FileFacts(
        dev=0, inode=0, size_bytes=0, mtime_ns=listing.directory_mtime_ns, ctime_ns=0
    )
    return index.document(f"{listing.path}/{what}", facts, look)  # type: ignore[return-value]
