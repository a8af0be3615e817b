"""What threads and timers tell a screen that is being taken down finds nobody any more, instead of parts that are gone.

A screen's parts end before the screen does, when the app quits and when it is left: whatever was in its queue by then
would look for them in vain, and the last thing that a person saw would be a traceback. The same goes for a second Enter
that came with the first: what that was answered by has left, and Textual would take away the page below, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.worker import Worker

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode
    from textual.message import Message
    from textual.timer import Timer

    _Base = DOMNode
else:
    _Base = object

_OURS = __name__.partition(".")[0] + "."
_PARTS = "textual.widgets."  # a line that was entered, an option that was chosen


class Orderly(_Base):
    """First among the bases of the app and of every screen."""

    @property
    def is_in_pieces(self) -> bool:
        """Is it being taken down?"""
        return self._pruning or self.app._exit or not self.app.is_running

    @property
    def was_left(self) -> bool:
        """Is it a screen that has been left, though it isn't taken down yet?"""
        return self is not self.app and self not in self.app.screen_stack

    @property
    def is_in_front(self) -> bool:
        """Do keys reach this very screen? Textual's `is_current` says yes of the one below, too."""
        return self.app.screen is self

    async def _dispatch_message(self, message: Message) -> None:
        """Textual's own messages go on: they are how it is taken down."""
        whose = type(message).__module__
        is_ours = whose.startswith(_OURS) or isinstance(message, Worker.StateChanged)
        if not ((is_ours and self.is_in_pieces) or (whose.startswith(_PARTS) and self.was_left)):
            await super()._dispatch_message(message)
        elif is_ours:
            self.hand_on(message, self.app)

    def hand_on(self, message: Message, app: App[Any]) -> None:
        """What is owed to a person isn't lost with the screen that would have told it."""
        heirs = getattr(message, "heirs", None)
        if heirs is not None:
            others = (one for one in reversed(app.screen_stack) if one is not self and isinstance(one, heirs))
            next((one for one in others if one.post_message(message)), None)

    def set_timer(self, delay: float, callback: Callable[[], Any] | None = None, **options: Any) -> Timer:
        return super().set_timer(delay, self._while_whole(callback), **options)

    def set_interval(self, interval: float, callback: Callable[[], Any] | None = None, **options: Any) -> Timer:
        return super().set_interval(interval, self._while_whole(callback), **options)

    def _while_whole(self, callback: Callable[[], Any] | None) -> Callable[[], Any] | None:
        return None if callback is None else lambda: None if self.is_in_pieces else callback()
