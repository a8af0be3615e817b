"""A request that a training fulfils by itself: `request.json` in its run's directory, until it is done or withdrawn.

Unlike a signal it reaches a training on another machine, through the file system that both see. The training deletes
the file when it has done what was asked, and says so in `stop.json`. Standard library only: the training imports this.
"""

from __future__ import annotations

import os
import time
from typing import Any

from lavender_tui.launch.files import REQUEST, encode, read_document, write_atomically
from lavender_tui.model.ending import StopAt, StopRequest

SCHEMA = 1
_LONGEST_NAME = 200


def path_of(run_dir: str) -> str:
    return os.path.join(run_dir, REQUEST)


def write_request(run_dir: str, request: StopRequest) -> None:
    """Ask; an earlier request is replaced. Raises OSError."""
    document = {"schema": SCHEMA, "what": request.what.value, "asked_at": request.asked_at, "who": request.who}
    write_atomically(path_of(run_dir), encode(document), replace=True)


def remove_request(run_dir: str) -> bool:
    """Withdraw or tick off; False where there was none. Raises OSError."""
    try:
        os.unlink(path_of(run_dir))
    except FileNotFoundError:
        return False
    return True


def read_request(run_dir: str) -> StopRequest | None:
    """What is asked for; None also for a file that can't be such a request. Never raises."""
    return examine_request(run_dir)[0]


def examine_request(run_dir: str) -> tuple[StopRequest | None, str | None]:
    """(request, None), (None, why it can't be used), or (None, None) where there is none."""
    document, reason = read_document(path_of(run_dir))
    if document is None:
        return None, reason
    return _request(document)


def _request(document: dict[str, Any]) -> tuple[StopRequest | None, str | None]:
    what, asked_at, who = (document.get(key) for key in ("what", "asked_at", "who"))
    if document.get("schema") != SCHEMA or what not in set(StopAt):
        return None, "asks for nothing that is known here"
    if isinstance(asked_at, bool) or not isinstance(asked_at, (int, float)) or not 0 <= asked_at < 1e12:
        asked_at = time.time()
    name = who[:_LONGEST_NAME] if isinstance(who, str) and who else "somebody"
    return StopRequest(what=StopAt(what), asked_at=float(asked_at), who=name), None
