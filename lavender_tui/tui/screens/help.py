"""Every key, from the one table of keys, the place one came from first."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from lavender_tui.model.run import RunState
from lavender_tui.tui.keys import EVERYWHERE, PLACES, TABLE, Key, in_words
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.themes import STATE_GLYPHS

_KEY_WIDTH = 9
_SCROLLING = "j k a line   pgdn pgup a screen   g G the ends   esc back"
_STATE_WORDS = {
    RunState.RUNNING: "a live process, saving or logging",
    RunState.STALLED: "alive, but no step and no save for more than 3 of its own intervals",
    RunState.FINISHED: "saved its final stage, or completed its last epoch",
    RunState.FAILED: "ended by an error or a signal",
    RunState.STOPPED: "ended because somebody, or a scheduler, asked it to",
    RunState.IDLE: "no process and nothing that says how it ended",
}


class HelpScreen(Orderly, ModalScreen[None]):
    """Scrolls; any of the usual keys closes it."""

    BINDINGS = [  # noqa: RUF012
        ("escape,q,question_mark,f1,enter", "close", "Back"),
        ("j", "scroll(1)", "Down"),
        ("k", "scroll(-1)", "Up"),
        ("g,home", "to_end(False)", "First line"),
        ("G,end", "to_end(True)", "Last line"),
        ("space,ctrl+d", "half(1)", "Half a screen down"),
        ("ctrl+u", "half(-1)", "Half a screen up"),
    ]

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def compose(self) -> ComposeResult:
        with Vertical(id="box", classes="document"):
            with VerticalScroll():
                yield from self._entries()
            yield Static(Text(_SCROLLING), id="scrolling", classes="answers", markup=False)

    def _entries(self) -> ComposeResult:
        for place in sorted(PLACES, key=lambda one: (one != self._place, one == EVERYWHERE)):
            yield Static(Text(PLACES[place], style="bold"), classes="heading", markup=False)
            for key in TABLE:
                if place in key.places and self._may(key):
                    yield self._entry(key.shown, key.help)
        yield Static(Text("States", style="bold"), classes="heading", markup=False)
        for state, words in _STATE_WORDS.items():
            yield self._entry(f"{STATE_GLYPHS[state]}", f"{state.value}: {words}")

    def _entry(self, left: str, right: str) -> Static:
        if getattr(self.app, "is_ascii", False):
            left, right = in_words(left), in_words(right)
        return _entry(left, right)

    def _may(self, key: Key) -> bool:
        """Read-only, what changes something isn't there."""
        return not (key.changes and getattr(self.app, "is_readonly", False))

    def on_mount(self) -> None:
        scroll = self.query_one(VerticalScroll)
        scroll.focus()
        self.watch(scroll, "scroll_y", self._say_place, init=False)
        self.call_after_refresh(self._say_place)

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_to_end(self, is_last: bool) -> None:
        scroll = self.query_one(VerticalScroll)
        (scroll.scroll_end if is_last else scroll.scroll_home)(animate=False)

    def action_half(self, halves: int) -> None:
        self.action_scroll(halves * max(1, self.query_one(VerticalScroll).size.height // 2))

    def _say_place(self) -> None:
        """How far one is, and how to go on; where all of it is on the screen there is nothing to scroll."""
        scroll = self.query_one(VerticalScroll)
        most = round(scroll.max_scroll_y)
        share = round(100 * scroll.scroll_y / most) if most else 100
        words = f"{_SCROLLING}   {share} %" if most else "esc back"
        self.query_one("#scrolling", Static).update(Text(words))

    def on_resize(self) -> None:
        self.call_after_refresh(self._say_place)

    def action_close(self) -> None:
        self.dismiss(None)


def _entry(left: str, right: str) -> Static:
    """A key and its sentence; what is longer than a line hangs under itself."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=_KEY_WIDTH, no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row(Text(left, style="bold"), Text(right))
    return Static(grid, classes="entry", markup=False)
