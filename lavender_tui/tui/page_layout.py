"""How high each part of a run's page is. The checkpoints come first, the plot and the data share what they leave."""

from __future__ import annotations

from dataclasses import dataclass

ROWS_LEAST = 6  # checkpoints that stay in sight
BARS = 3  # the title, the tabs and the keys
_OUTLOOK_MOST, _PLOT_LEAST, _DATA_LEAST, _DATA_MOST = 9, 9, 3, 10
_FACTS_LEAST = 7  # lines of facts that stay in sight on a low terminal, where no checkpoints are below them
_TALL = 45  # from that height on the plot may grow
LOW = 30  # below that height no rule is drawn above the outlook


@dataclass(frozen=True, slots=True)
class Heights:
    """Lines of each part, rules included; 0: it isn't shown. The checkpoints take all that is left."""

    plot: int
    outlook: int
    data: int


def outlook_alone(height: int, outlook: int) -> int:
    """Lines of words on a low terminal, where nothing but the facts is beside them: all of it, for it ends with the
    news, such as what the run was resumed as, and the facts can be scrolled."""
    return max(0, min(outlook, height - BARS - 1 - _FACTS_LEAST))


def heights(height: int, *, outlook: int, checkpoints: int, splits: int | None) -> Heights:
    """For a terminal `height` lines high, `outlook` lines of words, and so many checkpoints and splits (None: unknown).

    The parts never exceed the height, so that the page has nothing to scroll: its title is always in sight.
    """
    rows = 2 + min(max(1, checkpoints), ROWS_LEAST)  # a rule and the column titles above them
    left = max(0, height - BARS - rows)
    rule = 0 if height < LOW else 1
    words = min(outlook, _OUTLOOK_MOST if height >= LOW else 4, max(0, left - rule))
    words = words + rule if words else 0
    left -= words
    wanted = min(_DATA_MOST, 2 + (splits if splits is not None else _DATA_MOST))  # a rule and the heading
    data = min(wanted, left) if left >= _DATA_LEAST else 0
    plot = 0
    if height >= LOW and left - min(data, 5) >= _PLOT_LEAST:
        data = min(data, left - _PLOT_LEAST)
        plot = min(left - data, max(_PLOT_LEAST + 5, height * 2 // 5) if height >= _TALL else _PLOT_LEAST + 5)
    return Heights(plot=plot, outlook=words, data=data)
