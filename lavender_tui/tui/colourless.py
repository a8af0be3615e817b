"""NO_COLOR: not one colour is sent, no grey either; what stands out does so by bold, underlined or reversed words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter, Monochrome, NoColor

_CONTRAST = 1.35  # from which a ground is one that is to be seen: a scroll bar's, a selection's
_ONLY = Style(dim=False, italic=False, blink=False, blink2=False, strike=False, overline=False)
_REVERSED = Style(reverse=True)


class Colourless(LineFilter):
    """Takes every colour away. Blank cells on a ground that differs from the screen's are drawn reversed: they are a
    scroll bar or the like, and would be nothing without their colour."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [self._plain(one, background) for one in segments]

    def _plain(self, segment: Segment, background: Color) -> Segment:
        text, style, control = segment
        if style is None:
            return segment
        return Segment(text, _without_colour(style, not text.strip(" ") and _is_seen(style, background)), control)


@lru_cache(4096)
def _without_colour(style: Style, is_seen: bool) -> Style:
    plain = style.without_color + _ONLY
    return plain + _REVERSED if is_seen and not style.reverse else plain


@lru_cache(1024)
def _is_seen(style: Style, background: Color) -> bool:
    if style.bgcolor is None or style.bgcolor.is_default:
        return False
    ground = Color.from_rich_color(style.bgcolor)
    light, dark = sorted((_luminance(ground), _luminance(background)), reverse=True)
    return (light + 0.05) / (dark + 0.05) > _CONTRAST


def _luminance(color: Color) -> float:
    """Relative luminance as WCAG 2 defines it: 0 for black, 1 for white."""
    parts = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in color.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def forgiving(filters: Sequence[LineFilter]) -> list[LineFilter]:
    """The same filters, with this one in the place of Textual's, which leave greys."""
    return [Colourless(one.enabled) if type(one) in (Monochrome, NoColor) else one for one in filters]
