"""The questions of the sheet: asked whenever something is chosen, answered once, and never waited for in vain."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lavender_tui.model.ending import stopping_words
from lavender_tui.model.gone import as_gone
from lavender_tui.model.run import Run
from lavender_tui.model.text import clean
from lavender_tui.tui.messages import ProposalMade
from lavender_tui.tui.question import Question
from lavender_tui.tui.screens.launching import Launching
from lavender_tui.tui.widgets.inks import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lavender_tui.model.plan import Proposal
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot

SLOW_SECONDS, HANGING_SECONDS = 3.0, 15.0
READABLE_SECONDS = 2.0  # so long an answer stands where the run changes faster than it can be checked


class Checking(Launching):
    """The part of the sheet that checks what is chosen."""

    _answered = -1
    _question: Question | None = None
    _asked_of: object = None  # how the run stood when the question was asked
    _hurries = 0  # questions in a row that a change of the run has asked
    _answered_at = 0.0
    _note = ""
    _meant: str  # the key of the run whose resume was asked for

    def _show_rows(self) -> None:
        raise NotImplementedError

    def _show_note(self) -> None:
        raise NotImplementedError

    def _ask(self) -> None:
        """A new question; answers to older ones are dropped."""
        self.end_look()
        self._sequence += 1
        self._asked_of = standing(self._sheet.run)
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

    @property
    def _is_quick(self) -> bool:
        """Did the answer come soon, so that another one would as well?"""
        return self._question is not None and self._question.seconds < SLOW_SECONDS

    def _look_for_answer(self) -> None:
        """Once a second: an answer that came by no message, and how long it takes, where it takes long."""
        question = self._question
        if not self._is_waiting or question is None:
            return
        if question.is_over:
            self.post_message(_message(self._sequence, question))
        else:
            self._show_verdict()

    # What changes while the sheet is open

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """The run as it is now: what it saves meanwhile can be chosen, and its end is noticed."""
        run = next((one for one in snapshot.runs if one.key == self._run.key), None)
        if self._note and self._meant != self._run.key:
            self._follow_meant(snapshot.runs)
        if run is None and not self._sheet.run.is_unread:
            run = as_gone(self._sheet.run)
        if run is None or run.is_unread or run is self._sheet.run:
            return
        self._sheet.follow(run)
        if self._launching_since is None:
            self._show_rows()
            self._show_verdict()
            self._ask_if_changed()

    def _follow_meant(self, runs: Sequence[Run]) -> None:
        """Why it isn't the sheet of the run that was meant may be over."""
        from lavender_tui.tui.origin import origin

        meant = next((one for one in runs if one.key == self._meant), None)
        if meant is not None and not meant.is_unread:
            found = origin(meant, runs)
            is_still_so = found.run.key == self._run.key
            self._note = found.note if is_still_so else f"{meant.title} has a save by now: esc, then r resumes that one"
            self._show_note()

    def _ask_if_changed(self, *, at_once: bool = False) -> bool:
        """Ask once more where the run isn't any more what was asked of; Enter, once pressed, is pressed for that.

        Where it changes all the time each answer is left to be read for a moment, unless Enter waits for the next one.
        """
        from lavender_tui.tui.screens.ask import Ask

        is_busy = self._is_waiting or self.is_looking or self._launching_since is not None
        if is_busy or not self._is_outdated or isinstance(self.app.screen, Ask):
            return False
        is_wished = self._is_to_launch
        is_to_be_read = self._hurries and time.monotonic() - self._answered_at < READABLE_SECONDS
        if is_to_be_read and not (at_once or is_wished):
            return False
        self._hurries += 1
        self._ask()
        if is_wished:
            self._launch_when = self._sequence
            self._show_verdict()
        return True

    @property
    def _is_outdated(self) -> bool:
        """Is the run another one by now than the one that was asked of?"""
        return self._asked_of != standing(self._sheet.run)

    def _stopping_spans(self) -> list[Span]:
        """How far a stop has come; [] where none is under way. Its end is checked by itself."""
        words = stopping_words(self._sheet.run, time.time())
        return [(" … ", "accent"), (words, "strong"), ("   then checked", "quiet")] if words else []

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
        where = self._sheet.run.out_of_reach
        words = f"{where}: nothing of it can be resumed" if where and self._proposal is None else self._error
        return [(" ✗ ", "bad"), (clean(words or "", 600), ""), *again]

    @property
    def _is_nothing_planned(self) -> bool:
        """Is there an answer, and no plan in it that a key could do anything with?"""
        return not self._is_waiting and self._launching_since is None and self._proposal is None


def _message(sequence: int, question: Question) -> ProposalMade:
    return ProposalMade(sequence, question.answer, question.error)


def standing(run: Run) -> object:
    """What decides whether and from where a run can be resumed: two equal ones need no other check."""
    end = run.end
    return (
        tuple((one.path, one.wholeness, one.facts if one.is_whole else None) for one in run.checkpoints),
        {(one.pid, one.start_ticks) for one in (*run.processes, *run.leftovers) if one.role != "helper"},
        run.is_alive, run.is_stopping, run.known_bad,
        None if end is None else (end.ended_at, end.error),
    )  # fmt: skip
