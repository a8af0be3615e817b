"""The list of runs, one line a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from lavender_tui.model import series, text
from lavender_tui.model.checkpoint import Checkpoint, Wholeness, parse_name
from lavender_tui.model.ending import stopping_words
from lavender_tui.model.run import ALIVE, Run, RunState
from lavender_tui.tui import ages
from lavender_tui.tui.arranging import Arrangement, arrangement_of
from lavender_tui.tui.listing import ListRow, View, stays_in_place
from lavender_tui.tui.proof_words import proof_line, proof_mark
from lavender_tui.tui.themes import STATE_GLYPHS, state_ink, state_words
from lavender_tui.tui.widgets.line_table import GAP, Cell, Column, LineTable

_NAME_LEAST, _NAME_USUAL, _NAME_MOST = 12, 26, 60
_TREND_WIDTH, _TREND_KEEP = 10, 55
_MARK = 2  # cells of the mark of the sorted column, which stands apart: an arrow in ASCII looks like a letter
_KEEP_SORTED = 98  # after the name and the state, before all else
_MOST_LASTING = 1_000  # lines of which what they say is kept


_COLUMNS: tuple[Column, ...] = (
    Column(key="state", title="STATE", width=10, keep=99),
    Column(key="stage", title="STAGE", width=8, keep=60),
    Column(key="epoch", title="EPOCH", width=6, right=True, keep=80),
    Column(key="saves", title="SAVES", width=5, right=True, keep=75),
    Column(key="loss", title="LOSS", width=8, right=True, keep=85),
    Column(key="trend", title="TREND", width=_TREND_WIDTH, keep=_TREND_KEEP),
    Column(key="saved", title="SAVED", width=ages.AGE_WIDTH, right=True, keep=90),
    Column(key="left", title="LEFT", width=6, right=True, keep=50),
    Column(key="world", title="WORLD", width=5, right=True, keep=45),
    Column(key="pid", title="PID", width=7, right=True, keep=40),
    Column(key="step", title="STEP", width=8, right=True, keep=70),
    Column(key="lr", title="LR", width=8, right=True, keep=39),
    Column(key="size", title="SIZE", width=7, right=True, keep=38),
    Column(key="host", title="HOST", width=12, keep=37),
    Column(key="started", title="STARTED", width=ages.AGE_WIDTH, right=True, keep=36),
    Column(key="format", title="FORMAT", width=10, keep=35),
    Column(key="why", title="WHY", width=24, keep=10, grows_to=200),
)
USUAL = ("state", "stage", "epoch", "saves", "loss", "trend", "saved", "left", "world", "pid", "why")
KNOWN = tuple(column.key for column in _COLUMNS)


@cache
def _chosen(wanted: tuple[str, ...], age_width: int, sorted_by: str) -> tuple[Column, ...]:
    """The columns beside the name, in the order that is wanted; those of ages `age_width` cells wide.

    The one that is sorted by is kept longest, wide enough for its title and the mark behind it.
    """
    named = {column.key: column for column in _COLUMNS}
    chosen = [named[key] for key in dict.fromkeys(wanted) if key in named]
    chosen = [replace(one, width=age_width) if one.key in ("saved", "started") else one for one in chosen]
    return tuple(
        replace(one, width=max(one.width, len(one.title) + _MARK), keep=_KEEP_SORTED) if one.key == sorted_by else one
        for one in chosen
    )


class RunTable(LineTable):
    """Runs in the order that `tui.arranging` gave them."""

    BINDING_GROUP_TITLE = "Rows"

    def __init__(self, wanted: Sequence[str] = USUAL, *, id: str | None = None) -> None:
        """`wanted`: keys of the columns beside the name, in order; those that aren't KNOWN are left out."""
        super().__init__(id=id)
        self._rows: list[ListRow] = []
        self._view = View()
        self._marked: frozenset[str] = frozenset()
        self.has_tree = True  # does a run that is shown go on from another one?
        self._left: str | None = None  # the run that the cursor was on before a filter took its row away
        self._name_width = _NAME_USUAL
        self._wanted = tuple(wanted)
        self._fixed = _chosen(self._wanted, ages.AGE_WIDTH, self._view.sorting.column)
        self._lasting: dict[str, tuple[ListRow, bool, Mapping[str, Cell]]] = {}

    def set_rows(self, rows: list[ListRow], view: View, marked: frozenset[str] = frozenset()) -> None:
        """Show these rows; only lines that say something new are repainted."""
        self.show(arrangement_of(rows, view, time.time()), marked)

    def show(self, arranged: Arrangement, marked: frozenset[str] = frozenset()) -> None:
        """The same, with what was found out about the rows when they were put in order."""
        view, before = arranged.view, self._view
        self._rows, self._marked, self._view = arranged.rows, marked, view
        self.has_tree = arranged.has_tree
        if (view.sorting, view.is_reversed) != (before.sorting, before.is_reversed):
            self.refresh_head()
        if arranged.rows:  # where a filter leaves none the columns stay where they are
            self._name_width = max(_NAME_LEAST, min(_NAME_MOST, arranged.name_width))
        age_width = ages.CLOCK_WIDTH if arranged.has_odd_ages else ages.AGE_WIDTH
        self._fixed = _chosen(self._wanted, age_width, view.sorting.column)
        if view.query == before.query:
            self.set_keys(arranged.keys, arranged.places)
            return
        wanted = self._left or self.cursor_key
        self.set_keys(arranged.keys, arranged.places, wanted=wanted)
        self._left = None if self.cursor_key == wanted else wanted

    def _move(self, index: int) -> None:
        self._left = None
        super()._move(index)

    def change_runs(self, changed: Mapping[str, Run]) -> bool:
        """Take over what changed of runs that are shown and stay in their places; False where some don't."""
        places = [(self._places[key], run) for key, run in changed.items() if key in self._places]
        if len(places) < len(changed) or ages.is_any_odd(changed.values(), time.time()):
            return False
        if not all(stays_in_place(self._rows[at].run, run, self._view) for at, run in places):
            return False
        for at, run in places:
            self._rows[at] = self._rows[at]._replace(run=run)
        self.recheck()
        return True

    def set_marked(self, marked: frozenset[str]) -> None:
        """Other runs are marked, nothing else has changed."""
        self._marked = marked
        self.recheck()

    @property
    def wanted(self) -> tuple[str, ...]:
        """Keys of the columns beside the name, in order, those that don't fit as well."""
        return self._wanted

    @property
    def cursor_run(self) -> Run | None:
        """The run under the cursor."""
        return self._rows[self._cursor].run if self._rows else None

    @property
    def cursor_row(self) -> ListRow | None:
        return self._rows[self._cursor] if self._rows else None

    def columns(self) -> Sequence[Column]:
        usual = _name_room(self.scrollable_content_region.width - 2 * self.MARGIN, self._name_width, self._fixed)
        name = Column(key="name", title="RUN", width=usual, keep=100, grows_to=self._name_width)
        return (name, *self._fixed)

    def title(self, column: Column) -> Cell:
        is_sorted = column.key == self._view.sorting.column
        arrow = (" ↑" if self._view.points_up else " ↓") if is_sorted else ""
        indent = "  " if column.key == "name" else ""
        return Cell(f"{indent}{column.title}{arrow}", "accent" if is_sorted else "title")

    def cells(self, index: int) -> Mapping[str, Cell]:
        row = self._rows[index]
        return {**self._lasting_of(row), **passing_cells(row.run, time.time())}

    def _lasting_of(self, row: ListRow) -> Mapping[str, Cell]:
        """Most of a line costs a curve and a dozen numbers, and is the same at each look until its run changes."""
        is_marked = row.run.key in self._marked
        known = self._lasting.get(row.run.key)
        if known is None or known[0] != row or known[1] != is_marked:
            if len(self._lasting) >= _MOST_LASTING:
                self._lasting.clear()
            known = self._lasting[row.run.key] = (row, is_marked, lasting_cells(row, is_marked))
        return known[2]


def _name_room(width: int, wanted: int, fixed: Sequence[Column]) -> int:
    """Cells of the names: the usual ones; up to `wanted` where that costs no column that is kept longer than TREND."""
    usual = min(wanted, _NAME_USUAL)
    left = width - usual
    for column in sorted(fixed, key=lambda one: -one.keep):
        if column.keep <= _TREND_KEEP or column.width + GAP > left:
            break
        left -= column.width + GAP
    return min(wanted, usual + max(0, left))


def run_cells(row: ListRow, now: float, *, is_marked: bool = False) -> Mapping[str, Cell]:
    """What a run's line says at the time `now` (unix seconds)."""
    return {**lasting_cells(row, is_marked), **passing_cells(row.run, now)}


def passing_cells(run: Run, now: float) -> Mapping[str, Cell]:
    """Those that say something else a moment later."""
    ink = "" if run.state in ALIVE and not run.is_unread else "quiet"
    cells = {"started": _since(run.started_at, now, "quiet")}
    if not run.is_unread or run.newest is not None:
        cells["saved"] = _since(ages.last_save(run), now, ink)
    if (stopping := stopping_words(run, now)) is not None:
        cells["why"] = Cell(stopping, "warn")
    return cells


def lasting_cells(row: ListRow, is_marked: bool) -> Mapping[str, Cell]:
    """Those that say the same as long as the run does."""
    run, newest = row.run, row.run.newest
    if run.is_unread:
        known = {**_progress(run, newest), "left": _WAITING["left"]} if newest else {}
        return {"name": _name(row, is_marked), **_UNREAD, **known}
    trend = series.trend((point.loss for point in run.losses), _TREND_WIDTH)
    return {
        "name": _name(row, is_marked),
        "state": _state(run),
        "why": _why(run),
        "world": _number(run.world_size, ""),
        "pid": _number(run.pid, "quiet"),
        "trend": Cell(trend, "accent" if run.state in ALIVE else "quiet"),
        "size": _known(text.size(sum(one.facts.size_bytes for one in run.checkpoints) or None), "quiet"),
        "host": _known(text.clean(run.host, 40) if run.host else text.NONE, "quiet"),
        "format": Cell(text.clean(run.format, 40), "quiet"),
        **(_progress(run, newest) if newest else _unsaved(run)),
    }


def _state(run: Run) -> Cell:
    """The state; a live run that was told to end says that it is ending."""
    if run.is_stopping:
        return Cell(f"{STATE_GLYPHS[RunState.STOPPED]} stopping", "warn")
    return Cell(state_words(run.state), state_ink(run.state))


def _why(run: Run) -> Cell:
    """The state's reason; of a resumed run that went wrong that comes before it."""
    reason, mark = text.clean(run.state_reason, 300), proof_mark(run)
    if mark is None:
        return Cell(reason, "quiet")
    if mark[1] == "bad":
        return Cell("".join(words for words, _ in proof_line(run)), "bad")
    return Cell(f"{mark[0]}  {reason}", "quiet")


_CONTENT = ("stage", "epoch", "saves", "loss", "left", "step", "lr")
_NOTHING: Mapping[str, Cell] = {key: Cell(text.NONE, "faint") for key in _CONTENT}
_WAITING: Mapping[str, Cell] = {key: Cell("…", "faint") for key in _CONTENT}
_UNREAD: Mapping[str, Cell] = {**_WAITING, "state": Cell("…", "faint")}


def _unsaved(run: Run) -> Mapping[str, Cell]:
    """Without a checkpoint that was read: what the names of the files, or of the one it began from, tell."""
    unread = [one for one in run.checkpoints if one.wholeness is Wholeness.UNREAD]
    if unread:
        return {**_WAITING, **_named(unread[-1].name_stage, unread[-1].name_save_count)}
    source = run.resumed_from.checkpoint if run.resumed_from and not run.checkpoints else None
    stage, _ = parse_name(source.rsplit("/", 1)[-1]) if source else (None, None)
    stage = run.stage or stage
    begun = {
        "epoch": _known(text.of(run.epoch, run.epochs), "quiet"),
        "loss": _known(short_loss(run.logged_loss, None)),
    }
    return {**_NOTHING, **_named(stage, None), **begun}


def _named(stage: str | None, count: int | None) -> Mapping[str, Cell]:
    """Cells of what only a name says."""
    words = {"stage": text.clean(stage, 40) if stage else "", "saves": "" if count is None else text.save_count(count)}
    return {key: Cell(one, "quiet") for key, one in words.items() if one}


def _progress(run: Run, newest: Checkpoint) -> Mapping[str, Cell]:
    count = newest.save_count if newest.save_count is not None else newest.name_save_count
    return {
        "stage": _stage(newest),
        "epoch": _known(text.of(newest.epoch, newest.epochs)),
        "saves": _known(text.save_count(count)),
        "loss": _known(short_loss(newest.loss, newest.loss_text), "bad" if newest.loss is None else ""),
        "left": _known(text.hours(run.hours_left)),
        "step": _known(text.count(newest.step)),
        "lr": _known(text.NONE if newest.lr is None else f"{newest.lr:.3g}"),
    }


def short_loss(loss: float | None, instead: str | None) -> str:
    """A loss in at most eight cells."""
    words = text.loss(loss, instead)
    return words if len(words) <= 8 or loss is None else f"{loss:.1e}"


def _known(words: str, ink: str = "") -> Cell:
    return Cell(words, "faint" if words == text.NONE else ink)


def _stage(newest: Checkpoint) -> Cell:
    """The content's stage; a name that says otherwise is marked, an unreadable one falls back to the name's."""
    if newest.name_disagrees:
        return Cell(f"{text.clean(newest.stage, 40)}≠", "warn")
    if newest.stage is None:
        return Cell(text.clean(newest.name_stage, 40) if newest.name_stage else text.NONE, "quiet")
    return Cell(text.clean(newest.stage, 40))


def _name(row: ListRow, is_marked: bool) -> Cell:
    name, ink = text.clean(row.run.title, 200), "accent" if is_marked else ""
    if row.depth:
        lead = row.lead or "  " * row.depth + "└ "
        lead = lead[:-1] + "▸" if row.is_folded else lead
    else:
        lead = ("▸ " if row.is_folded else "▾ ") if row.descendants else "  "
    if is_marked:  # in the place of a cell that is there anyway: no name moves, and none is cut for it
        lead = f"{lead[:-2]}◆▸" if lead.endswith("▸") else f"{lead[:-1]}◆"
    return Cell(name, ink, elide="middle", lead=lead, depth=row.depth)


def _since(moment: float | None, now: float, ink: str) -> Cell:
    words = ages.minutes_since(moment, now)
    return Cell(words, {text.NONE: "faint", ages.CLOCK_DIFFERS: "warn"}.get(words, ink))


def _number(value: int | None, ink: str) -> Cell:
    return Cell(text.NONE, "faint") if value is None else Cell(str(value), ink)
