"""Reads a run's log files in a thread of its own and hands out new lines. Never on the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lavender_tui.tui.messages import LogRead

_POLL_SECONDS = 0.25
_FIRST_LINES = 2000  # read from the end at first; a log may be huge
_MOST_LINES = 2000  # in one message


class LogReader:
    """Follows one file at a time. `session` grows with each file, so that late lines of the one before are dropped."""

    def __init__(self, run_dir: str, post: Callable[[LogRead], bool]) -> None:
        self._run_dir = run_dir
        self._post = post
        self._wake = threading.Event()
        self._closed = False
        self._wanted: str | None = None
        self._session = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="lavender-log", daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def show(self, path: str | None, session: int) -> None:
        """Follow this file from now on."""
        self._wanted, self._session = path, session
        self._wake.set()

    def _run(self) -> None:
        from lavender_tui.launch.logs import Follower, log_files

        follower: Follower | None = None
        session, known, told = -1, None, 0  # session 0 shows no file
        while not self._closed:
            files = log_files(self._run_dir)
            if files != known:
                known = files
                self._post(LogRead(self._session, [], files=files))
            if session != self._session:
                if follower is not None:
                    follower.close()
                session, path = self._session, self._wanted
                follower = Follower(path, lines=_FIRST_LINES) if path else None
            try:
                lines = follower.read() if follower is not None else []
            except OSError as error:
                lines, follower = [f"(can't be read: {error})"], None
            if session != told:  # an answer though there be no line: the file is empty
                told = session
                self._post(LogRead(session, lines[:_MOST_LINES]))
                lines = lines[_MOST_LINES:]
            for start in range(0, len(lines), _MOST_LINES):
                self._post(LogRead(session, lines[start : start + _MOST_LINES]))
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()
        if follower is not None:
            follower.close()
