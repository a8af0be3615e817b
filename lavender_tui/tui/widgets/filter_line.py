"""The line that a filter is typed in. A module of its own: it is imported when it is first wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import on
from textual.binding import Binding
from textual.geometry import Size
from textual.reactive import Reactive
from textual.suggester import Suggester
from textual.widgets import Input

from lavender_tui.model.query import Completion
from lavender_tui.model.run import Run
from lavender_tui.tui.messages import FilterEnded, FilterTyped

_EXAMPLES = ("state:failed", "loss<2", "saved<1h", "!name", "stage=sft", "lr=3e-4")  # the first ones are kept longest
_KEYS = ("tab completes", "a word: anywhere", "| either")


class _Completing(Suggester):
    """What the last word could become, shown behind the cursor."""

    def __init__(self, runs: Callable[[], Sequence[Run]]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._runs = runs
        self._completion = Completion(())

    @property
    def completion(self) -> Completion:
        """Among the runs as they are now."""
        if self._completion.runs is not (runs := self._runs()):
            self._completion = Completion(runs)
        return self._completion

    async def get_suggestion(self, value: str) -> str | None:
        if not value or value.endswith(" "):
            return None
        return next((one for one in self.completion.of(value, most=20) if one.startswith(value)), None)


def hint(width: int) -> str:
    """What may be typed, as much of it as `width` cells have room for, and what the keys do."""
    wanted = [_KEYS[0], *_EXAMPLES[:3], *_KEYS[1:], *_EXAMPLES[3:]]
    for most in range(len(wanted), 0, -1):
        kept = wanted[:most]
        examples = "  ".join(one for one in _EXAMPLES if one in kept)
        words = "   ".join([examples, *(one for one in reversed(_KEYS) if one in kept)]).strip()
        if len(words) <= width:
            return words
    return ""


class FilterLine(Input):
    """Says each change at once; tab goes through what the word could become, enter keeps the filter."""

    BINDINGS = [Binding("tab", "complete", "Complete", show=False)]  # noqa: RUF012

    virtual_size = Reactive(Size(0, 0))  # of what is typed: a letter more moves nothing on the screen

    def __init__(self, runs: Callable[[], Sequence[Run]], *, id: str) -> None:
        self._completing = _Completing(runs)
        super().__init__(id=id, compact=True, suggester=self._completing, select_on_focus=False)
        self._offers: list[str] = []

    def on_resize(self) -> None:
        self.placeholder = hint(self.content_size.width - 1)

    def action_complete(self) -> None:
        """The first way to go on, at the next press the next one, at the end what was typed."""
        if self.value not in self._offers:
            self._offers = [*self._completing.completion.of(self.value), self.value]
            at = -1
        else:
            at = self._offers.index(self.value)
        self.value = self._offers[(at + 1) % len(self._offers)]
        self.cursor_position = len(self.value)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(FilterTyped(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(FilterEnded())
