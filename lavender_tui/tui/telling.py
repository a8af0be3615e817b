"""News of runs: a line in the app; the bell, the desktop and a person's own command where the settings ask for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from textual.events import Key
from textual.message import Message

from lavender_tui.model.text import clean

if TYPE_CHECKING:
    from textual.driver import Driver

    from lavender_tui.config import NotifySettings
    from lavender_tui.model.notices import Notice
    from lavender_tui.model.run import Run
    from lavender_tui.tui.announcing import AnnouncingApp
    from lavender_tui.tui.hand import Hand

_SEVERE = {"failed": "error", "nan": "error", "jumped": "error", "stalled": "warning"}
_MOST = 3  # lines at once; a rack that loses its power has a thousand
_SECONDS = 10.0


class Telling:
    """Owned by the app. `write` reaches the terminal between two frames; None where there is none."""

    def __init__(self, app: AnnouncingApp, settings: NotifySettings | None) -> None:
        self._app, self._settings = app, settings
        self.write: Callable[[str], None] | None = None
        self._before: Mapping[str, Run] | None = None

    def look(self, runs: Sequence[Run]) -> None:
        """A complete look at all runs: what is new since the one before is told."""
        from lavender_tui.model.notices import news

        found = news(self._before, runs) if self._before is not None else []
        self._unsay(runs)
        self._before = {run.key: run for run in runs}
        for notice in found[:_MOST]:
            self._say(notice)
        if len(found) > _MOST:
            self._app.notify(f"and {len(found) - _MOST:,} more", timeout=_SECONDS, everywhere=True)
        if found:
            self._signal(found)

    def _unsay(self, runs: Sequence[Run]) -> None:
        """A line that says what a run is asked for goes when that is withdrawn or done: it would not be true."""
        from lavender_tui.model.ending import request_words

        asked = {request_words(run.request) for run in (self._before or {}).values() if run.request is not None}
        gone = asked - {request_words(run.request) for run in runs if run.request is not None}
        for one in self._app.announcements if gone else ():
            if one.words in gone:
                self._app.withdraw(one)

    def _say(self, notice: Notice) -> None:
        severity = _SEVERE.get(notice.event.value, "information")
        self._app.notify(
            clean(notice.words, 300),
            title=f"{clean(notice.run.title, 80)}: {notice.event.value}",
            severity=severity,  # type: ignore[arg-type]
            timeout=_SECONDS,
            markup=False,
            everywhere=True,
        )

    def _signal(self, found: Sequence[Notice]) -> None:
        if self._settings is None:
            return
        if self._settings.bell:
            self._app.bell()
        for notice in found[:_MOST]:
            if self._settings.terminal and self.write is not None:
                self.write(desktop_notice(f"{notice.run.title}: {notice.event.value}, {notice.words}"))
        for notice in found:
            self._run_hook(notice)

    def _run_hook(self, notice: Notice) -> None:
        command = getattr(self._settings, notice.event.value)
        if not command:
            return
        from lavender_tui.launch import hooks

        hooks.start(hooks.parse(command), notice, self._hook_failed)

    def _hook_failed(self, sentence: str) -> None:
        """From the hook's thread; after the end of the app nobody is left to be told."""
        self._app.call_later(self._app.notify, clean(sentence, 300), severity="warning", markup=False)


def desktop_notice(words: str) -> str:
    """OSC 9 with these words, in which nothing is left that could end it or begin another code.

    Some terminals take a number in front for a command of their own: `4;…` is a progress bar.
    """
    shown = clean(words, 200)
    return f"\x1b]9;{'run ' if shown[:1].isdigit() else ''}{shown}\x07"


def talking(base: type[Driver], telling: Telling, hand: Hand) -> type[Driver]:
    """That driver, telling where to write to as soon as there is one, and noting when keys come."""

    class Talking(base):  # type: ignore[misc, valid-type]
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)
            if not self.is_headless:
                telling.write = self.write

        def process_message(self, message: Message) -> None:
            if isinstance(message, Key) and not self.is_headless:
                hand.pressed(message.key)
            super().process_message(message)

    return Talking
