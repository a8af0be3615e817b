"""What happened to a run: started, stopped, resumed, decided; by whom and when. Newest first."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lavender_tui.model import text
from lavender_tui.tui import ages
from lavender_tui.tui.widgets.line_table import Cell, Column, LineTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One event; all texts as they came from disk. `at` in unix seconds."""

    at: float
    what: str
    who: str = ""
    details: str = ""


def when_of(entry: Happening) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(entry.at, 253_402_300_000)))


def one_line(entry: Happening) -> str:
    """All of it that a few lines have room for: "ended: killed by signal 9 that nobody here sent (…)"."""
    by = f" by {text.clean(entry.who, 80)}" if entry.who else ""
    return text.clean(entry.what, 60) + by + (f": {text.clean(entry.details, 600)}" if entry.details else "")


def at_length(entry: Happening) -> str:
    """Who and what, a line each."""
    return "\n".join(filter(None, (f"by {entry.who}" if entry.who else "", entry.details))) or "nothing more is known"


class HistoryTable(LineTable):
    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Happening] = ()

    def set_rows(self, rows: Sequence[Happening]) -> None:
        """Newest first."""
        self._rows = rows
        self.set_keys([f"{at}" for at in range(len(rows))])

    @property
    def cursor_entry(self) -> Happening | None:
        return self._rows[self._cursor] if self._rows and self._cursor < len(self._rows) else None

    def columns(self) -> Sequence[Column]:
        return (
            Column(key="at", title="WHEN", width=19, keep=90),
            Column(key="ago", title="", width=ages.CLOCK_WIDTH, right=True, keep=60),
            Column(key="what", title="WHAT", width=16, keep=100),
            Column(key="who", title="BY", width=18, keep=70, grows_to=30),
            Column(key="details", title="", width=20, keep=80, grows_to=300),
        )

    def cells(self, index: int) -> Mapping[str, Cell]:
        row = self._rows[index]
        return {
            "at": Cell(when_of(row)),
            "ago": Cell(ages.since(row.at, time.time()), "quiet"),
            "what": Cell(text.clean(row.what, 60), "accent"),
            "who": Cell(text.clean(row.who, 80) if row.who else text.NONE, "quiet"),
            "details": Cell(text.clean(row.details, 600)),
        }
