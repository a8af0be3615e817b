"""The processes of a run as a tree: who started whom, and what each uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lavender_tui.model import command_line, text
from lavender_tui.model.run import LiveProcess
from lavender_tui.model.usage import Usage
from lavender_tui.tui.usage_words import gpu_words
from lavender_tui.tui.widgets.line_table import Cell, Column, LineTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """One process; `depth` below the first of its line that is the run's; `usage` None where it wasn't asked yet."""

    process: LiveProcess
    depth: int = 0
    usage: Usage | None = None
    is_leftover: bool = False


def in_tree(
    processes: Sequence[LiveProcess],
    parents: Mapping[int, int],
    usage: Mapping[int, Usage],
    leftovers: Sequence[LiveProcess] = (),
) -> list[ProcessRow]:
    """Parents before their children, ranks in order; a circle of parents loses nobody."""
    left = {one.pid for one in leftovers}
    known = {one.pid: one for one in (*processes, *leftovers)}
    rows: list[ProcessRow] = []
    seen: set[int] = set()

    def visit(one: LiveProcess, depth: int) -> None:
        if one.pid in seen:
            return
        seen.add(one.pid)
        rows.append(ProcessRow(process=one, depth=depth, usage=usage.get(one.pid), is_leftover=one.pid in left))
        for child in sorted(known.values(), key=_order):
            if parents.get(child.pid) == one.pid:
                visit(child, depth + 1)

    for one in sorted(known.values(), key=_order):
        if parents.get(one.pid) not in known:
            visit(one, 0)
    for one in sorted(known.values(), key=_order):
        visit(one, 0)
    return rows


def _order(one: LiveProcess) -> tuple[int, int]:
    return (one.rank if one.rank is not None else -1, one.pid)


class ProcessTable(LineTable):
    """Rows come sampled, from a thread."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[ProcessRow] = ()

    def set_rows(self, rows: Sequence[ProcessRow]) -> None:
        self._rows = rows
        self.set_keys([f"{row.process.pid}:{row.process.start_ticks}" for row in rows])

    def columns(self) -> Sequence[Column]:
        return (
            Column(key="role", title="PROCESS", width=20, keep=100),
            Column(key="pid", title="PID", width=8, right=True, keep=95),
            Column(key="rank", title="RANK", width=5, right=True, keep=90),
            Column(key="cpu", title="CPU", width=7, right=True, keep=85),
            Column(key="memory", title="MEMORY", width=8, right=True, keep=84),
            Column(key="gpu", title="GPU", width=24, keep=60),
            Column(key="known", title="KNOWN BY", width=17, keep=40),
            Column(key="command", title="COMMAND", width=20, keep=50, grows_to=200),
        )

    def cells(self, index: int) -> Mapping[str, Cell]:
        row = self._rows[index]
        one, usage = row.process, row.usage
        cpu = usage.cpu_percent if usage is not None else None
        gpus = usage.gpus if usage is not None else ()
        role = f"{one.role}, left over" if row.is_leftover and one.role != "orphan" else one.role
        return {
            "role": Cell(("  " * row.depth + role), "bad" if row.is_leftover else ""),
            "pid": Cell(str(one.pid)),
            "rank": Cell(text.NONE if one.rank is None else str(one.rank)),
            "cpu": Cell(text.NONE if cpu is None else f"{cpu:.0f} %"),
            "memory": Cell(text.size(usage.rss_bytes if usage is not None else None)),
            "gpu": Cell("; ".join(f"{gpu.index}: {gpu_words(gpu)}" for gpu in gpus) or text.NONE, "quiet"),
            "known": Cell((one.owner and f"user {text.clean(one.owner, 30)}") or one.found_by, "quiet"),
            "command": Cell(command_line.beginning(one.command, 300), "quiet"),
        }
