"""Lines of inked words that wrap under themselves; as high as what they say."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from lavender_tui.tui.keys import in_words
from lavender_tui.tui.widgets.inks import Span, spans_length, text_of

# A number and the word after it are one: "2 h ago", "<1 min ago", "1,200 rows", "2 of 4 ranks", "35 %", "(12 s)".
_NUMBER = r"[0-9]+(?:[.,:/][0-9]+)*(?:e[-+]?[0-9]+)?"
_UNIT = r"(?:[^\W\d_]+|%)(?: ago)?[,;:.)]*(?![^ ])"
_AMOUNT = rf"[^\w ]*{_NUMBER}(?: of {_NUMBER})?(?: {_UNIT}|[,;:.)]*(?![^ ]))"
_PIECE = re.compile(rf" *(?:(?P<amount>{_AMOUNT})|[^ ]+)| +")  # with the spaces before it
_WORD = re.compile(r" *[^ ]+")


def wrap_spans(spans: Sequence[Span], width: int, hang: int) -> list[list[Span]]:
    """The spans on lines of at most `width` cells; lines after the first begin `hang` cells in.

    No line ends between a number and its unit, unless no line has room for both.
    """
    lines: list[list[Span]] = [[]]
    used = 0
    for piece in _unbroken(spans, width - hang):
        words = "".join(part for part, _ in piece)
        inner = cell_len(words.lstrip(" "))
        is_long = inner > width - hang  # longer than any line: broken where it stands
        if used and used + cell_len(words) - (inner - 1 if is_long else 0) > width:
            if not inner:
                continue
            lines.append([(" " * hang, "")])
            used, piece = hang, _without_lead(piece)
        for part, name in piece:
            for bit in _pieces(part, width, used, hang):
                if used + cell_len(bit) > width:
                    lines.append([(" " * hang, "")])
                    used = hang
                lines[-1].append((bit, name))
                used += cell_len(bit)
    return lines


def _unbroken(spans: Sequence[Span], room: int) -> Iterator[list[Span]]:
    """What no line is to end within, each with the spaces before it; what takes more than `room` cells, word by
    word."""
    ends: list[int] = []
    for found in _PIECE.finditer("".join(words for words, _ in spans)):
        if found["amount"] and cell_len(found["amount"]) > room:
            ends += [found.start() + word.end() for word in _WORD.finditer(found[0])]
        else:
            ends.append(found.end())
    at, part, following = 0, list[Span](), iter(ends)
    end = next(following, 0)
    for words, name in spans:
        while words:
            taken = words[: end - at]
            part.append((taken, name))
            at, words = at + len(taken), words[len(taken) :]
            if at == end:
                yield part
                part, end = [], next(following, end)


def _without_lead(spans: Sequence[Span]) -> list[Span]:
    """Without the spaces that it begins with."""
    kept: list[Span] = []
    for words, name in spans:
        words = words if kept else words.lstrip(" ")
        kept += [(words, name)] if words else []
    return kept


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
    """Spans within `width` cells; a cut ends in an ellipsis, and is never within a number or before its unit."""
    if spans_length(spans) <= width:
        return spans
    kept: list[Span] = []
    left = _cut_place("".join(words for words, _ in spans), max(0, width - 1))
    for words, name in spans:
        length = spans_length([(words, name)])
        if length > left:
            kept.append((set_cell_size(words, left).rstrip() + "…", name))
            return kept
        kept.append((words, name))
        left -= length
    return kept


def _cut_place(words: str, room: int) -> int:
    """After how many cells, `room` at most: part of a number would be read as another one. One that stands first has no
    other place."""
    before = 0
    for found in _PIECE.finditer(words):
        after = before + cell_len(found[0])
        if after > room:
            return before if found["amount"] and before else room
        before = after
    return room


def under_label(line: Sequence[Span]) -> int:
    """How far in the second word of a line begins, where the first is a label or a mark and spaces after it."""
    label = line[0][0] if len(line) > 1 else ""
    return cell_len(label) if label.endswith(" ") else 2


class Lines(Widget):
    """Shows `lines`; wraps each at the widget's width with a hanging indent, None: below what follows its label.

    Where it is lower than what it says, the last of its lines ends in an ellipsis if that stands in a sentence's midst.
    """

    def __init__(self, *, hang: int | None = 2, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._hang = hang
        self._lines: list[list[Span]] = []
        self._known: tuple[int, list[list[Span]]] = (-1, [])  # the width, and the lines at it
        self._begun: list[int] = []  # where among these each of `lines` begins, and how many they are

    def show(self, lines: list[list[Span]]) -> None:
        if (lines := self.worded(lines)) != self._lines:
            self._lines, self._known = lines, (-1, [])
            self.refresh(layout=True)

    def worded(self, lines: list[list[Span]]) -> list[list[Span]]:
        """As they can be written on this screen."""
        if not getattr(self.app, "is_ascii", False):
            return lines
        return [[(in_words(words), name) for words, name in line] for line in lines]

    def _laid(self, width: int) -> list[list[Span]]:
        if self._known[0] != width:
            most, room = max(0, width // 3), max(1, width)
            hangs = (under_label(line) if self._hang is None else self._hang for line in self._lines)
            each = zip(self._lines, hangs, strict=True)
            laid = [wrap_spans(line, room, min(hang, most)) for line, hang in each]
            self._begun = list(itertools.accumulate(map(len, laid), initial=0))
            self._known = width, [part for parts in laid for part in parts]
        return self._known[1]

    def _in_sight(self, width: int, height: int) -> list[list[Span]]:
        laid = self._laid(width)
        if not 0 < height < len(laid):
            return laid
        end = next((at for at in self._begun if at >= height), height)
        rest = [span for line in laid[height - 1 : end] for span in line]
        return [*laid[: height - 1], cut_spans(rest, width)]

    def lines_at(self, width: int) -> int:
        """How many lines it takes in a widget of that width."""
        return len(self._laid(width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._laid(width))

    def render(self) -> Text:
        out = Text(no_wrap=True, end="")
        for number, line in enumerate(self._in_sight(*self.content_size)):
            if number:
                out.append("\n")
            out.append_text(text_of(self, line))
        return out


class Prose(Lines):
    """Plain words, line by line, in the widget's own colour."""

    def __init__(self, words: str, *, classes: str | None = None) -> None:
        super().__init__(hang=0, classes=classes)
        self._words = words

    def on_mount(self) -> None:
        self.show([[(line, "")] for line in self._words.split("\n")])
