"""Sentences on a narrow screen: whole where there is room, else seen to be cut. What to do is never what is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from lavender_tui.launch import KILL, stop
from lavender_tui.launch.locks import WAIT, resume_lock
from lavender_tui.tui.widgets.filter_line import hint
from lavender_tui.tui.widgets.inks import INKS, Span
from lavender_tui.tui.widgets.lines import Lines
from tests.tui.conftest import SMALL, Play, lines_of, press, quiet, text_of, until, until_shown
from tests.tui.sheets import FAILED, choose_local, launched_run, open_sheet


def read(pilot: Pilot[int]) -> str:
    """The words on the screen, line breaks left out."""
    return " ".join(text_of(pilot.app).split())  # type: ignore[arg-type]


class _Low(App[int]):
    """Lines in a widget that is lower than they are."""

    COMPONENT_CLASSES = INKS
    CSS = "Lines { height: 2; width: 20; }"
    lines: list[list[Span]] = []  # noqa: RUF012

    def compose(self) -> ComposeResult:
        yield Lines()

    def on_mount(self) -> None:
        self.query_one(Lines).show(self.lines)


async def test_a_sentence_without_room_ends_in_an_ellipsis() -> None:
    app = _Low()
    app.lines = [[("nine words of one sentence that go on and on", "")]]
    async with app.run_test(size=(30, 6)) as pilot:
        await quiet(pilot)
        assert lines_of(app)[:3] == ["nine words of one", "  sentence that go…", ""]  # type: ignore[arg-type]


async def test_a_sentence_that_is_whole_has_no_ellipsis_though_others_follow() -> None:
    app = _Low()
    app.lines = [[("one", "")], [("two", "")], [("three", "")]]
    async with app.run_test(size=(30, 6)) as pilot:
        await quiet(pilot)
        assert lines_of(app)[:3] == ["one", "two", ""]  # type: ignore[arg-type]


async def test_who_resumes_it_already_is_said_with_what_to_do_and_enter_tries_again(
    play: Play, one_run: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    async with play(one_run, size=SMALL) as pilot:
        await open_sheet(pilot)
        await choose_local(pilot)
        with resume_lock(str(one_run / FAILED)):
            await press(pilot, "enter")
            await until_shown(pilot, "⏎ try again")
            await until(pilot, lambda: WAIT in read(pilot), WAIT)
            assert "merge and launch" not in read(pilot)
        await press(pilot, "enter")
        stop((await launched_run(pilot)).path, KILL)
    assert nothing_survives() == []


@pytest.mark.parametrize("size", [SMALL, (40, 24)], ids=str)
@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("state:xyz", "✗ there is no state xyz: running, stalled, finished, failed, stopped, idle"),
        ("loss < 2", "✗ type loss<2, with no space around <"),
        ("saved<1x", "✗ saved< wants an age, such as saved<1h or saved<30m: 1x is none"),
        ("x" * 120, f"No run matches {'x' * 120}"),
    ],
    ids=lambda words: words[:12],
)
async def test_a_filter_that_finds_nothing_says_why_and_how_to_leave_it(
    play: Play, root: Path, typed: str, told: str, size: tuple[int, int]
) -> None:
    async with play(root, size=size) as pilot:
        await press(pilot, "slash")
        pilot.app.screen.query_one("#filter").value = typed
        await until_shown(pilot, "again")
        words = read(pilot)
        assert told.replace(" ", "") in words.replace(" ", "") and "esc shows all of them again" in words
        pilot.app.screen.query_one("#filter").value = "zzz"
        await until_shown(pilot, "No run matches zzz   esc shows all")
        assert "state xyz" not in read(pilot) and "xxxx" not in read(pilot)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
async def test_what_the_filter_takes_is_told_as_far_as_there_is_room(play: Play, root: Path, width: int) -> None:
    async with play(root, size=(width, 24)) as pilot:
        await press(pilot, "slash")
        await quiet(pilot)
        assert "tab completes" in text_of(pilot.app)
        assert ("lr=3e-4" in text_of(pilot.app)) == (width >= 120)


def test_no_hint_of_the_filter_is_wider_than_its_line() -> None:
    assert [width for width in range(1, 200) if len(hint(width)) > width] == []


async def test_what_went_wrong_is_said_to_its_end(play: Play, root: Path) -> None:
    words = f"{'/a-long-way' * 14}/run-1: vm is resuming it since 0 s (pid 7193). {WAIT}"
    async with play(root, size=SMALL) as pilot:
        pilot.app.notify(words, title="Not resumed", severity="error")
        await until_shown(pilot, "Not resumed")
        assert WAIT in read(pilot)
