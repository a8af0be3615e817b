"""What can be done with a run, the same from the list and from its page: resume, stop, log, copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from textual.screen import Screen

from lavender_tui.model.run import Run
from lavender_tui.model.text import clean, utf8

if TYPE_CHECKING:
    from lavender_tui.tui.app import LavenderApp


class RunActions(Screen[None], inherit_bindings=False):
    """Actions on `cursor_run`. Subclasses say which run that is."""

    @property
    def lavender(self) -> LavenderApp:
        return cast("LavenderApp", self.app)

    @property
    def cursor_run(self) -> Run | None:
        raise NotImplementedError

    @property
    def known_runs(self) -> Iterable[Run]:
        return self.lavender.runs

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that can't work on this run are hidden."""
        run = self.cursor_run if self.is_mounted else None
        if action in ("resume", "resume_now", "log", "copy_path", "open"):
            return run is not None
        if action == "stop":
            return run is not None and run.is_alive
        return True

    def action_copy_path(self) -> None:
        if self.cursor_run is not None:
            self.app.copy_to_clipboard(utf8(self.cursor_run.path))
            self.notify(clean(self.cursor_run.path, 300), title="Copied", markup=False)
