"""What a log's page says of the run whose log it is: in its title, below its end, in the place of what isn't there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from lavender_tui.model import text
from lavender_tui.model.log_errors import Kind
from lavender_tui.model.run import Run, RunState
from lavender_tui.model.text import clean
from lavender_tui.tui import log_words
from lavender_tui.tui.messages import LogSurveyed
from lavender_tui.tui.screens.log_search import LogSearch
from lavender_tui.tui.themes import STATE_GLYPHS, state_ink
from lavender_tui.tui.widgets.inks import Span, spans_length
from lavender_tui.tui.widgets.log_view import LogView

_OVER = (RunState.FINISHED, RunState.FAILED, RunState.STOPPED)
_TORCHRUN_STOPS, _LAST_LINES = "SignalException: Process", 200


class LogOfRun(LogSearch, inherit_bindings=False):
    """The words of the log's screen; the screen itself has the files and the keys."""

    def __init__(self, run: Run, *, at_error: bool) -> None:
        super().__init__()
        self._run = run
        self._files: list[tuple[str, str]] = []
        self._index = 0
        self._has_looked = False
        self._failure = ""
        self._news = ""
        self._is_file_gone = False
        self.go_to_error_first = at_error
        self._seeks_reason = not at_error and run.state is RunState.FAILED

    # Its errors

    def errors_known(self) -> None:
        """A log that ends in torchrun's report of a failure is opened where the failure stands, unless one has moved
        meanwhile."""
        errors = self._all_errors()
        if not self._seeks_reason or errors is None:
            return
        self._seeks_reason = False
        is_report = bool(errors) and errors[-1].kind is Kind.TORCHRUN
        is_told = any(one.kind is not Kind.TORCHRUN and not one.is_consequence for one in errors)
        if is_report and is_told and self.view.is_following and not self.ended_by_escape:
            self.go_to_error(forward=False)

    @property
    def known_errors(self) -> LogSurveyed | None:
        """Of a run that was stopped as asked torchrun's own traceback is none."""
        told = super().known_errors
        if told is None or self._run.state is not RunState.STOPPED:
            return told
        errors = told.survey.errors
        if told.error_count != len(errors) or not all(is_torchruns_stop(one.head) for one in errors):
            return told
        return replace(told, error_count=0, first=None, first_line=None)

    def prefix_words(self) -> str:
        is_on_several = any(label.startswith("node ") for label, _ in self._files)
        return log_words.prefix_words(self.view.visible_text(), is_on_several_hosts=is_on_several)

    # Around the log

    def _said_of_end(self) -> list[Span]:
        if self._news:
            return [("! ", "warn"), (self._news, "")]
        if is_stop_of_torchrun(self._run, self.view.lines):
            return [("stopped on request; the traceback above is torchrun's own", "quiet")]
        if self._run.state is RunState.FAILED:
            leads: list[Span] = [("   e goes to it", "accent")] if self._leads_to_reason else []
            return [("✗ failed: ", "bad"), (clean(self._run.state_reason, 300), ""), *leads]
        return []

    @property
    def _leads_to_reason(self) -> bool:
        """Is there an error to go to that isn't on the screen?"""
        told, view = self.known_errors, self.view
        cause = told.first if told is not None else None
        is_seen = cause is not None and view.top_offset <= cause.last_line <= view.bottom_offset
        return bool(self.has_errors) and self._at_error is None and not is_seen

    def _in_its_place(self, is_empty: bool) -> str:
        if self._failure:
            return f"can't be read: {clean(self._failure, 300)}"
        if is_empty and self._run.is_alive:
            return f"nothing yet{self._since_start()}"
        if is_empty:
            return "empty: nothing was written to it"
        if self._run.out_of_reach:
            return f"{self._run.out_of_reach}: no log can be read"
        if self._has_looked and self._run.is_ours and not self._run.is_by_hand:
            return "no log: there is no train.log in its directory"
        if self._has_looked:
            return "no log: a run that was launched by hand prints where it was started"
        return "looking …"

    @property
    def _awaits(self) -> bool:
        """Is nothing shown of a run that lives?"""
        return self._run.is_alive and not self.view.display

    def _since_start(self) -> str:
        started = self._run.started_at
        return "" if started is None else f": {text.duration(max(0.0, time.time() - started))} since the start"

    def _title(self, view: LogView) -> list[Span]:
        """Whose log, which file of it, whether more comes; said shorter where there is no room, the state last."""
        choices = [self._title_with(view, gap, of, True) for gap, of in (("   ", " of "), ("  ", " of "), ("  ", "/"))]
        choices.append(self._title_with(view, "  ", "/", False))
        return next((one for one in choices if spans_length(one) <= self.size.width), choices[-1])

    def _title_with(self, view: LogView, gap: str, of: str, has_word: bool) -> list[Span]:
        run = self._run
        state = f"{gap}{STATE_GLYPHS[run.state]}{f' {run.state.value}' if has_word else ''}"
        head: list[Span] = [(" " + clean(run.title, 80), "strong"), (state, state_ink(run.state))]
        if run.out_of_reach:
            head.append((f"{gap}{run.out_of_reach}", "warn"))
        elif self._files:
            which = f"{gap[1:]}{self._index + 1}{of}{len(self._files)}" if len(self._files) > 1 else ""
            head.append((f"{gap}{clean(self._files[self._index][0], 60)}{which}", "quiet"))
            head.append((f"{gap}{self._following(view)}", "accent"))
            head += [(f"{gap}wrapped", "quiet")] if view.is_wrapped else []
        return head

    def _following(self, view: LogView) -> str:
        if self._is_over:
            return "ended"
        return "following" if view.is_following else "not following: f"

    @property
    def _is_over(self) -> bool:
        """Does nothing more come? What outlived a run may still write."""
        run = self._run
        return run.state in _OVER and not run.is_alive and not run.leftovers


def is_stop_of_torchrun(run: Run, lines: Sequence[str]) -> bool:
    """A run that was asked to stop ends with a traceback nevertheless: torchrun raises what signal it got."""
    return run.state is RunState.STOPPED and any(map(is_torchruns_stop, lines[-_LAST_LINES:]))


def is_torchruns_stop(line: str) -> bool:
    """Is it what torchrun ends with when it is told to?"""
    return _TORCHRUN_STOPS in line
