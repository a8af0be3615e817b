"""A run's log: its tail first, any part of it by paging; one file of it at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.screen import Screen

from lavender_tui.model import text
from lavender_tui.model.gone import as_gone
from lavender_tui.model.run import Run
from lavender_tui.model.text import clean
from lavender_tui.tui import keys
from lavender_tui.tui.log_reader import AFTER, AGAIN, BEFORE, PLACE, TAIL, LogReader
from lavender_tui.tui.messages import LogChanged, LogFiles, LogRead
from lavender_tui.tui.screens.log_of_run import LogOfRun
from lavender_tui.tui.screens.run_actions import RunActions
from lavender_tui.tui.widgets.inks import INKS
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.lines import Lines
from lavender_tui.tui.widgets.log_view import LogView
from lavender_tui.tui.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from lavender_tui.tui.app import LavenderApp
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot

_CHOSEN_FROM = 6  # so many files are chosen from a list; tab still goes through them


class LogScreen(LogOfRun, RunActions, Screen[None]):
    """A tab of the run's page by its looks and keys, a page by itself for all else: esc leads where one came from.

    Opens on the run's own log; tab goes through the other files, o lists them.
    """

    COMPONENT_CLASSES = INKS
    PLACE = keys.LOG
    BINDINGS = [  # noqa: RUF012
        *keys.bindings(keys.LOG),
        *((f"{number}", f"tab({number})", name) for number, name in enumerate(keys.TABS, 1)),
    ]
    AUTO_FOCUS = "LogView"
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (8, "-high")]  # noqa: RUF012

    def __init__(self, run: Run, *, at_error: bool = False) -> None:
        super().__init__(run, at_error=at_error)
        self._read_session = 0
        self._reader = LogReader(run.path, self.post_message)

    def compose(self) -> ComposeResult:
        yield Lines(id="title")
        yield TabBar(keys.TABS, keys.TABS.index("Log") + 1, id="tabs")
        yield Lines(id="log-note")
        yield LogView(id="log")
        yield Lines(id="log-end")
        yield Lines(id="log-status")
        yield KeyBar(keys.LOG, id="keys")

    def on_mount(self) -> None:
        self._reader.start()
        self.hunter.start()
        self.set_interval(1.0, self._tick)
        self._show()

    def on_unmount(self) -> None:
        self._reader.close()
        self.hunter.close()

    # What the threads bring

    def on_log_files(self, message: LogFiles) -> None:
        """Keep to the file that is shown; at first the one with the error that was asked for, else the first.

        Where none is left, what was read of the one that is shown stays."""
        if self._files and not message.files:
            return
        if self._is_file_gone:
            self._news, self._is_file_gone = "", False
        current, paths = self._path, [path for _, path in message.files]
        self._files, self._has_looked = message.files, True
        wanted = current or (self._failed_in() if self.go_to_error_first else None)
        self._index = paths.index(wanted) if wanted in paths else 0
        if message.files and current not in paths:
            self._open()
        self._show()

    @property
    def known_exception(self) -> str | None:
        failure = self._run.end.failure if self._run.end is not None else None
        return failure.exception if failure is not None else None

    def _failed_in(self) -> str | None:
        """The file with the traceback that ended the run."""
        failure = self._run.end.failure if self._run.end is not None else None
        return os.path.join(self._run.path, failure.where) if failure is not None and failure.where else None

    def on_log_read(self, message: LogRead) -> None:
        if message.session != self.session:
            return
        view = self.view
        self._read_session, self._failure = message.session, ""
        if message.what in (TAIL, PLACE):
            view.window.clear()
        view.is_following |= message.what == TAIL
        end = view.held_end
        view.put(message.pages, message.size, message.last)
        self._reader.last_shown = view.window.last
        if message.what == PLACE:
            self.arrive(message.where)
        elif message.what == "grown" and view.is_following and view.window.last < message.last:
            self._reader.ask(self.session, TAIL)
        elif message.what == "grown" and end is not None and end not in [page.number for page in message.pages]:
            # The reader didn't know yet that the end is here: what is held of that page is older than the file.
            self._reader.ask(self.session, AGAIN, end)
        self._show()
        if self.go_to_error_first and message.what == TAIL and message.pages:
            self.go_to_error_first = False
            self.go_to_error(forward=False)

    def on_log_changed(self, message: LogChanged) -> None:
        """The file isn't what it was: say so, and open what has its name now."""
        if message.session != self.session:
            return
        label = self._files[self._index][0] if self._files else "the file"
        if message.what == "failed":
            self._failure = message.words
        elif message.what == "gone":
            self._news = f"{message.words or f'{label} was deleted'}; what was read is still here"
            self._is_file_gone = True
        elif message.moved:
            self._follow_rotation(message.moved)
        else:
            was = "cut and begun anew" if message.what == "cut" else "replaced by another file"
            self._open(f"{label} was {was}; it was {text.size(message.size)} long")
        self._show()

    def _follow_rotation(self, moved: int) -> None:
        """The front of the log went into an older part: stay at the lines that are looked at, wherever they are."""
        path, top, was_following = self._path, self.view.top_offset, self.view.is_following
        assert path is not None
        older = f"{os.path.basename(path)}.1"
        if was_following or top >= moved:
            self._open(place=None if was_following else top - moved)
            self.notify(f"its older part is in {clean(older)} now", title="The log was rotated", markup=False)
            return
        if f"{path}.1" not in [known for _, known in self._files]:
            self._files = [*self._files, (f"{older} (older)", f"{path}.1")]
        self._index = [known for _, known in self._files].index(f"{path}.1")
        self._open(f"the log was rotated: these lines are in {clean(older)} now", place=top)

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """How the run ended explains what stands at the end of its log."""
        found = next((run for run in snapshot.runs if run.key == self._run.key), None)
        self._run = found or (as_gone(self._run))
        self._show()

    def _tick(self) -> None:
        if self.is_current and self._awaits:
            self._show_notes()

    @on(LogView.Wanted)
    def _read_more(self, message: LogView.Wanted) -> None:
        view = self.view
        if message.line is not None:
            self.look_for_line(message.line)
        elif message.share is not None:
            self.target = None
            self._reader.ask(self.session, PLACE, int(message.share * max(0, view.file_size - 1)))
        elif message.what == TAIL:
            self._reader.ask(self.session, TAIL)
        elif message.what == BEFORE:
            self._reader.ask(self.session, BEFORE, view.window.first)
        elif message.what == AFTER:
            self._reader.ask(self.session, AFTER, view.window.last)

    def read_place(self, offset: int) -> None:
        self._reader.ask(self.session, PLACE, offset)

    # Files

    @property
    def _path(self) -> str | None:
        return self._files[self._index][1] if self._files else None

    def _open(self, news: str = "", *, place: int | None = None) -> None:
        """The file at its end, or at an offset."""
        self.begin_session()
        self._news, self._failure, self._is_file_gone = news, "", False
        self.view.clear()
        self.view.is_following = True
        self._reader.last_shown = -1
        self._reader.show(self._path, self.session)
        self.hunter.show(self._path, self.session)
        if place is not None:
            self._reader.ask(self.session, PLACE, place)

    def _open_path(self, path: str | None) -> None:
        paths = [one for _, one in self._files]
        if path in paths and path != self._path:
            self._index = paths.index(path)
            self._open()
            self._show()

    def action_next_file(self, by: int = 1) -> None:
        if len(self._files) > 1:
            self._open_path(self._files[(self._index + by) % len(self._files)][1])

    def action_files(self) -> None:
        from lavender_tui.tui.screens.log_files import LogFilesScreen

        self.app.push_screen(LogFilesScreen(self._files, self._path), self._open_path)

    # What stands around the log

    def _show_notes(self) -> None:
        """In the place of a log that isn't there, or below one whose end could mislead."""
        view, note, end = self.view, self.query_one("#log-note", Lines), self.query_one("#log-end", Lines)
        is_empty = bool(self._files) and self._read_session == self.session and not view.file_size
        is_nothing = not self._files or is_empty or bool(self._failure)
        note.display, view.display = is_nothing, not is_nothing
        note.show([[(self._in_its_place(is_empty), "quiet")]])
        said = self._said_of_end()
        end.display = bool(said)
        end.show([said])

    @on(LogView.Moved)
    def _show(self) -> None:
        view = self.view
        self.query_one("#title", Lines).show([self._title(view)])
        self.show_status()

    def show_status(self) -> None:
        super().show_status()
        self._show_notes()
        self.query_one(KeyBar).recheck()  # what esc ends may be another thing now

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("next_file", "files"):
            return len(self._files) > 1
        if action in ("next_match", "previous_match"):
            return self.is_mounted and self.view.wanted is not None
        if action in ("next_error", "previous_error"):
            return not self.is_mounted or self.has_errors is not False
        if action == "follow":
            return not self._is_over
        return super().check_action(action, parameters)

    @property
    def cursor_run(self) -> Run | None:
        return self._run

    def is_unsaid(self, action: str) -> bool:
        """Not drawn in the key bar, whose room is for the log's own keys. They work all the same."""
        if action == "next_error":
            return self.has_errors is None
        return action in ("resume", "resume_now", "stop")

    def label_of(self, action: str) -> str:
        return self.ended_by_escape if action == "back" else ""

    def why_not(self, action: str) -> str:
        if action in ("next_file", "files"):
            return "there is no other log file" if self._has_looked else "its log files are still being looked for"
        if action in ("next_match", "previous_match"):
            return "search with / first"
        if action in ("next_error", "previous_error"):
            return "no error in this file"
        if action == "follow":
            return "the run has ended: nothing more comes; G goes to the last line"
        return super().why_not(action)

    def action_tab(self, number: int) -> None:
        """To another tab of the run's page: the one that this was opened from, or a new one in the place of this."""
        from lavender_tui.tui.screens.run import RunScreen
        from lavender_tui.tui.screens.run_tabs import LOG

        if number == LOG:
            return
        below = self.app.screen_stack[-2]
        if isinstance(below, RunScreen) and below.shown_run.key == self._run.key:
            self.app.pop_screen()
            below.tab = number
        else:
            self.app.switch_screen(RunScreen(self._run, tab=number))

    @on(TabBar.Chosen)
    def _tab_chosen(self, event: TabBar.Chosen) -> None:
        self.action_tab(event.number)

    def action_follow(self) -> None:
        self.view.follow(not self.view.is_following)

    def action_wrap(self) -> None:
        self.view.wrap(not self.view.is_wrapped)
        self._show()

    def action_copy_path(self) -> None:
        """The error or the match that a key went to; else the file's path."""
        app = cast("LavenderApp", self.app)
        if lines := self.current_lines():
            app.copy("\n".join(lines) + "\n", lines[-1] if len(lines) == 1 else f"{len(lines)} lines: {lines[-1]}")
            return
        path = self._path or self._run.path
        app.copy(path, path)

    def action_copy_lines(self) -> None:
        lines = self.view.visible_text()
        if lines:
            cast("LavenderApp", self.app).copy("\n".join(lines) + "\n", text.plural(len(lines), "line"))

    def action_back(self) -> None:
        if not self.stop_search():
            self.app.pop_screen()
