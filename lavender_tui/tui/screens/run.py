"""A run's page: its checkpoints, its loss, where its data stands, and where a resume would start."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.worker import get_current_worker

from lavender_tui.errors import LavenderError
from lavender_tui.model import command_line, text
from lavender_tui.model.choosing import in_run, why_passed_over
from lavender_tui.model.ending import stopping_words
from lavender_tui.model.lineage import Family
from lavender_tui.model.run import Run
from lavender_tui.tui import ages, keys
from lavender_tui.tui.listing import continuations
from lavender_tui.tui.messages import PositionRead
from lavender_tui.tui.outlook import outlook
from lavender_tui.tui.page_layout import heights
from lavender_tui.tui.position import DataPosition, read_position
from lavender_tui.tui.proof_words import evidence_lines
from lavender_tui.tui.screens.run_actions import RunActions
from lavender_tui.tui.themes import STATE_GLYPHS, state_ink
from lavender_tui.tui.usage_words import left_over_words, processes_words, usage_rows
from lavender_tui.tui.widgets.checkpoint_table import CheckpointTable
from lavender_tui.tui.widgets.data_bars import DataBars
from lavender_tui.tui.widgets.inks import INKS, Span, shown_path, spans_length
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.line_table import LineTable
from lavender_tui.tui.widgets.lines import Lines
from lavender_tui.tui.widgets.loss_plot import LossPlot

if TYPE_CHECKING:
    from lavender_tui.model.checkpoint import Checkpoint
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot


class RunScreen(RunActions, Screen[None]):
    """Live as the list is. A run that is gone stays as it was last seen, and says so."""

    COMPONENT_CLASSES = INKS
    PLACE = keys.RUN
    BINDINGS = keys.bindings(keys.RUN)
    AUTO_FOCUS = "CheckpointTable"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-high")]  # noqa: RUF012

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._is_gone = False
        self._sequence = 0
        self._positions: dict[tuple[str, int], DataPosition] = {}

    def compose(self) -> ComposeResult:
        yield Lines(id="title")
        with Horizontal(id="above"):
            yield LossPlot(id="loss")
            with VerticalScroll(id="facts-box", can_focus=False):
                yield Lines(hang=13, id="facts")
        yield Lines(id="outlook")
        yield CheckpointTable(id="checkpoints")
        yield DataBars(id="data")
        yield KeyBar(keys.RUN, id="keys")

    def on_mount(self) -> None:
        self._show()
        self.set_interval(1.0, self._tick)

    @property
    def cursor_run(self) -> Run | None:
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

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """The same run as it is now."""
        found = next((run for run in snapshot.runs if run.key == self._run.key), None)
        self._is_gone = found is None
        if found is not None and found is not self._run:
            self._run = found
        self._show()

    def _show(self) -> None:
        run = self._run
        bad = dict(run.known_bad)
        choice = in_run(run.checkpoints, bad=bad)
        self._show_title()
        self.query_one("#facts", Lines).show(fact_lines(run, time.time()))
        followers = continuations(self.known_runs, run.key)
        words = [*self._long_reason(), *outlook(run, followers, readonly=self.lavender.is_readonly)]
        self.query_one("#outlook", Lines).show([[(" ", ""), *line] for line in words])
        family = Family(self.known_runs).stitched(run)
        resumes = [mark.step for mark in family.marks if mark.kind == "resume"]
        saves = [mark.step for mark in family.marks if mark.kind == "checkpoint"]
        self.query_one(LossPlot).show(
            family.points if resumes else run.losses, resumes, saves=saves, is_whole=family.is_whole
        )
        table = self.query_one(CheckpointTable)
        table.set_checkpoints(run.checkpoints, choice.checkpoint.path if choice.checkpoint else None, bad)
        if not run.checkpoints:
            self.query_one(DataBars).show(None, "nothing saved yet")
        self.query_one(KeyBar).recheck()
        self._fit()

    def _fit(self) -> None:
        """Give each part its lines; nothing is left for the page itself to scroll."""
        newest = self._run.newest
        words = self.query_one("#outlook", Lines)
        fitted = heights(
            self.size.height,
            outlook=words.lines_at(self.size.width),
            checkpoints=len(self._run.checkpoints),
            splits=newest.rank_states.num_splits if newest else 0,
        )
        above, data = self.query_one("#above"), self.query_one(DataBars)
        above.display, above.styles.height = fitted.plot > 0, max(1, fitted.plot - 1)  # a line of air above it
        words.display, words.styles.height = fitted.outlook > 0, max(1, fitted.outlook)
        data.display, data.styles.height = fitted.data > 0, max(1, fitted.data)

    def on_resize(self) -> None:
        if self.is_mounted:
            self._show()

    def _show_title(self) -> None:
        reason: list[Span] = [] if self._long_reason() else [(f"   {self._reason()}", "quiet")]
        gone: list[Span] = [("   its directory is gone", "warn")] if self._is_gone else []
        self.query_one("#title", Lines).show([[*self._head(), *gone, *reason]])

    def _head(self) -> list[Span]:
        run = self._run
        name: Span = (" " + text.clean(run.name, 80), "strong")
        return [name, (f"   {STATE_GLYPHS[run.state]} {run.state.value}", state_ink(run.state))]

    def _reason(self) -> str:
        return stopping_words(self._run, time.time()) or text.clean(self._run.state_reason, 300)

    def _long_reason(self) -> list[list[Span]]:
        """The reason as a line of its own, where the title has no room for it."""
        reason = self._reason()
        room = self.size.width - spans_length(self._head()) - 3
        return [] if cell_len(reason) <= room else [[(reason, "")]]

    def _tick(self) -> None:
        if self.is_current:
            self._show_title()
            self.query_one(CheckpointTable).recheck()
            self.query_one("#facts", Lines).show(fact_lines(self._run, time.time()))

    # Where the data stands, for the checkpoint under the cursor

    @on(LineTable.Highlighted)
    def _another_checkpoint(self) -> None:
        checkpoint = self.query_one(CheckpointTable).cursor_checkpoint
        if checkpoint is None:
            return
        known = self._positions.get((checkpoint.path, checkpoint.facts.mtime_ns))
        if known is not None:
            self.query_one(DataBars).show(known)
            return
        self._sequence += 1
        self._read_position(self._sequence, checkpoint)

    @work(thread=True, exclusive=True, group="position", exit_on_error=False)
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
            self.query_one(DataBars).show(message.position)

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_rescan(self) -> None:
        self.lavender.feed.rescan_soon()


def fact_lines(run: Run, now: float) -> list[list[Span]]:
    """What is known of the run, a line each; warnings first."""
    lines: list[list[Span]] = [[("! ", "warn"), (text.clean(one, 300), "")] for one in run.warnings]
    facts = [
        ("path", shown_path(run.path, home=os.path.expanduser("~"))),
        ("format", text.clean(run.format, 40)),
        ("started", ages.since(run.started_at, now)),
        ("last save", ages.since(ages.last_save(run), now)),
        ("saves every", _interval(run.save_interval_seconds)),
        ("world_size", text.count(run.world_size)),
        ("processes", processes_words(run.processes)),
        ("left over", left_over_words(run)),
        *usage_rows(run),
        ("host", text.clean(run.host, 60) if run.host else text.NONE),
        ("resumed from", _source(run)),
        ("command", text.clean(command_line.shown(run.launched_command), 600) if run.launched_command else text.NONE),
    ]
    lines += [
        [(f"{label:<13}", "quiet"), (words, "")]
        for label, words in facts
        if words != text.NONE or label == "saves every"
    ]
    return lines + evidence_lines(run)


def _interval(seconds: float | None) -> str:
    """Files that were copied, or saved as fast as a disk writes, tell no interval."""
    return text.NONE if seconds is None or seconds < 1 else text.duration(seconds)


def _source(run: Run) -> str:
    if run.resumed_from is None:
        return text.NONE
    name = run.resumed_from.run.rstrip("/").rsplit("/", 1)[-1]
    checkpoint = run.resumed_from.checkpoint
    return text.clean(name, 80) + (f", {text.clean(checkpoint.rsplit('/', 1)[-1], 80)}" if checkpoint else "")
