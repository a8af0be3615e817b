"""The line that a search is typed in. A module of its own: it is imported when it is first wanted."""

from __future__ import annotations

from textual import on
from textual.widgets import Input

from lavender_tui.tui.messages import SearchEnded, SearchTyped


class SearchLine(Input):
    """Says each change at once, so that what is on the screen is marked; enter begins the search."""

    def __init__(self, *, id: str) -> None:
        super().__init__(placeholder="text; a capital minds case; \\v in front: a pattern", id=id, compact=True)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(SearchTyped(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(SearchEnded(event.value))
