"""Choose one of a run's log files: hundreds of ranks are typed, not scrolled through."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input

from lavender_tui.model import text
from lavender_tui.tui.screens.boxed import Boxed
from lavender_tui.tui.widgets.inks import INKS
from lavender_tui.tui.widgets.line_table import Cell, Column, LineTable
from lavender_tui.tui.widgets.lines import Lines

Files = Sequence[tuple[str, str]]


def matching(files: Files, words: str) -> list[tuple[str, str]]:
    """The files whose label holds every word: "1 err" finds "rank 1 stderr" and "rank 12 stderr", the former first."""
    numbers = [word for word in words.split() if word.isdigit()]
    wanted = words.lower().split()
    found = [(label, path) for label, path in files if all(word in label.lower() for word in wanted)]
    return sorted(found, key=lambda one: not any(f"rank {number} " in one[0] for number in numbers))


class FileTable(LineTable):
    """Label, size and age of each file."""

    _COLUMNS = (
        Column(key="label", title="FILE", width=20, keep=9, grows_to=40),
        Column(key="size", title="SIZE", width=9, right=True, keep=8),
        Column(key="age", title="WRITTEN", width=14, keep=7),
    )

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.files: list[tuple[str, str]] = []
        self.facts: dict[str, tuple[int, float]] = {}

    def columns(self) -> Sequence[Column]:
        return self._COLUMNS

    def cells(self, index: int) -> Mapping[str, Cell]:
        label, path = self.files[index]
        size, written = self.facts.get(path, (None, None))
        age = text.age(None if written is None else time.time() - written)
        return {
            "label": Cell(text.clean(label, 80), "" if size else "quiet"),
            "size": Cell(text.size(size), "quiet"),
            "age": Cell(age, "quiet"),
        }

    def show(self, files: list[tuple[str, str]]) -> None:
        self.files = files
        self.forget()
        self.set_keys([path for _, path in files])


class LogFilesScreen(Boxed["str | None"]):
    """Dismissed with the path that was chosen."""

    COMPONENT_CLASSES = INKS
    BINDINGS = [  # noqa: RUF012
        Binding("escape", "dismiss(None)", "Back"),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("pagedown", "move(10)", "Page down", show=False, priority=True),
        Binding("pageup", "move(-10)", "Page up", show=False, priority=True),
    ]

    @dataclass
    class Measured(Message, bubble=False):
        """(size in bytes, time written) of each file that could be looked at."""

        facts: dict[str, tuple[int, float]]

    def __init__(self, files: Files, current: str | None) -> None:
        super().__init__()
        self._files, self._current = files, current

    def compose(self) -> ComposeResult:
        with self.box("document"):
            yield Lines(id="heading")
            yield Input(placeholder="type a part of its name, such as 17 err", id="filter", compact=True)
            yield FileTable(id="files")

    def on_mount(self) -> None:
        self.query_one("#heading", Lines).show([[(f"{text.plural(len(self._files), 'log file')}, ", "strong"),
                                                 ("⏎ opens, esc goes back", "quiet")]])  # fmt: skip
        table = self.query_one(FileTable)
        table.show(list(self._files))
        if self._current is not None:
            table.go_to(self._current)
        self.query_one("#filter").focus()
        self._measure()

    @work(thread=True, exit_on_error=False, description="measure")
    def _measure(self) -> None:
        facts = {}
        for _, path in self._files:
            try:
                found = os.stat(path)
            except OSError:
                continue
            facts[path] = (found.st_size, found.st_mtime)
        self.post_message(self.Measured(facts))

    @on(Measured)
    def _measured(self, message: Measured) -> None:
        table = self.query_one(FileTable)
        table.facts = message.facts
        table.forget()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self.query_one(FileTable).show(matching(self._files, event.value))

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.dismiss(self.query_one(FileTable).cursor_key)

    @on(LineTable.Opened)
    def _opened(self, event: LineTable.Opened) -> None:
        self.dismiss(event.key)

    def action_move(self, rows: int) -> None:
        self.query_one(FileTable).action_cursor_by(rows)
