"""The line at the bottom: the keys that work now, whole words only, as many as fit; a click presses one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.widget import Widget

from lavender_tui.tui.keys import Key, in_words, of_places
from lavender_tui.tui.widgets.inks import Span, spans_length, text_of

_KEPT = ("back", "help", "quit")  # the last ones, and never left out: their room is set aside


class KeyBar(Widget):
    """Drawn from the table of keys for one place; what the screen's check_action hides is left out."""

    def __init__(self, place: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._places: tuple[str, ...] = (place,)
        self._marks: list[tuple[int, int, Key]] = []
        self._drawn: tuple[tuple[Key, str, bool | None], ...] = ()

    def set_places(self, places: tuple[str, ...]) -> None:
        """The keys of these places, the first one's first."""
        if places != self._places:
            self._places = places
            self.refresh()

    def recheck(self) -> None:
        """Repaint if other keys work now."""
        usable = tuple((key, self._label(key), self._may(key)) for key in self._usable())
        if usable != self._drawn:
            self._drawn = usable
            self.refresh()

    def _usable(self) -> Sequence[Key]:
        is_readonly = getattr(self.app, "is_readonly", False)
        keys = [key for key in of_places(self._places) if key.label and not (key.changes and is_readonly)]
        is_unsaid = getattr(self.screen, "is_unsaid", lambda _: False)
        return [key for key in keys if self._may(key) is not False and not is_unsaid(key.action)]

    def _label(self, key: Key) -> str:
        """What it does now, where the screen says that this is something else than usual."""
        label_of = getattr(self.screen, "label_of", None)
        return (label_of(key.action) if label_of is not None else "") or key.label

    def _may(self, key: Key) -> bool | None:
        """As check_action: None for a key that is shown, but can't do now what it says."""
        if key.action.startswith("app."):
            return True
        return self.screen.check_action(key.action, ())

    def render(self) -> Text:
        spans: list[Span] = [(" ", "")]
        self._marks = []
        usable = self._usable()
        is_ascii = getattr(self.app, "is_ascii", False)
        kept = sum(len(one.shown) + len(self._label(one)) + 3 for one in usable if one.id in _KEPT)
        for key in usable:
            is_dim = self._may(key) is None
            shown = in_words(key.shown) if is_ascii else key.shown
            entry: list[Span] = [(shown, "faint" if is_dim else "accent")]
            entry += [(f" {self._label(key)}", "faint" if is_dim else "quiet"), ("  ", "")]
            start = spans_length(spans)
            if key.id in _KEPT:
                kept -= len(key.shown) + len(self._label(key)) + 3
            room = self.size.width - kept
            if start + spans_length(entry[:2]) > room:
                continue
            spans += entry
            self._marks.append((start, start + spans_length(entry[:2]), key))
        return text_of(self, spans)

    def _at(self, x: int) -> tuple[Key, int] | None:
        """The key there, and how many cells in."""
        return next(((key, x - start) for start, end, key in self._marks if start <= x < end), None)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        at = self._at(event.x)
        self.tooltip = Text(at[0].help) if at else None

    async def on_click(self, event: events.Click) -> None:
        if (at := self._at(event.x)) is None:
            return
        key, cell = at
        if pressed := key.pressed_at(cell):
            self.app.post_message(events.Key(pressed, pressed if len(pressed) == 1 else None))
        else:
            await self.app.run_action(key.action, self.screen)
