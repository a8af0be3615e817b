"""Colours and glyphs. A state is always glyph + word + colour: it reads the same without colour."""

from __future__ import annotations

from textual.theme import Theme

from lavender_tui.model.checkpoint import Wholeness
from lavender_tui.model.run import RunState

# Blue and orange, not green and red: told apart by the colour-blind as well.
LAVENDER = Theme(
    name="lavender",
    primary="#b4a7f5",
    secondary="#8ea6d8",
    accent="#c8bdfa",
    foreground="#d6d5e2",
    background="#16161d",
    surface="#1b1b24",
    panel="#252532",
    success="#7fc4d6",
    warning="#e5b567",
    error="#ef8a72",
    dark=True,
)
LAVENDER_LIGHT = Theme(
    name="lavender-light",
    primary="#6b56c9",
    secondary="#4c66a8",
    accent="#5a45b8",
    foreground="#2c2b3a",
    background="#fbfaff",
    surface="#f4f2fc",
    panel="#e7e4f5",
    success="#17708a",
    warning="#9a5b00",
    error="#b8391c",
    dark=False,
)
# The signal colours of Okabe and Ito: blue, yellow and vermilion stay apart for every kind of colour blindness.
COLOUR_BLIND = Theme(
    name="colour-blind",
    primary="#cc9ec0",
    secondary="#56b4e9",
    accent="#e3bcd8",
    foreground="#f2f2f2",
    background="#111111",
    surface="#181818",
    panel="#262626",
    success="#56b4e9",
    warning="#f0e442",
    error="#ff8c42",
    dark=True,
)
THEMES = (LAVENDER, LAVENDER_LIGHT, COLOUR_BLIND)

STATE_GLYPHS = {
    RunState.RUNNING: "●",
    RunState.STALLED: "◐",
    RunState.FINISHED: "✓",
    RunState.FAILED: "✗",
    RunState.STOPPED: "■",
    RunState.IDLE: "○",
}
WHOLENESS_GLYPHS = {Wholeness.WHOLE: "✓", Wholeness.WRITING: "…", Wholeness.UNREAD: "…"}


def state_words(state: RunState) -> str:
    """ "● running"."""
    return f"{STATE_GLYPHS[state]} {state.value}"


def state_ink(state: RunState) -> str:
    """The name of the ink (widgets/inks.py) that a state is written in."""
    return {
        RunState.RUNNING: "accent",
        RunState.STALLED: "warn",
        RunState.FINISHED: "good",
        RunState.FAILED: "bad",
        RunState.STOPPED: "quiet",
        RunState.IDLE: "quiet",
    }[state]


def wholeness_words(wholeness: Wholeness) -> str:
    return f"{WHOLENESS_GLYPHS.get(wholeness, '✗')} {wholeness.value}"


def wholeness_ink(wholeness: Wholeness) -> str:
    if wholeness is Wholeness.WHOLE:
        return "good"
    if wholeness is Wholeness.UNREAD:
        return "quiet"
    return "warn" if wholeness is Wholeness.WRITING else "bad"
