"""A person's own command for a piece of news: started beside everything else, never waited for, ended when it hangs.

No shell reads it. The news is in its environment (LAVENDER_EVENT, LAVENDER_RUN, LAVENDER_RUN_PATH, LAVENDER_REASON) and
in the words {event}, {run}, {path} and {reason}: whatever a run's name holds, it stays one argument. Where the command
is itself a shell's or another language's, its program is no place for them (`model/hook_words.py`).
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

from lavender_tui.errors import UsageError
from lavender_tui.model import hook_words
from lavender_tui.model.notices import Notice
from lavender_tui.model.text import clean

SECONDS = 60.0
MOST_AT_ONCE = 8
_room = threading.BoundedSemaphore(MOST_AT_ONCE)


def parse(command: str) -> tuple[str, ...]:
    """The command's words. Raises UsageError for a quote that isn't closed, for nothing at all, and for a placeholder
    in a word that is read as a program."""
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"the hook {clean(command, 100)!r} can't be read ({error})", hint="Close the quote") from error
    if not words:
        raise UsageError("the hook is empty", hint="Name a program, such as notify-send {run} {reason}")
    if why := hook_words.objection(words):
        raise UsageError(f"the hook {clean(command, 100)!r} is refused: {why[0]}", hint=why[1])
    return words


def start(command: Sequence[str], notice: Notice, failed: Callable[[str], None]) -> None:
    """Start it for this piece of news; `failed` gets a sentence, from another thread, when it didn't do its work."""
    threading.Thread(target=_run, args=(tuple(command), notice, failed), name="lavender-hook", daemon=True).start()


def _run(command: Sequence[str], notice: Notice, failed: Callable[[str], None]) -> None:
    with _room:
        problem = _outcome(command, notice)
    if problem:
        failed(f"the hook {clean(command[0], 60)} {problem}")


def _outcome(command: Sequence[str], notice: Notice) -> str:
    """What went wrong, or ""."""
    values = _values(notice)
    try:
        process = subprocess.Popen(
            [_filled(word, values) for word in command],
            env={**os.environ, **_environment(values)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return f"can't be started ({error.strerror or error})"
    except ValueError as error:  # a NUL in a word
        return f"can't be started ({error})"
    try:
        code = process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its session is its own, and it isn't reaped yet: no other has the pid
        process.wait()
        return f"took more than {SECONDS:.0f} s and was ended"
    return "" if code == 0 else f"ended with exit code {code}"


def _values(notice: Notice) -> dict[str, str]:
    """NUL can be in no argument and no variable."""
    told = {
        "event": notice.event.value,
        "run": notice.run.name,
        "path": notice.run.path,
        "reason": clean(notice.words, 500),
    }
    return {name: value.replace("\0", "") for name, value in told.items()}


def _environment(values: dict[str, str]) -> dict[str, str]:
    return {hook_words.VARIABLES[name]: value for name, value in values.items()}


def _filled(word: str, values: dict[str, str]) -> str:
    return hook_words.PLACEHOLDER.sub(lambda match: values[match[1]], word)
