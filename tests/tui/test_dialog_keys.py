"""Keys that stand in no table: those of dialogs, of tables and of the log, and the second halves of pairs.

Each that a screen or a widget binds is pressed in the real app; one without a try fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from lavender_tui.tui.screens.ask import Ask, AskName, Document
from lavender_tui.tui.screens.compare import CompareScreen
from lavender_tui.tui.screens.copying import CopyMenu
from lavender_tui.tui.screens.disk import DiskScreen
from lavender_tui.tui.screens.help import HelpScreen
from lavender_tui.tui.screens.log import LogScreen
from lavender_tui.tui.screens.log_files import LogFilesScreen
from lavender_tui.tui.screens.resume import ResumeScreen
from lavender_tui.tui.screens.run import RunScreen
from lavender_tui.tui.screens.stop import StopBox
from lavender_tui.tui.screens.tree import TreeScreen
from lavender_tui.tui.widgets.choice_row import ChoiceRow
from lavender_tui.tui.widgets.line_table import LineTable
from lavender_tui.tui.widgets.log_view import LogView
from tests.tui.conftest import LARGE, SMALL, Play, press, until
from tests.tui.test_every_key import (  # noqa: F401 - the fixture
    FAILED,
    LINES,
    LIVE,
    PATIENCE,
    SHEET,
    Try,
    _back_to_the_list,
    _body,
    _until_there,
    playground,
)

Keys = str  # separated by commas, as Textual writes them: they all do the same


@dataclass(frozen=True, slots=True)
class Place:
    """Where keys are bound, how one comes there from the list ("~": waits until that is shown), what is shown there."""

    owner: type[Any]
    way: tuple[str, ...]
    there: str
    tries: dict[Keys, Try]
    run: str = FAILED
    size: tuple[int, int] = LARGE
    elsewhere: Keys = ""  # pressed by other tests, named beside it
    is_long: bool = True


def gone(pattern: str) -> Try:
    return Try((), gone=pattern)


def seen(pattern: str, *way: str) -> Try:
    return Try((), seen=pattern, way=way)


ANY = Try(())  # the screen differs then
LOSS, BARS = ("3", "~last, at step"), ("4", "~rows read")
LAST = rf"line {LINES} end"
PLACES = {
    "stop box": Place(
        StopBox, ("x",), r"Stop run-\S+\?",
        {"n,escape,enter,q": gone(r"Stop run-\S+\?"), "K": seen("Kill")},
        run=LIVE, is_long=False, elsewhere="y,s,e,i,c,j,k",  # test_stop_dialog.py, test_low_boxes.py
    ),
    "copy menu": Place(
        CopyMenu, ("y",), "Copy of run-",
        {
            "y,p,enter": Try((), copied=FAILED), "c": Try((), copied="train.py"), "j": Try((), copied='"state"'),
            "v": seen("esc back   c copy"), "n,escape,q": gone("Copy of run-"),
        },
        is_long=False,
    ),
    "question": Place(
        Ask, ("D", r"~could go: [1-9]", "A"), "for good",
        {"n,escape,enter,q": gone("for good"), "y": seen("0 could go")},
        is_long=False, elsewhere="j,k",  # test_low_boxes.py
    ),
    "name": Place(AskName, ("l", "percent_sign"), "To which place", {"escape": gone("To which place")}, is_long=False),
    "document": Place(
        Document, ("y", "v"), "esc back   c copy",
        {"escape,q,enter": gone("esc back   c copy"), "c,y": Try((), copied='"state"'), "j": ANY,
         "k": Try((), way=("j", "j"))},
        size=SMALL, is_long=False,
    ),
    "help": Place(
        HelpScreen, ("question_mark",), "╭──────",
        {"escape,q,question_mark,f1,enter": gone("╭──────"), "j,G,end,space,ctrl+d,tab,shift+tab": ANY,
         "k,g,home,ctrl+u": Try((), way=("G",))},
        size=SMALL, is_long=False,
    ),
    "log files": Place(
        LogFilesScreen, ("l", "~1 of 2", "o"), "2 log files",
        {"escape": gone("2 log files"), "down,pagedown": ANY, "up,pageup": Try((), way=("down",))}, is_long=False,
    ),
    "rows": Place(
        LineTable, (), "RUN ↓",
        {
            "down,j,pagedown,ctrl+d,end,G": gone(f"▌▾ {FAILED}"),
            "up,k": Try((), seen=f"▌▾ {FAILED}", way=("j",)),
            "pageup,ctrl+u,home,g": seen(f"▌  {LIVE}"),  # the first row
        },
    ),
    "comparison": Place(
        CompareScreen, ("space", "space", "c"), "metric 1 of 2",
        {"down,j,ctrl+d,G,end": ANY, "up,k,ctrl+u,g,home": Try((), way=("j", "j")), "y": Try((), copied="lowest loss"),
         "m,M": seen("metric 2 of 2"), "o": seen("log scale +metric"),
         "escape": gone("compare  2 runs")},
        size=SMALL,
    ),
    "disk": Place(
        DiskScreen, ("D",), "could go: [1-9]",
        {"plus": seen("newest 4"), "minus": seen("newest 2"), "b": seen("best 2"), "B": seen("best 0"),
         "P": seen("for good"), "A": seen("for good"), "escape": gone("of checkpoints")},
    ),
    "tree": Place(
        TreeScreen, ("enter", "enter"), "scheduler_state_dict",
        {"slash": seen("a part of a key"), "y": Try((), copied="model_state_dict"),
         "escape": gone("scheduler_state_dict")},
    ),
    "sheet": Place(
        ResumeScreen, ("r",), "checks passed",
        {"pagedown": ANY, "pageup": Try((), way=("pagedown",)), "escape": gone(SHEET)}, size=SMALL,
        elsewhere="enter,m,b,v,c,d,x,tab,f5,shift+tab,ctrl+c,super+c",  # test_every_key.py; Textual's own
    ),
    "row of the sheet": Place(
        ChoiceRow, ("r",), "checks passed",
        {"right": seen(r"\[8\]"), "left": seen(r"\[2\]"), "down": seen("▌workers"), "up": gone("▌world_size")},
    ),
    "run": Place(
        RunScreen, ("enter",), r"\[1 Overview\]",
        {
            "2,tab": seen(r"\[2 Checkpoints\]"), "3": seen(r"\[3 Loss\]"), "4": seen(r"\[4 Data\]"),
            "5": seen(r"\[5 Processes\]"), "6,l": seen(r"\[6 Log\]"), "7,shift+tab": seen(r"\[7 History\]"),
            "1": seen(r"\[1 Overview\]", "3"), "escape": gone(r"\[1 Overview\]"),
            "right": seen("world_size 4 → 8", *BARS), "left": seen("world_size 4 → 2", *BARS),
            "shift+left": Try((), gone="last, at step", way=LOSS),
            "shift+right": Try((), way=(*LOSS, "left", "shift+left")),
            "plus": seen(r"steps [\d,]+ to", *LOSS), "minus,0": Try((), gone=r"steps [\d,]+ to", way=(*LOSS, "plus")),
            "m,M": seen("2 of 2", *LOSS), "o": seen("log scale$", *LOSS), "a": seen("averaged over 10", *LOSS),
            "y": seen("Copy of run-"), "r": seen(SHEET), "e": seen(r"error \d of \d|▶"), "enter": seen("scheduler_st"),
            "slash": seen("Which settings"),
        },
        elsewhere="R,x,f5",  # test_every_key.py
    ),
    "log": Place(
        LogView, ("l",), rf"line {LINES} ",
        {
            "up,k,pageup,ctrl+u,home,g": gone(LAST), "down,j,pagedown,ctrl+d": Try((), way=("g",)),
            "end,G": Try((), seen=LAST, way=("g",)), "right": gone("line 490"), "left": Try((), way=("right",)),
        },
        size=SMALL,
    ),
    "log's page": Place(
        LogScreen, ("l",), rf"line {LINES} ",
        {
            "1": seen(r"\[1 Overview\]"), "2": seen(r"\[2 Checkpoints\]"), "3": seen(r"\[3 Loss\]"),
            "4": seen(r"\[4 Data\]"), "5": seen(r"\[5 Processes\]"), "7": seen(r"\[7 History\]"),
            "escape": gone(r"\[6 Log\]"),
        },
        elsewhere="6,r,R,x,f,tab,o,slash,n,N,e,E,percent_sign,Y,w,y",  # test_log_screen.py, test_every_key.py
    ),
}  # fmt: skip


def bound(owner: type[Any]) -> set[str]:
    """The keys that a class binds itself."""
    found: Iterable[Any] = owner.__dict__.get("BINDINGS", ())
    names = [one.key if isinstance(one, Binding) else one[0] for one in found]
    return {key.strip() for name in names for key in name.split(",")}


@pytest.mark.parametrize("place", PLACES)
def test_no_key_is_without_a_try(place: str) -> None:
    one = PLACES[place]
    tried = {key for keys in one.tries for key in keys.split(",")}
    assert bound(one.owner) - tried - set(one.elsewhere.split(",")) == set()


_LISTED = [
    pytest.param(name, marks=pytest.mark.long) if place.is_long else pytest.param(name)
    for name, place in PLACES.items()
]


@pytest.mark.parametrize("place", _LISTED)
async def test_every_key_of_it_works(play: Play, playground: Path, place: str) -> None:  # noqa: F811
    one = PLACES[place]
    async with play(playground, size=one.size) as pilot:
        await until(pilot, lambda: any(run.is_alive for run in pilot.app.runs), "the living run")
        for keys, wanted in one.tries.items():
            for key in keys.split(","):
                await _try(pilot, playground, one, key, wanted)
                await _back_to_the_list(pilot)


async def _go(pilot: Pilot[Any], way: Iterable[str], key: str) -> None:
    for step in way:
        await (_until_there(pilot, step[1:], key) if step.startswith("~") else press(pilot, step))


async def _try(pilot: Pilot[Any], root: Path, place: Place, key: str, one: Try) -> None:
    pilot.app.screen.go_to_run(str(root / place.run))
    await pilot.pause()
    await _until_there(pilot, "RUN ↓", key)
    await _go(pilot, place.way, key)
    await _until_there(pilot, place.there, key)
    await _go(pilot, one.way, key)
    if one.gone:
        await _until_there(pilot, one.gone, key)
    await pilot.pause(0.05)
    pilot.app._clipboard = ""
    before = _body(pilot)
    await press(pilot, key)

    def has_worked() -> bool:
        now = _body(pilot)
        if one.copied:
            return one.copied in pilot.app.clipboard
        if one.seen:
            return bool(re.search(one.seen, now, re.M))
        return not re.search(one.gone, now) if one.gone else now != before

    await until(pilot, has_worked, f"{key} after {before}", PATIENCE)
