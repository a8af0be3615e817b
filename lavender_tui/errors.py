"""The error tree. Every error says what is wrong, where, and what to do, in one line, and carries the exit code.

LavenderError (1)
├── UsageError (2)            the command or a setting makes no sense
├── NotFound (102)            no such run, root or checkpoint
├── UnreadableFile (1)        a file that can't be what it should be; nothing of it was executed
├── BadState (1)              a rank state that can't be trusted; names rank and file
├── Refused (1)               a plan with checks that refuse; the checks are on the error
├── AlreadyRunning (1)        the run lives, or somebody else resumes it right now
│   └── ResumedAlready (1)    a run that was resumed from it lives: a second one beside it may be wanted
└── LaunchFailed (1)          the process could not be started or ended at once
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lavender_tui.model.plan import Check


class LavenderError(Exception):
    """An error for people: `what` happened, `where` (a path, a rank), and a `hint` of what to do."""

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what, self.where, self.hint = what, where, hint

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}. {self.hint}" if self.hint else head


class UsageError(LavenderError):
    exit_code = 2


class NotFound(LavenderError):
    exit_code = 102


class UnreadableFile(LavenderError):
    pass


class BadState(LavenderError):
    pass


class Refused(LavenderError):
    """A plan that must not be carried out. `checks` holds every check, the refusing ones among them."""

    def __init__(
        self, what: str, *, where: str | None = None, hint: str | None = None, checks: tuple[Check, ...] = ()
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.checks = checks


class AlreadyRunning(LavenderError):
    pass


class ResumedAlready(AlreadyRunning):
    pass


class LaunchFailed(LavenderError):
    pass


def in_words(error: LavenderError | OSError) -> str:
    """One sentence for a person; of an error of the system without its number."""
    if isinstance(error, LavenderError):
        return str(error)
    where = error.filename if isinstance(error.filename, str) else "input or output"
    return f"{where}: {error.strerror or error}"
