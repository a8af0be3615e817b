"""SIGTERM and SIGUSR1 as wishes: the handler sets a flag, the next step boundary acts on it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

WATCHED = (signal.SIGTERM, signal.SIGUSR1)


def usr1_means_stop() -> bool:
    """torchrun's agent ends after it has passed SIGUSR1 on; from Slurm it comes shortly before the end of the time."""
    return "TORCHELASTIC_RUN_ID" in os.environ or "SLURM_JOB_ID" in os.environ


class StopSignals:
    """Flags set by signals. Installed in the main thread only; elsewhere it stays silent and watches nothing.

    A handler that the script set before is called afterwards, so that both happen. The same signal may come any
    number of times (torchrun forwards what a supervisor already sent).
    """

    def __init__(self) -> None:
        self.terminate = False
        self.user = False
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in WATCHED:
            self._before[number] = signal.signal(number, self._came)

    def uninstall(self) -> None:
        """Give the handlers back, unless somebody has put others in place since."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._came:
                signal.signal(number, before if before is not None else signal.SIG_DFL)
        self._before.clear()

    def _came(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self.terminate = True
        else:
            self.user = True
        before: Callable[[int, FrameType | None], Any] | int | None = self._before.get(number)
        if callable(before):
            before(number, frame)
