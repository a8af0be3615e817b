"""The resume sheet: choices, what follows from them at once, every check, what runs. Enter does it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from lavender_tui.model import command_line
from lavender_tui.model.export import proposal_document
from lavender_tui.model.plan import ResumePlan, Verdict
from lavender_tui.model.run import Run
from lavender_tui.model.text import clean, strict_json
from lavender_tui.tui import consequences, keys
from lavender_tui.tui.messages import DeedBroke, LookEnded, ProposalMade, StopEnded
from lavender_tui.tui.screens.checking import Checking
from lavender_tui.tui.screens.stop_actions import StopActions, why_not_stopped
from lavender_tui.tui.sheet import CHECKPOINT, KEEP, ROWS, WORKERS, WORLD, Sheet
from lavender_tui.tui.sheet_rows import view
from lavender_tui.tui.warming import WarmChild
from lavender_tui.tui.widgets.choice_row import ChoiceRow
from lavender_tui.tui.widgets.inks import INKS, Span
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from lavender_tui.model.checkpoint import Checkpoint

_OF_A_PLAN = ("launch", "verify", "copy_command", "dry_run")


class ResumeScreen(Checking, StopActions):
    """Dismissed with the new run's directory and what was done, or None when nothing was launched."""

    COMPONENT_CLASSES = INKS
    PLACE = keys.RESUME
    BINDINGS = [  # noqa: RUF012
        *Screen.BINDINGS,  # tab among them: the actions on a run come without
        *keys.bindings(keys.RESUME),
        ("pagedown", "scroll_body(1)", "Scroll down"),
        ("pageup", "scroll_body(-1)", "Scroll up"),
    ]
    AUTO_FOCUS = "#row-world_size"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (104, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (9, "-low"), (30, "-high")]  # noqa: RUF012

    def __init__(self, run: Run, checkpoint: Checkpoint | None = None, *, note: str = "", meant: str = "") -> None:
        """`checkpoint`: the one to begin with, instead of the newest usable.

        `note`: why it is this run's sheet, where another one was `meant` (its key).
        """
        super().__init__()
        self._note = note
        self._run = run
        self._meant = meant or run.key
        self._first = checkpoint
        self._warm = WarmChild()

    def compose(self) -> ComposeResult:
        self._sheet = Sheet(self._run, self.lavender.world_size)
        if self._first is not None:
            self._sheet.choose(CHECKPOINT, self._first)
        yield Lines(id="title")
        if self._note:
            yield Lines(id="note")
        with VerticalScroll(id="body", can_focus=False):
            with Horizontal(id="above"):
                with Vertical(id="choices"):
                    for row in ROWS:
                        yield ChoiceRow(row, is_number=row in (WORLD, WORKERS), is_roll=row == ROWS[0])
                yield Lines(hang=10, id="follows")
            with Horizontal(id="below"):
                yield Lines(id="checks")
                yield Lines(id="command")
        yield Lines(id="verdict")
        yield KeyBar(keys.RESUME, id="keys")

    def on_mount(self) -> None:
        self._show_note()
        self._show_rows()
        self._ask()
        body = self.query_one("#body", VerticalScroll)
        for what in ("scroll_y", "virtual_size", "size"):
            self.watch(body, what, self._show_verdict, init=False)
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        self._warm.close()

    # Asking and being answered

    def on_proposal_made(self, message: ProposalMade) -> None:
        if message.sequence != self._sequence or not self._is_waiting:
            return
        self._answered, self._answered_at = message.sequence, time.monotonic()
        if self._is_quick and not self._hurries and self._ask_if_changed():
            return  # what it says is over: the next answer is as near
        self._hurries = self._hurries if self._is_outdated else 0
        self._proposal, self._error = message.proposal, message.error
        self._sheet.adopt(message.proposal)
        plan = message.proposal.plan if message.proposal else None
        if plan is not None and plan.dataset is not None:
            self._warm.start()
        self._show_rows()
        self._show_answer()
        if not self._ask_if_changed():  # one that took long is shown all the same
            self._launch_if_asked()

    def on_look_ended(self, message: LookEnded) -> None:
        if message.sequence == self._sequence:
            self.end_look()
            self._error = message.error
            self._proposal = message.proposal or self._proposal
            self._sheet.adopt(self._proposal)
            if self._is_refused:
                self._sheet.hold()
            self._show_rows()
            self._show_answer()

    @on(Worker.StateChanged)
    def _worker_broke(self, event: Worker.StateChanged) -> None:
        """Something nobody foresaw is shown as one sentence, in place."""
        if event.state is WorkerState.ERROR:
            self._say_broken(f"{type(event.worker.error).__name__}: {event.worker.error}")

    def on_deed_broke(self, message: DeedBroke) -> None:
        self._say_broken(message.words)

    def _say_broken(self, words: str) -> None:
        self._launching_since, self._launch_when = None, -1
        self.end_look()
        self._error = f"it broke off: {words}"
        self._show_answer()

    # What is shown

    def _show_rows(self) -> None:
        for row in ROWS:
            self._show_row(row)
        self.query_one("#title", Lines).show(
            [[(" resume ", "accent"), (clean(self._run.title, 80), "strong"), ("   nothing happens until ⏎", "quiet")]]
        )

    def _show_note(self) -> None:
        for line in self.query("#note").results(Lines):
            line.show([[(" ! ", "warn"), (clean(self._note, 300), "")]])

    def _show_row(self, row: str) -> None:
        self.query_one(f"#row-{row}", ChoiceRow).show(view(self._sheet, row, time.time()))

    def _show_answer(self) -> None:
        proposal = self._proposal
        plan = proposal.plan if proposal else None
        follows = consequences.lines(plan, self._sheet.checkpoint) if plan else [[("nothing can be planned", "quiet")]]
        self.query_one("#follows", Lines).show(follows)
        self.query_one("#checks", Lines).show(consequences.check_lines(proposal.checks) if proposal else [])
        self.query_one("#command", Lines).show(consequences.command_lines(plan) if plan else [])
        self._show_verdict()
        self.query_one(KeyBar).recheck()

    @property
    def _plan(self) -> ResumePlan | None:
        return self._proposal.plan if self._proposal else None

    def _show_verdict(self) -> None:
        self.query_one("#verdict", Lines).show([[*self._verdict(), *_more(self.query_one("#body", VerticalScroll))]])
        self.query_one(KeyBar).recheck()

    def _verdict(self) -> list[Span]:
        if self._launching_since is not None:
            seconds = int(time.monotonic() - self._launching_since)
            words = self.progress_words() if self.is_reading else "merging, then launching"
            words = "stopping before anything is launched" if self._is_cancelled else words
            return [(" … ", "accent"), (f"{words}: {seconds} s", "strong"), ("   esc stops it", "quiet")]
        if self.is_looking:
            return self.look_spans()
        if self._is_waiting:
            return self._waiting_spans()
        if self._error is not None:
            return self._error_spans()
        if stopping := self._stopping_spans():
            return stopping
        if self._proposal is None or self._proposal.is_refused:
            rows = ", ".join(self._sheet.refusals) or "checkpoint"
            mend = self._sheet.mend
            mended: list[Span] = [("   m", "accent"), (f" {mend.words}", "")] if mend is not None else []
            if self._proposal is not None and any(map(consequences.is_stopped_first, self._proposal.checks)):
                mended = [("   x", "accent"), (" stops it first", "")]
            return [(" ✗ ", "bad"), (f"can't be launched: see {rows}", ""), *mended]
        warned = sum(1 for check in self._proposal.checks if check.verdict is Verdict.WARN)
        more = f", {warned} to know about" if warned else ""
        passed = sum(1 for check in self._proposal.checks if check.verdict is Verdict.PASS)
        return [(" ✓ ", "good"), (f"ready: {passed} checks passed{more}", "strong"), ("   ⏎ launches", "accent")]

    def _tick(self) -> None:
        """Once a second: what is told in seconds, and a check that was put off."""
        self._look_for_answer()
        if self._launching_since is None:
            self._show_row(CHECKPOINT)
        self._ask_if_changed()
        if self._launching_since is not None or self._sheet.run.is_stopping:
            self._show_verdict()

    # What the person does

    @on(ChoiceRow.Stepped)
    def _stepped(self, event: ChoiceRow.Stepped) -> None:
        if self._launching_since is not None or not self._sheet.step(event.row, event.by):
            return
        if event.row == KEEP:
            self._launch_when = -1
            self._show_rows()  # the plan is the same
            self._show_verdict()
        else:
            self._changed()

    @on(ChoiceRow.Typed)
    def _typed(self, event: ChoiceRow.Typed) -> None:
        if self._launching_since is None:
            self._sheet.choose(event.row, event.number)
            self._changed()

    def action_mend(self) -> None:
        """The nearest choice that works."""
        mend = self._sheet.mend
        if mend is not None and self._may_choose:
            self._sheet.choose(mend.row, mend.value)
            self._changed()
            self.query_one(f"#row-{mend.row}", ChoiceRow).focus()

    def action_before_spike(self) -> None:
        if not self._may_choose:
            return
        if self._sheet.can_go_back:
            self._sheet.go_back()
            self._changed()
        else:
            self.notify(self._sheet.why_not_back, title="Nothing to go back to", markup=False)

    @property
    def _may_choose(self) -> bool:
        return self._launching_since is None and not self._is_waiting

    @property
    def cursor_run(self) -> Run | None:
        """The old run as it is now: while the sheet is open it may have ended."""
        return next((run for run in self.lavender.runs if run.key == self._run.key), self._sheet.run)

    def on_stop_ended(self, message: StopEnded) -> None:
        """What refused because of it may be gone; the words on it are said where every stop's are."""
        if message.may_go_on is None:
            self.action_check_again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key with nothing to mend or to stop is hidden."""
        if action == "stop":
            run = self.cursor_run if self.is_mounted else None
            return run is not None and self.lavender.may(action) and self.may_be_stopped(run)
        if action in _OF_A_PLAN:
            return not (self.is_mounted and self._is_nothing_planned)
        return action != "mend" or (self.is_mounted and self._sheet.mend is not None)

    def why_not(self, action: str) -> str:
        """Why a hidden key can't do what it says."""
        if action == "stop" and self.cursor_run is not None:
            return why_not_stopped(self.cursor_run)
        if action in _OF_A_PLAN:
            return "nothing can be planned: the last line says why; F5 checks again"
        return "nothing here that one key could mend" if action == "mend" else ""

    def _changed(self) -> None:
        self._sheet.refusals, self._sheet.mend = {}, None
        self._show_rows()
        self._ask()

    def action_check_again(self) -> None:
        if self._launching_since is None and self._sheet.let_go():
            self._changed()
        else:
            super().action_check_again()

    def action_scroll_body(self, pages: int) -> None:
        body = self.query_one("#body", VerticalScroll)
        body.scroll_relative(y=pages * max(1, body.size.height - 2), animate=False)

    def action_verify(self) -> None:
        """Read every byte and open the table now, rather than when it is launched."""
        is_busy = self._is_waiting or self._launching_since is not None or self.is_looking
        if not is_busy and self._proposal is not None and self._proposal.plan is not None:
            self.begin_look(self._proposal, self._warm.child)
            self._show_verdict()

    def action_copy_command(self) -> None:
        """What Enter does, as one line for a shell: from this directory, where its command and settings are found."""
        from lavender_tui.resume.as_command import resume_command

        if self._is_waiting:
            self.notify("once what was chosen is checked: press c again", title="Not copied yet", markup=False)
        elif self._proposal is not None and (words := resume_command(self._proposal)):
            here = command_line.exact(("cd", os.path.abspath(os.curdir))) + " && "
            self.lavender.copy(here + command_line.exact(words), here + command_line.shown(words))

    def action_dry_run(self) -> None:
        from lavender_tui.tui.screens.ask import Document

        if self._proposal is not None:
            words = strict_json(proposal_document(self._proposal), indent=2)
            if self._plan is not None and (script := self._plan.launch.shown_script) is not None:
                words = f"{script}\n\n{words}"
            self.app.push_screen(Document("The resume plan; nothing was written", words))

    def action_back(self) -> None:
        """Back; while looking or merging: stop that, nothing is left behind. A training that started is not stopped."""
        if self.is_looking:
            self.end_look()
            self._show_verdict()
            return
        if self._is_to_launch:
            self._launch_when = -1
            self._show_verdict()
            return
        if self._launching_since is None:
            self.dismiss(None)
            return
        self._is_cancelled = True
        self._warm.close()
        self._show_verdict()

    def label_of(self, action: str) -> str:
        """While something goes on, esc ends that; where something refuses, enter leads to its row."""
        if action == "launch" and self._is_refused:
            return "show what refuses"
        if action == "launch" and self._error is not None and not self._is_waiting:
            return "try again"
        goes_on = self.is_looking or self._is_to_launch or self._launching_since is not None
        return "stop it" if action == "back" and goes_on else ""

    def is_unsaid(self, action: str) -> bool:
        """Not drawn in the key bar, whose room is for what can be done. The key still answers: it says why not."""
        if action == "launch":
            return self._proposal is None and self._error is not None
        return action == "before_spike" and not self._sheet.can_go_back

    @property
    def _is_refused(self) -> bool:
        return not self._is_waiting and self._proposal is not None and self._proposal.is_refused


def _more(body: VerticalScroll) -> list[Span]:
    """That the body goes on below, or above."""
    if body.max_scroll_y <= 0:
        return []
    if body.scroll_offset.y < body.max_scroll_y:
        return [("   pgdn", "accent"), (" more checks", "quiet")]
    return [("   pgup", "accent"), (" back up", "quiet")]
