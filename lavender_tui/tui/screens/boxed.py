"""A box over the page below. Where the terminal is low its words scroll, and the keys that answer stay in sight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen

from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.widgets.inks import Span
from lavender_tui.tui.widgets.lines import Lines, cut_spans

LOW = 14  # below that height of the terminal no line goes to empty space, and an answer has one line

_Answer = TypeVar("_Answer")


class Boxed(Orderly, ModalScreen[_Answer]):
    """`box` and in it `foot` hold its parts, those of the foot in sight however long the words above are."""

    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (10, "-low"), (LOW, "-high")]  # noqa: RUF012
    BINDINGS = [  # noqa: RUF012
        ("down", "scroll(1)", "Down"),
        ("up", "scroll(-1)", "Up"),
        ("pagedown", "scroll_page(1)", "A page down"),
        ("pageup", "scroll_page(-1)", "A page up"),
    ]

    @contextmanager
    def box(self, classes: str = "") -> Iterator[None]:
        with VerticalScroll(id="box", classes=classes, can_focus=False):
            yield

    @contextmanager
    def foot(self) -> Iterator[None]:
        with Vertical(classes="foot"):
            yield

    @property
    def scrolled(self) -> VerticalScroll:
        """What the keys scroll."""
        return self.query_one("#box", VerticalScroll)

    def action_scroll(self, lines: int) -> None:
        self.scrolled.scroll_relative(y=lines, animate=False)

    def action_scroll_page(self, pages: int) -> None:
        """By what is in sight above the foot."""
        foot = sum(one.outer_size.height for one in self.query(".foot"))
        height = self.scrolled.size.height - (foot if self.scrolled.id == "box" else 0)
        self.action_scroll(pages * max(1, height - 1))


class Brief(Lines):
    """Lines that wrap; on a low terminal each has one, cut where it is too long."""

    def __init__(self, lines: Sequence[str] = (), *, hang: int = 3, id: str | None = None, classes: str = "") -> None:
        super().__init__(hang=hang, id=id, classes=classes)
        self._first: list[list[Span]] = [[(line, "")] for line in lines]

    def on_mount(self) -> None:
        if self._first:
            self.show(self._first)

    def on_resize(self) -> None:
        self.refresh(layout=True)

    def _laid(self, width: int) -> list[list[Span]]:
        if self.screen.size.height >= LOW:
            return super()._laid(width)
        return [cut_spans(line, width) for line in self._lines]


def answers(*lines: str, id: str | None = None) -> Brief:
    """The keys that answer, each with what it does."""
    return Brief(lines, id=id, classes="answers")
