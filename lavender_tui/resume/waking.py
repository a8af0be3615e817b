"""Sleep that a signal or the end of a process cuts short."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType, TracebackType

from lavender_tui.launch.record import ProcessId, is_same_process

WITHOUT_HANDLES_SECONDS = 1.0
_LEAVE = (signal.SIGTERM, signal.SIGINT)


class Alarm:
    """While it is held: SIGTERM and SIGINT ask to leave, SIGUSR1 wakes, a terminal that goes away ends nothing.

    For the main thread alone; the handlers of before come back in the end.
    """

    def __init__(self) -> None:
        self.leave: signal.Signals | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Alarm:
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._writes, False)
        os.set_blocking(self._reads, False)
        for signum in (*_LEAVE, signal.SIGUSR1):
            self._before[signum] = signal.signal(signum, self._ring)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
        os.close(self._reads)
        os.close(self._writes)

    def _ring(self, signum: int, frame: FrameType | None) -> None:
        if signum in _LEAVE:
            self.leave = signal.Signals(signum)
        with suppress(BlockingIOError):
            os.write(self._writes, b"!")

    def sleep(self, seconds: float, until_ended: Iterable[ProcessId] = ()) -> None:
        """At most so long; less where a signal comes, or one of the processes ends (or has ended)."""
        handles: list[int] = []
        try:
            for process in until_ended:
                handle = _handle(process)
                if handle is None:
                    seconds = min(seconds, WITHOUT_HANDLES_SECONDS)
                elif handle < 0:
                    return
                else:
                    handles.append(handle)
            poll = select.poll()
            for descriptor in (self._reads, *handles):
                poll.register(descriptor, select.POLLIN)
            poll.poll(max(0.0, seconds) * 1000)
            with suppress(BlockingIOError):
                os.read(self._reads, 4096)
        finally:
            for handle in handles:
                os.close(handle)

    def pause(self, seconds: float) -> None:
        """Sleep to the end, but for a request to leave."""
        deadline = time.monotonic() + seconds
        while self.leave is None and (left := deadline - time.monotonic()) > 0:
            self.sleep(left)


def _handle(process: ProcessId) -> int | None:
    """A pidfd of exactly this process; -1 where it has ended, None where the system has no such handles."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return -1
    except (OSError, AttributeError):
        return None
    if not is_same_process(process.pid, process.start_ticks):
        os.close(handle)
        return -1
    return handle
