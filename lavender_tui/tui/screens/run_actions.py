"""What can be done with a run, the same from the list and from its page: resume, stop, log, copy.

What a key needs is imported when it is pressed: the first frame has no use for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.worker import Worker, WorkerState

from lavender_tui.errors import LavenderError, ResumedAlready, in_words
from lavender_tui.model.run import Run, RunState
from lavender_tui.model.text import clean, one_line
from lavender_tui.tui.deeds import deed
from lavender_tui.tui.screens.stop_actions import StopActions, tell_or_hand_over, why_not_stopped

if TYPE_CHECKING:
    from lavender_tui.model.checkpoint import Checkpoint
    from lavender_tui.model.plan import Proposal
    from lavender_tui.tui.messages import DeedBroke, ResumeEnded

_LONGER = 8.0  # seconds for a notice with something to read
_CHECKING, _AGAIN = "Checking, then resuming", "Resuming once more"  # said until it is done
_MOST_SECONDS = 600.0
_IN_DIRECTORY = ("resume", "resume_now", "log", "next_error")  # what needs the run's directory


def refusal_words(proposal: Proposal) -> str:
    """The first thing that refuses, with its remedy."""
    from lavender_tui.model.plan import Verdict
    from lavender_tui.tui.consequences import remedy_of

    for check in proposal.checks:
        if check.verdict is Verdict.REFUSE:
            return ". ".join(part.rstrip(".") for part in (check.what, check.evidence, remedy_of(check)) if part)
    return "there is nothing to resume from"


def resumed_before(proposal: Proposal) -> str:
    """The warning that the run was resumed already; empty where it was not."""
    from lavender_tui.model.plan import Verdict

    found = (check for check in proposal.checks if check.id == "source.resumed" and check.verdict is Verdict.WARN)
    return next((f"{check.what}; {check.remedy}" if check.remedy else check.what for check in found), "")


def is_error_known(run: Run) -> bool:
    """Is there an error to go to? Of a run that lives nobody knows before its log is gone through."""
    failure = run.end.failure if run.end is not None else None
    return run.is_unread or run.state is RunState.FAILED or (failure is not None and run.state is not RunState.STOPPED)


def _name_of(path: str) -> str:
    return clean(path.rstrip("/").rsplit("/", 1)[-1], 80)


class RunActions(StopActions, inherit_bindings=False):
    """Actions on `cursor_run`. Subclasses say which run that is."""

    _resuming = ""  # the key of the run on which a resume at once was asked for last

    @property
    def cursor_checkpoint(self) -> Checkpoint | None:
        """A checkpoint that was chosen instead of the default one."""
        return None

    @property
    def passed_over(self) -> str:
        """Why the checkpoint under the cursor isn't the one that the sheet begins with."""
        return ""

    @property
    def known_runs(self) -> Iterable[Run]:
        return self.lavender.runs

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that can't work on this run are hidden."""
        run = self.cursor_run if self.is_mounted else None
        if not self.lavender.may(action):
            return False
        if run is not None and run.out_of_reach and action in _IN_DIRECTORY:
            return False
        if action == "next_error":
            return run is not None and is_error_known(run)
        if action in ("resume", "resume_now", "log", "copy_of_run", "open"):
            return run is not None
        if action == "stop":
            return run is not None and self.may_be_stopped(run)
        return True

    def why_not(self, action: str) -> str:
        """Why a hidden key can't do what it says; empty where nothing is to be said."""
        run = self.cursor_run if self.is_mounted else None
        if run is None:
            return "no run is under the cursor"
        if run.out_of_reach and action in _IN_DIRECTORY:
            return run.out_of_reach
        if action == "next_error":
            return "no error of this run is known; l shows its log"
        return why_not_stopped(run) if action == "stop" else ""

    def action_resume(self) -> None:
        """The sheet for this run; a launch brings the cursor to the new run."""
        from lavender_tui.tui.origin import origin
        from lavender_tui.tui.screens.resume import ResumeScreen

        if self.cursor_run is not None:
            found = origin(self.cursor_run, self.known_runs)
            sheet = ResumeScreen(
                found.run,
                self.cursor_checkpoint or found.checkpoint,
                note=self.passed_over or found.note,
                meant=self.cursor_run.key,
            )
            self.app.push_screen(sheet, self.show_launched)

    def action_resume_now(self) -> None:
        """With the defaults and no sheet; a refusal opens the sheet, where its reasons stand."""
        from lavender_tui.tui.origin import origin

        if self.cursor_run is not None:
            self._resuming = self.cursor_run.key
            self._begin_resume(origin(self.cursor_run, self.known_runs).path, again=False)

    def _begin_resume(self, path: str, *, again: bool) -> None:
        title = _AGAIN if again else _CHECKING
        self.lavender.notify(_name_of(path), title=title, timeout=_MOST_SECONDS, everywhere=True)
        self._resume_now(path, self.lavender.command, self.lavender.world_size, again)

    @deed("resume-now")
    def _resume_now(self, path: str, command: tuple[str, ...], world_size: int | None, again: bool) -> None:
        from lavender_tui.resume import Options, Target, carry_out, propose
        from lavender_tui.tui.consequences import launched_words
        from lavender_tui.tui.messages import ResumeEnded
        from lavender_tui.tui.screens.deep_look import before_launch

        try:
            proposal = propose(Target(paths=(path,)), Options(command=command, world_size=world_size))
            if proposal.is_refused:
                ended = ResumeEnded(path, error=refusal_words(proposal))
            elif not again and (before := resumed_before(proposal)):
                ended = ResumeEnded(path, error=before, may_repeat=True)
            else:
                proposal = before_launch(proposal, lambda done, total: None, lambda: False)
                words = launched_words(proposal.plan) if proposal.plan else ""
                ended = ResumeEnded(path, run_dir=carry_out(proposal, again=again).run_dir, words=words)
        except ResumedAlready as error:
            ended = ResumeEnded(path, error=str(error), may_repeat=not again)
        except (LavenderError, OSError) as error:
            ended = ResumeEnded(path, error=in_words(error))
        tell_or_hand_over(self, self.app, ended, RunActions)

    def on_resume_ended(self, message: ResumeEnded) -> None:
        from lavender_tui.tui.screens.ask import Ask

        for said in self.lavender.announcements:
            if said.title in (_CHECKING, _AGAIN) and said.words == _name_of(message.source):
                self.lavender.withdraw(said)
        if message.run_dir is not None:
            is_there = self.is_in_front and self.cursor_run is not None and self.cursor_run.key == self._resuming
            launched = (message.run_dir, message.words)
            (self.show_launched if is_there else self._say_launched)(launched)
            return
        if message.may_repeat:
            ask = Ask("Resume it once more?", detail=message.error or "", yes="resume once more")
            self.app.push_screen(ask, partial(self._repeat_answered, message.source))
            return
        words = clean(message.error or "", 400)
        self.notify(
            f"{words} (r opens the sheet)", title="Not resumed", severity="error", markup=False, timeout=_LONGER
        )

    def _repeat_answered(self, path: str, yes: bool | None) -> None:
        if yes:
            self._begin_resume(path, again=True)

    @on(Worker.StateChanged)
    def _worker_broke(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self._say_broken(one_line(f"{type(event.worker.error).__name__}: {event.worker.error}", 400))

    def on_deed_broke(self, message: DeedBroke) -> None:
        self._say_broken(message.words)

    def _say_broken(self, words: str) -> None:
        self.notify(words, title="That did not work", severity="error", markup=False, timeout=_LONGER)

    def show_launched(self, launched: tuple[str, str] | None) -> None:
        """Back where the runs are, the cursor on the new one as soon as it is seen; says what was done."""
        if launched is None:
            return
        self._say_launched(launched)
        self.lavender.show_run(launched[0])

    def _say_launched(self, launched: tuple[str, str]) -> None:
        """And nothing else: whoever is elsewhere by now stays there, for the next key is meant for what is seen."""
        run_dir, words = launched
        said = f"{_name_of(run_dir)} {words}".strip()
        self.lavender.notify(said, title="Resumed as", timeout=_LONGER, everywhere=True)
        self.lavender.feed.rescan_soon()

    # Log and copy

    def action_log(self) -> None:
        from lavender_tui.tui.screens.log import LogScreen

        if self.cursor_run is not None:
            self.app.push_screen(LogScreen(self.cursor_run))

    def action_next_error(self) -> None:
        """The log at the error that ended the run."""
        from lavender_tui.tui.screens.log import LogScreen

        if self.cursor_run is not None:
            self.app.push_screen(LogScreen(self.cursor_run, at_error=True))

    def action_copy_of_run(self) -> None:
        from lavender_tui.tui.screens.copying import CopyMenu

        if self.cursor_run is not None:
            self.app.push_screen(CopyMenu(self.cursor_run))
