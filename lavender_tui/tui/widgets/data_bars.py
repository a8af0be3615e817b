"""Which rank owns which split of the data, and how far each split is."""

from __future__ import annotations

import time

from rich.text import Text
from textual.binding import Binding
from textual.widget import Widget

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.text import clean, count
from lavender_tui.model.topology import allowed_world_sizes
from lavender_tui.tui import ages
from lavender_tui.tui.position import DataPosition, SplitPosition, total_words
from lavender_tui.tui.widgets.inks import Span, text_of

_BAR_MOST = 32


class DataBars(Widget):
    """A bar a split, as many as there is height for; the last line says how the rest is seen."""

    BINDINGS = [  # noqa: RUF012
        Binding("down,j", "scroll_by(1)", "Down", show=False),
        Binding("up,k", "scroll_by(-1)", "Up", show=False),
        Binding("pagedown,ctrl+d", "scroll_half(1)", "Half a page down", show=False),
        Binding("pageup,ctrl+u", "scroll_half(-1)", "Half a page up", show=False),
        Binding("home,g", "scroll_by(-1_000_000)", "First split", show=False),
        Binding("end,G", "scroll_by(1_000_000)", "Last split", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._position: DataPosition | None = None
        self._words = ""
        self._save: Checkpoint | None = None
        self._said = ""
        self._next: int | None = None
        self._top = 0  # the first split that is shown
        self._room = 1  # splits that are shown

    @property
    def has_splits(self) -> bool:
        """Is it known where they stand?"""
        return self._position is not None and bool(self._position.splits)

    @property
    def _previous(self) -> int:
        """The world_size that saved."""
        ranks = [split.rank for split in self._position.splits if split.rank is not None] if self._position else []
        return max(ranks, default=0) + 1

    def next_world_size(self, places: int) -> None:
        """Who would own which split on another one of those that divide the number of splits."""
        if self._position is None or not self._position.splits:
            return
        allowed = allowed_world_sizes(len(self._position.splits))
        now = self._next if self._next in allowed else self._previous
        at = allowed.index(now) if now in allowed else 0
        self._next = allowed[(at + places) % len(allowed)]
        self.refresh()

    def show(self, position: DataPosition | None, words: str = "", save: Checkpoint | None = None) -> None:
        """`words` stand in the place of a position that isn't known yet; `save` is what it is the position of."""
        if (position, words, save) != (self._position, self._words, self._save):
            self._position, self._words, self._save = position, words, save
            self.refresh()

    def recheck(self) -> None:
        """The save grows older."""
        if self._position is not None and self._heading(self._position) != self._said:
            self.refresh()

    def render(self) -> Text:
        out = Text(no_wrap=True, overflow="ellipsis", end="")
        for number, line in enumerate(self._lines(self.size.width, self.size.height)):
            out.append("\n" if number else "")
            out.append_text(text_of(self, line))
        return out

    def _lines(self, width: int, height: int) -> list[list[Span]]:
        position = self._position
        if position is None:
            return [[("DATA  ", "title"), (self._words, "quiet")]]
        self._said = self._heading(position)
        lines: list[list[Span]] = [[("DATA  ", "title"), (self._said, "quiet")]]
        lines += [[("! ", "warn"), (clean(problem, 300), "")] for problem in position.problems[:2]]
        room, count = max(0, height - len(lines)), len(position.splits)
        is_short = count > room
        self._room = max(1, room - is_short)
        self._top = max(0, min(self._top, count - self._room))
        shown = position.splits[self._top : self._top + self._room]
        lines += [self._bar(split, width, position) for split in shown]
        if is_short:
            lines.append([(self._rest(count), "quiet")])
        return lines[:height]

    def _rest(self, count: int) -> str:
        """What isn't shown, and the key for it: those that scroll, or the tab that has the whole height."""
        if not self.has_focus:
            return f"… {text.plural(count - self._room, 'more split')}: 4 shows them"
        first, last = self._top, self._top + self._room - 1
        return f"splits {first} to {last} of {count}: j k"

    def action_scroll_by(self, splits: int) -> None:
        self._top = max(0, self._top + splits)
        self.refresh()

    def action_scroll_half(self, halves: int) -> None:
        self.action_scroll_by(halves * max(1, self._room // 2))

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self._top = 0
        self.refresh()

    def _heading(self, position: DataPosition) -> str:
        save = ""
        if self._save is not None:
            save = f"{ages.named(self._save)}, {ages.since(ages.saved_at(self._save), time.time())}"
        if not position.splits:
            return save
        words = f"{save}: {total_words(position)}" if save else total_words(position)
        return words if self._next is None else f"{words}   world_size {self._previous} → {self._next}"

    def _bar(self, split: SplitPosition, width: int, position: DataPosition) -> list[Span]:
        digits = len(str(len(position.splits) - 1))
        label = f"split {split.number:>{digits}} "
        most = max(len(count(one.consumed)) for one in position.splits)
        numbers = f" {count(split.consumed):>{most}}"
        if split.rows is not None:
            numbers += f" / {count(split.rows)}"
        owner = "" if split.rank is None else f"   rank {split.rank}"
        if self._next is not None:
            owner += f" → rank {split.number // (len(position.splits) // self._next)}"
        spans: list[Span] = [(label, "quiet")]
        if split.fraction is not None:
            room = max(4, min(_BAR_MOST, width - len(label) - len(numbers) - len(owner) - 1))
            full = round(room * split.fraction)
            spans += [("━" * full, "accent"), ("─" * (room - full), "faint")]
        return [*spans, (numbers, ""), (owner, "quiet")]
