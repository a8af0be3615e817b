"""The questions of the sheet: asked whenever something is chosen, answered once, and never waited for in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lavender_tui.model.text import clean
from lavender_tui.tui.messages import ProposalMade
from lavender_tui.tui.question import Question
from lavender_tui.tui.screens.launching import Launching
from lavender_tui.tui.widgets.inks import Span

if TYPE_CHECKING:
    from lavender_tui.model.plan import Proposal

SLOW_SECONDS, HANGING_SECONDS = 3.0, 15.0


class Checking(Launching):
    """The part of the sheet that checks what is chosen."""

    _answered = -1
    _question: Question | None = None

    def _ask(self) -> None:
        """A new question; answers to older ones are dropped."""
        self.end_look()
        self._sequence += 1
        sequence, work = self._sequence, self._work()
        self._question = Question(work, lambda asked: self.post_message(_message(sequence, asked)))
        self._show_verdict()

    def _work(self) -> Any:
        paths, options, command = self._sheet.paths, self._sheet.options(), self.lavender.command

        def work() -> Proposal:
            from lavender_tui.resume import Options, Target, propose

            return propose(Target(paths=paths), Options(command=command, **options))

        return work

    @property
    def _is_waiting(self) -> bool:
        return self._answered != self._sequence

    def _look_for_answer(self) -> None:
        """Once a second: an answer that came by no message, and how long it takes, where it takes long."""
        question = self._question
        if not self._is_waiting or question is None:
            return
        if question.is_over:
            self.post_message(_message(self._sequence, question))
        else:
            self._show_verdict()

    def action_check_again(self) -> None:
        """What is chosen, once more; a check that hangs is left to itself."""
        if self._launching_since is None:
            self._ask()

    def _waiting_spans(self) -> list[Span]:
        seconds = self._question.seconds if self._question is not None else 0.0
        if seconds >= HANGING_SECONDS:
            words = f"no answer for {int(seconds)} s: perhaps a disk that hangs"
            return [(" … ", "warn"), (words, "strong"), ("   F5", "accent"), (" checks again", "")]
        since = f": {int(seconds)} s" if seconds >= SLOW_SECONDS else ""
        if self._is_to_launch:
            return [(" … ", "accent"), (f"checking, then launches{since}", "strong"), ("  esc stops it", "quiet")]
        return [(" … ", "quiet"), (f"checking{since}", "quiet")]

    def _error_spans(self) -> list[Span]:
        """What went wrong; where it was the check, how to try it again."""
        again: list[Span] = [("   F5", "accent"), (" checks again", "")] if self._proposal is None else []
        return [(" ✗ ", "bad"), (clean(self._error or "", 600), ""), *again]


def _message(sequence: int, question: Question) -> ProposalMade:
    return ProposalMade(sequence, question.answer, question.error)
