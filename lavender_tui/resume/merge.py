"""The child process that may import torch and lancedb: `python -m lavender_tui.resume.merge`.

A JSON request a line on stdin, a JSON answer a line on stdout, until stdin ends. The first answer, {"ready": true},
comes once the libraries are imported. What goes wrong is answered as {"error": one sentence, "about": "state", "table"
or "file"}; nothing else is ever printed there, whatever the libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library that prints must not break the answers
    _answer(answers, _import())
    for line in sys.stdin:
        _answer(answers, serve(line))
    return 0


def serve(line: str) -> Answer:
    """The answer to one request; never raises for what a request holds."""
    try:
        request = json.loads(line)
        task = TASKS[request.pop("task")]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        return {"error": f"the request can't be read ({error!r})", "about": "request"}
    try:
        return task(**request)
    except Exception as error:  # whatever the libraries raise becomes one sentence for a person
        return {"error": _one_line(error), "about": _ABOUT[task]}


def merge(states: list[Answer]) -> Answer:
    """`StreamingDataset.merge_state_dicts`, all states of one save in rank order."""
    from lancedb.streaming import StreamingDataset

    return {"merged": StreamingDataset.merge_state_dicts([_with_split_numbers(state) for state in states])}


def save(state: Answer, path: str, mode: int = 0o644) -> Answer:
    """Write the state alone as `.pt`: whole under its name, or not at all. Replaces a file that is there."""
    import torch

    temporary = f"{path}.{os.getpid()}.tmp"
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
    uri: str, table: str, version: int | None = None, tag: str | None = None, filter: str | None = None
) -> Answer:
    """Can the rows still be read as they were? Opens nothing that isn't there: `connect` would make the directory.

    `rows` counts at the recorded version, after the filter; None where it can't be opened.
    """
    import lancedb

    if "://" not in uri and not os.path.isdir(uri):
        return {"error": f"there is no database at {uri}", "about": "table"}
    opened = lancedb.connect(uri).open_table(table)
    answer: Answer = {"current": opened.version, "opens": True, "reason": None, "rows": None}
    try:
        if tag is not None and tag in opened.tags.list():
            answer["tagged"] = opened.tags.get_version(tag)
        if version is not None:
            opened.checkout(version)
        answer["rows"] = opened.count_rows(filter)
    except Exception as error:  # gone, cleaned up, or a filter that no longer fits: said, with the library's reason
        answer.update(opens=False, reason=_one_line(error))
    return answer


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
