"""The lines of what was just said, between a page's parts: there only while there is something to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual import events
from textual.widget import Widget

from lavender_tui.model.text import clean
from lavender_tui.tui.widgets.inks import Span, fit, spans_length, text_of
from lavender_tui.tui.widgets.lines import wrap_at_most

if TYPE_CHECKING:
    from lavender_tui.tui.announcing import Announcement, AnnouncingApp

_MARKS = {"information": ("·", "accent"), "warning": ("!", "warn"), "error": ("✗", "bad")}
_HANG = 3
_LONG = 3  # lines of one that only informs; what went wrong ends in what to do about it


class AnnouncementLines(Widget):
    """As many lines as it needs, up to `most`: the newest whole, of older ones what fits. A click puts one away."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: Sequence[Announcement] = ()
        self._most = 1
        self._lines: list[tuple[Announcement, list[Span]]] = []

    def show(self, announcements: Sequence[Announcement], *, most: int) -> None:
        self._shown, self._most = announcements, most
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = self.screen.size.width - 2
        lines: list[tuple[Announcement, list[Span]]] = []
        for one in reversed(self._shown):
            room = min(_LONG if one.severity == "information" else self._most, self._most - len(lines))
            if room > 0:
                lines = [(one, line) for line in _lines_of(one, width, room)] + lines
        self._lines = lines
        self.display = bool(lines)
        self.styles.height = max(1, len(lines))
        self.refresh()

    def render(self) -> Text:
        out = Text(no_wrap=True, end="")
        for number, (_, line) in enumerate(self._lines):
            out.append("\n" if number else "")
            out.append_text(text_of(self, line))
        return out

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self._lines):
            cast("AnnouncingApp", self.app).withdraw(self._lines[event.y][0])


def _lines_of(one: Announcement, width: int, most: int) -> list[list[Span]]:
    mark, ink = _MARKS[one.severity]
    title = clean(one.title, 120)
    spans: list[Span] = [(f" {mark} ", ink)]
    spans += [(title, "strong"), ("  ", "")] if title and one.words else [(title, "strong")] if title else []
    words = clean(one.words, 600)
    if one.cut is not None:
        return [[*spans, (fit(words, max(8, width - spans_length(spans)), elide=one.cut).rstrip(), "")]]
    spans.append((words, ""))
    return wrap_at_most(spans, max(8, width), most, _HANG)
