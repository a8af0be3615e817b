"""What the checkpoints cost, how long the disk lasts, and which of them could go. Nothing goes without a yes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual import on, work
from textual.app import ComposeResult
from textual.screen import Screen
from textual.worker import Worker, WorkerState, get_current_worker

from lavender_tui.model import text
from lavender_tui.model.disk import Account, Fate, KeepRules, account
from lavender_tui.model.run import Run
from lavender_tui.tui import keys
from lavender_tui.tui.deeds import deed
from lavender_tui.tui.messages import DeedBroke, DiskJudged, PruneEnded
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.widgets.disk_tables import CostTable, FateTable
from lavender_tui.tui.widgets.inks import INKS, Span
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.line_table import LineTable
from lavender_tui.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from lavender_tui.resume.pruning import Pruned
    from lavender_tui.tui.app import LavenderApp
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot

_MOST_KEPT = 99
_MOST_NAMED = 10  # runs that a question names
_RESTS = 4  # times as long as a judging took: the keys and the reading of the runs need the machine, too
_FAULT_SECONDS = 30.0  # until it is tried again after one that broke off
_COUNTING = "counting…"
_FAR_OFF_SECONDS = 366 * 86_400.0  # a disk that lasts for longer is no news


class DiskScreen(Orderly, Screen[None]):
    """Judged anew, in a thread, when the runs or the rules change; until there is an answer the one before it stays.

    Thousands of runs that are being read change faster than they are judged: what is under way is never begun anew.
    """

    COMPONENT_CLASSES = INKS
    PLACE = keys.DISK
    BINDINGS = [  # noqa: RUF012
        *keys.bindings(keys.DISK),
        ("minus", "keep_last(-1)", "Keep fewer of the newest"),
        ("B", "keep_best(-1)", "Keep fewer of the best"),
    ]
    AUTO_FOCUS = "CostTable"
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (7, "-low"), (13, "-short"), (20, "-high")]  # noqa: RUF012

    def __init__(self, rules: KeepRules) -> None:
        super().__init__()
        self._rules = rules
        self._runs: tuple[Run, ...] = ()
        self._answer: DiskJudged | None = None
        self._sequence = 0
        self._is_read = self._is_judging = self._is_resting = False
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
        self._take(self.lavender.snapshot)
        self.query_one(CostTable).say_nothing(_COUNTING)
        self._show_head()
        self.call_after_refresh(self._ask)

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """While a question stands the page stays as it was when it was asked: both say the same numbers."""
        if not self._is_asking and self._take(snapshot):
            self._ask()

    def _take(self, snapshot: Snapshot | FirstLook | None) -> bool:
        """Is there anything new in it? Once all runs were read, what is still to be read is only what came since."""
        if snapshot is None or (snapshot.runs == self._runs and snapshot.is_complete <= self._is_read):
            return False
        self._runs, self._is_read = snapshot.runs, self._is_read or snapshot.is_complete
        return True

    # Judging

    def _ask(self) -> None:
        self._sequence += 1
        self._show_head()
        self._judge_next()

    def _judge_next(self) -> None:
        """One at a time, with rests between them, unless it is the person who waits for the next."""
        is_answered = self._answer is not None and self._answer.sequence == self._sequence
        is_held = self._is_judging or self._is_asking or (self._is_resting and self._current is not None)
        if not is_answered and not is_held:
            self._is_judging = True
            self._judge(self._sequence, self._runs, self._rules, self.lavender.roots[0], self._is_read)

    @property
    def _current(self) -> Account | None:
        """The newest answer, if it is one to the rules that are chosen."""
        is_current = self._answer is not None and self._answer.rules == self._rules
        return self._answer.account if self._answer is not None and is_current else None

    def _rest(self, seconds: float) -> None:
        self._is_judging, self._is_resting = False, True
        self.set_timer(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._is_resting = False
        self._judge_next()

    @work(thread=True, exclusive=True, group="judge", exit_on_error=False, description="judge")
    def _judge(self, sequence: int, runs: tuple[Run, ...], rules: KeepRules, root: str, is_whole: bool) -> None:
        from lavender_tui.resume.pruning import judged

        begun = time.monotonic()
        fates = judged(runs, rules)
        try:
            room = os.statvfs(root)
            free = room.f_bavail * room.f_frsize
        except OSError:
            free = None
        found = account(runs, rules, fates, free)
        if not get_current_worker().is_cancelled:
            self.post_message(DiskJudged(sequence, rules, is_whole, found, time.monotonic() - begun))

    def on_disk_judged(self, message: DiskJudged) -> None:
        self._rest(_RESTS * message.seconds)
        if not self._is_asking and message.rules == self._rules:
            self._answer = message
            table = self.query_one(CostTable)
            table.say_nothing("no checkpoint yet: nothing to delete" if message.is_whole else _COUNTING)
            table.set_costs(message.account.costs)
            self._show_head()
            self._show_fates()
        self._judge_next()

    @on(Worker.StateChanged)
    def _worker_broke(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self._rest(_FAULT_SECONDS)
            self._say_broken(text.one_line(f"{type(event.worker.error).__name__}: {event.worker.error}", 300))

    def _say_broken(self, words: str) -> None:
        self.notify(words, title="That did not work", severity="error", markup=False)

    # What is shown

    @property
    def _doomed(self) -> Sequence[Fate]:
        return self._current.doomed if self._current is not None else ()

    @property
    def _doomed_here(self) -> Sequence[Fate]:
        """Those of the run under the cursor."""
        return self._current.doomed_of(self._cursor_key) if self._current is not None else ()

    @property
    def _cursor_key(self) -> str | None:
        cost = self.query_one(CostTable).cursor_cost
        return cost.run.key if cost is not None else None

    def _show_head(self) -> None:
        self.query_one("#title", Lines).show([[(" disk  ", "accent"), *self._sizes()]])
        kept: list[Span] = [
            (" of each run and stage keep the newest ", "quiet"), (f"{self._rules.last}", "accent"),
            (" and the best ", "quiet"), (f"{self._rules.best}", "accent"), *self._gains(),
        ]  # fmt: skip
        if self._is_pruning:
            kept.append(("   deleting…", "warn"))
        self.query_one("#rules", Lines).show([kept])

    def _sizes(self) -> list[Span]:
        if self._answer is None:
            return [(_COUNTING, "quiet")]
        found = self._answer.account
        so_far = "" if self._answer.is_whole else f" so far, {_COUNTING}"
        head: list[Span] = [(text.size(found.size_bytes), "strong"), (f" of checkpoints{so_far}", "quiet")]
        if found.free_bytes is not None:
            head.append((f"   {text.size(found.free_bytes)} free", "strong"))
        if found.seconds_left is not None and found.seconds_left < _FAR_OFF_SECONDS:
            ink = "warn" if found.seconds_left < 86_400 else "quiet"
            head.append((f", full in {text.duration(found.seconds_left)} at this rate", ink))
        return head

    def _gains(self) -> list[Span]:
        """What could go by these rules; nothing before the first answer, which the title tells of."""
        if self._answer is None:
            return []
        if (found := self._current) is None:
            return [(f"   {_COUNTING}", "quiet")]
        so_far = "" if self._answer.is_whole else " so far"
        return [(f"   {len(found.doomed):,} could go{so_far}: {text.size(found.doomed_bytes)}", "")]

    @on(LineTable.Highlighted, "#costs")
    def _show_fates(self) -> None:
        wanted = self._cursor_key
        of_all = self._answer.account.fates if self._answer is not None else {}
        self.query_one(FateTable).set_fates(of_all.get(wanted or "", ()))
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
        if self._current is None:
            return "it is still being counted"
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
            self._take(self.lavender.snapshot)  # what changed while the question stood
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

    @deed("prune")
    def _prune(self, doomed: Sequence[Fate], rules: KeepRules, roots: tuple[str, ...]) -> None:
        from lavender_tui.resume.pruning import prune

        app = self.lavender
        _tell(app, prune(roots, doomed, rules))
        self.post_message(PruneEnded())

    def on_prune_ended(self) -> None:
        self._is_pruning = False
        self._show_head()

    def on_deed_broke(self, message: DeedBroke) -> None:
        self.on_prune_ended()
        self._say_broken(message.words)

    def action_back(self) -> None:
        self.app.pop_screen()


def _tell(app: LavenderApp, done: Pruned) -> None:
    """From any thread, on whatever page is in front: what is deleted is gone for good."""
    words = f"{text.plural(len(done.gone), 'checkpoint')}, {text.size(done.freed_bytes)} free again"
    app.notify(words, title="Deleted", everywhere=True)
    for sentence in done.left[:3]:
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
