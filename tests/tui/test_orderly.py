"""Whatever threads tell a screen while it is taken down is dropped: the app ends without a word."""

from __future__ import annotations

import copy
import itertools
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key
from textual.message import Message
from textual.screen import Screen

import lavender_tui.tui.screens.compare
import lavender_tui.tui.screens.copying
import lavender_tui.tui.screens.disk
import lavender_tui.tui.screens.help
import lavender_tui.tui.screens.log
import lavender_tui.tui.screens.log_files
import lavender_tui.tui.screens.resume
import lavender_tui.tui.screens.run
import lavender_tui.tui.screens.stop
import lavender_tui.tui.screens.tree  # noqa: F401 (all screens are there)
from lavender_tui.tui.app import LavenderApp
from lavender_tui.tui.feed import RunsChanged
from lavender_tui.tui.messages import LogRead, ProposalMade, StopEnded
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.screens.stop_actions import StopActions, tell_or_hand_over
from tests.tui.conftest import Play, press, quiet, until, until_shown


def all_below(kind: type) -> set[type]:
    return {kind}.union(*map(all_below, kind.__subclasses__()))


def test_every_screen_is_one() -> None:
    ours = [one for one in all_below(Screen) if one.__module__.startswith("lavender_tui.")]
    assert len(ours) > 15
    assert issubclass(LavenderApp, Orderly) and [one for one in ours if not issubclass(one, Orderly)] == []
    assert [one for one in ours if one.__mro__.index(Orderly) > one.__mro__.index(Screen)] == []


class Talkative(threading.Thread):
    """Tells a screen again and again what it was told before, and the app of news, until there is no app."""

    def __init__(self, screen: Screen[Any], told: list[Message]) -> None:
        super().__init__(daemon=True)
        self.screen, self.told, self.app = screen, told, screen.app
        self.is_over = threading.Event()

    def run(self) -> None:
        last = self.app.snapshot
        for number in itertools.count(1):
            news = RunsChanged(replace(last, sequence=last.sequence + number))
            for pump, message in ((self.app, news), *((self.screen, copy.copy(one)) for one in self.told)):
                if self.is_over.is_set():
                    return
                pump.post_message(message)
                time.sleep(0.0005)


@pytest.mark.parametrize(
    ("keys", "shown", "kind"),
    [
        ("", "EPOCH", None),
        ("enter", "Checkpoints", None),
        ("l", "line 39", LogRead),
        ("r", "checks passed", ProposalMade),
        ("D", "free", None),
    ],
    ids=["list", "run", "log", "sheet", "disk"],
)
@pytest.mark.parametrize("leaves", [False, True], ids=["the app ends", "the screen is left"])
async def test_what_comes_late_is_dropped(
    play: Play, one_run: Path, keys: str, shown: str, kind: type[Message] | None, leaves: bool
) -> None:
    run = next(one_run.glob("run-*"))
    (run / "train.log").write_text("".join(f"line {number}\n" for number in range(1, 40)))
    told: list[Message] = []
    keep = Orderly._dispatch_message

    async def noted(self: Any, message: Message) -> None:
        if type(message).__module__.startswith("lavender_tui.") and not isinstance(self, LavenderApp):
            told.append(message)
        await keep(self, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Orderly, "_dispatch_message", noted)
        async with play(one_run) as pilot:
            if keys:
                await press(pilot, keys)
            await until_shown(pilot, shown)
            await until(pilot, lambda: kind is None or any(isinstance(one, kind) for one in told), "what is told")
            patch.setattr(Orderly, "_dispatch_message", keep)
            talker = Talkative(pilot.app.screen, told[-20:])
            talker.start()
            await pilot.pause(0.1)
            if leaves and keys:
                await press(pilot, "escape")
                await pilot.pause(0.1)
        talker.is_over.set()
        talker.join(10)


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        (("ctrl+p",), ["RunsScreen", "ResumeScreen"]),
        (("slash", *"run", "enter", "V", "a"), ["RunsScreen"]),
        (("enter", "slash", "a"), ["RunsScreen", "RunScreen"]),
    ],
    ids=["palette", "name of a view", "part of a setting"],
)
async def test_a_second_enter_that_came_with_the_first_takes_no_other_page_away(
    play: Play, one_run: Path, keys: tuple[str, ...], left: list[str]
) -> None:
    async with play(one_run) as pilot:
        await press(pilot, *keys)
        entered = pilot.app.focused
        for _ in range(2):  # both to whom the first is for, as Textual does
            entered._forward_event(Key("enter", None))
        await until(pilot, lambda: [type(one).__name__ for one in pilot.app.screen_stack] == left, f"{left}")
        await quiet(pilot)
        assert [type(one).__name__ for one in pilot.app.screen_stack] == left and pilot.app.is_running


async def test_how_a_stop_ended_is_told_though_the_page_that_was_told_is_just_being_left(
    play: Play, one_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with play(one_run) as pilot:
        await press(pilot, "enter")
        page = pilot.app.screen
        with monkeypatch.context() as patch:
            patch.setattr(type(page), "is_in_pieces", True)
            tell_or_hand_over(page, pilot.app, StopEnded(str(one_run), "it saved and ended"), StopActions)
            await until(pilot, lambda: "it saved and ended" in [one.words for one in pilot.app.announcements], "it")
