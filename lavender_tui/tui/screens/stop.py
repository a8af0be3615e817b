"""The box that asks how a run shall end. The safe answer is the default: enter leaves it running."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.widgets import Static

from lavender_tui.errors import LavenderError
from lavender_tui.model.run import Run
from lavender_tui.tui import stop_choices
from lavender_tui.tui.messages import HandJudged, RequestSeen, TreeSeen
from lavender_tui.tui.screens.ask import Ask
from lavender_tui.tui.screens.boxed import LOW, Boxed, Brief
from lavender_tui.tui.stop_choices import KILL, LEAVE, Choice
from lavender_tui.tui.widgets.inks import INKS, Span
from lavender_tui.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from lavender_tui.model.ending import StopRequest
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.hand import HandRun
    from lavender_tui.watch.observe import Snapshot

_KEY, _TITLE = 3, 27


class StopBox(Boxed["str | None"]):
    """Dismissed with the answer of the choice taken, or None when there was nothing left to stop.

    Live: it says what the run does now, and offers only what can still be done. Killing asks once more.
    """

    COMPONENT_CLASSES = INKS
    BINDINGS = [  # noqa: RUF012
        ("n,escape,enter,q", f"choose('{LEAVE}')", "No"),
        *((key, f"press('{key}')", key) for key in "yseicK"),
        ("j", "scroll(1)", "Down"),
        ("k", "scroll(-1)", "Up"),
    ]

    def __init__(self, run: Run, *, grace: float) -> None:
        super().__init__()
        self._run, self._grace = run, grace
        self._asked: list[StopRequest | None] = []  # what request.json says now; empty until it was looked at
        self._hand: HandRun | str | None = None  # which processes are proved its own, where that needs a proof

    def compose(self) -> ComposeResult:
        with self.box("stop"):
            yield Static(id="stop-title", markup=False)
            yield Lines(hang=9, id="stop-facts")
            with self.foot():
                yield Brief(hang=_KEY + _TITLE, id="stop-choices")

    def on_mount(self) -> None:
        self._show(is_ready=True)
        self.set_interval(1.0, self._tick)
        self._look_at_the_request()
        if stop_choices.needs_proof(self._run):
            self._judge()

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """The run as it is now; one that has ended needs no answer."""
        found = next((run for run in snapshot.runs if run.key == self._run.key), None)
        if found is None or not stop_choices.may_be_stopped(found):
            self._leave(None)
            return
        self._run = found
        self._show()

    def _tick(self) -> None:
        self._show()
        self._look_at_the_request()

    @property
    def _now(self) -> Run:
        """The run with what it is asked for at this moment: the list in the background is up to some seconds old."""
        if not self._asked or self._run.is_stopping or not stop_choices.may_be_stopped(self._run):
            return self._run
        return replace(self._run, request=self._asked[0])

    def _choices(self) -> list[Choice]:
        is_proved = not stop_choices.needs_proof(self._run) or not isinstance(self._hand, str | None)
        return stop_choices.choices(self._now, grace=self._grace, now=time.time(), is_proved=is_proved)

    def _show(self, *, is_ready: bool = False) -> None:
        if not (is_ready or self.is_mounted):
            return
        self.query_one("#stop-title", Static).update(Text(stop_choices.title(self._run), style="bold"))
        self.query_one("#stop-facts", Lines).show(stop_choices.facts(self._now, time.time(), self._hand))
        self._show_choices()

    def _show_choices(self) -> None:
        """On a low terminal, where each has a line, what follows from it stands close to what it does."""
        choices = self._choices()
        widest = 0 if self.size.height < LOW else max(_TITLE, *(len(one.title) for one in choices))
        self.query_one("#stop-choices", Lines).show([_spans(one, widest) for one in choices])

    def on_resize(self) -> None:
        if self.is_mounted:
            self._show_choices()

    def action_press(self, key: str) -> None:
        """Only what is offered counts: a key whose line has just gone does nothing."""
        chosen = next((one for one in self._choices() if one.key == key), None)
        if chosen is None:
            return
        if chosen.answer == KILL:
            self._look_at_the_tree()
        else:
            self.dismiss(chosen.answer)

    def action_choose(self, answer: str) -> None:
        self.dismiss(answer)

    @work(thread=True, exclusive=True, group="tree", exit_on_error=False, description="tree")
    def _look_at_the_tree(self) -> None:
        """What a kill ends is looked up when it is asked for: the list in the background is some seconds old."""
        from lavender_tui.launch.living import as_tree, tree

        try:
            hand = None if isinstance(self._hand, str) else self._hand
            members = tree(self._run.path) if hand is None else as_tree(hand.members)
        except OSError:
            members = []
        self.post_message(TreeSeen(members))

    @work(thread=True, exclusive=True, group="request", exit_on_error=False, description="request")
    def _look_at_the_request(self) -> None:
        from lavender_tui.launch.requests import read_request

        self.post_message(RequestSeen(read_request(self._run.path)))

    def on_request_seen(self, message: RequestSeen) -> None:
        if self._asked != [message.request]:
            self._asked = [message.request]
            self._show()

    @work(thread=True, exclusive=True, group="judge", exit_on_error=False, description="judge")
    def _judge(self) -> None:
        """A run that was started by hand: what is surely its own, looked up now and once more before the signal."""
        from lavender_tui.watch.hand import judge

        try:
            self.post_message(HandJudged(judge(self._run.path)))
        except LavenderError as error:
            self.post_message(HandJudged(f"{error.what}. {error.hint}" if error.hint else error.what))
        except OSError as error:
            self.post_message(HandJudged(str(error)))

    def on_hand_judged(self, message: HandJudged) -> None:
        self._hand = message.found
        self._show()

    def on_tree_seen(self, message: TreeSeen) -> None:
        ask = Ask(
            stop_choices.kill_question(self._run, message.members),
            detail=stop_choices.kill_costs(self._run, time.time()),
            listing=stop_choices.kill_listing(message.members),
            yes="kill at once (SIGKILL)",
        )
        if self.is_in_front:
            self.app.push_screen(ask, self._kill_answered)

    def _kill_answered(self, yes: bool | None) -> None:
        if yes:
            self.dismiss(KILL)

    def _leave(self, answer: str | None) -> None:
        """Also while the second question is open on top: the run has answered both."""
        if self.app.screen is not self and self in self.app.screen_stack:
            self.app.pop_screen()
        self.dismiss(answer)


def _spans(choice: Choice, widest: int) -> list[Span]:
    what = "(enter)" if choice.answer == LEAVE else choice.what
    gap = " " if widest else "  "
    return [(f"{choice.key:<{_KEY}}", "accent"), (f"{choice.title:<{widest}}", ""), (f"{gap}{what}", "quiet")]
