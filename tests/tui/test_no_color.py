"""NO_COLOR: every screen is drawn, the plot among them, and no colour but grey."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from lavender_tui.tui.colourless import Colourless
from tests.tui.conftest import LARGE, Play, press, text_of, until, until_shown


def test_a_segment_without_a_style_is_no_harm() -> None:
    grey = Colourless().apply([Segment("", None), Segment("a", Style.parse("red on blue"))], Color(0, 0, 0))
    assert [one.text for one in grey] == ["", "a"]
    for colour in (grey[1].style.color, grey[1].style.bgcolor):
        red, green, blue = colour.get_truecolor()
        assert red == green == blue


@pytest.mark.parametrize("size", [(100, 30), LARGE], ids=str)
@pytest.mark.parametrize("theme", ["lavender", "ansi-dark"])
async def test_every_screen_without_colours(
    play: Play, root: Path, size: tuple[int, int], theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TEXTUAL_THEME", theme)
    async with play(root, size=size) as pilot:
        await press(pilot, "enter")
        await until(pilot, lambda: any("⠀" < char <= "⣿" for char in text_of(pilot.app)), "a curve in Braille")
        await press(pilot, "l")
        await until_shown(pilot, "no log")
        await press(pilot, "escape", "escape", "r")
        await until_shown(pilot, "checks passed")
        await press(pilot, "d")
        await until_shown(pilot, "nothing was written")
        for keys in (("escape", "escape", "question_mark"), ("escape", "ctrl+p"), ("escape", "slash", "z", "z")):
            await press(pilot, *keys)
        assert pilot.app.is_running and "No run matches zz" in text_of(pilot.app)
