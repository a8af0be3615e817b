"""The line that a filter is typed in. A module of its own: it is imported when it is first wanted."""

from __future__ import annotations

from textual import on
from textual.widgets import Input

from lavender_tui.tui.messages import FilterEnded, FilterTyped


class FilterLine(Input):
    """Says each change at once; enter ends the typing and keeps the filter."""

    def __init__(self, *, id: str) -> None:
        super().__init__(placeholder="text or pattern in name, stage or state; ! inverts", id=id, compact=True)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(FilterTyped(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(FilterEnded())
