"""What ended a training, as its ranks left it. Imports little: the supervisor imports it at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_LINES, LONGEST_LINE = 60, 400
_FRAME = re.compile(r'\s*File "([^"]+)", line ([0-9]+)(?:, in (.+))?')


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One sentence, and where they are known the rank, its exception, the traceback's lines and the file they are in.

    `where` is relative to the run's directory. All of it was written by the training: to be shown as text.
    """

    words: str
    rank: int | None = None
    exception: str | None = None
    traceback: tuple[str, ...] = ()
    where: str | None = None

    @property
    def place(self) -> str | None:
        """ "train.py:20 in main": the traceback's last frame."""
        frames = [found for line in self.traceback if (found := _FRAME.match(line))]
        if not frames:
            return None
        path, line, name = frames[-1].groups()
        return f"{path.rsplit('/', 1)[-1]}:{line}" + (f" in {name}" if name else "")

    def to_json(self) -> dict[str, Any]:
        """For exit.json and the export."""
        return {
            "rank": self.rank,
            "exception": self.exception,
            "where": self.where,
            "traceback": list(self.traceback),
        }


def failure_of(document: Any, words: str | None) -> Failure | None:
    """As `to_json` wrote it; None for anything else. Never raises."""
    if not isinstance(document, Mapping):
        return None
    rank, exception, where, lines = (document.get(key) for key in ("rank", "exception", "where", "traceback"))
    traceback = [line[:LONGEST_LINE] for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
    return Failure(
        words=words or "",
        rank=rank if type(rank) is int and 0 <= rank < 1 << 31 else None,
        exception=exception if isinstance(exception, str) else None,
        traceback=tuple(traceback[-MOST_LINES:]),
        where=where if isinstance(where, str) and "\0" not in where else None,
    )
