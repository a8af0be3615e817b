"""Stopping the run under the cursor: the box, what it answers, and what is said of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.app import App
from textual.notifications import SeverityLevel
from textual.screen import Screen

from lavender_tui.errors import LavenderError
from lavender_tui.model.ending import StopAt, request_words
from lavender_tui.model.run import Run
from lavender_tui.model.text import clean, one_line
from lavender_tui.tui.deeds import deed
from lavender_tui.tui.orderly import Orderly

if TYPE_CHECKING:
    from lavender_tui.launch.stop_order import How, StopOrder, StopOutcome
    from lavender_tui.tui.app import LavenderApp
    from lavender_tui.tui.messages import Owed, StopEnded

_TITLE = "Stop"
_LONGER = 8.0  # seconds for a notice with something to read


class StopActions(Orderly, Screen[None], inherit_bindings=False):
    """Subclasses say which run is under the cursor."""

    @property
    def lavender(self) -> LavenderApp:
        return cast("LavenderApp", self.app)

    @property
    def cursor_run(self) -> Run | None:
        raise NotImplementedError

    def may_be_stopped(self, run: Run) -> bool:
        """Is there something to choose? Nothing is known of a run that isn't read yet."""
        if run.is_unread:
            return False
        from lavender_tui.tui.stop_choices import may_be_stopped

        return may_be_stopped(run)

    def action_stop(self) -> None:
        """Asks how; nothing is done before that is answered."""
        from lavender_tui.tui.screens.stop import StopBox

        run = self.cursor_run
        if run is not None and self.may_be_stopped(run):
            self.app.push_screen(StopBox(run, grace=self.lavender.grace_seconds), partial(self._stop_answered, run))

    def _stop_answered(self, run: Run, answer: str | None) -> None:
        from lavender_tui.launch.stop_order import StopOrder
        from lavender_tui.tui.stop_choices import COPY, INTERRUPT, KILL, WITHDRAW, command_elsewhere

        run = next((one for one in self.lavender.runs if one.key == run.key), run)  # as the box showed it last
        if answer == COPY:
            command = command_elsewhere(run) or ""
            self.lavender.copy(command, command)
        elif not answer:
            words = "It has ended" if answer is None else "Left as it is"
            self.notify(clean(run.title, 80), title=words, markup=False)
        elif answer == WITHDRAW or answer in set(StopAt):
            self._request(run, answer)
        else:
            how: How = "kill" if answer == KILL else "interrupt" if answer == INTERRUPT else "graceful"
            title = {"kill": "Killing", "interrupt": "Interrupting"}.get(how, "Stopping")
            self.notify(clean(run.title, 80), title=title, markup=False)
            self._stop(run, StopOrder(how=how, grace=self.lavender.grace_seconds))

    def _stop(self, run: Run, order: StopOrder) -> None:
        """In a thread that nobody waits for: leaving the app changes nothing where a supervisor sees to the end."""
        work = (self.lavender, run, order)
        threading.Thread(target=self._stop_and_wait, args=work, name="lavender-stop", daemon=True).start()

    def _stop_and_wait(self, app: LavenderApp, run: Run, order: StopOrder) -> None:
        from lavender_tui.launch.stop_order import CannotRecord
        from lavender_tui.tui.messages import StopEnded

        try:
            outcome = _carry_out(run, order)
        except CannotRecord as error:
            ended = StopEnded(run.key, error.what, is_error=True, may_go_on=order)
        except (LavenderError, OSError) as error:
            ended = StopEnded(run.key, str(error), is_error=True)
        except Exception as error:  # whatever it is, one sentence is owed
            words = f"the stop itself broke off: {type(error).__name__} ({one_line(str(error), 300)})"
            ended = StopEnded(run.key, words, is_error=True)
        else:
            shows_itself = outcome.has_ended and outcome.supervised and outcome.unrecorded is None
            ended = StopEnded(run.key, "" if shows_itself else outcome.words, is_error=not outcome.has_ended)
        tell_or_hand_over(self, app, ended, StopActions)

    @deed("stop")
    def _request(self, run: Run, answer: str) -> None:
        from lavender_tui.launch import ask_to_stop, withdraw
        from lavender_tui.launch.asking import why_nothing_to_withdraw
        from lavender_tui.tui.messages import StopEnded
        from lavender_tui.tui.stop_choices import WITHDRAW

        try:
            if answer != WITHDRAW:
                words = request_words(ask_to_stop(run.path, StopAt(answer)))
            else:
                words = "withdrawn: it goes on" if withdraw(run.path) else why_nothing_to_withdraw(run.path)
        except (LavenderError, OSError) as error:
            ended = StopEnded(run.key, str(error), is_error=True)
        else:
            ended = StopEnded(run.key, words)
        tell_or_hand_over(self, self.app, ended, StopActions)

    def on_stop_ended(self, message: StopEnded) -> None:
        from lavender_tui.tui.screens.ask import Ask

        if message.may_go_on is not None:
            ask = Ask("Stop it all the same?", detail=message.words, yes="stop it all the same")
            self.app.push_screen(ask, partial(self._stop_unrecorded, message.run_path, message.may_go_on))
            return
        for earlier in [one for one in self.lavender.announcements if one.title == _TITLE]:
            self.lavender.withdraw(earlier)  # "stops at …" is not true any more beside "withdrawn"
        severity: SeverityLevel = "error" if message.is_error else "information"
        if message.words:
            self.notify(clean(message.words, 400), title=_TITLE, severity=severity, markup=False, timeout=_LONGER)
        self.lavender.feed.rescan_soon()

    def _stop_unrecorded(self, path: str, order: StopOrder, yes: bool | None) -> None:
        run = next((one for one in self.lavender.runs if one.key == path), None)
        if yes and run is not None:
            self._stop(run, replace(order, unrecorded=True))
        else:
            self.notify("It goes on", title="Not stopped", markup=False)


def tell_or_hand_over(asker: Orderly, app: App[Any], answer: Owed, kind: type[Screen[Any]]) -> None:
    """From a thread: the screen that asked may have been left meanwhile. Another of its kind tells it then."""
    answer.heirs = kind
    if not (asker.is_attached and asker.post_message(answer)):
        asker.hand_on(answer, app)


def why_not_stopped(run: Run) -> str:
    """Why there is nothing to choose, in one line."""
    if run.is_unread:
        return "nothing is known of it yet: it is being read"
    if run.is_gone and run.leftovers:
        return run.state_reason
    return f"nothing to stop: it is {run.state.value}, and no process of it is left"


def _carry_out(run: Run, order: StopOrder) -> StopOutcome:
    """Of what a run left over, and of one that was started by hand, only what the box has shown is signalled."""
    from lavender_tui.launch import stop
    from lavender_tui.launch.left_over import end_left_over
    from lavender_tui.launch.stop_order import is_ours
    from lavender_tui.tui.stop_choices import needs_proof
    from lavender_tui.watch.hand import stop_by_hand

    if run.leftovers and not run.is_alive:
        shown = [one for one in run.leftovers if one.tells_itself or not run.is_gone]
        return end_left_over(run.path, shown, kill=order.how == "kill", grace=order.grace)
    if needs_proof(run) and not is_ours(run.path):
        return stop_by_hand(run.path, order, shown=run.processes)
    return stop(run.path, order)
