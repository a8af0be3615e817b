"""What one checkpoint holds: its tree of keys, tensors with their shapes; searched while typing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Input

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.tui import keys
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.widgets.inks import INKS
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.line_table import Cell, Column, LineTable
from lavender_tui.tui.widgets.lines import Lines

MOST = 50_000  # lines; a checkpoint may name anything


def flat(tree: Mapping[str, Any], depth: int = 0, path: str = "") -> Iterator[tuple[int, str, str, str]]:
    """(depth, name, what it is, dotted path) of every key, parents first."""
    for name, value in tree.items():
        whole = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping):
            yield depth, str(name), text.plural(len(value), "key"), whole
            yield from flat(value, depth + 1, whole)
        else:
            yield depth, str(name), str(value), whole


class KeyTable(LineTable):
    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[tuple[int, str, str, str]] = []

    def set_rows(self, rows: list[tuple[int, str, str, str]]) -> None:
        self._rows = rows
        self.set_keys([f"{at}:{row[3]}" for at, row in enumerate(rows)])

    @property
    def cursor_path(self) -> str | None:
        return self._rows[self._cursor][3] if self._rows else None

    def columns(self) -> list[Column]:
        return [
            Column(key="name", title="KEY", width=44, keep=100, grows_to=90),
            Column(key="what", title="WHAT", width=24, keep=90, grows_to=200),
        ]

    def cells(self, index: int) -> Mapping[str, Cell]:
        depth, name, what, _ = self._rows[index]
        return {
            "name": Cell(text.clean(name, 300), elide="middle", lead="  " * min(depth, 12)),
            "what": Cell(text.clean(what, 400), "quiet"),
        }


class TreeScreen(Orderly, Screen[None]):
    """Everything that the metadata tells; tensor data isn't read."""

    COMPONENT_CLASSES = INKS
    PLACE = keys.TREE
    BINDINGS = keys.bindings(keys.TREE)
    AUTO_FOCUS = "KeyTable"
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (9, "-high")]  # noqa: RUF012

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self._checkpoint = checkpoint
        self._rows = [row for row, _ in zip(flat(checkpoint.keys), range(MOST), strict=False)]

    def compose(self) -> ComposeResult:
        yield Lines(id="title")
        with VerticalScroll(id="said", can_focus=False):
            yield Lines(id="facts")
        yield KeyTable(id="keys-of")
        yield Input(placeholder="a part of a key, a shape or a value", id="filter", compact=True)
        yield KeyBar(keys.TREE, id="keys")

    def on_mount(self) -> None:
        one = self._checkpoint
        name = text.clean(os.path.basename(one.path), 80)
        counts = f"   {text.plural(one.tensors, 'tensor')}, {text.count(one.parameters)} parameters"
        size = f", {text.size(one.facts.size_bytes)}"
        self.query_one("#title", Lines).show([[(f" {name}", "strong"), (counts + size, "quiet")]])
        said = [one.reason] if one.reason else []
        said += [f"needs {name} to be loaded: not imported here" for name in one.refused_globals[:5]]
        said += list(one.warnings)
        self.query_one("#facts", Lines).show([[(" ! ", "warn"), (text.clean(words, 300), "")] for words in said])
        self.query_one("#said").display = bool(said)
        self.query_one(KeyTable).set_rows(self._rows)

    def action_filter(self) -> None:
        self.add_class("-filtering")
        self.query_one("#filter").focus()

    @on(Input.Changed, "#filter")
    def _typed(self, event: Input.Changed) -> None:
        wanted = event.value.lower().strip()
        rows = [row for row in self._rows if wanted in f"{row[3]} {row[2]}".lower()] if wanted else self._rows
        self.query_one(KeyTable).say_nothing("no key, shape or value with these letters; esc shows all of them")
        self.query_one(KeyTable).set_rows([(0, row[3], row[2], row[3]) for row in rows] if wanted else rows)

    @on(Input.Submitted, "#filter")
    def _submitted(self) -> None:
        self.query_one(KeyTable).focus()

    def action_copy_key(self) -> None:
        path = self.query_one(KeyTable).cursor_path
        if path is not None:
            cast(Any, self.app).copy(path, path)

    def action_back(self) -> None:
        """First out of the search, then off the page."""
        if self.has_class("-filtering"):
            self.query_one("#filter", Input).value = ""
            self.remove_class("-filtering")
            self.query_one(KeyTable).focus()
        else:
            self.app.pop_screen()
