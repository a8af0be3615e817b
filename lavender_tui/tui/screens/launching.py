"""From Enter on the sheet to a training that runs, or the reason why not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from lavender_tui.errors import LavenderError, ResumedAlready, in_words
from lavender_tui.model.plan import Proposal
from lavender_tui.model.run import Run
from lavender_tui.tui import consequences
from lavender_tui.tui.deeds import deed
from lavender_tui.tui.messages import LookEnded, ResumeEnded
from lavender_tui.tui.screens.deep_look import DeepLook, before_launch
from lavender_tui.tui.sheet import ROWS, Sheet
from lavender_tui.tui.warming import WarmChild
from lavender_tui.tui.widgets.choice_row import ChoiceRow

if TYPE_CHECKING:
    from lavender_tui.tui.app import LavenderApp


class Launching(DeepLook):
    """The part of the sheet that launches."""

    _run: Run
    _sheet: Sheet
    _proposal: Proposal | None = None
    _error: str | None = None
    _launching_since: float | None = None
    _is_cancelled = False
    _warm: WarmChild
    _sequence = 0
    _launch_when = -1  # the question whose answer launches, where nothing refuses: Enter came before it

    @property
    def _is_waiting(self) -> bool:
        raise NotImplementedError

    def _ask_if_changed(self, *, at_once: bool = False) -> bool:
        raise NotImplementedError

    @property
    def lavender(self) -> LavenderApp:
        return cast("LavenderApp", self.app)

    def action_launch(self) -> None:
        if self._launching_since is not None or self.is_looking:
            return
        if self._is_waiting or self._ask_if_changed(at_once=True):
            self._launch_when = self._sequence
            self._show_verdict()
            return
        if self._proposal is None or self._proposal.is_refused:
            wrong = next(iter(self._sheet.refusals), ROWS[0])
            row = self.query_one(f"#row-{wrong}", ChoiceRow)
            row.focus()
            row.scroll_visible(animate=False)
            self._show_verdict()
            return
        from lavender_tui.tui.screens.run_actions import resumed_before

        before = resumed_before(self._proposal)
        if before:
            self._ask_again(before)
        else:
            self._start(again=False)

    @property
    def _is_to_launch(self) -> bool:
        """Was Enter pressed for the question that stands? Another question forgets it."""
        return self._launch_when == self._sequence

    def _launch_if_asked(self) -> None:
        """What Enter asked for before the answer; not under another screen, nor where something refuses."""
        is_asked, self._launch_when = self._is_to_launch, -1
        is_ready = self._error is None and self._proposal is not None and not self._proposal.is_refused
        if is_asked and is_ready and self.is_in_front:
            self.action_launch()

    def _start(self, *, again: bool) -> None:
        assert self._proposal is not None
        self._launching_since = time.monotonic()
        self._error, self.progress = None, None
        self._show_verdict()
        self._carry_out(self._proposal, again, self._sheet.is_to_be_kept)

    @deed("launch")
    def _carry_out(self, proposal: Proposal, again: bool, keeps: bool) -> None:
        from lavender_tui.resume import carry_out

        words = consequences.launched_words(proposal.plan) if proposal.plan else ""
        sequence = self._sequence
        try:
            proposal = before_launch(
                proposal,
                lambda done, total: self.tell_progress(sequence, done, total),
                lambda: self._is_cancelled,
            )
            if proposal.is_refused:
                self.post_message(LookEnded(sequence, proposal))
            launched = carry_out(proposal, again=again, child=self._warm.child)
        except ResumedAlready as error:
            self.post_message(ResumeEnded(self._run.key, error=str(error), may_repeat=not again))
        except (LavenderError, OSError) as error:
            self.post_message(ResumeEnded(self._run.key, error=in_words(error)))
        else:
            if keeps:
                words += _kept(launched.run_dir, self.lavender.command)
            self.post_message(ResumeEnded(self._run.key, run_dir=launched.run_dir, words=words))

    def on_resume_ended(self, message: ResumeEnded) -> None:
        self._launching_since = None
        if message.run_dir is not None:
            self.dismiss((message.run_dir, message.words))
            return
        self._error = "nothing was launched: you stopped it" if self._is_cancelled else message.error
        self._is_cancelled = False
        self._warm.close()
        self._warm = WarmChild()
        self._show_verdict()
        if message.may_repeat:
            self._ask_again(message.error or "")

    def _ask_again(self, reason: str) -> None:
        from lavender_tui.tui.screens.ask import Ask

        def answered(yes: bool | None) -> None:
            if yes and (self._is_waiting or self._proposal is None):  # a stop that ended meanwhile had it checked anew
                self.action_launch()
            elif yes:
                self._start(again=True)

        self.app.push_screen(Ask("Resume it once more?", detail=reason, yes="resume once more"), answered)


def _kept(run_dir: str, command: tuple[str, ...]) -> str:
    """Start a keeper of the run that was launched; how that went, after the words on the launch."""
    from lavender_tui.config import load
    from lavender_tui.resume.detached import keep_detached
    from lavender_tui.resume.keeper import Limits

    try:
        started = keep_detached(run_dir, Limits.of(load()[0].supervise), command)
    except (LavenderError, OSError) as error:
        return f"; but nobody keeps it alive: {in_words(error)}"
    if started.code is not None:
        return f"; but nobody keeps it alive: {started.said}"
    return f"; kept alive by pid {started.pid}"
