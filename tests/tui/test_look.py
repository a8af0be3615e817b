"""Themes, ASCII and the mouse: as the settings say, and never two at odds."""

from __future__ import annotations

from pathlib import Path

import pytest

from lavender_tui.tui.start import Look
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_in_ascii_no_other_sign_is_drawn(play: Play, hostile_root: Path, size: tuple[int, int]) -> None:
    async with play(hostile_root, size=size, look=Look(ascii=True)) as pilot:
        shown = text_of(pilot.app)
        assert shown.isascii() and "x failed" in shown and "* running" not in shown
        for keys in (["enter"], ["escape", "question_mark"], ["escape", "r"]):
            await press(pilot, *keys)
            await pilot.pause()
            assert text_of(pilot.app).isascii()


async def test_the_theme_of_the_settings_is_worn(play: Play, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_THEME", "nord")
    async with play(root, look=Look(theme="colour-blind")) as pilot:
        assert pilot.app.theme == "colour-blind"
    async with play(root) as pilot:
        assert pilot.app.theme == "nord"


async def test_an_unknown_theme_and_a_bad_setting_are_one_notice(play: Play, root: Path) -> None:
    look = Look(theme="no [such] theme", notices=("the environment: mouse can't be 'x'; True is used",))
    async with play(root, size=LARGE, look=look) as pilot:
        await until_shown(pilot, "there is no theme 'no [such] theme'")
        await until_shown(pilot, "mouse can't be 'x'")
        assert pilot.app.theme == "lavender"


async def test_the_state_is_read_without_colour(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    root = runs.small_root(tmp_path)
    async with play(root, look=Look(ascii=True)) as pilot:
        await until(pilot, lambda: "x failed" in text_of(pilot.app))
