"""The history of a run, from its root's journal and from its own records. To be called in a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from lavender_tui.model import text
from lavender_tui.model.run import Run
from lavender_tui.tui.widgets.history_table import Happening

_LEFT_OUT = frozenset(
    {
        "host",
        "boot_id",
        "pid_namespace",
        "start_ticks",
        "by_hand",
        "asked_at",
        "ended_at",
    }  # for machines, or said by the line
)
_MOST = 2_000


def read_history(run: Run) -> list[Happening]:
    """Newest first. What the records say is there though the journal can't be written, or was written elsewhere."""
    from lavender_tui.launch import journal

    found = [
        Happening(at=entry.at, what=entry.what, who=entry.who or "", details=_words(entry.facts))
        for root in {os.path.realpath(root): root for root in (journal.root_of(run.path), run.root)}.values()
        for entry in journal.read(root, run.path)
    ]
    known = {one.what for one in found}
    found += [one for one in _recorded(run) if one.what not in known]
    return sorted(found, key=lambda one: one.at, reverse=True)[:_MOST]


def _recorded(run: Run) -> Iterable[Happening]:
    if run.started_at is not None:
        source = f"from {_value(run.resumed_from.run)}" if run.resumed_from is not None else ""
        yield Happening(at=run.started_at, what="resumed" if source else "launched", details=source)
    end = run.end
    if end is None:
        return
    if end.stop_requested and end.stop_asked_at is not None:
        yield Happening(at=end.stop_asked_at, what="stop asked", who=end.stop_by or "", details=end.stop_why or "")
    if end.ended_at is not None:
        yield Happening(at=end.ended_at, what="ended", details=run.state_reason)


def _words(facts: Mapping[str, Any]) -> str:
    """ "world_size 4, from run-…": names and values, what only machines need left out."""
    return ", ".join(f"{name} {_value(value)}" for name, value in facts.items() if _is_told(name, value))


def _is_told(name: str, value: Any) -> bool:
    return name not in _LEFT_OUT and value is not None and value != "" and not isinstance(value, dict)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(text.value(one) for one in value)
    words = text.value(value)
    return words.rstrip("/").rpartition("/")[2] if words.startswith("/") else words
