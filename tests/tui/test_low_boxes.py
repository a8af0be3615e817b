"""Boxes on terminals that are too low for their words: the keys that answer stay in sight, the words scroll."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from textual.screen import ModalScreen

from lavender_tui.tui.palette import Palette
from lavender_tui.tui.screens.ask import Ask, AskName, Document, Leave
from lavender_tui.tui.screens.boxed import Boxed
from lavender_tui.tui.screens.copying import CopyMenu
from lavender_tui.tui.screens.help import HelpScreen
from lavender_tui.tui.screens.log_files import LogFilesScreen
from lavender_tui.tui.screens.stop import StopBox
from tests.tui.conftest import Play, press, quiet, still_lines_of, text_of
from tests.tui.test_stop_choices import RUN

LONG = "It has saves of its own, resume those, and " + "so on and on with words " * 8 + "to the END"
LOW = [(40, 10), (30, 8)]


def _stop() -> StopBox:
    return StopBox(replace(RUN, started_at=time.time() - 600), grace=30)


@dataclass(frozen=True, slots=True)
class Case:
    """A page, the words that say what its keys do, in order, and what stands at the end of its words."""

    made: Callable[[], ModalScreen[Any]]
    keys: tuple[str, ...]
    end: str = ""


CASES = {
    "question": Case(lambda: Ask("Resume it once more?", detail=LONG, yes="resume once more"),
                     ("n  no, leave it", "y  resume once more"), "END"),
    "question with a list": Case(lambda: Ask("Kill 9?", listing=[f"process {at}" for at in range(9)], yes="kill"),
                                 ("n  no, leave it", "y  kill"), "process 8"),
    "long answer": Case(lambda: Ask("Sure?", detail=LONG, yes="yes, of all the runs that are here"),
                        ("n  no, leave it", "y  yes, of all the runs"), "END"),
    "leaving": Case(lambda: Leave("Leave?", detail=LONG), ("n  no", "y  yes"), "END"),
    "name": Case(lambda: AskName("Which?", detail=LONG, placeholder="some letters"),
                 ("some letters", "enter saves   esc back"), "END"),
    "document": Case(lambda: Document("A title " * 24, f"{LONG}\n" * 5), ("esc back", "c copy"), "END"),
    "copy": Case(lambda: CopyMenu(replace(RUN, name="run-" + "long-" * 12 + "END")),
                 ("y  the path", "c  the command", "j  everything", "v  show everything", "n  nothing"), "END"),
    "stop": Case(_stop, ("n  no, leave it", "y  save and stop", "s  stop at the next", "e  stop at the end of epo",
                         "i  interrupt", "K  kill it"), "lost"),
    "help": Case(lambda: HelpScreen("list"), ("esc back",)),
    "log files": Case(lambda: LogFilesScreen([("train.log", "/r/train.log")], None),
                      ("⏎ opens", "esc", "train.log")),
}  # fmt: skip


@pytest.mark.parametrize("size", LOW, ids=str)
@pytest.mark.parametrize("case", CASES)
async def test_the_keys_that_answer_are_in_sight_and_the_words_scroll(
    play: Play, root: Path, case: str, size: tuple[int, int]
) -> None:
    one = CASES[case]
    async with play(root, size=size) as pilot:
        pilot.app.push_screen(one.made())
        await quiet(pilot)
        for _ in range(40):
            shown = text_of(pilot.app)
            places = [shown.find(words) for words in one.keys]
            assert -1 not in places and places == sorted(places), shown
            if not one.end or one.end in shown:
                return
            await press(pilot, "down")
        pytest.fail(f"never seen: {one.end!r}\n{text_of(pilot.app)}")


@pytest.mark.parametrize(
    ("case", "down", "up"),
    [
        *((case, "j", "k") for case in ("question", "stop", "leaving", "document", "help")),
        *((case, "pagedown", "pageup") for case in ("question", "name", "stop", "document", "help")),
    ],
)
async def test_a_way_down_and_the_same_way_up(play: Play, root: Path, case: str, down: str, up: str) -> None:
    """By a line with the letters that are free, and by a page."""
    async with play(root, size=(40, 10)) as pilot:
        pilot.app.push_screen(CASES[case].made())
        await quiet(pilot)
        first = still_lines_of(pilot.app)
        await press(pilot, down)
        assert still_lines_of(pilot.app) != first
        await press(pilot, up)
        assert still_lines_of(pilot.app) == first


async def test_a_box_in_a_window_that_becomes_lower(play: Play, root: Path) -> None:
    async with play(root, size=(80, 24)) as pilot:
        pilot.app.push_screen(_stop())
        await quiet(pilot)
        before = still_lines_of(pilot.app)
        await pilot.resize_terminal(30, 8)
        await quiet(pilot)
        assert "K  kill it at once" in text_of(pilot.app)
        await pilot.resize_terminal(80, 24)
        await quiet(pilot)
        assert still_lines_of(pilot.app) == before


def test_every_page_over_another_is_one_of_them() -> None:
    """What is asked some day in a box of its own is to stay answerable, too."""
    ours = {one for one in _below(ModalScreen) if one.__module__.startswith("lavender_tui.")} - {Boxed, Palette}
    assert all(issubclass(one, Boxed) for one in ours)
    assert {type(case.made()) for case in CASES.values()} >= ours


def _below(one: type[Any]) -> set[type[Any]]:
    return {found for child in one.__subclasses__() for found in ({child} | _below(child))}
