"""The app in a pseudo-terminal, as a terminal sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

OURS = "import sys; from lavender_tui.tui.start import run_app; sys.exit(run_app(sys.argv[1:]))"


class Terminal:
    """A Python program in a terminal of 120x40; a context manager that ends it.

    Its modules are compiled into `cache`, as those of an installation are, whatever the shell says of bytecode.
    """

    def __init__(self, cache: Path, *arguments: str) -> None:
        self.started = time.perf_counter()
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.nice(5)  # or it works on while the one who reads waits for a processor, and what comes after counts too
            os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor"})
            os.environ.update({"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache)})
            # An environment of its own: readline, whoever imported it, sets LINES and COLUMNS behind Python's back,
            # and they beat the terminal's size.
            os.execve(sys.executable, [sys.executable, "-c", *arguments], os.environ)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

    def wait_for(self, text: bytes, seconds: float = 60.0) -> float:
        """Read until `text` is written; returns `time.perf_counter()` of the moment. What was read is gone."""
        written, deadline = b"", time.perf_counter() + seconds
        while text not in written:
            assert time.perf_counter() < deadline, written[-2000:]
            if select.select([self.descriptor], [], [], 0.5)[0]:
                written += os.read(self.descriptor, 65536)
        return time.perf_counter()

    def cpu_seconds(self) -> float:
        """What the program has used of the processors so far, all its threads together, those that ended too."""
        return time.clock_gettime(~self.pid << 3 | 2)  # as clock_getcpuclockid(3) makes it for Linux

    def read_for(self, seconds: float) -> bytes:
        """What is written within that time."""
        written, deadline = b"", time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0:
            if select.select([self.descriptor], [], [], left)[0]:
                written += os.read(self.descriptor, 65536)
        return written

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)
