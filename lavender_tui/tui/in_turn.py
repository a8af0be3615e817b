"""Keys in their turn: who is typed to is who the keys before have led to.

Textual hands a key to what has the focus when it is read, and acts on it when it has come back up to the app. Of keys
that come at once, as over a slow line, those after the one that opens a line to type in would be commands.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual.events import Key, Paste

if TYPE_CHECKING:
    from textual.app import App
    from textual.message_pump import MessagePump

SOON_SECONDS = 0.05  # so long after a key another one may still overtake what it has led to
LOST_SECONDS = 0.5  # so long one is waited for: what it went to may be gone
_ROUNDS = 3  # from a line that is left to its screen, and on to what has the focus then


class InTurn:
    """Gives each key on as soon as the one before has had its effect; at once where none came just before.

    All methods are for the loop's thread. `give`: what Textual does with a key that was read.
    """

    def __init__(self, app: App[Any], give: Callable[[Key | Paste], Awaitable[None]]) -> None:
        self._app, self._give = app, give
        self._waiting: deque[Key | Paste] = deque()
        self._last: Key | Paste | None = None  # given, and not heard of since
        self._at = 0.0  # when it was given, or heard of
        self._task: asyncio.Task[None] | None = None

    async def take(self, key: Key | Paste) -> None:
        """One was read."""
        if self._task is None and time.monotonic() - self._at > (LOST_SECONDS if self._is_under_way else SOON_SECONDS):
            await self._hand_on(key)
            return
        self._waiting.append(key)
        if self._task is None:
            self._task = asyncio.create_task(self._give_all())

    def heard(self, key: Key | Paste) -> None:
        """It came up to the app, which has done what it asks for."""
        if key is self._last:
            self._last, self._at = None, time.monotonic()

    @property
    def is_waiting(self) -> bool:
        """Is there a key that was read and not given on yet?"""
        return self._task is not None

    @property
    def _is_under_way(self) -> bool:
        return self._last is not None and not self._last._stop_propagation

    async def _hand_on(self, key: Key | Paste) -> None:
        self._last, self._at = key, time.monotonic()
        await self._give(key)

    async def _give_all(self) -> None:
        try:
            while self._waiting:
                await self._settle()
                if self._app._exit:
                    self._waiting.clear()
                    return
                await self._hand_on(self._waiting.popleft())
        except Exception as error:  # as of any other message
            self._app._handle_exception(error)
        finally:
            self._task = None

    async def _settle(self) -> None:
        """Until the last key was heard of, and those who may have been told something by it have heard that."""
        while self._is_under_way and time.monotonic() - self._at < LOST_SECONDS:
            await asyncio.sleep(0.001)
        for _ in range(_ROUNDS):
            for one in (self._app.focused, self._app.screen if self._app.screen_stack else None, self._app):
                if one is not None:
                    await _turn_of(one)


async def _turn_of(pump: MessagePump) -> None:
    """Until it has come to what it was told so far."""
    turn = asyncio.Event()
    if pump.call_later(turn.set):
        with suppress(TimeoutError):
            await asyncio.wait_for(turn.wait(), LOST_SECONDS)
