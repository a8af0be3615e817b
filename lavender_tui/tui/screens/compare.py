"""Marked runs side by side: their curves in one plot, and what differs between them."""

from __future__ import annotations

from collections.abc import Sequence
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
from lavender_tui.tui.messages import AllMetricsRead
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
        self._metrics: list[Metrics] = []  # as many as runs, once they are read
        self._metric, self._is_log, self._is_reading = LOSS, False, False
        self._readers: dict[str, Reader] = {}

    def compose(self) -> ComposeResult:
        yield Lines(id="title")
        yield Overlay(id="overlay")
        with VerticalScroll(id="differences"):
            yield Lines(hang=_LABEL + 2, id="sections")
        yield KeyBar(keys.COMPARE, id="keys")

    def on_mount(self) -> None:
        self._show()
        self._read()

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        now = {run.key: run for run in snapshot.runs}
        found = [now.get(run.key, run) for run in self._runs]
        if found != self._runs:
            self._runs = found
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
        width = max(20, self.query_one("#differences").scrollable_content_region.width or self.size.width - 2)
        self.query_one("#sections", Lines).show(section_lines(self._sections(), self._runs, width))

    def _sections(self) -> tuple[Section, ...]:
        return compare(self._runs, self._metrics, self._metric)

    def _draw(self) -> None:
        names = metric_names(self._metrics)
        which = f"   metric {names.index(self._metric) + 1} of {len(names)}" if len(names) > 1 else ""
        units = sorted({run.losses_by for run in self._runs}) if self._metric == LOSS else ["step"]
        curves = curves_of(self._runs, self._metrics, self._metric)
        self.query_one(Overlay).show(self._metric, units, which, curves, is_log=self._is_log)

    # What they logged besides the loss

    def _read(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._read_metrics([run.path for run in self._runs])

    @work(thread=True, exclusive=True, group="metrics", exit_on_error=False)
    def _read_metrics(self, paths: list[str]) -> None:
        from lavender_tui.watch.all_metrics import Reader

        worker = get_current_worker()
        found: list[Metrics] = []
        try:
            for path in paths:
                reader = self._readers.setdefault(path, Reader(path))
                found.append(reader.read(lambda: worker.is_cancelled))
        finally:
            self.post_message(AllMetricsRead(found if len(found) == len(paths) else []))

    def on_all_metrics_read(self, message: AllMetricsRead) -> None:
        self._is_reading = False
        if message.metrics and message.metrics != self._metrics:
            self._metrics = message.metrics
            if self._metric not in metric_names(self._metrics):
                self._metric = LOSS
            self._show()

    def action_curve_metric(self, places: int = 1) -> None:
        names = metric_names(self._metrics)
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
        lines = section_lines(self._sections(), self._runs, 200)
        words = "\n".join("".join(part for part, _ in line).rstrip() for line in lines)
        cast("LavenderApp", self.app).copy(words, "the comparison")

    def action_back(self) -> None:
        self.app.pop_screen()


def section_lines(sections: Sequence[Section], runs: Sequence[Run], width: int) -> list[list[Span]]:
    """Every section as lines of at most `width` cells, a column a run."""
    room = max(_LEAST, (width - _LABEL) // max(1, len(runs)) - 2)
    lines = [_names(runs, room)]
    for section in sections:
        lines += [[], [(section.title, "title"), *_same(section)]]
        for line in section.lines:
            if section.title == "command":
                lines += [_one(LETTERS[at], value, _INKS[at]) for at, value in enumerate(line.values)]
                continue
            ink = "strong" if line.differs else ""
            cells: list[Span] = [(fit(text.clean(line.name, 80), _LABEL, elide="middle"), "quiet")]
            for value, shown in zip(line.values, telling(line.values, room), strict=True):
                cells += [("  ", ""), (shown, ink if value else "faint")]
            lines.append(cells)
    return lines


def telling(values: Sequence[str], room: int) -> list[str]:
    """Each in `room` cells, cut so that the difference shows: in the middle; from the left up to where the first of
    them differs, where that would leave two that look the same."""
    whole = [text.clean(value, 2_000) or text.NONE for value in values]
    cut = [fit(value, room, elide="middle") for value in whole]
    if len(set(cut)) == len(set(whole)):
        return cut
    alike = next(
        (at for at, chars in enumerate(zip(*whole, strict=False)) if len(set(chars)) > 1), min(map(len, whole))
    )
    return [fit(value, room) if alike < room - 1 else fit("…" + value[alike - _LED_IN :], room) for value in whole]


def _names(runs: Sequence[Run], room: int) -> list[Span]:
    spans: list[Span] = [(" " * _LABEL, "")]
    for at, run in enumerate(runs):
        spans += [("  ", ""), (f"{LETTERS[at]} ", _INKS[at])]
        spans += [(f"{STATE_GLYPHS[run.state]} ", state_ink(run.state))]
        spans.append((fit(text.clean(run.title, 80), room - 4, elide="middle"), "strong"))
    return spans


def _one(letter: str, words: str, ink: str) -> list[Span]:
    return [(f"{letter}  ", ink), (text.clean(words, 1_000) or text.NONE, "" if words else "faint")]


def _same(section: Section) -> list[Span]:
    return [(f"   {section.same:,} the same", "faint")] if section.same else []


class Overlay(PlotFrame):
    """One metric of several runs in one plot; each curve ends in its letter, so that no colour is needed."""

    TITLE_ID = "overlay-title"

    def show(
        self, metric: str, units: Sequence[str], which: str, curves: Sequence[Points], *, is_log: bool = False
    ) -> None:
        """`units`: what is counted along the curves; `which`: the metric's place among all."""
        note = f" (some count {units[0]}s, some {units[1]}s)" if len(units) > 1 else ""
        scale = "   log scale" if is_log else ""
        drawn = [[point for point in drawable(points) if point[1] > 0 or not is_log] for points in curves]
        lines = tuple(Line(tuple(points), _INKS[at], LETTERS[at]) for at, points in enumerate(drawn))
        chart = Chart(lines, x_name=" or ".join(units), is_log=is_log) if any(drawn) else None
        title = "LOSS" if metric == LOSS else text.clean(metric, 40)
        self.draw([(title, "title"), (f"  by {' and '.join(units)}{note}{scale}{which}", "quiet")], chart)
