"""A question with two answers. The safe one is the default: enter says no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from lavender_tui.model.text import clean
from lavender_tui.tui.screens.boxed import Boxed, Brief, answers
from lavender_tui.tui.widgets.lines import Prose

if TYPE_CHECKING:
    from textual.widgets import Input

    from lavender_tui.tui.app import LavenderApp
    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.watch.observe import Snapshot


class Ask(Boxed["bool | None"]):
    """`question`, `detail` and the lines of `listing` are plain text, never markup; `yes` says what y does.

    `while_alive`: the question is about that run's processes, and goes by itself, answered None, when they are gone.
    """

    BINDINGS = [  # noqa: RUF012
        ("y", "answer(True)", "Yes"),
        ("n,escape,enter,q", "answer(False)", "No"),
        ("j", "scroll(1)", "Down"),
        ("k", "scroll(-1)", "Up"),
    ]

    def __init__(
        self,
        question: str,
        *,
        detail: str = "",
        listing: Sequence[str] = (),
        no: str = "no, leave it",
        yes: str = "yes",
        while_alive: str | None = None,
    ) -> None:
        super().__init__()
        self._question, self._detail, self._yes, self._no = clean(question, 400), clean(detail, 600), yes, no
        self._listing = "\n".join(clean(line, 200) for line in listing)
        self._while_alive = while_alive

    def compose(self) -> ComposeResult:
        with self.box():
            yield Prose(self._question, classes="question")
            if self._detail:
                yield Prose(self._detail, classes="detail")
            if self._listing:
                yield Static(Text(self._listing, no_wrap=True, overflow="ellipsis"), classes="detail", markup=False)
            with self.foot():
                yield answers(f"n  {self._no}   (enter)", f"y  {self._yes}")

    def show_snapshot(self, snapshot: Snapshot | FirstLook) -> None:
        """A run that has ended needs no answer. What stands before the question stays: Textual would take that away."""
        alive = {run.key for run in snapshot.runs if run.is_alive}
        if self._while_alive not in (None, *alive) and self.is_in_front:
            self.dismiss(None)

    def on_screen_resume(self) -> None:
        snapshot = cast("LavenderApp", self.app).snapshot
        if self.is_mounted and snapshot is not None:
            self.show_snapshot(snapshot)

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class AskName(Boxed["str | None"]):
    """A question that is answered with a few words; escape or no words: None. `does` is what enter does with them."""

    BINDINGS = [("escape", "dismiss(None)", "Back")]  # noqa: RUF012

    def __init__(self, question: str, *, detail: str = "", placeholder: str = "a name", does: str = "saves") -> None:
        super().__init__()
        self._question, self._detail = clean(question, 400), clean(detail, 600)
        self._placeholder, self._does = placeholder, does

    def compose(self) -> ComposeResult:
        from textual.widgets import Input

        with self.box():
            yield Prose(self._question, classes="question")
            yield Prose(self._detail, classes="detail")
            with self.foot():
                yield Input(placeholder=self._placeholder, compact=True, max_length=40)
                yield answers(f"enter {self._does}   esc back")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class Leave(Ask, inherit_bindings=False):
    """Whoever presses q once more means it."""

    BINDINGS = [  # noqa: RUF012
        ("y,q", "answer(True)", "Yes"),
        ("n,escape,enter", "answer(False)", "No"),
        ("j,down", "scroll(1)", "Down"),
        ("k,up", "scroll(-1)", "Up"),
        ("pagedown", "scroll_page(1)", "A page down"),
        ("pageup", "scroll_page(-1)", "A page up"),
    ]


class Document(Boxed[None]):
    """A text to read and scroll: a plan as JSON, an error at length."""

    BINDINGS = [  # noqa: RUF012
        ("escape,q,enter", "close", "Back"),
        ("c,y", "copy", "Copy"),
        ("j", "scroll(1)", "Down"),
        ("k", "scroll(-1)", "Up"),
    ]

    def __init__(self, title: str, words: str) -> None:
        super().__init__()
        self._title, self._words = clean(title, 200), words

    def compose(self) -> ComposeResult:
        with self.box("document"):
            yield Brief([self._title], hang=0, classes="question")
            with VerticalScroll(id="words"):
                yield Prose("\n".join(clean(line) for line in self._words.split("\n")))
            with self.foot():
                yield answers("esc back   c copy   j k scroll")

    @property
    def scrolled(self) -> VerticalScroll:
        return self.query_one("#words", VerticalScroll)

    def on_mount(self) -> None:
        self.scrolled.focus()

    def action_copy(self) -> None:
        cast("LavenderApp", self.app).copy(self._words, "the whole text")

    def action_close(self) -> None:
        self.dismiss(None)
