"""The tabs of a run's page: which parts of it each of them shows, and what its keys do there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on, work
from textual.reactive import var
from textual.worker import get_current_worker

from lavender_tui.model.run import Run
from lavender_tui.tui import keys
from lavender_tui.tui.messages import HistoryRead, MetricsRead, ProcessesSampled, Unread
from lavender_tui.tui.screens.run_actions import RunActions
from lavender_tui.tui.widgets.data_bars import DataBars
from lavender_tui.tui.widgets.history_table import HistoryTable, at_length, one_line, when_of
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.line_table import LineTable
from lavender_tui.tui.widgets.lines import Lines
from lavender_tui.tui.widgets.metric_plot import MetricPlot
from lavender_tui.tui.widgets.process_table import ProcessRow, ProcessTable, in_tree
from lavender_tui.tui.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from lavender_tui.watch.all_metrics import Reader
    from lavender_tui.watch.usage import Sampler

OVERVIEW, CHECKPOINTS, LOSS, DATA, PROCESSES, LOG, HISTORY = range(1, 8)
# What takes the focus in each; the log is a page of its own.
_FOCUS = {
    OVERVIEW: "#checkpoints", CHECKPOINTS: "#checkpoints", LOSS: "#metric", DATA: "#data",
    PROCESSES: "#processes", HISTORY: "#history",
}  # fmt: skip
_PLACES = {OVERVIEW: keys.OVERVIEW, LOSS: keys.CURVE, DATA: keys.DATA}
_SAMPLE_SECONDS = 2.0


class RunTabs(RunActions):
    """The tab that is open decides what is displayed; what only one tab needs is read when that is opened."""

    tab: var[int] = var(OVERVIEW)

    def __init__(self, tab: int = OVERVIEW) -> None:
        super().__init__()
        self.set_reactive(RunTabs.tab, tab)
        self._sampler: Sampler | None = None
        self._sampled_at = 0.0
        self._being_read: set[int] = set()  # the tabs: what takes longer than until it is asked for again is let finish
        self._metrics_reader: Reader | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """Where the table of keys has those that work in the open tab."""
        return (_PLACES[self.tab], keys.RUN) if self.tab in _PLACES else (keys.RUN,)

    @property
    def shown_run(self) -> Run:
        raise NotImplementedError

    @property
    def followers(self) -> Sequence[Run]:
        """The known runs that were resumed from it, oldest first."""
        raise NotImplementedError

    # Choosing

    def watch_tab(self) -> None:
        if self.is_mounted:
            self.open_tab()

    def open_tab(self) -> None:
        """Show what the tab has, and have it read."""
        self.query_one(TabBar).show(self.tab)
        for name in ("checkpoints", "metric", "data", "processes", "history"):
            self.query_one(f"#{name}").display = False
        self.lay_out()
        self.query_one(KeyBar).set_places(self.places)
        focus = self.query_one(_FOCUS[self.tab])
        (focus if focus.display else self.query_one("#facts-box")).focus()
        self.read_tab(is_new=True)

    def lay_out(self) -> None:
        """Display the parts of the open tab; the page's part of this."""
        tab = self.tab
        self.query_one("#metric").display = tab == LOSS
        self.query_one("#processes").display = tab == PROCESSES
        self.query_one("#history").display = self.query_one("#entry").display = tab == HISTORY

    def action_tab(self, number: int) -> None:
        if number == LOG:
            self.action_log()
        else:
            self.tab = number

    def action_next_tab(self, places: int) -> None:
        """The log isn't in this round: it is left with escape."""
        order = [OVERVIEW, CHECKPOINTS, LOSS, DATA, PROCESSES, HISTORY]
        self.tab = order[(order.index(self.tab) + places) % len(order)]

    @on(TabBar.Chosen)
    def _tab_chosen(self, event: TabBar.Chosen) -> None:
        self.action_tab(event.number)

    # Reading what a tab needs, in threads

    def read_tab(self, *, is_new: bool = False) -> None:
        """What the open tab shows, read anew; called when the run changed and once a second."""
        if self.tab == LOSS:
            self.query_one(MetricPlot).redraw()
        if self.tab in self._being_read:
            return
        if self.tab == LOSS:
            self._being_read.add(LOSS)
            self._read_metrics(self.shown_run.path)
        elif self.tab == HISTORY:
            self._being_read.add(HISTORY)
            self._read_history(self.shown_run, self.followers)
        elif self.tab == PROCESSES and (is_new or time.monotonic() - self._sampled_at > _SAMPLE_SECONDS):
            self._being_read.add(PROCESSES)
            self._sampled_at = time.monotonic()
            self._sample(self.shown_run)

    @work(thread=True, exclusive=True, group="metrics", exit_on_error=False, description="metrics")
    def _read_metrics(self, path: str) -> None:
        found: dict[str, list[tuple[float, float]]] = {}
        unread, worker = Unread(), get_current_worker()
        try:
            from lavender_tui.watch.all_metrics import Reader

            reader = self._metrics_reader
            if reader is None or reader.run_dir != path:
                reader = self._metrics_reader = Reader(path)
            found = reader.read(lambda: worker.is_cancelled)
            unread = Unread(reader.first_step, reader.left_out)
        finally:
            self.post_message(MetricsRead(path, found, unread))

    @work(thread=True, exclusive=True, group="history", exit_on_error=False, description="history")
    def _read_history(self, run: Run, followers: Sequence[Run]) -> None:
        from lavender_tui.tui.history import read_history

        found = None
        try:
            found = read_history(run, followers)
        finally:
            self.post_message(HistoryRead(run.path, found))

    @work(thread=True, exclusive=True, group="sample", exit_on_error=False, description="sample")
    def _sample(self, run: Run) -> None:
        rows = None
        try:
            rows = self._sampled(run)
        finally:
            self.post_message(ProcessesSampled(run.path, rows))

    def _sampled(self, run: Run) -> list[ProcessRow]:
        from lavender_tui.launch.identity import process_stat
        from lavender_tui.watch.usage import Sampler

        if self._sampler is None:
            self._sampler = Sampler()
        everybody = (*run.processes, *run.leftovers)
        usage = self._sampler.sample({str(one.pid): (one,) for one in everybody})
        stats = {one.pid: process_stat(one.pid) for one in everybody}
        parents = {pid: stat[1] for pid, stat in stats.items() if stat is not None}
        return in_tree(run.processes, parents, {int(pid): one for pid, one in usage.items()}, run.leftovers)

    def on_metrics_read(self, message: MetricsRead) -> None:
        self._being_read.discard(LOSS)
        if message.path == self.shown_run.path:
            self.show_metrics(message.metrics, message.unread)
        else:
            self.read_tab()

    def show_metrics(self, metrics: dict[str, list[tuple[float, float]]], unread: Unread) -> None:
        """The page adds what only it knows: the curve over all resumes, and its marks."""
        raise NotImplementedError

    def on_history_read(self, message: HistoryRead) -> None:
        self._being_read.discard(HISTORY)
        if message.rows is not None and message.path == self.shown_run.path:
            table = self.query_one(HistoryTable)
            table.say_nothing("nothing is recorded: no start, no stop, no end")
            table.set_rows(message.rows)
            self._tell_entry()

    @on(LineTable.Highlighted, "#history")
    def _tell_entry(self) -> None:
        """The entry under the cursor, whole: a line of the table cuts what matters most."""
        entry = self.query_one(HistoryTable).cursor_entry
        self.query_one("#entry", Lines).show([[(" ", ""), (one_line(entry), "")]] if entry is not None else [])

    def show_entry(self) -> None:
        """The same where it is longer than the screen has lines for."""
        from lavender_tui.tui.screens.ask import Document

        entry = self.query_one(HistoryTable).cursor_entry
        if entry is not None:
            self.app.push_screen(Document(f"{entry.what}, {when_of(entry)}", at_length(entry)))

    def on_processes_sampled(self, message: ProcessesSampled) -> None:
        self._being_read.discard(PROCESSES)
        if message.rows is not None and message.path == self.shown_run.path and self.tab == PROCESSES:
            table = self.query_one(ProcessTable)
            table.say_nothing("no process of it lives on this host")
            table.set_rows(message.rows)

    # Keys of single tabs

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("curve_move", "curve_zoom", "curve_log", "curve_smooth", "curve_metric"):
            return self.tab == LOSS
        if action == "beside":
            return self.tab == OVERVIEW and self.query_one("#checkpoints").display
        if action == "ranks":
            return self.tab == DATA and self.query_one(DataBars).has_splits
        if action == "tree":
            return self.tab == HISTORY or (self.tab in (OVERVIEW, CHECKPOINTS) and not self.shown_run.out_of_reach)
        if action == "find_setting":
            return self.tab == OVERVIEW
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str:
        if action.startswith("curve_"):
            return "that is for the curve: 3"
        return {
            "beside": "the facts are on the overview: 1",
            "ranks": "that is for where the data stands: 4",
            "tree": self.shown_run.out_of_reach or "nothing to open here; a checkpoint is opened under 2",
            "find_setting": "the settings are on the overview: 1",
        }.get(action) or super().why_not(action)

    def action_curve_move(self, places: int) -> None:
        self.query_one(MetricPlot).move(places)

    def action_curve_zoom(self, factor: float) -> None:
        self.query_one(MetricPlot).zoom(factor)

    def action_curve_log(self) -> None:
        self.query_one(MetricPlot).toggle_log()

    def action_curve_smooth(self) -> None:
        self.query_one(MetricPlot).next_smoothing()

    def action_curve_metric(self, places: int) -> None:
        self.query_one(MetricPlot).next_metric(places)

    def action_ranks(self, places: int) -> None:
        self.query_one(DataBars).next_world_size(places)
