"""Reads pages of a run's log files in a thread of its own, and what is new at their ends. Never on the event loop."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from lavender_tui.model.run import GONE, cant_read
from lavender_tui.tui.messages import LogChanged, LogFiles, LogRead
from lavender_tui.watch.listing import why_shut

if TYPE_CHECKING:
    from textual.message import Message

    from lavender_tui.logs.pager import Page, Pager

_POLL_SECONDS = 0.25
_FILES_SECONDS = 2.0  # how often ranks' files are looked for: there may be hundreds of directories
_ROWS = 400  # read at once
_MOST_FRESH_PAGES = 16  # of what was appended since the last look; more is read when it is wanted

TAIL, PLACE, BEFORE, AFTER, AGAIN = "tail", "place", "before", "after", "again"


class LogReader:
    """Answers requests in their order. `session` grows with each file, so that late answers are dropped."""

    def __init__(self, run_dir: str, post: Callable[[Message], bool]) -> None:
        self._run_dir = run_dir
        self._post = post
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._closed = False
        self._wanted: tuple[str | None, int] = (None, 0)
        self._requests: deque[tuple[int, str, int]] = deque()
        self._session = -1
        self._pager: Pager | None = None
        self._older: tuple[int, int] | None = None
        self._gone = ""  # why there is no file of that name any more, as it was told
        self.last_shown = -1  # the number of the last page that the view has

    def start(self) -> None:
        threading.Thread(target=self._run, name="lavender-log", daemon=True).start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def show(self, path: str | None, session: int) -> None:
        """That file from now on; its tail comes first."""
        with self._lock:
            self._requests.clear()
            self._wanted = (path, session)
        self._wake.set()

    def ask(self, session: int, what: str, where: int = 0) -> None:
        """Pages at the end (TAIL), around an offset (PLACE), BEFORE or AFTER the page of that number, or it AGAIN."""
        self._requests.append((session, what, where))
        self._wake.set()

    @property
    def is_waited_for(self) -> bool:
        """Is something else wanted than what is being read now?"""
        return self._closed or bool(self._requests) or self._wanted[1] != self._session

    def _run(self) -> None:
        from lavender_tui.logs.files import log_files

        known, looked_at = None, 0.0
        while not self._closed:
            if time.monotonic() - looked_at >= _FILES_SECONDS or known == []:
                looked_at = time.monotonic()
                files = log_files(self._run_dir)
                if files != known:
                    known = files
                    self._post(LogFiles(files))
            try:
                self._turn()
            except Exception as error:  # whatever it is, what is asked next is answered and the person is told
                self._fail(str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}")
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()
        self._let_go()

    def _turn(self) -> None:
        path, session = self._wanted
        if session != self._session:
            self._let_go()
            self._session = session
            if path is not None:
                self._open(path)
        if self._pager is None:
            return
        while (request := self._next()) is not None:
            self._answer(*request)
        self._look()

    def _next(self) -> tuple[str, int] | None:
        """What is asked of this file. What is asked of another one, wanted meanwhile, waits until that is open."""
        with self._lock:
            while self._requests and not self._closed and self._wanted[1] == self._session:
                asked_by, what, where = self._requests.popleft()
                if asked_by == self._session:
                    return what, where
        return None

    def _open(self, path: str) -> None:
        from lavender_tui.logs.pager import Pager

        self._pager, self._older = Pager(path), _facts(f"{path}.1")
        self._answer(TAIL, 0)

    def _fail(self, words: str) -> None:
        self._let_go()
        self._post(LogChanged(self._session, "failed", 0, words=words))

    def _let_go(self) -> None:
        if self._pager is not None:
            self._pager.close()
        self._pager = None

    # Pages

    def _answer(self, what: str, where: int) -> None:
        pager = self._pager
        assert pager is not None
        if what == TAIL:
            pages = self._collect(pager.pages_before(pager.last + 1, _ROWS))
        elif what == PLACE:
            number = min(pager.last, pager.number_at(where))
            pages = self._collect(pager.pages_before(number, _ROWS // 4))
            pages += self._collect(pager.pages_after(number - 1, _ROWS))
        elif what == BEFORE:
            pages = self._collect(pager.pages_before(where, _ROWS))
        elif what == AGAIN:
            pages = self._collect(map(pager.page, reversed(self._changed(where, where))))
        else:
            pages = self._collect(pager.pages_after(where, _ROWS))
        if pages or what in (TAIL, PLACE):
            self._send(what, pages, where)

    def _collect(self, pages: object) -> list[Page]:
        """Gives up between two pages where something else is wanted meanwhile: a bar can be gigabytes long."""
        from lavender_tui.logs.errors import marked

        assert self._pager is not None
        found: list[Page] = []
        for page in pages:  # type: ignore[attr-defined]
            found.append(marked(self._pager, page))
            if self._closed or self._wanted[1] != self._session or len(self._requests) > 1:
                break
        return sorted(found)

    def _send(self, what: str, pages: list[Page], where: int = 0) -> None:
        assert self._pager is not None
        self._post(LogRead(self._session, what, pages, size=self._pager.size, last=self._pager.last, where=where))

    # News

    def _look(self) -> None:
        from lavender_tui.logs.pager import Change

        pager = self._pager
        assert pager is not None
        last, size = pager.last, pager.size
        change = pager.look()
        if change is Change.GROWN:
            self._grown(last)
        elif change is Change.GONE or (change is Change.NONE and pager.is_gone):
            # A directory that is deleted loses its files first: what there is to say is another thing soon after.
            words = self._why_gone(pager.path)
            if change is Change.GONE or words != self._gone:
                self._gone = words
                self._post(LogChanged(self._session, Change.GONE.value, size, words=words))
        elif change is not Change.NONE:
            older = _facts(f"{pager.path}.1")
            is_moved = (
                change is Change.CUT and older is not None and (self._older is None or older[0] != self._older[0])
            )
            moved = older[1] if older and is_moved else 0
            self._post(LogChanged(self._session, change.value, size, moved=moved))
            self._let_go()

    def _why_gone(self, path: str) -> str:
        """Why the file isn't seen any more; empty where it alone was deleted."""
        if (why := why_shut(self._run_dir)) is not None:
            return cant_read(why) if why else GONE
        try:
            os.stat(path)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return cant_read(error.strerror or "")
        return ""

    def _grown(self, last: int) -> None:
        """The pages that changed, where the view has what was the end; else only how long the file is now."""
        pager = self._pager
        assert pager is not None
        has_end = self.last_shown >= last
        changed = self._changed(last, pager.last)
        few = has_end and len(changed) <= _MOST_FRESH_PAGES
        self._send("grown", self._collect(map(pager.page, changed)) if few else [])

    def _changed(self, was_last: int, last: int) -> range:
        """The pages that differ since `was_last` was the last one: a bar may have rewritten the end of that before."""
        assert self._pager is not None
        return range(max(self._pager.first, was_last - 1), last + 1)


def _facts(path: str) -> tuple[int, int] | None:
    """(inode, size); a new inode of PATH.1 tells of a rotation."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size
