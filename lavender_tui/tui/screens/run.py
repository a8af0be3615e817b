"""A run's page: its tabs, and what all of them share. Live as the list is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.worker import get_current_worker

from lavender_tui.errors import LavenderError
from lavender_tui.model import text
from lavender_tui.model.choosing import in_run, why_passed_over
from lavender_tui.model.ending import stopping_words
from lavender_tui.model.gone import as_gone
from lavender_tui.model.lineage import Family
from lavender_tui.model.run import Run
from lavender_tui.model.series import finite
from lavender_tui.tui import keys
from lavender_tui.tui.facts import fact_lines, settings_lines
from lavender_tui.tui.messages import PositionRead, Unread
from lavender_tui.tui.outlook import none_saved_words, outlook
from lavender_tui.tui.page_layout import BARS, LOW, ROWS_LEAST, heights, outlook_alone
from lavender_tui.tui.position import DataPosition, read_position
from lavender_tui.tui.screens.run_tabs import CHECKPOINTS, DATA, HISTORY, OVERVIEW, PROCESSES, RunTabs
from lavender_tui.tui.themes import STATE_GLYPHS, state_ink
from lavender_tui.tui.widgets.checkpoint_table import CheckpointTable
from lavender_tui.tui.widgets.data_bars import DataBars
from lavender_tui.tui.widgets.facts_box import FactsBox
from lavender_tui.tui.widgets.history_table import HistoryTable
from lavender_tui.tui.widgets.inks import INKS, Span, spans_length
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.line_table import LineTable
from lavender_tui.tui.widgets.lines import Lines
from lavender_tui.tui.widgets.loss_plot import LossPlot
from lavender_tui.tui.widgets.metric_plot import MetricPlot
from lavender_tui.tui.widgets.process_table import ProcessTable
from lavender_tui.tui.widgets.tab_bar import TabBar

if TYPE_CHECKING:
    from lavender_tui.model.checkpoint import Checkpoint
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot


class RunScreen(RunTabs, Screen[None]):
    """Live as the list is. A run that is gone stays as it was last seen, and says so."""

    COMPONENT_CLASSES = INKS
    PLACE = keys.RUN
    BINDINGS = [  # noqa: RUF012
        *keys.bindings(keys.CURVE),
        *keys.bindings(keys.DATA),
        *keys.bindings(keys.RUN),
        *((f"{number}", f"tab({number})", name) for number, name in enumerate(keys.TABS, 1)),
        ("tab", "next_tab(1)", "Next tab"),
        ("shift+tab", "next_tab(-1)", "Tab before"),
        ("right", "aside(1)", "Right"),
        ("left", "aside(-1)", "Left"),
        ("shift+right", "aside(10)", "Far right"),
        ("shift+left", "aside(-10)", "Far left"),
        ("plus", "curve_zoom(2)", "Closer"),
        ("minus", "curve_zoom(0.5)", "Farther"),
        ("0", "curve_zoom(0)", "All of it"),
        ("m", "curve_metric(1)", "Next metric"),
        ("M", "curve_metric(-1)", "Metric before"),
    ]
    AUTO_FOCUS = "CheckpointTable"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (12, "-low"), (30, "-high")]  # noqa: RUF012

    def __init__(self, run: Run, tab: int = OVERVIEW) -> None:
        super().__init__(tab)
        self._run = run
        self._sequence = 0
        self._positions: dict[tuple[str, int], DataPosition] = {}
        self._wanted_position: Checkpoint | None = None
        self._wanted_setting = ""
        self._followers: Sequence[Run] = ()
        self._source: Run | None = None  # the run that it was resumed from, if it is known here
        self._settings: list[list[Span]] = []

    def compose(self) -> ComposeResult:
        yield Lines(id="title")
        yield TabBar(keys.TABS, self.tab, id="tabs")
        with Horizontal(id="above"):
            yield LossPlot(id="loss")
            yield FactsBox(id="facts-box")
        yield Lines(id="outlook")
        yield CheckpointTable(id="checkpoints")
        yield MetricPlot(id="metric")
        yield DataBars(id="data")
        yield ProcessTable(id="processes")
        yield HistoryTable(id="history")
        yield Lines(hang=1, id="entry")
        yield KeyBar(keys.RUN, id="keys")

    def on_mount(self) -> None:
        self.query_one(MetricPlot).can_focus = self.query_one(DataBars).can_focus = True
        self._show()
        self.set_interval(1.0, self._tick)
        if self.tab != OVERVIEW:
            self.open_tab()

    @property
    def cursor_run(self) -> Run | None:
        return self._run

    @property
    def shown_run(self) -> Run:
        return self._run

    @property
    def cursor_checkpoint(self) -> Checkpoint | None:
        """A checkpoint that was chosen here: the sheet opens on it instead of the default."""
        table = self.query_one(CheckpointTable)
        chosen = table.cursor_checkpoint
        default = in_run(self._run.checkpoints, bad=dict(self._run.known_bad)).checkpoint
        is_default = chosen is None or (default is not None and chosen.path == default.path)
        return None if is_default or chosen is None or not chosen.is_usable else chosen

    @property
    def passed_over(self) -> str:
        """Of an unusable one below the default; those above it are explained on the sheet itself."""
        chosen = self.query_one(CheckpointTable).cursor_checkpoint
        default = in_run(self._run.checkpoints, bad=dict(self._run.known_bad)).checkpoint
        if chosen is None or chosen.is_usable or (default is not None and default.order < chosen.order):
            return ""
        name, why = chosen.path.rsplit("/", 1)[-1], why_passed_over(chosen) or chosen.wholeness.value
        return f"{name} can't be resumed from: {why}"

    @property
    def followers(self) -> Sequence[Run]:
        return self._followers

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """The same run as it is now."""
        found = next((run for run in snapshot.runs if run.key == self._run.key), None)
        if found is None:
            self._run = as_gone(self._run)
        elif found is not self._run:
            self._run = found
        self._show()

    def _show(self) -> None:
        run = self._run
        bad = dict(run.known_bad)
        choice = in_run(run.checkpoints, bad=bad)
        self._show_title()
        family = Family(self.known_runs)
        self._source = family.parent(run)
        self._read_settings()
        self._followers = family.children(run)
        self._show_outlook()
        stitched = family.stitched(run)
        self._resumes = [mark.step for mark in stitched.marks if mark.kind == "resume"]
        self._saves = [(mark.step, mark.save_count) for mark in stitched.marks if mark.kind == "checkpoint"]
        self._curve, self._counts = stitched.points if self._resumes else run.losses, stitched.axis
        self.query_one(LossPlot).show(
            self._curve,
            self._resumes,
            saves=[step for step, _ in self._saves],
            counts=self._counts,
            is_whole=stitched.is_whole,
        )
        table = self.query_one(CheckpointTable)
        table.say_nothing(none_saved_words(run))
        table.set_checkpoints(run.checkpoints, choice.checkpoint.path if choice.checkpoint else None, bad)
        self._show_position()
        self.query_one(KeyBar).recheck()
        self.lay_out()
        self.read_tab()

    def lay_out(self) -> None:
        super().lay_out()
        is_overview, is_low = self.tab == OVERVIEW, self.size.height < LOW
        for name in ("#above", "#outlook"):
            self.query_one(name).display = is_overview
        self.query_one("#checkpoints").display = self.tab == CHECKPOINTS or (is_overview and not is_low)
        data = self.query_one(DataBars)
        data.display = self.tab in (CHECKPOINTS, DATA)
        data.styles.height = "1fr" if self.tab == DATA else "auto"
        if is_overview:
            self._fit()
            self._focus_what_is_there()
        elif self.tab == CHECKPOINTS:
            splits = self._run.newest.rank_states.num_splits if self._run.newest else None
            room = self.size.height - BARS - 2 - ROWS_LEAST  # a rule and the titles above the rows
            data.styles.height = min(2 + (splits or 2), self.size.height // 3, max(1, room))
            data.display = room >= 3

    def _focus_what_is_there(self) -> None:
        """A terminal that shrank may have hidden what had the focus."""
        if self.focused is None or not self.focused.display:
            table = self.query_one("#checkpoints")
            (table if table.display else self.query_one(FactsBox)).focus()

    def _fit(self) -> None:
        """Give each part of the overview its lines; nothing is left for the page itself to scroll."""
        newest = self._run.newest
        words = self.query_one("#outlook", Lines)
        fitted = heights(
            self.size.height,
            outlook=words.lines_at(self.size.width),
            checkpoints=len(self._run.checkpoints),
            splits=newest.rank_states.num_splits if newest else 0,
        )
        above, data = self.query_one("#above"), self.query_one(DataBars)
        words.display, words.styles.height = fitted.outlook > 0, max(1, fitted.outlook)
        if self.size.height < LOW:  # no room for both: the facts, for the checkpoints have a tab
            alone = outlook_alone(self.size.height, words.lines_at(self.size.width))
            words.display, words.styles.height = alone > 0, max(1, alone)
            above.display, above.styles.height = True, "1fr"
            self.query_one(LossPlot).display = False
            return
        self.query_one(LossPlot).display = True
        above.display, above.styles.height = fitted.plot > 0, max(1, fitted.plot - 1)  # a line of air above it
        data.display, data.styles.height = fitted.data > 0, max(1, fitted.data)

    def _read_settings(self) -> None:
        """What no second changes: only the run, or what is looked for."""
        self._settings = settings_lines(self._run, self._source, self._wanted_setting)
        self._show_facts()

    def _show_facts(self) -> None:
        self.query_one("#facts", Lines).show(fact_lines(self._run, time.time()) + self._settings)

    def show_metrics(self, metrics: dict[str, list[tuple[float, float]]], unread: Unread) -> None:
        """The loss goes through all resumes, as on the overview; the other numbers are this run's."""
        curve = finite([(point.step, point.loss) for point in self._curve])
        rates = [(float(point.step), point.lr) for point in self._curve if point.lr is not None]
        whole = {"loss": curve} if curve else {}
        others = {name: points for name, points in metrics.items() if name != "loss"}
        if rates and "lr" not in others:
            whole["lr"] = rates
        starts = dict.fromkeys(others, unread.first_step) if unread.first_step is not None else {}
        shown, plot = {**whole, **others}, self.query_one(MetricPlot)
        plot.show(shown, self._resumes, self._saves, self._counts, starts, left_out=unread.metrics)

    def on_resize(self) -> None:
        if self.is_mounted:
            self._show()

    def _show_title(self) -> None:
        reason: list[Span] = [] if self._long_reason() else [(f"   {self._reason()}", "quiet")]
        where = self._run.out_of_reach
        gone: list[Span] = [(f"   {where}", "warn")] if where and where not in self._reason() else []
        self.query_one("#title", Lines).show([[*self._head(), *gone, *reason]])

    def _head(self) -> list[Span]:
        run = self._run
        name: Span = (" " + text.clean(run.title, 80), "strong")
        return [name, (f"   {STATE_GLYPHS[run.state]} {run.state.value}", state_ink(run.state))]

    def _reason(self) -> str:
        return stopping_words(self._run, time.time()) or text.clean(self._run.state_reason, 300)

    def _long_reason(self) -> list[list[Span]]:
        """The reason as a line of its own, where the title has no room for it."""
        reason = self._reason()
        room = self.size.width - spans_length(self._head()) - 3
        return [] if cell_len(reason) <= room else [[(reason, "")]]

    def _show_outlook(self) -> None:
        words = [*self._long_reason(), *outlook(self._run, self._followers, readonly=self.lavender.is_readonly)]
        self.query_one("#outlook", Lines).show([[(" ", ""), *line] for line in words])

    def _tick(self) -> None:
        if self.is_current:
            self._show_title()
            if self._run.is_alive and not self._run.losses:
                self._show_outlook()  # tells for how many seconds it has been starting
            self.query_one(CheckpointTable).recheck()
            self.query_one(DataBars).recheck()
            self.query_one(HistoryTable).recheck()
            self._show_facts()
            if self.tab == PROCESSES:
                self.read_tab()

    # Where the data stands, for the checkpoint under the cursor

    @on(LineTable.Highlighted, "#checkpoints")
    def _show_position(self) -> None:
        """A file that was written anew under the same name is read again."""
        checkpoint, data = self.query_one(CheckpointTable).cursor_checkpoint, self.query_one(DataBars)
        if checkpoint is None or checkpoint == self._wanted_position:
            if checkpoint is None:
                self._wanted_position, self._sequence = None, self._sequence + 1
                data.show(None, none_saved_words(self._run))
            return
        self._wanted_position = checkpoint
        self._sequence += 1
        known = self._positions.get((checkpoint.path, checkpoint.facts.mtime_ns))
        if known is not None:
            data.show(known, save=checkpoint)
            return
        self._read_position(self._sequence, checkpoint)

    @work(thread=True, exclusive=True, group="position", exit_on_error=False, description="position")
    def _read_position(self, sequence: int, checkpoint: Checkpoint) -> None:
        try:
            position = read_position(checkpoint)
        except (LavenderError, OSError) as error:
            position = DataPosition(path=checkpoint.path, problems=(text.clean(error, 300),))
        if not get_current_worker().is_cancelled:
            self.post_message(PositionRead(sequence, position, checkpoint.facts.mtime_ns))

    def on_position_read(self, message: PositionRead) -> None:
        self._positions[(message.position.path, message.mtime_ns)] = message.position
        if message.sequence == self._sequence:
            self.query_one(DataBars).show(message.position, save=self._wanted_position)
            self.query_one(KeyBar).recheck()

    # Keys

    def action_aside(self, places: int) -> None:
        """Left and right mean what the open tab has sideways."""
        if self.check_action("beside", ()):
            self.query_one("#facts-box" if places > 0 else "#checkpoints").focus()
        elif self.check_action("curve_move", ()):
            self.action_curve_move(places)
        elif self.tab == DATA:
            self.action_ranks(1 if places > 0 else -1)

    def action_tree(self) -> None:
        from lavender_tui.tui.screens.tree import TreeScreen

        if self.tab == HISTORY:
            self.show_entry()
            return
        checkpoint = self.query_one(CheckpointTable).cursor_checkpoint
        if checkpoint is not None:
            self.app.push_screen(TreeScreen(checkpoint))
        else:
            self.notify("a checkpoint is opened once there is one", title="Nothing saved yet", markup=False)

    def action_find_setting(self) -> None:
        from lavender_tui.tui.screens.ask import AskName

        def found(words: str | None) -> None:
            self._wanted_setting = words or ""
            self._read_settings()
            self.query_one("#facts-box").scroll_end(animate=False)

        self.app.push_screen(
            AskName(
                "Which settings?",
                detail="A part of a name or a value; nothing: all of them",
                placeholder="some letters",
                does="shows them",
            ),
            found,
        )

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_rescan(self) -> None:
        self.lavender.feed.rescan_soon()
