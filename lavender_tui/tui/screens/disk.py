"""What the checkpoints cost, how long the disk lasts, and which of them could go. Nothing goes without a yes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual import on, work
from textual.app import ComposeResult
from textual.screen import Screen
from textual.worker import Worker, WorkerState, get_current_worker

from lavender_tui.model import text
from lavender_tui.model.disk import Cost, Fate, KeepRules, costs, seconds_until_full
from lavender_tui.model.run import Run
from lavender_tui.tui import keys
from lavender_tui.tui.messages import DiskJudged, PruneEnded
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.widgets.disk_tables import CostTable, FateTable
from lavender_tui.tui.widgets.inks import INKS, Span
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.line_table import LineTable
from lavender_tui.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from lavender_tui.tui.app import LavenderApp
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot

_MOST_KEPT = 99
_FAR_OFF_SECONDS = 366 * 86_400.0  # a disk that lasts for longer is no news


class DiskScreen(Orderly, Screen[None]):
    """Judged anew, in a thread, whenever the runs or the rules change."""

    COMPONENT_CLASSES = INKS
    PLACE = keys.DISK
    BINDINGS = [  # noqa: RUF012
        *keys.bindings(keys.DISK),
        ("minus", "keep_last(-1)", "Keep fewer of the newest"),
        ("B", "keep_best(-1)", "Keep fewer of the best"),
    ]
    AUTO_FOCUS = "CostTable"

    def __init__(self, rules: KeepRules) -> None:
        super().__init__()
        self._rules = rules
        self._runs: tuple[Run, ...] = ()
        self._fates: Sequence[Fate] = ()
        self._costs: Sequence[Cost] = ()
        self._free: int | None = None
        self._sequence = 0
        self._is_pruning = False

    @property
    def lavender(self) -> LavenderApp:
        return cast("LavenderApp", self.app)

    def compose(self) -> ComposeResult:
        yield Lines(id="title")
        yield Lines(id="rules")
        yield CostTable(id="costs")
        yield FateTable(id="fates")
        yield KeyBar(keys.DISK, id="keys")

    def on_mount(self) -> None:
        self._runs = self.lavender.runs
        self._ask()

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        if snapshot.runs != self._runs:
            self._runs = snapshot.runs
            self._ask()

    # Judging

    def _ask(self) -> None:
        self._sequence += 1
        self._show_head()
        self._judge(self._sequence, self._runs, self._rules, self.lavender.roots[0])

    @work(thread=True, exclusive=True, group="judge", exit_on_error=False)
    def _judge(self, sequence: int, runs: tuple[Run, ...], rules: KeepRules, root: str) -> None:
        from lavender_tui.resume.pruning import judged

        fates = judged(runs, rules)
        try:
            room = os.statvfs(root)
            free = room.f_bavail * room.f_frsize
        except OSError:
            free = None
        if not get_current_worker().is_cancelled:
            self.post_message(DiskJudged(sequence, fates, free))

    def on_disk_judged(self, message: DiskJudged) -> None:
        if message.sequence != self._sequence:
            return
        self._fates, self._free = message.fates, message.free_bytes
        self._costs = costs(self._runs, self._rules, self._fates)
        table = self.query_one(CostTable)
        table.say_nothing("no checkpoint yet: nothing to delete")
        table.set_costs(self._costs)
        self._show_head()
        self._show_fates()
        self.query_one(KeyBar).recheck()

    @on(Worker.StateChanged)
    def _worker_broke(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self._is_pruning = False
            words = text.clean(f"{type(event.worker.error).__name__}: {event.worker.error}", 300)
            self.notify(words, title="That did not work", severity="error", markup=False)

    # What is shown

    @property
    def _doomed(self) -> list[Fate]:
        return [fate for fate in self._fates if fate.may_go]

    def _show_head(self) -> None:
        total = sum(cost.size_bytes for cost in self._costs)
        head: list[Span] = [(" disk  ", "accent"), (text.size(total), "strong"), (" of checkpoints", "quiet")]
        if self._free is not None:
            head.append((f"   {text.size(self._free)} free", "strong"))
            left = seconds_until_full(self._free, self._costs)
            if left is not None and left < _FAR_OFF_SECONDS:
                head.append((f", full in {text.duration(left)} at this rate", "warn" if left < 86_400 else "quiet"))
        self.query_one("#title", Lines).show([head])
        doomed = self._doomed
        kept: list[Span] = [
            (" of each run and stage keep the newest ", "quiet"), (f"{self._rules.last}", "accent"),
            (" and the best ", "quiet"), (f"{self._rules.best}", "accent"),
            (f"   {len(doomed):,} could go: {text.size(sum(fate.size_bytes for fate in doomed))}", ""),
        ]  # fmt: skip
        if self._is_pruning:
            kept.append(("   deleting…", "warn"))
        self.query_one("#rules", Lines).show([kept])

    @on(LineTable.Highlighted, "#costs")
    def _show_fates(self) -> None:
        cost = self.query_one(CostTable).cursor_cost
        wanted = cost.run.key if cost is not None else None
        self.query_one(FateTable).set_fates([fate for fate in self._fates if fate.run.key == wanted])

    # What the person does

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not self.lavender.may(action):
            return False
        if action == "prune":
            return bool(self._doomed) and not self._is_pruning
        return True

    def action_keep_last(self, more: int) -> None:
        self._change(last=max(1, min(_MOST_KEPT, self._rules.last + more)))

    def action_keep_best(self, more: int) -> None:
        self._change(best=max(0, min(_MOST_KEPT, self._rules.best + more)))

    def _change(self, *, last: int | None = None, best: int | None = None) -> None:
        self._rules = KeepRules(
            last=self._rules.last if last is None else last, best=self._rules.best if best is None else best
        )
        self._ask()

    def action_prune(self) -> None:
        """What is shown goes, after a yes; judged once more right before."""
        from lavender_tui.tui.screens.ask import Ask

        doomed = self._doomed
        names = sorted({fate.run.title for fate in doomed})
        of = f"{names[0]} alone" if len(names) == 1 else f"{len(names):,} runs, among them {names[0]}"
        size = text.size(sum(fate.size_bytes for fate in doomed))
        self.app.push_screen(
            Ask(
                f"Delete {text.plural(len(doomed), 'checkpoint')} for good?",
                detail=f"{size}, of {of}. What stays is listed with its reason; what changes meanwhile is kept.",
                yes="delete them",
            ),
            lambda yes: self._begin_pruning(doomed) if yes else None,
        )

    def _begin_pruning(self, doomed: Sequence[Fate]) -> None:
        self._is_pruning = True
        self._show_head()
        self._prune(doomed, self._rules, self.lavender.roots)

    @work(thread=True, exclusive=True, group="prune", exit_on_error=False)
    def _prune(self, doomed: Sequence[Fate], rules: KeepRules, roots: tuple[str, ...]) -> None:
        from lavender_tui.resume.pruning import prune

        done = prune(roots, doomed, rules)
        words = f"{text.plural(len(done.gone), 'checkpoint')}, {text.size(done.freed_bytes)} free again"
        self.post_message(PruneEnded(words, tuple(done.left)))

    def on_prune_ended(self, message: PruneEnded) -> None:
        self._is_pruning = False
        self.notify(message.words, title="Deleted", markup=False)
        for sentence in message.left[:3]:
            self.notify(text.clean(sentence, 300), title="Kept", severity="warning", markup=False, timeout=8)
        self.lavender.feed.rescan_soon()
        self._show_head()

    def action_back(self) -> None:
        self.app.pop_screen()
