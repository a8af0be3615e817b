"""The deep look from the sheet: the whole checkpoint and the table, in a thread, with progress, and ended by a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import work
from textual.screen import Screen
from textual.worker import get_current_worker

from lavender_tui.errors import LavenderError, in_words
from lavender_tui.model import text
from lavender_tui.tui.messages import LookEnded, LookProgress
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.widgets.inks import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from lavender_tui.model.plan import Proposal
    from lavender_tui.resume.child import Child


def look(
    proposal: Proposal,
    child: Child | None,
    *,
    on_progress: Callable[[int, int], None],
    is_cancelled: Callable[[], bool],
) -> Proposal:
    """The proposal with what only reading every byte and opening the table tells. Raises LavenderError, Cancelled."""
    from lavender_tui.resume import examined, verified

    return verified(examined(proposal, on_progress=on_progress, is_cancelled=is_cancelled), child)


def before_launch(
    proposal: Proposal, on_progress: Callable[[int, int], None], is_cancelled: Callable[[], bool]
) -> Proposal:
    """The look that comes before every launch of a checkpoint that isn't too large for it. Raises Cancelled."""
    from lavender_tui.resume import examined, is_examined_by_default

    if not is_examined_by_default(proposal):
        return proposal
    return examined(proposal, on_progress=on_progress, is_cancelled=is_cancelled)


class DeepLook(Orderly, Screen["tuple[str, str] | None"]):
    """The part of the sheet that looks. At most one look at a time; another choice ends it."""

    _sequence: int
    is_looking = False
    progress: tuple[int, int] | None = None

    def begin_look(self, proposal: Proposal, child: Child | None) -> None:
        self.is_looking, self.progress = True, None
        self._look(self._sequence, proposal, child)

    def end_look(self) -> None:
        """Whatever it would still find is dropped."""
        self.is_looking, self.progress = False, None
        self.workers.cancel_group(self, "look")

    @work(thread=True, exclusive=True, group="look", exit_on_error=False, description="look")
    def _look(self, sequence: int, proposal: Proposal, child: Child | None) -> None:
        worker = get_current_worker()
        try:
            found = look(
                proposal,
                child,
                on_progress=lambda done, total: self.tell_progress(sequence, done, total),
                is_cancelled=lambda: worker.is_cancelled,
            )
        except (LavenderError, OSError) as error:
            ended = LookEnded(sequence, error=in_words(error))
        else:
            ended = LookEnded(sequence, found)
        if not worker.is_cancelled:
            self.post_message(ended)

    def tell_progress(self, sequence: int, done: int, total: int) -> None:
        """From a thread."""
        self.post_message(LookProgress(sequence, done, total))

    def on_look_progress(self, message: LookProgress) -> None:
        if message.sequence == self._sequence:
            self.progress = (message.done, message.total)
            self._show_verdict()

    def _show_verdict(self) -> None:
        raise NotImplementedError

    @property
    def is_reading(self) -> bool:
        """Bytes are left to read."""
        return self.progress is not None and self.progress[0] < self.progress[1]

    def progress_words(self) -> str:
        """ "reading the checkpoint: 12 % of 4.2 GB", or that the table is looked at."""
        if self.progress is None:
            return "reading the checkpoint"
        done, total = self.progress
        if done >= total:
            return "the checkpoint is read; looking at the table"
        return f"reading the checkpoint: {100 * done // max(1, total)} % of {text.size(total)}"

    def look_spans(self) -> list[Span]:
        return [(" … ", "accent"), (self.progress_words(), "strong"), ("   esc stops it", "quiet")]
