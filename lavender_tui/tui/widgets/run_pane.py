"""Below the list: the run under the cursor, why it is in its state, its loss, and where a resume would start.

What is said of a run that was read is imported when there is one: the first frame has only names.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.strip import Strip
from textual.widget import Widget

from lavender_tui.model import text
from lavender_tui.model.ending import stopping_words
from lavender_tui.model.run import Run
from lavender_tui.model.series import finite
from lavender_tui.tui import ages
from lavender_tui.tui.themes import STATE_GLYPHS, state_ink
from lavender_tui.tui.widgets.inks import Span, fit, ground, spans_length, strip_of
from lavender_tui.tui.widgets.lines import cut_spans, wrap_at_most, wrap_spans
from lavender_tui.tui.widgets.run_table import short_loss

_LABEL = 9  # cells for the numbers beside the curve
_CURVE_MOST, _CURVE_LEAST = 80, 3
_FACTS = 62  # cells for the words beside a curve
_HEAD_MOST, _HANG = 3, 3  # lines of the name and the reason, and how far those after the first are in
_SMALL = 4  # a pane of up to that many lines shows no curve
_WIDE = 100  # from that width on the curve stands beside the words


class RunPane(Widget):
    """Repaints only when what it would say differs, line by line: every move of the cursor does."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._run: Run | None = None
        self._followers: Sequence[Run] = ()
        self._drawn: list[list[Span]] = []

    def show(self, run: Run | None, followers: Sequence[Run] = ()) -> None:
        """The run under the cursor, and the runs that were resumed from it."""
        self._run, self._followers = run, followers
        self.tick()

    def tick(self) -> None:
        drawn = self._lines()
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def on_resize(self) -> None:
        self.tick()

    def render_line(self, y: int) -> Strip:
        return strip_of(self, self._drawn[y] if y < len(self._drawn) else [], self.size.width, ground(self))

    def _lines(self) -> list[list[Span]]:
        run = self._run
        width, height = self.size.width, self.size.height
        if run is None or width < 4 or height < 1:
            return []
        if run.is_unread:
            return [[(" " + text.clean(run.title, 80), "strong"), (f"   {run.state_reason}", "quiet")]]
        from lavender_tui.tui.outlook import follower_lines, outlook

        facts, followers = (
            outlook(run, readonly=getattr(self.app, "is_readonly", False)),
            follower_lines(self._followers),
        )
        head = self._head(run)
        if width < _WIDE or height <= _SMALL:
            kept = min(height - 1, len(facts) + min(1, len(followers)))
            lines = wrap_at_most(head, width, max(1, height - kept), _HANG)
            return [*lines, *self._stacked(run, facts, width, height - len(lines))][:height]
        most = max(1, min(_HEAD_MOST, height - 1 - len(facts) - len(followers)))
        lines = wrap_at_most(head, width, most, _HANG)
        return [*lines, *self._beside(run, facts, width, height - len(lines))][:height]

    def _beside(self, run: Run, facts: list[list[Span]], width: int, height: int) -> list[list[Span]]:
        """The curve on the left, what is known on the right."""
        beside = self._curve(run, width - _FACTS, height)
        room = width - (spans_length(beside[0]) if beside else 1)
        wrapped = [line for fact in facts for line in wrap_spans(fact, room - 1, 4)]
        followers = _fitting(self._followers, height - len(wrapped))
        wrapped = wrapped[: height - len(followers)] + [cut_spans(line, room - 1) for line in followers]
        if run.usage is not None and len(wrapped) < height:
            from lavender_tui.tui.usage_words import usage_line

            wrapped.append(cut_spans([("  uses ", "quiet"), (usage_line(run.usage), "")], room - 1))
        rows = [wrapped[row] if row < len(wrapped) else [] for row in range(height)]
        left: list[list[Span]] = beside or [[(" ", "")]] * height
        return [[*left[row], *rows[row]] for row in range(height)]

    def _stacked(self, run: Run, facts: list[list[Span]], width: int, height: int) -> list[list[Span]]:
        """Facts above, the curve below them where there is height for one."""
        followers = _fitting(self._followers, height - len(facts)) if height > 1 else []
        lines = [
            cut_spans([(" ", ""), *fact], width) for fact in [*facts[: max(0, height - len(followers))], *followers]
        ]
        left = height - len(lines)
        return lines + (self._curve(run, width, left) if left >= _CURVE_LEAST else [])

    def _head(self, run: Run) -> list[Span]:
        ended = run.end.ended_at if run.end else None
        when = f", {_when(ages.since(ended, time.time()))}" if ended else ""
        stopping = stopping_words(run, time.time())
        reason = stopping or text.clean(run.state_reason, 400)
        word = "" if stopping or reason.startswith(run.state.value) else f" {run.state.value}:"
        head: list[Span] = [
            (" " + text.clean(run.title, 80), "strong"),
            (f"   {STATE_GLYPHS[run.state]}{word} ", state_ink(run.state)),
            (_dated(reason, when, run), ""),
        ]
        if run.keeper is not None:
            from lavender_tui.model.kept import kept_words

            ink = "warn" if run.keeper.is_alive is False else "quiet"
            head.append((f"   {kept_words(run.keeper, time.time())}", ink))
        if due := ages.next_save(run, time.time()):
            head.append((f"   {due}", "quiet"))
        head += [
            (f"   ! {text.clean(warning, 200)}", "warn") for warning in run.warnings[:1] if warning != run.state_reason
        ]
        return head

    def _curve(self, run: Run, width: int, height: int) -> list[list[Span]]:
        from lavender_tui.tui.widgets.curve import draw

        room = min(_CURVE_MOST, width - _LABEL - 5)
        points = [(point.step, point.loss) for point in run.losses]
        curve = draw(points, room, height) if len(finite(points)) > 1 else None
        if curve is None:
            return []
        labels = {0: short_loss(curve.high, None), height - 1: short_loss(curve.low, None)}
        if height > 2:
            labels.setdefault(1, "loss")
        lines: list[list[Span]] = []
        for row, dots in enumerate(curve.lines):
            mark = "┤" if row in (0, height - 1) else "│"
            label = fit(labels.get(row, ""), _LABEL, right=True)
            lines.append([(f"{label} ", "quiet"), (mark, "faint"), (dots, "accent"), ("   ", "")])
        return lines


def _when(ago: str) -> str:
    """After a sentence, "now" alone would be read as a part of it."""
    return "just now" if ago == "now" else ago


def _dated(reason: str, when: str, run: Run) -> str:
    """When it ended is said before what it left running, which is now."""
    ended, between, left = reason.rpartition("; ") if run.leftovers else (reason, "", "")
    return f"{ended}{when}{between}{left}"


def _fitting(followers: Sequence[Run], room: int) -> list[list[Span]]:
    """Who carried it on, in full where there is room, else in one line with how many they are."""
    from lavender_tui.tui.outlook import follower_lines

    lines = follower_lines(followers)
    return lines if len(lines) <= room else follower_lines(followers, 0)
