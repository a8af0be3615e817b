"""Themes, ASCII and the mouse: as the settings say, and never two at odds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lavender_tui.tui.start import Look
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown

FAILED = "run-2026-04-24_18-53-41"
# The keys to a page from the one before, and what then is shown.
ASCII_PAGES = (
    ((), "x failed"),
    (("enter",), "[1 Overview]"),
    (("2",), "[2 Checkpoints]"),
    (("enter",), "model_state_dict"),
    (("escape", "3"), "last, at step"),
    (("o", "left"), "log scale"),
    (("4", "right"), "world_size 4 > 8"),
    (("5",), "[5 Processes]"),
    (("7",), "[7 History]"),
    (("6",), "ended"),
    (("slash", "x", "enter"), "ended"),
    (("escape", "escape", "r"), "checks passed"),
    (("escape", "escape", "escape", "g", "space", "space", "c"), "compare  2 runs"),
    (("escape", "escape", "D"), "of checkpoints"),
    (("escape", "question_mark"), "+------"),
    (("escape", "ctrl+p"), "what to do, a run, a theme"),
    (("escape", "y"), "Copy of run-"),
)


KEY_OF_HELP = " +help| +everywhere| +this help| says more|/f1"


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_in_ascii_no_other_sign_is_drawn(play: Play, root: Path, size: tuple[int, int]) -> None:
    """On no page; and what stands for a sign isn't the `?` that stands for those that nobody thought of."""
    (root / FAILED / "train.log").write_text("x \N{GREEK SMALL LETTER ALPHA} é\n")
    async with play(root, size=size, look=Look(ascii=True)) as pilot:
        pilot.app.screen.go_to_run(str(root / FAILED))
        for keys, there in ASCII_PAGES:
            await press(pilot, *keys)
            await until_shown(pilot, there)
            shown = text_of(pilot.app)
            assert shown.isascii(), keys
            assert not re.search(rf"\?(?!{KEY_OF_HELP})", own(shown), re.I), f"{keys}: {shown}"


def own(shown: str) -> str:
    """Without what isn't ours: a letter that a log has and ASCII hasn't."""
    return shown.replace("x ? e", "")


async def test_in_ascii_names_keep_their_letters_and_their_width(play: Play, hostile_root: Path) -> None:
    async with play(hostile_root, size=LARGE, look=Look(ascii=True)) as pilot:
        shown = text_of(pilot.app)
        assert shown.isascii() and "x failed" in shown and "* running" not in shown


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
