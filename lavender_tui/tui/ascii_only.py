"""The whole screen in ASCII: what every widget has drawn, sign by sign, on its way to the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from lavender_tui.model.ascii import to_ascii


class AsciiOnly(LineFilter):
    """No layout moves: each sign is replaced by as many cells as it took."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [self._plain(one) for one in segments]

    def _plain(self, segment: Segment) -> Segment:
        text, style, control = segment
        if control or text.isascii():
            return segment
        plain, width = to_ascii(text), cell_len(text)
        return Segment(plain.ljust(width)[:width], style, None)


def terminal_is_ascii(environ: Mapping[str, str] = os.environ) -> bool:
    """Is it a terminal without Braille? Told by TERM alone: a C locale is what ssh and containers have by default, on
    terminals that know UTF-8 very well."""
    return environ.get("TERM", "") in ("linux", "vt100", "vt102", "vt220", "dumb")
