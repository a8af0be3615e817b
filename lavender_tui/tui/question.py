"""A question that a thread of its own answers, however long it takes: no other work holds it up, and no answer is lost.

Textual's workers share a pool of a few threads. Where a disk hangs, or several stops are waited for, the next one
would not even begin; and whoever quits would wait for them.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lavender_tui.errors import LavenderError, in_words
from lavender_tui.model.text import one_line


class Question:
    """One question, asked when it is made. `tell` is called with the answer in its thread, and may fail: then `answer`
    and `error` are there all the same, once `is_over`."""

    def __init__(self, work: Callable[[], Any], tell: Callable[[Question], Any]) -> None:
        self.answer: Any = None
        self.error: str | None = None
        self.is_over = False
        self._work, self._tell = work, tell
        self._begun = time.monotonic()
        context = contextvars.copy_context()  # which app it is, for whoever is told
        try:
            # A daemon: one that hangs in the kernel must not keep the app from ending.
            threading.Thread(target=context.run, args=(self._run,), name="lavender-check", daemon=True).start()
        except RuntimeError as error:  # no more threads for this user
            self._end(f"it could not even begin ({error})")

    @property
    def seconds(self) -> float:
        """How long it has been asked for."""
        return time.monotonic() - self._begun

    def _run(self) -> None:
        try:
            self.answer = self._work()
        except (LavenderError, OSError) as error:
            self._end(in_words(error))
        except BaseException as error:  # whatever it is, one sentence is owed
            told = f" ({one_line(str(error), 300)})" if str(error) else ""
            self._end(f"the check itself broke off: {type(error).__name__}{told}")
        else:
            self._end(None)

    def _end(self, error: str | None) -> None:
        self.error, self.is_over = error, True
        with suppress(Exception):  # nobody is there any more; whoever still is looks here as well
            self._tell(self)
