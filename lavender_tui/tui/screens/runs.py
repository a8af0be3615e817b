"""The list of runs, live, with a pane about the one under the cursor."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.screen import Screen

from lavender_tui.model.run import ALIVE, Run, RunState
from lavender_tui.model.text import clean
from lavender_tui.tui import keys
from lavender_tui.tui.arranging import Arranged, Arrangement, Arranger, ArrangingFailed
from lavender_tui.tui.listing import Census
from lavender_tui.tui.screens.list_view import ListView
from lavender_tui.tui.widgets.empty import EmptyList
from lavender_tui.tui.widgets.hint import HintLine
from lavender_tui.tui.widgets.inks import INKS, shown_path
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.line_table import LineTable
from lavender_tui.tui.widgets.run_pane import RunPane
from lavender_tui.tui.widgets.run_table import USUAL, RunTable
from lavender_tui.tui.widgets.top_bar import TopBar, count_choices

if TYPE_CHECKING:
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.tui.messages import GpusSeen
    from lavender_tui.watch.observe import Snapshot

_NARROW = 100
GPU_SECONDS, NO_GPU_SECONDS = 5.0, 60.0  # from one look to the next; where there was none
LOOKING_SECONDS = 0.3  # without an answer until it is said that one looks
_FEW = 64  # changed runs in one snapshot
_LOW, _TINY = 30, 14  # a terminal lower than that has a small pane, or none
_OF_A_RUN = ("resume", "resume_now", "log", "next_error", "copy_of_run", "open")
_RESTING_TICKS = 5  # seconds from one look at the ages to the next, where nothing lives
_BARS = 6  # lines of the bars, the titles and some air
_PANE_LOW, _PANE_USUAL = 5, 9  # lines of the pane, its rule among them


class RunsScreen(ListView, Screen[None]):
    """The screen that everything starts from."""

    COMPONENT_CLASSES = INKS
    PLACE = keys.LIST
    BINDINGS = keys.bindings(keys.LIST)
    AUTO_FOCUS = "RunTable"

    def __init__(self) -> None:
        super().__init__()
        self._mode = ""
        self._census = Census()
        self._ticks = 0
        self._matching: Sequence[tuple[RunState, int]] = ()  # of the rows that a filter leaves
        self._notes: tuple[str, ...] = ()
        self._sequence = 0  # of the snapshot that is shown
        self._awaited: str | None = None
        self._put_off: str | None = None
        self._placed: str | None = None  # the run that the cursor was put on at the start
        self._is_placing = True
        self._host = clean(socket.gethostname(), 24)
        self._gpus = ""
        self._arranger = Arranger(self.post_message)

    def compose(self) -> ComposeResult:
        yield TopBar(id="top")
        yield RunTable(self.lavender.look.columns or USUAL, id="runs")
        yield EmptyList(self.lavender.roots, id="empty")
        yield RunPane(id="pane")
        if self.lavender.hint is not None:
            yield HintLine(self.lavender.hint(self._runs, None), id="hint")
        yield KeyBar(keys.LIST, id="keys")

    def on_mount(self) -> None:
        self._show_top()
        self.set_interval(1.0, self._tick)
        self.call_after_refresh(self.read_views)
        self.set_timer(GPU_SECONDS, self._look_at_gpus)
        self.set_timer(LOOKING_SECONDS, self._say_looking)
        if self.lavender.snapshot is not None:
            self.show_snapshot(self.lavender.snapshot)

    @work(thread=True, exclusive=True, group="gpus", exit_on_error=False, description="gpus")
    def _look_at_gpus(self) -> None:
        from lavender_tui.tui.messages import GpusSeen
        from lavender_tui.tui.usage_words import machine_gpus
        from lavender_tui.watch.devices import devices_in_use

        words = machine_gpus(devices_in_use().devices) if self.is_current else self._gpus
        self.post_message(GpusSeen(words))

    def on_gpus_seen(self, message: GpusSeen) -> None:
        self.set_timer(GPU_SECONDS if message.words else NO_GPU_SECONDS, self._look_at_gpus)
        if message.words != self._gpus:
            self._gpus = message.words
            self._show_top()

    # What the feed brings

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """New facts: rows change in place, the cursor stays on its run."""
        self._is_placing = self._is_placing and self._is_untouched
        # Of those that a newer one replaced in the queue nobody knows any more what they changed.
        is_next, self._sequence = snapshot.sequence == self._sequence + 1, snapshot.sequence
        has_same = is_next and len(self._runs) == len(snapshot.runs) and not self._arranger.is_busy
        self._runs, self._mode, self._census = snapshot.runs, snapshot.mode, Census(snapshot.runs)
        if self.marked and snapshot.mode:  # the first looks may not have all
            self.marked &= {run.key for run in self._runs}
        fresh = [note for note in snapshot.notes if note not in self._notes]
        self._notes = snapshot.notes
        for note in fresh:
            if snapshot.runs or not note.startswith(tuple(clean(root) for root in self.lavender.roots)):
                self.notify(clean(note, 300), title="Watching", markup=False, timeout=12)
        if has_same and self._awaited is None and self._change_rows(snapshot.changed):
            self._rows_shown()
            return
        self._refresh_rows()
        if self._arranger.is_busy:
            self._show_top()

    def _rows_shown(self) -> None:
        """There are new rows: the newest, or others are on their way."""
        self._show_facts()
        if self._arranger.is_busy:
            return
        if self._put_off is not None:
            self.call_later(self.app.run_action, self._put_off, self)
            self._put_off = None
        elif self._is_placing:
            self._place()

    @property
    def _is_untouched(self) -> bool:
        """Has nobody touched the list (the cursor may have stood there already), opened or asked for anything yet?"""
        table = self.query_one(RunTable)
        at_start = self._placed in (None, table.cursor_key) or self._placed not in table.keys
        return (
            not table.was_touched and at_start and self.is_in_front and self._awaited is None and self._put_off is None
        )

    def _place(self) -> None:
        """The cursor where it is wanted first; with the watcher's first look, which has all runs, for good."""
        from lavender_tui.tui.starting_place import starting_run

        table = self.query_one(RunTable)
        self._placed = starting_run(self._runs, table.keys[: table.rows_in_sight], time.time())
        if self._placed is not None:
            table.go_to(self._placed)
        self._is_placing = not self._mode or not self._runs

    def puts_off(self, action: str) -> bool:
        """Where only the name of the run under the cursor is known, a key that acts on it is done when more is."""
        run = self.cursor_run
        if action not in _OF_A_RUN or run is None or not run.is_unread:
            return False
        self._put_off = action
        return True

    def _say_looking(self) -> None:
        """Nothing is known yet: a slow file system, or a slow machine."""
        if self.lavender.snapshot is None:
            self.add_class("-empty")

    def show_trouble(self, reason: str) -> None:
        """Watching could not begin: said in the list's place."""
        self.add_class("-empty")
        self.query_one(EmptyList).show_trouble(reason)

    def _refresh_rows(self) -> None:
        """The rows anew: at once where they are few, else when they are in order. Until then those before stand."""
        if (arrangement := self._arranger.ask(self._runs, self.view)) is not None:
            self._take(arrangement)

    def on_arranged(self, message: Arranged) -> None:
        if self.is_mounted:
            self._take(message.arrangement)

    def on_arranging_failed(self, message: ArrangingFailed) -> None:
        if self._arranger.takes(message.sequence):
            self.notify(clean(message.reason, 300), title="Not in order", severity="error", markup=False)

    def _take(self, arrangement: Arrangement) -> None:
        if not self._arranger.takes(arrangement.sequence):
            return
        table = self.query_one(RunTable)
        self._is_placing = self._is_placing and self._is_untouched
        if not arrangement.rows:
            table.say_nothing(self._why_none())
        table.show(arrangement, self.marked)
        self._matching = arrangement.counts
        self.set_class(not self._runs, "-empty")
        if self._runs and self.focused is None:
            self.call_after_refresh(table.focus)  # it lost it while it wasn't shown
        if not self._runs:
            self.query_one(EmptyList).look()
        self._fit_pane()
        if self._awaited is not None and table.go_to(self._awaited):
            self._awaited = None
        elif self._awaited is not None and self.view.query and any(run.key == self._awaited for run in self._runs):
            self.call_later(self.action_clear_filter)  # the run that was launched isn't among those asked for
        self._rows_shown()

    def _why_none(self) -> str:
        """A word that is no column reads as one: said before it is looked for in vain."""
        from lavender_tui.model.query_faults import fault_of

        fault = fault_of(self.view.query, self._runs)
        said = f"No run matches {clean(self.view.query, 200)}" if fault is None else f"✗ {fault}"
        return f"{said}   esc shows all of them again"

    def _change_rows(self, changed: frozenset[str]) -> bool:
        """Where a few runs changed and all stay in their places, thousands of others needn't be put in order again."""
        if not 0 < len(changed) <= _FEW:
            return False
        return self.query_one(RunTable).change_runs({run.key: run for run in self._runs if run.key in changed})

    def _show_facts(self) -> None:
        self._show_top()
        self._show_pane()
        self.query_one(KeyBar).recheck()

    def _show_top(self) -> None:
        shown_root = shown_path(self.lavender.roots[0], 44, home=os.path.expanduser("~"))
        more = len(self.lavender.roots) - 1
        told = [*(["read-only"] if self.lavender.is_readonly else []), *([self._gpus] if self._gpus else [])]
        places = [self._host, shown_root + (f" +{more}" if more else ""), *told, self._mode or "looking…"]
        if self.size.width < _NARROW:
            places = [self._host, *told, self._mode or "looking…"]
        if not self._mode:
            self.query_one(TopBar).show(places, [[]])
            return
        counts = self._matching if self.view.query.strip() else self._census.counts
        self.query_one(TopBar).show(places, count_choices(counts, total=len(self._runs), marked=len(self.marked)))

    def _fit_pane(self) -> None:
        """The pane takes what the list leaves, within limits: few runs, a larger curve."""
        height = self.size.height
        self.set_class(height < _LOW, "-low")
        self.set_class(height < _TINY, "-tiny")
        rows = len(self._runs if self.view.query else self.query_one(RunTable).keys)  # typing a filter moves nothing
        free = height - _BARS - rows
        least, most = (_PANE_LOW, _PANE_USUAL) if height < _LOW else (_PANE_USUAL, max(_PANE_USUAL, height // 3))
        self.query_one(RunPane).styles.height = max(least, min(most, free))

    def _show_pane(self) -> None:
        run = self.cursor_run
        followers = self._census.continuations(run.key) if run else []
        self.query_one(RunPane).show(run, followers)
        if self.lavender.hint is not None:
            self.query_one(HintLine).say(self.lavender.hint(self._runs, run))

    def _tick(self) -> None:
        """Ages grow: what reads differently is repainted, nothing else."""
        if not self.is_current:
            return
        self.query_one(TopBar).tick()
        self._ticks += 1
        if self._ticks % _RESTING_TICKS == 0 or self._is_moving():
            self.query_one(RunTable).recheck()
            self.query_one(RunPane).tick()

    def _is_moving(self) -> bool:
        """Does anything count seconds? Where nothing lives, and nobody keeps what is shown alive, ages are minutes."""
        is_any_alive = any(state in ALIVE for state, _ in self._census.counts)
        return is_any_alive or (self.cursor_run is not None and self.cursor_run.keeper is not None)

    def on_screen_resume(self) -> None:
        if self.is_mounted:
            self._ticks = -1  # what was covered shows its age at once
            self._tick()

    def on_unmount(self) -> None:
        self._arranger.close()

    def on_resize(self) -> None:
        if self.is_mounted:
            self._show_top()
            self._fit_pane()

    # The cursor

    @property
    def cursor_run(self) -> Run | None:
        """The run that keys act on."""
        return self.query_one(RunTable).cursor_run

    @property
    def known_runs(self) -> Iterable[Run]:
        return self._runs

    def go_to_run(self, key: str) -> None:
        """Cursor on that run, now or as soon as the watcher has seen it."""
        if not self.query_one(RunTable).go_to(key):
            self._awaited = key

    @on(LineTable.Highlighted)
    def _another_run(self) -> None:
        self._show_pane()
        self.query_one(KeyBar).recheck()

    @on(LineTable.Opened)
    def _opened(self) -> None:
        self.action_open()

    # What is shown

    def watch_view(self) -> None:
        if self.is_mounted:
            self._refresh_rows()

    def watch_marked(self) -> None:
        if self.is_mounted:
            self.query_one(RunTable).set_marked(self.marked)
            self._show_top()
            self.query_one(KeyBar).recheck()

    def action_rescan(self) -> None:
        self.lavender.feed.rescan_soon()

    def action_disk(self) -> None:
        from lavender_tui.model.disk import KeepRules
        from lavender_tui.tui.screens.disk import DiskScreen

        look = self.lavender.look
        self.app.push_screen(DiskScreen(KeepRules(last=look.keep_last, best=look.keep_best)))

    def action_open(self) -> None:
        from lavender_tui.tui.screens.run import RunScreen

        if self.cursor_run is not None:
            self.app.push_screen(RunScreen(self.cursor_run))
