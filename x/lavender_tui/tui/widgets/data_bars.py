"""Which rank owns which split of the data, and how far each split is."""

from __future__ import annotations

from rich.text import Text
from textual.widget import Widget

from lavender_tui.model.text import clean, count
from lavender_tui.tui.position import DataPosition, SplitPosition, total_words
from lavender_tui.tui.widgets.inks import Span, text_of

_BAR_MOST = 32


class DataBars(Widget):
    """A bar a split, as many as there is height for; the rest is named in the last line."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._position: DataPosition | None = None
        self._words = ""

    def show(self, position: DataPosition | None, words: str = "") -> None:
        """`words` stand in the place of a position that isn't known yet."""
        if (position, words) != (self._position, self._words):
            self._position, self._words = position, words
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
        lines: list[list[Span]] = [[("DATA  ", "title"), (self._heading(position), "quiet")]]
        lines += [[("! ", "warn"), (clean(problem, 300), "")] for problem in position.problems[:2]]
        room = max(0, height - len(lines))
        shown = position.splits if len(position.splits) <= room else position.splits[: max(0, room - 1)]
        lines += [self._bar(split, width, position) for split in shown]
        if len(shown) < len(position.splits):
            lines.append([(f"… {len(position.splits) - len(shown)} more splits", "faint")])
        return lines[:height]

    def _heading(self, position: DataPosition) -> str:
        return total_words(position) if position.splits else ""

    def _bar(self, split: SplitPosition, width: int, position: DataPosition) -> list[Span]:
        digits = len(str(len(position.splits) - 1))
        label = f"split {split.number:>{digits}} "
        most = max(len(count(one.consumed)) for one in position.splits)
        numbers = f" {count(split.consumed):>{most}}"
        if split.rows is not None:
            numbers += f" / {count(split.rows)}"
        owner = "" if split.rank is None else f"   rank {split.rank}"
        spans: list[Span] = [(label, "quiet")]
        if split.fraction is not None:
            room = max(4, min(_BAR_MOST, width - len(label) - len(numbers) - len(owner) - 1))
            full = round(room * split.fraction)
            spans += [("━" * full, "accent"), ("─" * (room - full), "faint")]
        return [*spans, (numbers, ""), (owner, "quiet")]
