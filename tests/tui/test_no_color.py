"""NO_COLOR: every screen is drawn, the plot among them, and not one colour or grey is sent to the terminal."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from lavender_tui.tui.colourless import Colourless
from tests.tui.conftest import LARGE, Play, press, text_of, until, until_shown
from tests.tui.test_terminal import Terminal

_SGR = re.compile(rb"\x1b\[([0-9;:]*)m")
ALLOWED = {"", "0", "1", "4", "7", "22", "24", "27"}  # reset; bold, underlined, reversed, and their ends


def test_a_segment_without_a_style_is_no_harm() -> None:
    plain = Colourless().apply([Segment("", None), Segment("a", Style.parse("dim italic red on blue"))], Color(0, 0, 0))
    assert [one.text for one in plain] == ["", "a"]
    style = plain[1].style
    assert style is not None and style.color is None and style.bgcolor is None and not style.dim and not style.italic


def test_a_scroll_bar_is_seen_and_a_bar_of_the_screen_is_left_alone() -> None:
    ground = Color.parse("#16161d")
    [thumb, panel] = Colourless().apply(
        [Segment("  ", Style.parse("on #393941")), Segment("  ", Style.parse("on #252532"))], ground
    )
    assert thumb.style is not None and thumb.style.reverse
    assert panel.style is not None and not panel.style.reverse


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
        await until_shown(pilot, "No run matches zz")


_STEPS = (
    ("G", "nothing saved yet"), ("g", "✗ failed: killed"),
    ("\r", "1 Overview"), ("2", "SAVED"), ("3", "log scale"), ("4", "split"), ("7", ""),
    ("\x1b", "filter"), ("r", "checks passed"), ("d", "nothing was written"), ("\x1b", "checks passed"),
    ("\x1b", "filter"), ("?", "The list of runs"), ("\x1b", "filter"), ("D", "of each run"), ("\x1b", "filter"),
    ("\x10", "Resume"), ("\x1b", "filter"), ("/", "loss<2"), ("zz", "No run matches zz"),
)  # fmt: skip


@pytest.mark.parametrize("theme", ["lavender", "ansi-dark"])
def test_only_bold_underlined_and_reversed_words_reach_the_terminal(root: Path, theme: str) -> None:
    """The bytes of the real program: list, page, curve, tree, sheet, dry run, help, palette and filter."""
    app = Terminal(root, NO_COLOR="1", TEXTUAL_THEME=theme)
    try:
        app.read_until(b"stopped")  # the states are known, and the cursor stands
        everything = app.written
        for keys, words in _STEPS:
            app.written = b""
            os.write(app.descriptor, keys.encode())
            if words:
                app.read_until_any(words)
            app.read(0.3)
            everything += app.written
    finally:
        app.close()
    sent = {part for found in _SGR.findall(everything) for part in found.decode().split(";")}
    assert sent <= ALLOWED, sorted(sent - ALLOWED)
    assert {"1", "7"} <= sent  # the cursor is seen


@pytest.mark.long
@pytest.mark.parametrize("is_ascii", [False, True])
@pytest.mark.parametrize("theme", ["lavender", "lavender-light", "colour-blind", "ansi-dark", "ansi-light"])
def test_no_theme_sends_a_colour(root: Path, theme: str, is_ascii: bool) -> None:
    """Named on the command line, where black on black once came of it."""
    program = "from lavender_tui.cli import main; main()"
    options = ("--theme", theme, *(("--ascii",) if is_ascii else ()))
    app = Terminal(root, rows=24, columns=80, argv=("-c", program, *options, str(root)), NO_COLOR="1")
    try:
        app.read_until(b"pretrain", 60)
        everything = app.written
        for keys, words in (
            ("\r", "1 Overview"),
            ("\x1b", "filter"),
            ("r", "nothing happens until"),
            ("\x1b", "filter"),
        ):
            app.written = b""  # escape and a key that comes before its list is there would be one key
            os.write(app.descriptor, keys.encode())
            app.read_until_any(words)
            app.read(0.3)
            everything += app.written
    finally:
        app.close()
    sent = {part for found in _SGR.findall(everything) for part in found.decode().split(";")}
    assert sent <= ALLOWED, sorted(sent - ALLOWED)
    assert "7" in sent
