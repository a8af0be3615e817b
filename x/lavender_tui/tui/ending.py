"""Ending by signal: a terminal is given back as it was found, and a dropped connection ends the app at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.app import App

_PATIENCE_SECONDS = 3.0
# Mouse, bracketed paste, focus and key reports off; cursor on; leave the alternate screen.
_RESTORE = "".join(f"\x1b[?{mode}l" for mode in (1000, 1002, 1003, 1006, 1015, 1016, 2004, 1004))
_RESTORE += "\x1b[<u\x1b[?25h\x1b[?1049l"


def restore_on_signals(app: App[int]) -> None:
    """SIGTERM and SIGHUP end the app the ordinary way; if that takes too long, the terminal is restored by hand."""
    if app.is_headless or threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    modes = _terminal_modes()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, _end, app, number, modes)


def _end(app: App[int], number: signal.Signals, modes: list[Any] | None) -> None:
    threading.Thread(target=_insist, args=(number, modes), name="lavender-end", daemon=True).start()
    app.exit(128 + number, return_code=128 + number)


def _insist(number: signal.Signals, modes: list[Any] | None) -> None:
    """A hung-up terminal can swallow the orderly way out (writes that never return): then end without it."""
    threading.Event().wait(_PATIENCE_SECONDS)
    if number != signal.SIGHUP:
        _restore_by_hand(modes)
    os._exit(128 + number)


def _terminal_modes() -> list[Any] | None:
    try:
        return termios.tcgetattr(sys.__stdin__.fileno())  # type: ignore[union-attr]
    except (termios.error, OSError, ValueError, AttributeError):
        return None


def _restore_by_hand(modes: list[Any] | None) -> None:
    try:
        os.write(2, _RESTORE.encode())
        if modes is not None and sys.__stdin__ is not None:
            termios.tcsetattr(sys.__stdin__.fileno(), termios.TCSANOW, modes)
    except (termios.error, OSError, ValueError):
        return  # nobody is there to see it
