"""The line at the top: what is looked at, how, and how many runs are in which state."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence

from rich.text import Text
from textual.widget import Widget

from lavender_tui.model.run import RunState
from lavender_tui.tui.themes import STATE_GLYPHS, state_ink
from lavender_tui.tui.widgets.inks import Span, spans_length, text_of

_URGENT = (RunState.RUNNING, RunState.STALLED, RunState.FAILED)  # these keep their word longest


class TopBar(Widget):
    """One line. `left` is shown as far as it fits, `right` always, and the clock last."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._places: list[str] = []
        self._right: list[list[Span]] = []
        self._drawn: tuple[object, ...] = ()

    def show(self, places: Sequence[str], right: Sequence[list[Span]]) -> None:
        """`places`: parts of the left side, the first kept longest. `right`: from wordy to short; the first that fits
        beside all places is shown, else the first that fits at all."""
        self._places, self._right = list(places), list(right)
        self.tick()

    def tick(self) -> None:
        """Repaint if what would be drawn differs from what is."""
        drawn = (tuple(self._places), tuple(map(tuple, self._right)), _clock())
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def render(self) -> Text:
        width = self.size.width
        clock: Span = (f"  {_clock()} ", "quiet")
        name: Span = (" lavender ", "accent")
        whole: list[Span] = [(" · ".join(self._places), "")]
        right = self._fitting(width - spans_length([clock, name, *whole]) - 4) or self._fitting(
            width - spans_length([clock, name]) - 2
        )
        left: list[Span] = [name, ("  ", "")]
        room = width - spans_length([*left, *right, clock]) - 2
        left += self._left(room)
        gap = width - spans_length([*left, *right, clock])
        return text_of(self, [*left, (" " * max(1, gap), ""), *right, clock])

    def _fitting(self, room: int) -> list[Span]:
        for spans in self._right:
            if spans_length(spans) <= room:
                return spans
        return []

    def _left(self, room: int) -> list[Span]:
        spans: list[Span] = []
        for part in self._places:
            more: list[Span] = [(" · ", "faint"), (part, "quiet")] if spans else [(part, "strong")]
            if spans_length([*spans, *more]) <= room:
                spans += more
        return spans


def count_spans(
    counts: Sequence[tuple[RunState, int]], *, words: Container[RunState] = tuple(RunState), total: int | None = None
) -> list[Span]:
    """ "5 runs  ● 1 running  ✗ 1 failed", or "2 of 5 runs" where that is the total. No word is ever cut short: a state
    that isn't among `words` is its sign and its number alone."""
    shown = sum(count for _, count in counts)
    whole = shown if total is None else total
    of = f"{shown:,} of " if shown != whole else ""
    spans: list[Span] = [(f"{of}{whole:,} run{'' if whole == 1 else 's'}", "strong")]
    for state, count in counts:
        word = f" {state.value}" if state in words else ""
        spans += [("  ", ""), (f"{STATE_GLYPHS[state]} {count:,}{word}", state_ink(state))]
    return spans


def count_choices(counts: Sequence[tuple[RunState, int]], *, total: int, marked: int) -> list[list[Span]]:
    """From wordy to short, for a bar; how many are marked comes first, and in each of them."""
    mark: list[Span] = [(f"◆ {marked:,} marked", "accent"), ("  ", "")] if marked else []
    choices = [count_spans(counts, words=words, total=total) for words in (tuple(RunState), _URGENT, ())]
    return [[*mark, *spans] for spans in (*choices, choices[0][:1])]


def _clock() -> str:
    return time.strftime("%H:%M")
