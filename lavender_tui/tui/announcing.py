"""What the app says in passing: in lines of the screen's own, so that nothing is hidden by it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual.app import App
from textual.message import Message
from textual.screen import ModalScreen, Screen

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

_ANCHORS = ("#pane", "#keys")  # the lines stand above the first of these that a screen shows
_LINES_OF_A_SCREEN = 6  # a sixth of its height


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """Plain words, never markup; said for `seconds` from when they are first seen.

    `cut`: on one line, cut there where its words don't fit, at the "right" or in the "middle"; None for as many lines
    as it takes.
    """

    title: str
    words: str
    severity: SeverityLevel
    seconds: float
    cut: str | None = None


@dataclass
class Announced(Message, bubble=False):
    """Somebody, in whatever thread, has something to say.

    `page`: the one that it is about; else the one in front when it comes. `is_everywhere`: it is about none.
    """

    announcement: Announcement
    page: Screen[object] | None = None
    is_everywhere: bool = False


@dataclass(frozen=True, slots=True)
class _Said:
    until: float | None  # monotonic seconds; None as long as a dialog has stood before it
    page: Screen[object] | None  # that it goes with; None: with none


class AnnouncingApp(App[int]):
    """An App whose notices are lines of the screen and no boxes over it.

    A notice under a dialog waits for the dialog to go: it would be over before anybody could read it. One that only
    informs goes with the page on which it was said; what went wrong, and news of runs, are said wherever one is.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[Announcement, _Said] = {}  # in the order that they came

    @property
    def announcements(self) -> tuple[Announcement, ...]:
        """Those that are to be read now, the oldest first."""
        return tuple(self._said)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
        everywhere: bool = False,
    ) -> None:
        """Say something for `timeout` seconds; thread-safe. `markup` is for Textual's own callers: it is never read.
        `everywhere`: also on other pages than the one in front."""
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        words = Announcement(title=title, words=message, severity=severity, seconds=seconds)
        self.post_message(Announced(words, is_everywhere=everywhere or severity != "information"))

    def remark(self, title: str, words: str, *, cut: str = "right") -> None:
        """A line about the page in front, gone with it; thread-safe. What begins a sentence is its point; of a path the
        end matters as much."""
        seconds = self.NOTIFICATION_TIMEOUT
        said = Announcement(title=title, words=words, severity="information", seconds=seconds, cut=cut)
        self.post_message(Announced(said, self._page))

    @property
    def _page(self) -> Screen[object] | None:
        """The page in front, which dialogs may stand on."""
        return next((one for one in reversed(self.screen_stack) if not isinstance(one, ModalScreen)), None)

    def clear_notifications(self) -> None:
        self._said.clear()
        self._show_announcements()

    def withdraw(self, announcement: Announcement) -> None:
        """It was read."""
        self._said.pop(announcement, None)
        self._show_announcements()

    def on_announced(self, message: Announced) -> None:
        if not self.is_running:
            return
        self._said.pop(message.announcement, None)  # said again, it is the newest
        self._said[message.announcement] = _Said(None, None if message.is_everywhere else message.page or self._page)
        self._begin_to_be_read()
        self._show_announcements()

    def on_mount(self) -> None:
        self.screen_change_signal.subscribe(self, self._screen_changed)

    def _begin_to_be_read(self) -> None:
        """What no dialog stands before is said for its time from now on."""
        if self.screen_stack and isinstance(self.screen_stack[-1], ModalScreen):
            return
        for one, said in self._said.items():
            if said.until is None:
                self._said[one] = replace(said, until=time.monotonic() + one.seconds)
                self.set_timer(one.seconds, self._forget_old)

    def _screen_changed(self, _: Screen[object]) -> None:
        self._begin_to_be_read()
        self._show_announcements()  # this page's lines may be of an hour ago

    def _forget_old(self) -> None:
        now = time.monotonic()
        if isinstance(self.screen, ModalScreen):
            self.set_timer(1.0, self._forget_old)
            return
        for one in [one for one, said in self._said.items() if said.until is not None and said.until <= now]:
            del self._said[one]
        self._show_announcements()

    def _show_announcements(self) -> None:
        """On the page in front. What was said on another one went with that."""
        page = self._page
        if page is not None:
            self._said = {one: said for one, said in self._said.items() if said.page in (None, page)}
        if page is None or not page.is_mounted:
            if page is not None and self._said:  # said while the first page was being made
                self.call_after_refresh(self._show_announcements)
            return
        from lavender_tui.tui.widgets.announcements import AnnouncementLines

        lines = page.query_one_optional(AnnouncementLines)
        if lines is None:
            anchor = next((one for name in _ANCHORS for one in page.query(name) if one.display), None)
            if not self._said or anchor is None:
                return
            lines = AnnouncementLines(id="announcements")
            page.mount(lines, before=anchor)
        lines.show(self.announcements, most=max(1, self.size.height // _LINES_OF_A_SCREEN))
