"""Marked runs side by side: their curves in one plot, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, cast

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.worker import get_current_worker

from lavender_tui.model import text
from lavender_tui.model.compare import LOSS, Metrics, Points, Section, compare, curves_of, metric_names
from lavender_tui.model.run import Run
from lavender_tui.model.series import drawable
from lavender_tui.tui import keys
from lavender_tui.tui.messages import AllMetricsRead, Unread
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.themes import STATE_GLYPHS, state_ink
from lavender_tui.tui.widgets.chart import Chart, Line
from lavender_tui.tui.widgets.inks import INKS, Span, fit
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.lines import Lines
from lavender_tui.tui.widgets.plot_frame import PlotFrame

if TYPE_CHECKING:
    from lavender_tui.tui.app import LavenderApp
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.all_metrics import Reader
    from lavender_tui.watch.observe import Snapshot

MOST = 6  # columns, and curves that can be told apart
LETTERS = "ABCDEF"
_LED_IN = 4  # characters alike before a difference
_TRIED = 16  # places of a difference that a cut may begin at
_LABEL, _LEAST = 16, 12  # cells of a line's name, and of each run's column
_INKS = ("accent", "warn", "good", "bad", "strong", "quiet")


class CompareScreen(Orderly, Screen[None]):
    """Live: the runs are looked up again in every snapshot."""

    COMPONENT_CLASSES = INKS
    PLACE = keys.COMPARE
    BINDINGS = [  # noqa: RUF012
        *keys.bindings(keys.COMPARE),
        ("k,up", "scroll(-1)", "Up"),
        ("g,home", "ends(False)", "First line"),
        ("G,end", "ends(True)", "Last line"),
        ("ctrl+d", "half(1)", "Half a screen down"),
        ("ctrl+u", "half(-1)", "Half a screen up"),
        ("m", "curve_metric(1)", "Next metric"),
        ("M", "curve_metric(-1)", "Metric before"),
    ]
    AUTO_FOCUS = "#differences"
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (20, "-low"), (30, "-high")]  # noqa: RUF012

    def __init__(self, runs: Sequence[Run]) -> None:
        super().__init__()
        self._runs = list(runs[:MOST])
        self._left_out = len(runs) - len(self._runs)
        self._gone: frozenset[str] = frozenset()  # the keys of those that are no longer there
        self._metrics: list[Metrics] = [{} for _ in self._runs]
        self._unread: list[Unread] = [Unread() for _ in self._runs]
        self._metric, self._is_log, self._is_reading, self._is_read = LOSS, False, False, False
        self._readers: dict[str, Reader] = {}

    def compose(self) -> ComposeResult:
        yield Lines(id="title")
        yield Overlay(id="overlay")
        with VerticalScroll(id="differences"):
            yield Columns(hang=_LABEL + 2, id="sections")
        yield KeyBar(keys.COMPARE, id="keys")

    def on_mount(self) -> None:
        self._show()
        self._read()

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        now = {run.key: run for run in snapshot.runs}
        found = [now.get(run.key, run) for run in self._runs]
        gone = frozenset(run.key for run in found if run.key not in now) if snapshot.mode else self._gone
        if found != self._runs or gone != self._gone:
            self._runs, self._gone = found, gone
            self._show()
            self._read()

    def on_resize(self) -> None:
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        head: list[Span] = [(" compare  ", "accent"), (text.plural(len(self._runs), "run"), "strong")]
        if self._left_out:
            head.append((f"   the first {MOST} of those marked", "quiet"))
        self.query_one("#title", Lines).show([head])
        self._draw()
        self.query_one(Columns).show_with(self._lines)

    def _lines(self, width: int) -> list[list[Span]]:
        sections = compare(self._runs, self._metrics, self._metric, gone=self._gone)
        return section_lines(sections, self._runs, width, gone=self._gone)

    def _draw(self) -> None:
        names, is_loss = metric_names(self._metrics), self._metric == LOSS
        which = f"   metric {names.index(self._metric) + 1} of {len(names)}" if len(names) > 1 else ""
        units = sorted({run.losses_by for run in self._runs}) if is_loss else ["step"]
        curves = curves_of(self._runs, self._metrics, self._metric)
        gaps = sum(point.is_no_number for run in self._runs for point in run.losses) if is_loss else 0
        left = _left_out(self._unread, is_loss)
        self.query_one(Overlay).show(
            self._metric, units, which, curves, gaps, left, is_log=self._is_log, is_reading=not self._is_read
        )

    # What they logged besides the loss

    def _read(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            paths = [None if run.key in self._gone else run.path for run in self._runs]
            self._read_metrics(paths, list(self._metrics), list(self._unread))

    @work(thread=True, exclusive=True, group="metrics", exit_on_error=False, description="metrics")
    def _read_metrics(self, paths: list[str | None], found: list[Metrics], unread: list[Unread]) -> None:
        """Told run by run, as a long file takes its time; of one that is gone (None) what is known stays."""
        from lavender_tui.watch.all_metrics import Reader

        worker = get_current_worker()
        try:
            for at, path in enumerate(paths):
                if path is None:
                    continue
                reader = self._readers.setdefault(path, Reader(path))
                read = reader.read(lambda: worker.is_cancelled)
                if worker.is_cancelled:
                    break
                found[at], unread[at] = read, Unread(reader.first_step, reader.left_out)
                self.post_message(AllMetricsRead(list(found), list(unread), is_over=False))
        finally:
            self.post_message(AllMetricsRead(found, unread, is_over=True))

    def on_all_metrics_read(self, message: AllMetricsRead) -> None:
        before = (self._metrics, self._unread, self._is_read)
        if message.is_over:
            self._is_reading, self._is_read = False, True
        self._metrics, self._unread = message.metrics, message.unread
        if before != (self._metrics, self._unread, self._is_read):
            if self._metric not in metric_names(self._metrics):
                self._metric = LOSS
            self._show()

    def action_curve_metric(self, places: int = 1) -> None:
        names = metric_names(self._metrics)
        if len(names) < 2:
            why = "nothing but the loss was logged" if self._is_read else "what else was logged is still being read"
            cast("LavenderApp", self.app).remark("m" if places > 0 else "M", why)
            return
        self._metric = names[(names.index(self._metric) + places) % len(names)]
        self._show()

    def action_curve_log(self) -> None:
        self._is_log = not self._is_log
        self._draw()

    def action_scroll(self, lines: int) -> None:
        self.query_one("#differences").scroll_relative(y=lines, animate=False)

    def action_half(self, places: int) -> None:
        body = self.query_one("#differences")
        body.scroll_relative(y=places * max(1, body.size.height // 2), animate=False)

    def action_ends(self, is_end: bool) -> None:
        body = self.query_one("#differences")
        body.scroll_to(y=body.max_scroll_y if is_end else 0, animate=False)

    def action_copy_text(self) -> None:
        """The differences as text, whole, whatever fits on the screen."""
        lines = self._lines(200)
        words = "\n".join("".join(part for part, _ in line).rstrip() for line in lines)
        cast("LavenderApp", self.app).copy(words, "the comparison")

    def action_back(self) -> None:
        self.app.pop_screen()


def section_lines(
    sections: Sequence[Section], runs: Sequence[Run], width: int, *, gone: Container[str] = ()
) -> list[list[Span]]:
    """Every section as lines of at most `width` cells, a column a run: as many as there is room for.

    `gone`: the keys of runs that are no longer there.
    """
    columns = max(1, min(len(runs), (width - _LABEL) // (_LEAST + 2)))
    room = max(1, (width - _LABEL) // columns - 2)
    lines = [_names(runs[:columns], room, gone)]
    if left := LETTERS[columns : len(runs)]:
        words = f"… and {len(left)} more on a wider screen ({' '.join(left)}); y copies all"
        lines.append([(text.clean(words, 200), "warn")])
    for section in sections:
        lines += [[], [(section.title, "title"), *_same(section)]]
        for line in section.lines:
            if section.title == "command":
                lines += [_one(LETTERS[at], value, _INKS[at]) for at, value in enumerate(line.values)]
                continue
            ink = "strong" if line.differs else ""
            cells: list[Span] = [(fit(text.clean(line.name, 80), _LABEL, elide="middle"), "quiet")]
            shown_values = line.values[:columns]
            for value, shown in zip(shown_values, telling(shown_values, room), strict=True):
                cells += [("  ", ""), (shown, ink if value else "faint")]
            lines.append(cells)
    return lines


def telling(values: Sequence[str], room: int) -> list[str]:
    """Each in `room` cells, cut so that the difference shows: in the middle; from the left up to where they differ,
    where that would leave two that look the same."""
    whole = [text.clean(value, 2_000) or text.NONE for value in values]
    cut = [fit(value, room, elide="middle") for value in whole]
    if len(set(cut)) == len(set(whole)):
        return cut
    differ = [at for at, chars in enumerate(zip(*whole, strict=False)) if len(set(chars)) > 1]
    places = differ[:_TRIED] or [min(map(len, whole))]
    best = cut
    for at, lead in ((at, lead) for lead in (_LED_IN, 0) for at in places):
        way = [_from(value, at, lead, room) for value in whole]
        if len(set(way)) == len(set(whole)):
            return way
        best = max(best, way, key=lambda one: len(set(one)))
    return best


def _from(value: str, at: int, lead: int, room: int) -> str:
    return fit(value, room) if at < room - 1 else fit("…" + value[at - lead :], room)


def _names(runs: Sequence[Run], room: int, gone: Container[str]) -> list[Span]:
    spans: list[Span] = [(" " * _LABEL, "")]
    for at, (run, name) in enumerate(zip(runs, telling([run.title for run in runs], room - 4), strict=True)):
        spans += [("  ", ""), (f"{LETTERS[at]} ", _INKS[at])]
        is_gone = run.key in gone
        spans.append((f"{text.NONE} ", "faint") if is_gone else (f"{STATE_GLYPHS[run.state]} ", state_ink(run.state)))
        spans.append((name, "faint" if is_gone else "strong"))
    return spans


def _one(letter: str, words: str, ink: str) -> list[Span]:
    return [(f"{letter}  ", ink), (text.clean(words, 1_000) or text.NONE, "" if words else "faint")]


def _same(section: Section) -> list[Span]:
    return [(f"   {section.same:,} the same", "faint")] if section.same else []


class Columns(Lines):
    """Made for the width that it has: no line of columns ever wraps."""

    _lines_of: Callable[[int], list[list[Span]]] | None = None

    def show_with(self, lines_of: Callable[[int], list[list[Span]]]) -> None:
        self._lines_of = lines_of
        self._known = (-1, [])
        self.refresh(layout=True)

    def _laid(self, width: int) -> list[list[Span]]:
        if self._known[0] != width and self._lines_of is not None:
            self._lines = self.worded(self._lines_of(width))
        return super()._laid(width)


class Overlay(PlotFrame):
    """One metric of several runs in one plot; each curve ends in its letter, so that no colour is needed."""

    TITLE_ID = "overlay-title"

    def show(
        self,
        metric: str,
        units: Sequence[str],
        which: str,
        curves: Sequence[Points],
        gaps: int = 0,
        left_out: Sequence[str] = (),
        *,
        is_log: bool = False,
        is_reading: bool = False,
    ) -> None:
        """`units`: what is counted along the curves; `which`: the metric's place among all; `gaps`: values that were no
        finite number; `left_out`: what wasn't read, in words."""
        note = f" (some count {units[0]}s, some {units[1]}s)" if len(units) > 1 else ""
        scale = "   log scale" if is_log else ""
        drawn = [[point for point in drawable(points) if point[1] > 0 or not is_log] for points in curves]
        lines = tuple(Line(tuple(points), _INKS[at], LETTERS[at]) for at, points in enumerate(drawn))
        chart = Chart(lines, x_name=" or ".join(units), is_log=is_log) if any(drawn) else None
        title = "LOSS" if metric == LOSS else text.clean(metric, 40)
        head: list[Span] = [(title, "title"), (f"  by {' and '.join(units)}{note}{scale}{which}", "quiet")]
        if is_reading:
            head.append(("   reading…", "quiet"))
        if chart is None and not is_reading and not any(curves) and not gaps:
            head.append(("   nothing was recorded", "quiet"))
        if lost := gaps + sum(map(len, curves)) - sum(map(len, drawn)):
            head.append((f"   {_lost(lost, chart is None, is_log)}", "warn"))
        if left_out:
            head.append((f"   {', '.join(left_out)}", "warn"))
        self.draw(head, chart)


def _left_out(unread: Sequence[Unread], is_loss: bool) -> list[str]:
    """Of each run; the loss is read from the beginning, and thinned."""
    words = []
    for letter, one in zip(LETTERS, unread, strict=False):
        if one.first_step is not None and not is_loss:
            words.append(f"{letter} from step {one.first_step:,.0f} on")
        if one.metrics:
            words.append(f"{letter}: {one.metrics}")
    return words


def _lost(count: int, is_all: bool, is_log: bool) -> str:
    scale = " on a log scale" if is_log else ""
    if is_all:
        return f"none of {text.plural(count, 'point')} can be drawn{scale}"
    return f"{text.plural(count, 'point')} can't be drawn{scale}"
