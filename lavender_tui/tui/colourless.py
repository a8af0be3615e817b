"""NO_COLOR: Textual's filter, and the lines of widgets that give a segment no style at all."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter, Monochrome

_NO_STYLE = Style.null()


class Colourless(Monochrome):
    """Grey for every colour. Textual's own takes each segment to have a style; the plot's empty lines have none."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        styled = [Segment(text, _NO_STYLE if style is None else style, None) for text, style, _ in segments]
        return super().apply(styled, background)


def forgiving(filters: Sequence[LineFilter]) -> list[LineFilter]:
    """The same filters, with this one in the place of Textual's."""
    return [Colourless(one.enabled) if type(one) is Monochrome else one for one in filters]
