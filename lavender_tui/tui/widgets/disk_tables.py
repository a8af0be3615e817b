"""What the checkpoints of each run cost, and what becomes of each checkpoint; one line each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Wholeness
from lavender_tui.model.disk import Cost, Fate
from lavender_tui.tui.themes import state_ink, state_words
from lavender_tui.tui.widgets.line_table import Cell, Column, LineTable


class CostTable(LineTable):
    """Runs, the dearest first."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._costs: Sequence[Cost] = ()

    def set_costs(self, costs: Sequence[Cost]) -> None:
        self._costs = costs
        self.set_keys([cost.run.key for cost in costs])

    @property
    def cursor_cost(self) -> Cost | None:
        return self._costs[self._cursor] if self._costs else None

    def columns(self) -> Sequence[Column]:
        return (
            Column(key="name", title="RUN", width=26, keep=100, grows_to=60),
            Column(key="state", title="STATE", width=10, keep=60),
            Column(key="count", title="SAVES", width=5, right=True, keep=70),
            Column(key="size", title="SIZE", width=8, right=True, keep=90),
            Column(key="free", title="COULD GO", width=8, right=True, keep=80),
            Column(key="rate", title="ADDS", width=10, right=True, keep=50),
        )

    def cells(self, index: int) -> Mapping[str, Cell]:
        cost = self._costs[index]
        rate = f"{text.size(round(cost.bytes_per_second * 3600))}/h" if cost.bytes_per_second else text.NONE
        return {
            "name": Cell(text.clean(cost.run.title, 200), elide="middle"),
            "state": Cell(state_words(cost.run.state), state_ink(cost.run.state)),
            "count": Cell(f"{len(cost.run.checkpoints):,}"),
            "size": Cell(text.size(cost.size_bytes), "strong"),
            "free": Cell(text.size(cost.could_free_bytes) if cost.could_free_bytes else text.NONE, "accent"),
            "rate": Cell(rate, "quiet"),
        }


class FateTable(LineTable):
    """The checkpoints of one run, the newest first, with why each stays."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._fates: Sequence[Fate] = ()

    def set_fates(self, fates: Sequence[Fate]) -> None:
        self._fates = fates[::-1]
        self.set_keys([fate.checkpoint.path for fate in self._fates])

    def columns(self) -> Sequence[Column]:
        return (
            Column(key="name", title="CHECKPOINT", width=26, keep=100),
            Column(key="size", title="SIZE", width=8, right=True, keep=90),
            Column(key="loss", title="LOSS", width=8, right=True, keep=70),
            Column(key="fate", title="STAYS OR GOES", width=20, keep=95, grows_to=200),
        )

    def cells(self, index: int) -> Mapping[str, Cell]:
        fate = self._fates[index]
        ink = "" if fate.may_go else "quiet"
        name = os.path.basename(fate.checkpoint.path)
        return {
            "name": Cell(text.clean(name, 200), ink, elide="left"),
            "size": Cell(text.size(fate.size_bytes), ink),
            "loss": Cell(text.loss(fate.checkpoint.loss, fate.checkpoint.loss_text)[:8], ink),
            "fate": _told(fate),
        }


def _told(fate: Fate) -> Cell:
    """Marked as fine is only what stays because it is wanted."""
    if fate.may_go:
        return Cell("– could go", "warn")
    why = text.clean(fate.why, 300)
    if fate.wants_a_look:
        return Cell(f"! stays: {why}", "warn")
    return Cell(f"… {why}" if fate.checkpoint.wholeness is Wholeness.UNREAD else f"✓ {why}", "quiet")
