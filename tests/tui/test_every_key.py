"""Each key of the table, pressed in each place where it works, on the real app and real runs: something is seen."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from lavender_tui.launch import KILL, start, stop
from lavender_tui.model.plan import Launch
from lavender_tui.tui import keys
from lavender_tui.tui.keys import COMPARE, CURVE, DATA, DISK, EVERYWHERE, LIST, LOG, OVERVIEW, RESUME, RUN, TREE
from lavender_tui.tui.palette import LavenderCommands
from lavender_tui.tui.widgets.key_bar import KeyBar
from lavender_tui.tui.widgets.run_table import RunTable
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, text_of, until, until_shown

FAILED, JUMPED, LIVE = "run-2026-04-24_18-53-41", "run-2026-04-30_00-00-00", "run-2026-05-01_00-00-00"
LINES = 500
PATIENCE = 60.0  # seconds: a plan on a busy machine takes its time


@dataclass(frozen=True, slots=True)
class Try:
    """What is pressed and what then is on the screen that wasn't before.

    `way`: keys from the place's beginning to where the key can work; `ready`: what must be shown before it is pressed.
    `seen` and `gone` are patterns. `copied`: what of it is in the clipboard. Nothing of these: the screen differs.
    """

    pressed: tuple[str, ...]
    seen: str = ""
    gone: str = ""
    copied: str = ""
    way: tuple[str, ...] = ()
    ready: str = ""
    run: str = FAILED
    size: tuple[int, int] = LARGE


# How one comes to each place from the list, and what shows that it is there.
PLACES: dict[str, tuple[tuple[str, ...], str]] = {
    LIST: ((), "RUN ↓"),
    RUN: (("enter",), r"\[1 Overview\]"),
    OVERVIEW: (("enter",), r"\[1 Overview\]"),
    RESUME: (("r",), "checks passed|can't be launched"),
    LOG: (("l",), f"line {LINES} "),
    CURVE: (("enter", "3"), "last, at step"),
    DATA: (("enter", "4"), "rows read"),
    TREE: (("enter", "enter"), "scheduler_state_dict"),
    COMPARE: (("space", "space", "c"), "compare  2 runs"),
    DISK: (("D",), "could go: [1-9]"),
}
STOP, NOT = r"Stop run-\S+\?", "Not resumed"
SHEET = "nothing happens until"
# Each key of the table in each place that the table names; a key without an entry fails.
TRIES: dict[tuple[str, str], Try] = {
    ("run.resume", LIST): Try(("r",), SHEET),
    ("run.resume", RUN): Try(("r",), SHEET),
    ("run.resume_now", LIST): Try(("R",), NOT, run=LIVE),
    ("run.resume_now", RUN): Try(("R",), NOT, run=LIVE),
    ("sheet.launch", RESUME): Try(("enter",), "▌checkpoint", run=LIVE, ready="can't be launched"),
    ("sheet.change", RESUME): Try(("right",), r"\[8\]", ready="checks passed"),
    ("sheet.next", RESUME): Try(("tab",), "▌workers"),
    ("sheet.mend", RESUME): Try(("m",), "checks passed", way=("3",), ready=r"can't be launched: see .*   m "),
    ("sheet.before", RESUME): Try(
        ("b",), "not from before the jump|b takes the newest again", run=JUMPED, ready="b goes back before"
    ),
    ("sheet.verify", RESUME): Try(("v",), gone="bytes and numbers: looked at before", ready="looked at before"),
    ("sheet.again", RESUME): Try(("f5",), ready="checks passed"),
    ("sheet.copy", RESUME): Try(("c",), copied="resume", ready="checks passed"),
    ("sheet.dry", RESUME): Try(("d",), "nothing was written", ready="checks passed"),
    ("sheet.scroll", RESUME): Try(("pagedown",), size=SMALL, ready="pgdn more checks"),
    ("run.stop", LIST): Try(("x",), STOP, run=LIVE),
    ("run.stop", RUN): Try(("x",), STOP, run=LIVE),
    ("run.resume", LOG): Try(("r",), SHEET),
    ("run.resume_now", LOG): Try(("R",), "Checking, then resuming|Resume it once more"),
    ("run.stop", LOG): Try(("x",), "nothing to stop"),
    ("run.stop", RESUME): Try(("x",), STOP, run=LIVE, ready="x stops it first"),
    ("run.log", LIST): Try(("l",), "ended"),
    ("run.log", RUN): Try(("l",), "ended"),
    ("list.open", LIST): Try(("enter",), r"\[1 Overview\]"),
    ("list.filter", LIST): Try(("slash",), "tab completes"),
    ("list.sort", LIST): Try(("s",), "STATE ↑"),
    ("list.reverse", LIST): Try(("S",), "RUN ↑"),
    ("list.clear", LIST): Try(("escape",), gone="!zz", way=("slash", *"!zz", "enter"), ready="!zz"),
    ("list.mark", LIST): Try(("space",), "◆"),
    ("list.compare", LIST): Try(("c",), "compare  2 runs", way=("space", "space"), ready="◆"),
    ("list.disk", LIST): Try(("D",), "of checkpoints"),
    ("list.fold", LIST): Try(("left",), f"▸ {FAILED}"),
    ("list.flat", LIST): Try(("t",), gone="└ run-"),
    ("list.view", LIST): Try(("v",), "No views yet"),
    ("list.save_view", LIST): Try(("V",), "Save this filter as a view", way=("slash", "s", "f", "t", "enter")),
    ("list.rescan", LIST): Try(("f5",)),
    ("list.rescan", RUN): Try(("f5",)),
    ("log.follow", LOG): Try(("f",), "nothing more comes"),
    ("log.file", LOG): Try(("tab",), "2 of 2"),
    ("log.files", LOG): Try(("o",), "2 log files"),
    ("log.search", LOG): Try(("slash",), "a capital minds case"),
    ("log.match", LOG): Try(("n",), way=("slash", *"line 7", "enter"), ready="“line 7”: match 1 of 11"),
    ("log.match_back", LOG): Try(("N",), way=("slash", *"line 7", "enter"), ready="“line 7”: match 1 of 11"),
    ("log.error", LIST): Try(("e",), r"error \d of \d|▶"),
    ("log.error", RUN): Try(("e",), r"error \d of \d|▶"),
    ("log.error", LOG): Try(("e",), r"error \d of \d|▶", ready="errors, first"),
    ("log.error_back", LOG): Try(("E",), r"error \d of \d|▶", ready="errors, first"),
    ("log.place", LOG): Try(("percent_sign", *"50%", "enter"), r"lines 2[45]\d-", ready="errors, first"),
    ("log.copy", LOG): Try(("Y",), copied=f"line {LINES} "),
    ("log.wrap", LOG): Try(("w",), "wrapped"),
    ("log.aside", LOG): Try(("right",), size=SMALL, gone=f"line {LINES}"),
    ("copy.run", LIST): Try(("y",), "Copy of run-"),
    ("copy.run", RUN): Try(("y",), "Copy of run-"),
    ("copy.path", LOG): Try(("y",), copied="train.log"),
    ("run.tabs", RUN): Try(("2",), r"\[2 Checkpoints\]"),
    ("run.tabs", LOG): Try(("3",), r"\[3 Loss\]"),
    ("run.tree", RUN): Try(("enter",), "scheduler_state_dict"),
    ("run.find", RUN): Try(("slash",), "Which settings"),
    ("run.beside", OVERVIEW): Try(("right", "G"), gone="more lines? below", ready="more lines? below", size=(110, 30)),
    ("curve.move", CURVE): Try(("left",), gone="last, at step"),
    ("curve.zoom", CURVE): Try(("plus",), r"steps [\d,]+ to"),
    ("curve.metric", CURVE): Try(("m",), "2 of 2"),
    ("curve.log", CURVE): Try(("o",), r"(?m)^ +log scale"),
    ("curve.smooth", CURVE): Try(("a",), "averaged over 10"),
    ("data.ranks", DATA): Try(("right",), "world_size 4 → 8"),
    ("tree.filter", TREE): Try(("slash",), "a part of a key"),
    ("tree.copy", TREE): Try(("y",), copied="model_state_dict"),
    ("curve.metric", COMPARE): Try(("m",), "2 of 2", ready="metric 1 of 2"),
    ("curve.log", COMPARE): Try(("o",), r"log scale +metric", ready="metric 1 of 2"),
    ("compare.scroll", COMPARE): Try(("j",), size=SMALL),
    ("compare.copy", COMPARE): Try(("y",), copied="lowest loss"),
    ("disk.last", DISK): Try(("plus",), "newest 4"),
    ("disk.best", DISK): Try(("b",), "best 2"),
    ("disk.prune", DISK): Try(("P",), "for good"),
    ("disk.prune_all", DISK): Try(("A",), "for good"),
    ("move", LIST): Try(("j",), gone=f"▌▾ {FAILED}"),
    ("move", RUN): Try(("j",), "▌ 0059", ready="▌ 0060"),
    ("move", LOG): Try(("k",), r"lines 4\d\d-503 of 504"),
    ("move", DISK): Try(("j",)),
    ("move", TREE): Try(("j",)),
    ("move.ends", LIST): Try(("G",), gone=f"▌▾ {FAILED}"),
    ("move.ends", RUN): Try(("G",), "▌ 0058", ready="▌ 0060"),
    ("move.ends", LOG): Try(("g",), r"lines 1-\d+ of"),
    ("move.ends", DISK): Try(("G",)),
    ("move.ends", TREE): Try(("G",)),
    ("move.half", LIST): Try(("ctrl+d",), gone=f"▌▾ {FAILED}"),
    ("move.half", RUN): Try(("ctrl+d",), "▌ 0058", ready="▌ 0060"),
    ("move.half", LOG): Try(("ctrl+u",), r"lines 4\d\d-4[78]\d of 504"),
    ("move.half", DISK): Try(("ctrl+d",)),
    ("move.half", TREE): Try(("ctrl+d",)),
    ("disk.other", DISK): Try(("tab", "j")),
    ("back", RUN): Try(("escape",), gone=r"\[1 Overview\]"),
    ("back", RESUME): Try(("escape",), gone=SHEET),
    ("back", LOG): Try(("escape",), gone="ended"),
    ("back", COMPARE): Try(("escape",), gone="compare  2 runs"),
    ("back", DISK): Try(("escape",), gone="of checkpoints"),
    ("back", TREE): Try(("escape",), gone="scheduler_state_dict"),
}
# The two places where most time is spent are tried each time, the others in the long suite.
_EVERY = [place if place in (LIST, RUN) else pytest.param(place, marks=pytest.mark.long) for place in PLACES]
TRIES |= {("help", place): Try(("question_mark",), "╭──────") for place in PLACES}
TRIES |= {("palette", place): Try(("ctrl+p",), "what to do, a run, a theme") for place in PLACES}


def test_no_key_of_the_table_is_without_a_try() -> None:
    wanted = {
        (key.id, place)
        for key in keys.TABLE
        for place in (PLACES if key.places == (EVERYWHERE,) else key.places)
        if key.id != "quit"  # below
    }
    assert wanted == set(TRIES)


@pytest.fixture
def playground(tmp_path: Path) -> Iterator[Path]:
    """The five runs with a log of two errors, one more whose loss jumped, and one that lives."""
    root = runs.small_root(tmp_path)
    metrics = (root / FAILED / "metrics.jsonl").read_text().replace('"loss"', '"lr": 0.0003, "loss"')
    (root / FAILED / "metrics.jsonl").write_text(metrics)
    errors = {100: "RuntimeError: first", 400: "RuntimeError: second"}
    lines = [f"line {number} {errors.get(number, 'loss 2.0')}" for number in range(1, LINES + 1)]
    for number, words in errors.items():
        lines[number - 1 : number] = ["Traceback (most recent call last):", '  File "train.py", line 3, in main', words]
    (root / FAILED / "train.log").write_text("\n".join(lines)[: -len(f"line {LINES} loss 2.0")] + f"line {LINES} end\n")
    (root / FAILED / "train.log.1").write_text("older\n")
    for count in range(1, 9):
        runs.save(root / JUMPED, count, each=140 * count, loss=2.1 if count < 6 else 5.7, age_seconds=3600 - 60 * count)
    jump = [2.1 + 0.01 * (step % 5) + (3.6 if step >= 40 else 0.0) for step in range(1, 57)]
    runs.metrics(root / JUMPED, jump)
    runs.launched(root / JUMPED, runs.script(tmp_path))
    runs.ended(root / JUMPED, code=1)
    runs.save(root / LIVE, 1)
    sleeping = (sys.executable, "-c", "import time; time.sleep(600)")
    start(Launch(backend="local", argv=sleeping, cwd=str(tmp_path)), str(root / LIVE))
    yield root
    stop(str(root / LIVE), KILL)


@pytest.mark.parametrize("place", _EVERY)
async def test_every_key_does_what_it_says(play: Play, playground: Path, place: str) -> None:
    async with play(playground, size=LARGE) as pilot:
        await until(pilot, lambda: any(run.is_alive for run in pilot.app.runs), "the living run")
        for (key_id, at), one in TRIES.items():
            if at == place:
                await _try(pilot, playground, key_id, place, one)
                await _back_to_the_list(pilot)


async def _try(pilot: Pilot[Any], root: Path, key_id: str, place: str, one: Try) -> None:
    if pilot.app.size != one.size:
        await pilot.resize_terminal(*one.size)
    pilot.app.screen.go_to_run(str(root / one.run))
    await pilot.pause()
    way, there = PLACES[place]
    await _until_there(pilot, "RUN ↓", key_id)
    await press(pilot, *way)
    await _until_there(pilot, there, key_id)
    await press(pilot, *one.way)
    await _until_there(pilot, one.ready, key_id)
    await pilot.pause(0.05)
    pilot.app._clipboard = ""
    before, count = _body(pilot), pilot.app.snapshot.sequence
    if one.seen:
        assert not re.search(one.seen, before), f"{key_id} in {place}: it was there before"
    if one.gone:
        assert re.search(one.gone, before), f"{key_id} in {place}: it wasn't there before\n{before}"
    await press(pilot, *one.pressed)
    await until(pilot, lambda: _has_worked(pilot, key_id, one, before, count), f"{key_id} in {place}", PATIENCE)


async def _until_there(pilot: Pilot[Any], pattern: str, key_id: str) -> None:
    await until(pilot, lambda: re.search(pattern, text_of(pilot.app)), f"{pattern} before {key_id}", PATIENCE)


def _body(pilot: Pilot[Any]) -> str:
    """The screen without its line of the clock."""
    return "\n".join(lines_of(pilot.app)[1 if len(pilot.app.screen_stack) == 1 else 0 :])


def _has_worked(pilot: Pilot[Any], key_id: str, one: Try, before: str, count: int) -> bool:
    if key_id == "list.rescan":  # the disk was looked at: where nothing changed, nothing is to be seen
        return pilot.app.snapshot.sequence > count or not pilot.app.feed.rescan_soon()
    if key_id == "sheet.again":  # what was chosen is as it was: the same is to be seen
        return pilot.app.screen._sequence == 2 and not pilot.app.screen._is_waiting
    now = _body(pilot)
    if one.copied:
        return one.copied in pilot.app.clipboard
    if one.seen:
        return bool(re.search(one.seen, now))
    return not re.search(one.gone, now) if one.gone else now != before


async def _back_to_the_list(pilot: Pilot[Any]) -> None:
    """As at the start: no page on it, no filter, no mark, no notice."""
    app = pilot.app
    app.workers.cancel_all()
    while len(app.screen_stack) > 1:
        app.pop_screen()
    app.clear_notifications()
    await press(pilot, "escape", "escape")
    app.screen.view = type(app.screen.view)()
    await pilot.pause()


@pytest.mark.parametrize("place", _EVERY)
async def test_q_ends_the_app_from_everywhere(play: Play, playground: Path, place: str) -> None:
    async with play(playground, size=LARGE) as pilot:
        pilot.app.screen.go_to_run(str(playground / FAILED))
        await _until_there(pilot, rf"▌▾ {FAILED}", place)
        await press(pilot, *PLACES[place][0])
        await _until_there(pilot, PLACES[place][1], "quit")
        await press(pilot, "q")
        await until(pilot, lambda: not pilot.app.is_running or pilot.app._exit, "the end")


# The mouse


async def test_clicks_on_rows_titles_and_tabs(play: Play, playground: Path) -> None:
    async with play(playground, size=LARGE) as pilot:
        table = pilot.app.screen.query_one(RunTable)
        row = next(y for y, line in enumerate(lines_of(pilot.app)) if FAILED in line)
        await pilot.click(None, offset=(8, row))
        await until(pilot, lambda: table.cursor_key == str(playground / FAILED), "the cursor on it")
        top = next(y for y, line in enumerate(lines_of(pilot.app)) if "RUN ↓" in line)
        title = lines_of(pilot.app)[top].index("LOSS")
        await pilot.click(None, offset=(title + 1, top))
        await until_shown(pilot, "LOSS ↑")
        await pilot.click(None, offset=(title + 1, top))
        await until_shown(pilot, "LOSS ↓")
        at = list(table.keys).index(str(playground / FAILED))
        await pilot.click(None, offset=(8, top + 1 + at), times=2)
        await until_shown(pilot, "[1 Overview]")
        for name in ("Checkpoints", "Loss", "Data", "Processes", "History"):
            await pilot.click(None, offset=(lines_of(pilot.app)[1].index(name) + 1, 1))
            await until_shown(pilot, f"{name}]")


@pytest.mark.parametrize("place", _EVERY)
async def test_a_click_in_the_key_bar_presses_the_key(play: Play, playground: Path, place: str) -> None:
    async with play(playground, size=LARGE) as pilot:
        pilot.app.screen.go_to_run(str(playground / FAILED))
        await _until_there(pilot, rf"▌▾ {FAILED}", place)
        await press(pilot, *PLACES[place][0])
        await _until_there(pilot, PLACES[place][1], "the key bar")
        page, bottom = pilot.app.screen, LARGE[1] - 1
        assert page.query_one(KeyBar).region.y == bottom
        await until(pilot, lambda: page.query_one(KeyBar)._drawn or place != LIST, "the keys of that run")
        await pilot.pause(0.2)
        await pilot.click(None, offset=(lines_of(pilot.app)[bottom].rindex("? help"), bottom))
        await until_shown(pilot, "╭──────")
        await press(pilot, "escape")
        if place != LIST:
            await until(pilot, lambda: pilot.app.screen is page, "the page again")
            await pilot.click(None, offset=(lines_of(pilot.app)[bottom].rindex("esc back"), bottom))
            await until(pilot, lambda: pilot.app.screen is not page, "the page before")


@pytest.mark.parametrize(
    ("place", "key", "cell", "seen"),
    [
        (RUN, "run.tabs", 2, r"History\]"),
        (LOG, "run.tabs", 0, r"1 Overview\]"),
        (CURVE, "curve.zoom", 0, r"steps? \d.* of"),
        (CURVE, "curve.move", 0, "at step"),
        (CURVE, "curve.metric", 2, "metric"),
        (DATA, "data.ranks", 2, "world_size"),
        (DISK, "disk.last", 0, "newest 4 and"),
        (RESUME, "sheet.change", 2, r"\[8\]"),
    ],
)
async def test_a_click_on_keys_that_are_shown_together_presses_the_one_under_the_pointer(
    play: Play, playground: Path, place: str, key: str, cell: int, seen: str
) -> None:
    async with play(playground, size=LARGE) as pilot:
        pilot.app.screen.go_to_run(str(playground / FAILED))
        await _until_there(pilot, rf"▌▾ {FAILED}", place)
        await press(pilot, *PLACES[place][0])
        await _until_there(pilot, PLACES[place][1], "the key bar")
        bar = pilot.app.screen.query_one(KeyBar)

        def marks() -> list[int]:
            return [start for start, _, one in bar._marks if one.id == key]

        await until(pilot, marks, "the key in the bar")
        before = text_of(pilot.app)
        await pilot.click(bar, offset=(marks()[0] + cell, 0))
        await until(pilot, lambda: text_of(pilot.app) != before and re.search(seen, text_of(pilot.app)), seen)
        assert pilot.app.is_running


@pytest.mark.parametrize("place", _EVERY)
async def test_everything_in_the_palette_can_be_done(play: Play, playground: Path, place: str) -> None:
    """Each of its entries is an action that the page has, with all that it needs."""
    async with play(playground, size=LARGE) as pilot:
        pilot.app.screen.go_to_run(str(playground / FAILED))
        await _until_there(pilot, rf"▌▾ {FAILED}", place)
        await press(pilot, *PLACES[place][0])
        await _until_there(pilot, PLACES[place][1], "the palette")
        page = pilot.app.screen
        if place == CURVE:
            await until(pilot, lambda: "curve_log" in {one[2] for one in LavenderCommands(page)._actions()}, place)
        entries = LavenderCommands(page)._actions()
        assert {"Help", "Quit"} <= {title for title, _, _ in entries}
        for title, _, action in entries:
            name, _, rest = action.removeprefix("app.").partition("(")
            method = getattr(pilot.app if action.startswith("app.") else page, f"action_{name}")
            arguments = ast.literal_eval(f"({rest.rstrip(')')},)") if rest else ()
            inspect.signature(method).bind(*arguments)
            assert title and "_" not in title
        if place == CURVE:
            await press(pilot, "ctrl+p", *"log scale")
            await until_shown(pilot, "Logarithmic scale")
            await press(pilot, "enter", "enter")
            await until(pilot, lambda: re.search(r"(?m)^ +log scale", text_of(pilot.app)), "the log scale")
