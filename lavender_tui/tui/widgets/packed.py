"""Short entries side by side, as many on a line as there is room for; none is broken."""

from __future__ import annotations

from lavender_tui.tui.widgets.inks import Span, spans_length
from lavender_tui.tui.widgets.lines import Lines

Entry = list[Span]
_GAP = 3  # cells between two entries


def packed(entries: list[Entry], width: int) -> list[list[Span]]:
    """The entries on lines of at most `width` cells; a longer one has a line of its own."""
    lines: list[list[Span]] = []
    for entry in entries:
        if lines and spans_length(lines[-1]) + _GAP + spans_length(entry) <= width:
            lines[-1] += [(" " * _GAP, ""), *entry]
        else:
            lines.append(list(entry))
    return lines


class PackedLines(Lines):
    """What is shown are the entries."""

    def _laid(self, width: int) -> list[list[Span]]:
        return packed(self._lines, max(1, width))
