"""Every key, from the one table of keys: those of the page one came from, those of all pages, the others in short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from lavender_tui.model.run import RunState
from lavender_tui.tui.keys import COMMON, EVERYWHERE, PLACES, TABLE, Key, in_words
from lavender_tui.tui.screens.boxed import LOW, Boxed, Brief, answers
from lavender_tui.tui.themes import STATE_GLYPHS
from lavender_tui.tui.widgets.inks import INKS
from lavender_tui.tui.widgets.packed import PackedLines

_KEY_WIDTH = 9
_BACK = "esc back"
_SCROLLING = "j k line  pgdn pgup screen  tab heading  g G ends"
_STATE_WORDS = {
    RunState.RUNNING: "a live process, saving or logging",
    RunState.STALLED: "alive, but no step and no save for more than 3 of its own intervals",
    RunState.FINISHED: "saved its final stage, or completed its last epoch",
    RunState.FAILED: "ended by an error or a signal",
    RunState.STOPPED: "ended because somebody, or a scheduler, asked it to",
    RunState.IDLE: "no process and nothing that says how it ended",
}


Section = tuple[str, list[Key]]


def sections(places: Sequence[str], keys: Iterable[Key] = TABLE) -> tuple[list[Section], list[Section]]:
    """Headings with their keys: of the pages that one is on, with what all pages have; and what other pages have on
    top. No key is there twice."""
    keys, seen = list(keys), set[str]()

    def of(place: str) -> list[Key]:
        found = [key for key in keys if place in key.places and key.id not in seen and key.id not in COMMON]
        seen.update(key.id for key in found)
        return found

    here = [(PLACES[place], of(place)) for place in places]
    everywhere = [key for key in keys if key.id in COMMON and {*places, EVERYWHERE} & set(key.places)]
    others = [(title, of(place)) for place, title in PLACES.items() if place not in (*places, EVERYWHERE)]
    own = [*here, ("On every page", everywhere)]
    return [one for one in own if one[1]], [one for one in others if one[1]]


class HelpScreen(Boxed[None]):
    """Scrolls; any of the usual keys closes it."""

    COMPONENT_CLASSES = INKS
    BINDINGS = [  # noqa: RUF012
        ("escape,q,question_mark,f1,enter", "close", "Back"),
        ("j", "scroll(1)", "Down"),
        ("k", "scroll(-1)", "Up"),
        ("g,home", "to_end(False)", "First line"),
        ("G,end", "to_end(True)", "Last line"),
        ("space,ctrl+d", "half(1)", "Half a screen down"),
        ("ctrl+u", "half(-1)", "Half a screen up"),
        ("tab", "heading(1)", "The next heading"),
        ("shift+tab", "heading(-1)", "The heading before"),
    ]

    def __init__(self, *places: str) -> None:
        """`places` that one came from, the innermost first."""
        super().__init__()
        self._places = places

    def compose(self) -> ComposeResult:
        with self.box("document"):
            with VerticalScroll(id="words"):
                yield from self._entries()
            with self.foot():
                yield answers(_BACK, id="scrolling")

    @property
    def scrolled(self) -> VerticalScroll:
        return self.query_one("#words", VerticalScroll)

    def _entries(self) -> ComposeResult:
        own, others = sections(self._places, [key for key in TABLE if self._may(key)])
        for title, found in own:
            yield _heading(title)
            for key in found:
                yield self._entry(key.shown, key.help)
        yield _heading("States")
        for state, words in _STATE_WORDS.items():
            yield self._entry(f"{STATE_GLYPHS[state]}", f"{state.value}: {words}")
        yield _heading("Elsewhere, besides (there ? says more)")
        for title, _ in others:
            yield Static(Text(title), classes="subheading", markup=False)
            yield PackedLines(classes="entries")

    def _show_others(self) -> None:
        others = sections(self._places, [key for key in TABLE if self._may(key)])[1]
        for lines, (_, found) in zip(self.query(PackedLines), others, strict=True):
            lines.show([[(key.shown, "strong"), (f" {key.name.lower()}", "")] for key in found])

    def _entry(self, left: str, right: str) -> Static:
        if getattr(self.app, "is_ascii", False):
            left, right = in_words(left), in_words(right)
        return _entry(left, right)

    def _may(self, key: Key) -> bool:
        """Read-only, what changes something isn't there."""
        return not (key.changes and getattr(self.app, "is_readonly", False))

    def on_mount(self) -> None:
        self._show_others()
        scroll = self.scrolled
        scroll.focus()
        self.watch(scroll, "scroll_y", self._say_place, init=False)
        self.call_after_refresh(self._say_place)

    def action_to_end(self, is_last: bool) -> None:
        scroll = self.scrolled
        (scroll.scroll_end if is_last else scroll.scroll_home)(animate=False)

    def action_heading(self, places: int) -> None:
        """To the next heading below the first line in sight, or the one before it; at the last one the first again."""
        scroll = self.scrolled
        at, most = round(scroll.scroll_y), round(scroll.max_scroll_y)
        tops = sorted({min(most, one.virtual_region.y) for one in self.query(".heading")})
        if places > 0:
            target = next((top for top in tops if top > at), tops[0])
        else:
            target = next((top for top in reversed(tops) if top < at), tops[-1])
        scroll.scroll_to(y=target, animate=False)

    def action_half(self, halves: int) -> None:
        self.action_scroll(halves * max(1, self.scrolled.size.height // 2))

    def _say_place(self) -> None:
        """How far one is, and how to go on; where all of it is on the screen there is nothing to scroll."""
        scroll = self.scrolled
        most = round(scroll.max_scroll_y)
        share = round(100 * scroll.scroll_y / most) if most else 100
        words = f"{_BACK}  {share} %" if most else _BACK
        words = words if self.size.height < LOW or not most else f"{_SCROLLING}  {words}"
        self.query_one("#scrolling", Brief).show([[(words, "")]])

    def on_resize(self) -> None:
        self.call_after_refresh(self._say_place)

    def action_close(self) -> None:
        self.dismiss(None)


def _heading(title: str) -> Static:
    return Static(Text(title, style="bold"), classes="heading", markup=False)


def _entry(left: str, right: str) -> Static:
    """A key and its sentence; what is longer than a line hangs under itself."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=_KEY_WIDTH, no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row(Text(left, style="bold"), Text(right))
    return Static(grid, classes="entry", markup=False)
