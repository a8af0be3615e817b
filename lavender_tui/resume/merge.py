"""The child process that may import torch and lancedb: `python -m lavender_tui.resume.merge`.

A request after the other on stdin (its length, then a dict of plain values as `marshal` writes it: several times
quicker than JSON for lists of numbers), a JSON answer a line on stdout, until stdin ends. The first answer,
{"ready": true}, comes once the libraries are imported. What goes wrong is answered as {"error": one sentence, "about":
"state", "table" or "file"}; nothing else is ever printed there, whatever the libraries print goes to stderr.
"""

from __future__ import annotations

import json
import marshal
import os
import struct
import sys
from collections.abc import Callable
from typing import Any

from lavender_tui.training.fingerprint import sample_of

MOST_COMPARED_ROWS = 2_000_000  # a second, and 200 MB
Answer = dict[str, Any]
_LENGTH = struct.Struct("<Q")


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not break the answers
    _answer(answers, _import())
    requests = sys.stdin.buffer
    while (length := requests.read(_LENGTH.size)) and len(length) == _LENGTH.size:
        _answer(answers, serve(requests.read(*_LENGTH.unpack(length))))
    return 0


def packed(request: Answer) -> bytes:
    """A request as `main` reads it; both ends are this very installation. Version 2 looks for no shared objects."""
    body = marshal.dumps(request, 2)
    return _LENGTH.pack(len(body)) + body


def serve(body: bytes) -> Answer:
    """The answer to one request; never raises for what a request holds."""
    try:
        request = marshal.loads(body)
        task = TASKS[request.pop("task")]
    except (ValueError, KeyError, AttributeError, TypeError, EOFError) as error:
        return {"error": f"the request can't be read ({error!r})", "about": "request"}
    try:
        return task(**request)
    except Exception as error:  # whatever the libraries raise becomes one sentence for a person
        return {"error": _one_line(error), "about": _ABOUT[task]}


def merge(states: list[Answer]) -> Answer:
    """`StreamingDataset.merge_state_dicts`, all states of one save in rank order."""
    from lancedb.streaming import StreamingDataset

    return {"merged": StreamingDataset.merge_state_dicts([_with_split_numbers(state) for state in states])}


def temporary_name(path: str, pid: int) -> str:
    """What a file is called while the child with that pid writes it."""
    return f"{path}.{pid}.tmp"


def save(state: Answer, path: str, mode: int = 0o644) -> Answer:
    """Write the state alone as `.pt`: whole under its name, or not at all. Replaces a file that is there."""
    import torch

    temporary = temporary_name(path, os.getpid())
    try:
        with open(temporary, "xb") as file:
            torch.save(_with_split_numbers(state), file)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
    return {"saved": path}


def table(
    uri: str,
    table: str,
    version: int | None = None,
    tag: str | None = None,
    filter: str | None = None,
) -> Answer:
    """Can the rows still be read as they were? Opens nothing that isn't there: `connect` would make the directory.

    `current` and `current_rows` are of the newest version. At the recorded one, None where it can't be opened: `rows`
    after the filter, `columns`, `sample` (a fingerprint), `tags` that hold it, `added` and `removed` since.
    """
    import lancedb

    if "://" not in uri and not os.path.isdir(uri):
        return {"error": f"there is no database at {uri}", "about": "table"}
    opened = lancedb.connect(uri).open_table(table)
    answer: Answer = {"current": opened.version, "opens": True, "reason": None}
    answer.update(dict.fromkeys(("rows", "columns", "sample", "added", "removed")))
    tags = opened.tags.list()
    answer["tags"] = sorted(name for name, held in tags.items() if int(held["version"]) == version)
    if tag is not None and tag in tags:
        answer["tagged"] = int(tags[tag]["version"])
    answer["current_rows"] = _count(opened, filter)
    ids = _row_ids(opened) if version not in (None, opened.version) else None
    try:
        if version is not None:
            opened.checkout(version)
        answer["rows"] = opened.count_rows(filter)
        answer["columns"] = list(opened.schema.names)
        answer["sample"] = sample_of(opened)
    except Exception as error:  # gone, cleaned up, or a filter that no longer fits: said, with the library's reason
        answer.update(opens=False, reason=_one_line(error))
        return answer
    if ids is not None and (before := _row_ids(opened)) is not None:
        answer.update(added=len(ids - before), removed=len(before - ids))
    return answer


def _count(opened: Any, filter: str | None) -> int | None:
    try:
        return int(opened.count_rows(filter))
    except (ValueError, RuntimeError):  # the filter's column is gone
        return None


def _row_ids(opened: Any) -> set[int] | None:
    """Where every row lies; None for a table that is too large to ask. An updated row lies elsewhere afterwards."""
    rows = opened.count_rows()
    if rows > MOST_COMPARED_ROWS:
        return None
    found = opened.search().select(["_rowid"]).with_row_id(True).limit(rows + 1).to_arrow()
    return set(found["_rowid"].to_pylist())


TASKS: dict[str, Callable[..., Answer]] = {"merge": merge, "save": save, "table": table}
_ABOUT: dict[Callable[..., Answer], str] = {merge: "state", save: "file", table: "table"}


def _import() -> Answer:
    """Both libraries now, while nobody waits for them yet."""
    try:
        import lancedb.streaming
        import torch
    except Exception as error:  # a broken installation is a sentence too
        return {"error": f"lancedb and torch can't be imported ({_one_line(error)})", "about": "installation"}
    return {"ready": True, "lancedb": lancedb.__version__, "torch": torch.__version__}


def _with_split_numbers(state: Answer) -> Answer:
    """JSON made text of the split numbers in a packed state."""
    buffers = state.get("pack_buffers")
    return state if buffers is None else {**state, "pack_buffers": {int(key): value for key, value in buffers.items()}}


def _answer(answers: Any, answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__


if __name__ == "__main__":
    raise SystemExit(main())
