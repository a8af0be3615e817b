"""What of a run is to be copied: path, command, all of it as JSON; or shown, for the terminal to select from."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult

from lavender_tui.model import command_line, text
from lavender_tui.model.export import run_document
from lavender_tui.model.run import Run
from lavender_tui.tui.screens.boxed import Boxed, answers
from lavender_tui.tui.widgets.lines import Prose

if TYPE_CHECKING:
    from lavender_tui.tui.app import LavenderApp

_WHAT = (
    "y  the path   (enter)",
    "c  the command that it runs with",
    "j  everything as JSON",
    "v  show everything, to select from where the terminal takes no copy",
    "n  nothing",
)


class CopyMenu(Boxed[None]):
    """A second `y` copies the path: the usual case costs one key more."""

    BINDINGS = [  # noqa: RUF012
        ("y,p,enter", "copy_path", "The path"),
        ("c", "copy_command", "The command"),
        ("j", "copy_json", "JSON"),
        ("v", "view", "Show"),
        ("n,escape,q", "close", "Nothing"),
    ]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def compose(self) -> ComposeResult:
        with self.box():
            yield Prose(f"Copy of {text.clean(self._run.title, 80)}", classes="question")
            with self.foot():
                yield answers(*_WHAT)

    def _copy(self, words: str, shown: str) -> None:
        self.dismiss(None)
        cast("LavenderApp", self.app).copy(words, shown)

    def action_copy_path(self) -> None:
        self._copy(self._run.path, self._run.path)

    def action_copy_command(self) -> None:
        """Secrets hidden, as everywhere on the screen."""
        if not self._run.launched_command:
            self.notify("it isn't known what it runs with", title="No command", markup=False)
            return
        words = command_line.shown(self._run.launched_command)
        self._copy(words, words)

    def action_copy_json(self) -> None:
        self._copy(text.strict_json(run_document(self._run), indent=2), "the run as JSON")

    def action_view(self) -> None:
        from lavender_tui.tui.screens.ask import Document

        words = text.strict_json(run_document(self._run), indent=2)
        shown = command_line.shown(self._run.launched_command)
        self.app.switch_screen(Document(self._run.title, f"{self._run.path}\n\n{shown}\n\n{words}"))

    def action_close(self) -> None:
        self.dismiss(None)
