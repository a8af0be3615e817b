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
_MOST_NAMED = 10  # runs that a question names
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
        self._is_pruning = self._is_asking = False

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
        """While a question stands the page stays as it was when it was asked: both say the same numbers."""
        if snapshot.runs != self._runs and not self._is_asking:
            self._runs = snapshot.runs
            self._ask()

    # Judging

    def _ask(self) -> None:
        self._sequence += 1
        self._show_head()
        self._judge(self._sequence, self._runs, self._rules, self.lavender.roots[0])

    @work(thread=True, exclusive=True, group="judge", exit_on_error=False, description="judge")
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
        if message.sequence != self._sequence or self._is_asking:
            return
        self._fates, self._free = message.fates, message.free_bytes
        self._costs = costs(self._runs, self._rules, self._fates)
        table = self.query_one(CostTable)
        table.say_nothing("no checkpoint yet: nothing to delete")
        table.set_costs(self._costs)
        self._show_head()
        self._show_fates()

    @on(Worker.StateChanged)
    def _worker_broke(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self._is_pruning = False
            words = text.one_line(f"{type(event.worker.error).__name__}: {event.worker.error}", 300)
            self.notify(words, title="That did not work", severity="error", markup=False)

    # What is shown

    @property
    def _doomed(self) -> list[Fate]:
        return [fate for fate in self._fates if fate.may_go]

    @property
    def _doomed_here(self) -> list[Fate]:
        """Those of the run under the cursor."""
        return [fate for fate in self._doomed if fate.run.key == self._cursor_key]

    @property
    def _cursor_key(self) -> str | None:
        cost = self.query_one(CostTable).cursor_cost
        return cost.run.key if cost is not None else None

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
            (f"   {len(doomed):,} could go: {_size(doomed)}", ""),
        ]  # fmt: skip
        if self._is_pruning:
            kept.append(("   deleting…", "warn"))
        self.query_one("#rules", Lines).show([kept])

    @on(LineTable.Highlighted, "#costs")
    def _show_fates(self) -> None:
        wanted = self._cursor_key
        self.query_one(FateTable).set_fates([fate for fate in self._fates if fate.run.key == wanted])
        self.query_one(KeyBar).recheck()

    # What the person does

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if not self.lavender.may(action):
            return False
        if action in ("prune", "prune_all") and self.is_mounted:
            return bool(self._doomed if action == "prune_all" else self._doomed_here) and not self._is_pruning
        return True

    def why_not(self, action: str) -> str:
        if action not in ("prune", "prune_all"):
            return ""
        if self._is_pruning:
            return "it is being deleted already"
        if action == "prune" and self._doomed:
            return "nothing of this run could go; A is for all runs"
        may_keep_fewer = self._rules != KeepRules(last=1, best=0)
        return "nothing could go: - and B keep fewer" if may_keep_fewer else "nothing could go"

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
        """What could go of the run under the cursor."""
        self._ask_to_prune(self._doomed_here)

    def action_prune_all(self) -> None:
        self._ask_to_prune(self._doomed)

    def _ask_to_prune(self, doomed: Sequence[Fate]) -> None:
        """What is shown goes, after a yes; judged once more right before."""
        from lavender_tui.tui.screens.ask import Ask

        def answered(yes: bool | None) -> None:
            self._is_asking = False
            if yes:
                self._begin_pruning(doomed)
            self._runs = self.lavender.runs  # what changed while the question stood
            self._ask()

        self._is_asking = True
        whose = doomed_runs(doomed)
        more = len(whose) - _MOST_NAMED
        of = f" of all {len(whose)} runs" if len(whose) > 1 else ""
        self.app.push_screen(
            Ask(
                f"Delete {text.plural(len(doomed), 'checkpoint')}{of} for good? {_size(doomed)}",
                detail="Each file is looked at again before it goes: one that changed, or is needed by then, stays.",
                listing=[*whose[:_MOST_NAMED], *([f"and {more:,} more"] if more > 0 else [])],
                yes="delete them",
            ),
            answered,
        )

    def _begin_pruning(self, doomed: Sequence[Fate]) -> None:
        self._is_pruning = True
        self._show_head()
        self._prune(doomed, self._rules, self.lavender.roots)

    @work(thread=True, exclusive=True, group="prune", exit_on_error=False, description="prune")
    def _prune(self, doomed: Sequence[Fate], rules: KeepRules, roots: tuple[str, ...]) -> None:
        from lavender_tui.resume.pruning import prune

        app = self.lavender
        done = prune(roots, doomed, rules)
        words = f"{text.plural(len(done.gone), 'checkpoint')}, {text.size(done.freed_bytes)} free again"
        ended = PruneEnded(words, tuple(done.left))
        if not (self.is_attached and self.post_message(ended)):
            _tell(app, ended)  # the page was left meanwhile

    def on_prune_ended(self, message: PruneEnded) -> None:
        self._is_pruning = False
        _tell(self.lavender, message)
        self._show_head()

    def action_back(self) -> None:
        self.app.pop_screen()


def _tell(app: LavenderApp, ended: PruneEnded) -> None:
    """From any thread, on whatever page is in front: what is deleted is gone for good."""
    app.notify(ended.words, title="Deleted", everywhere=True)
    for sentence in ended.left[:3]:
        app.notify(text.clean(sentence, 300), title="Kept", severity="warning", timeout=8)
    app.feed.rescan_soon()


def doomed_runs(doomed: Sequence[Fate]) -> list[str]:
    """A line for each run: its name, how many of its checkpoints could go and their size; that it lives, if it does."""
    by_run: dict[str, list[Fate]] = {}
    for fate in doomed:
        by_run.setdefault(fate.run.key, []).append(fate)
    return [_of_run(fates) for fates in by_run.values()]


def _of_run(fates: Sequence[Fate]) -> str:
    run = fates[0].run
    lives = f"   {run.state.value}" if run.is_alive else ""
    return f"{text.clean(run.title, 80)}   {len(fates):,}   {_size(fates)}{lives}"


def _size(fates: Sequence[Fate]) -> str:
    return text.size(sum(fate.size_bytes for fate in fates))
