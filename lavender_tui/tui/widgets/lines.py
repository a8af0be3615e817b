"""Lines of inked words that wrap under themselves; as high as what they say."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from lavender_tui.tui.keys import in_words
from lavender_tui.tui.widgets.inks import Span, spans_length, text_of


def wrap_spans(spans: Sequence[Span], width: int, hang: int) -> list[list[Span]]:
    """The spans on lines of at most `width` cells; lines after the first begin `hang` cells in."""
    lines: list[list[Span]] = [[]]
    used = 0
    for words, name in spans:
        for number, token in enumerate(words.split(" ")):
            gap = " " if number else ""
            is_long = cell_len(token) > width - hang  # longer than any line: broken where it stands
            if used and used + cell_len(gap + token) > width and token and not is_long:
                lines.append([(" " * hang, "")])
                used, gap = hang, ""
            for part in _pieces(gap + token, width, used, hang):
                if used + cell_len(part) > width:
                    lines.append([(" " * hang, "")])
                    used = hang
                lines[-1].append((part, name))
                used += cell_len(part)
    return lines


def _pieces(token: str, width: int, used: int, hang: int) -> list[str]:
    """The token, or parts of it that fill the line it stands on and whole lines after that."""
    if used + cell_len(token) <= width:
        return [token]
    first = chop_cells(token, max(1, width - used))[0]
    rest = token[len(first) :]
    return [first, *chop_cells(rest, max(1, width - hang))] if rest else [first]


def wrap_at_most(spans: list[Span], width: int, most: int, hang: int) -> list[list[Span]]:
    """At most so many lines; only the last of them may be cut."""
    if most <= 1:
        return [cut_spans(spans, width)]
    lines = wrap_spans(spans, width, hang)
    if len(lines) <= most:
        return lines
    rest = [span for line in lines[most - 1 :] for span in line]
    return [*lines[: most - 1], cut_spans(rest, width)]


def cut_spans(spans: list[Span], width: int) -> list[Span]:
    """Spans within `width` cells; a cut ends in an ellipsis."""
    if spans_length(spans) <= width:
        return spans
    kept: list[Span] = []
    left = max(0, width - 1)
    for words, name in spans:
        length = spans_length([(words, name)])
        if length > left:
            kept.append((set_cell_size(words, left).rstrip() + "…", name))
            return kept
        kept.append((words, name))
        left -= length
    return kept


class Lines(Widget):
    """Shows `lines`; wraps each at the widget's width with a hanging indent."""

    def __init__(self, *, hang: int = 2, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hang = hang
        self._lines: list[list[Span]] = []

    def show(self, lines: list[list[Span]]) -> None:
        if getattr(self.app, "is_ascii", False):
            lines = [[(in_words(words), name) for words, name in line] for line in lines]
        if lines != self._lines:
            self._lines = lines
            self.refresh(layout=True)

    def _laid(self, width: int) -> list[list[Span]]:
        hang = min(self._hang, max(0, width // 3))
        return [part for line in self._lines for part in wrap_spans(line, max(1, width), hang)]

    def lines_at(self, width: int) -> int:
        """How many lines it takes in a widget of that width."""
        return len(self._laid(width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._laid(width))

    def render(self) -> Text:
        out = Text(no_wrap=True, end="")
        for number, line in enumerate(self._laid(self.content_size.width)):
            if number:
                out.append("\n")
            out.append_text(text_of(self, line))
        return out
