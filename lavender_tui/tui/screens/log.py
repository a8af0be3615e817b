"""A run's log, followed; one file of it at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen

from lavender_tui.model.run import Run, RunState
from lavender_tui.model.text import clean
from lavender_tui.tui import keys
from lavender_tui.tui.log_reader import LogReader
from lavender_tui.tui.messages import LogRead
from lavender_tui.tui.widgets.inks import INKS, Span
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.lines import Lines
from lavender_tui.tui.widgets.log_view import LogView

if TYPE_CHECKING:
    from lavender_tui.tui.app import LavenderApp
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot

_TORCHRUN_STOPS, _LAST_LINES = "SignalException: Process", 200


class LogScreen(Screen[None]):
    """Opens on the run's own log; tab goes through the ranks' files."""

    COMPONENT_CLASSES = INKS
    PLACE = keys.LOG
    BINDINGS = keys.bindings(keys.LOG)
    AUTO_FOCUS = "LogView"

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._files: list[tuple[str, str]] = []
        self._index = 0
        self._session = 0
        self._has_looked = False
        self._read_session = 0
        self._reader = LogReader(run.path, self.post_message)

    def compose(self) -> ComposeResult:
        yield Lines(id="title")
        yield Lines(id="log-note")
        yield LogView(id="log")
        yield Lines(id="log-end")
        yield KeyBar(keys.LOG, id="keys")

    def on_mount(self) -> None:
        self._reader.start()
        self._show()

    def on_unmount(self) -> None:
        self._reader.close()

    def on_log_read(self, message: LogRead) -> None:
        if message.files is not None:
            self._take_files(message.files)
        if message.session == self._session:
            self._read_session = message.session
            self.query_one(LogView).extend(message.lines)
            self._show_notes()

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """How the run ended explains what stands at the end of its log."""
        self._run = next((run for run in snapshot.runs if run.key == self._run.key), self._run)
        self._show_notes()

    def _show_notes(self) -> None:
        """In the place of a log that isn't there, or below one whose end could mislead."""
        view, note, end = self.query_one(LogView), self.query_one("#log-note", Lines), self.query_one("#log-end", Lines)
        is_empty = bool(self._files) and self._read_session == self._session and not view.lines
        note.display, view.display = not self._files or is_empty, bool(self._files) and not is_empty
        note.show([[(self._in_its_place(is_empty), "quiet")]])
        end.display = is_stop_of_torchrun(self._run, view.lines)
        end.show([[("stopped on request; the traceback above is torchrun's own", "quiet")]])

    def _in_its_place(self, is_empty: bool) -> str:
        if is_empty:
            return "empty: nothing was written to it"
        if self._has_looked:
            return "no log: a run that was launched by hand prints where it was started"
        return "looking …"

    def _take_files(self, files: list[tuple[str, str]]) -> None:
        """Keep to the file that is shown; the first one if nothing was."""
        current = self._files[self._index][1] if self._files else None
        self._files, self._has_looked = files, True
        paths = [path for _, path in files]
        self._index = paths.index(current) if current in paths else 0
        if files and current not in paths:
            self._open()
        self._show()

    def _open(self) -> None:
        self._session += 1
        self.query_one(LogView).clear()
        self._reader.show(self._files[self._index][1], self._session)

    @on(LogView.FollowChanged)
    def _show(self) -> None:
        view = self.query_one(LogView)
        title: list[Span] = [(" log ", "accent"), (clean(self._run.name, 80), "strong")]
        if self._files:
            of = f"  {self._index + 1} of {len(self._files)}" if len(self._files) > 1 else ""
            title.append((f"   {clean(self._files[self._index][0], 60)}{of}", "quiet"))
            title.append(("   following" if view.is_following else "   not following: f", "accent"))
            title += [("   wrapped", "quiet")] if view.is_wrapped else []
        self.query_one("#title", Lines).show([title])
        self._show_notes()
        self.query_one(KeyBar).recheck()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "next_file":
            return len(self._files) > 1
        return True

    def action_next_file(self) -> None:
        if len(self._files) > 1:
            self._index = (self._index + 1) % len(self._files)
            self._open()
            self._show()

    def action_follow(self) -> None:
        view = self.query_one(LogView)
        view.follow(not view.is_following)

    def action_wrap(self) -> None:
        view = self.query_one(LogView)
        view.wrap(not view.is_wrapped)
        self._show()

    def action_copy_path(self) -> None:
        path = self._files[self._index][1] if self._files else self._run.path
        cast("LavenderApp", self.app).copy(path, path)

    def action_back(self) -> None:
        self.app.pop_screen()


def is_stop_of_torchrun(run: Run, lines: Sequence[str]) -> bool:
    """A run that was asked to stop ends with a traceback nevertheless: torchrun raises what signal it got."""
    return run.state is RunState.STOPPED and any(_TORCHRUN_STOPS in line for line in lines[-_LAST_LINES:])
