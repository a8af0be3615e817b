"""Named filters: those of the settings, and those that were saved in the app."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping

MOST, LONGEST = 100, 1_000


def parse(lines: Iterable[str]) -> dict[str, str]:
    """`NAME: QUERY` lines as name → query; what isn't one is left out."""
    found = {}
    for line in lines:
        name, colon, query = line.partition(":")
        if colon and name.strip() and query.strip():
            found[name.strip()] = query.strip()
    return found


def path(environ: Mapping[str, str] = os.environ) -> str:
    """Where saved ones lie: state, not settings, for no person edits it."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "lavender-tui", "views.json")


def load() -> dict[str, str]:
    """The saved ones; none where there is no such file, or where it holds something else."""
    try:
        with open(path(), encoding="utf-8") as file:
            document = json.loads(file.read(MOST * LONGEST * 2))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    good = {name: query for name, query in document.items() if isinstance(query, str) and len(query) <= LONGEST}
    return dict(list(good.items())[:MOST])


def save(name: str, query: str) -> None:
    """Keep this one too, in the place of one of the same name. Raises OSError."""
    from lavender_tui.launch.record import write_atomically
    from lavender_tui.one_writer import one_writer

    os.makedirs(os.path.dirname(path()), exist_ok=True)
    with one_writer(path()):
        document = {**load(), name[:80]: query[:LONGEST]}
        newest = dict(list(document.items())[-MOST:])
        write_atomically(path(), json.dumps(newest, indent=1, ensure_ascii=True).encode("ascii"), replace=True)
