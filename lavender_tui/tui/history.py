"""The history of a run, from its root's journal and from its own records. To be called in a thread."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lavender_tui.model import text
from lavender_tui.model.run import Run
from lavender_tui.tui.widgets.history_table import Happening

if TYPE_CHECKING:
    from lavender_tui.launch.journal import Entry

# For machines, or said by the line itself.
_LEFT_OUT = frozenset(
    {"host", "boot_id", "pid_namespace", "start_ticks", "by_hand", "asked_at", "ended_at", "left_over"}
)
_LAST = ("pid", "grace_seconds")  # what nobody looks for first, where a line is cut
_LABELS = {"checkpoint": "from", "how": "", "why": ""}
_MOST = 2_000


def read_history(run: Run, followers: Sequence[Run] = ()) -> list[Happening]:
    """Newest first; `followers` are the known runs that were resumed from it.

    What the records say is there though the journal can't be written, or was written elsewhere.
    """
    from lavender_tui.launch import journal

    itself = os.path.realpath(run.path)
    entries = [
        entry
        for root in {os.path.realpath(root): root for root in (journal.root_of(run.path), run.root)}.values()
        for entry in journal.read(root)
    ]
    found = [
        Happening(at=entry.at, what=entry.what, who=entry.who or "", details=_words(entry.facts))
        for entry in entries
        if entry.run is not None and os.path.realpath(entry.run) == itself
    ]
    known = {one.what for one in found}
    found += [one for one in _recorded(run) if one.what not in known]
    found += _resumes(itself, entries, followers)
    return sorted(found, key=lambda one: one.at, reverse=True)[:_MOST]


def _resumes(itself: str, entries: Sequence[Entry], followers: Sequence[Run]) -> list[Happening]:
    """What it was resumed as: by the journal, and by the records of the runs that are known to go on from it."""
    paths = {os.path.realpath(one.path) for one in followers}
    found: dict[str, Happening] = {}
    for entry in entries:
        if entry.what != "resumed" or entry.run is None:
            continue
        path, source = os.path.realpath(entry.run), entry.facts.get("from")
        if path in paths or (isinstance(source, str) and os.path.realpath(source) == itself):
            facts = {name: value for name, value in entry.facts.items() if name != "from"}
            found[path] = _resumed_as(entry.run, entry.at, entry.who, _words(facts))
    for one in followers:
        if os.path.realpath(one.path) not in found and one.started_at is not None:
            source = one.resumed_from.checkpoint if one.resumed_from is not None else None
            facts = {"world_size": one.world_size, "checkpoint": source}
            found[one.path] = _resumed_as(one.path, one.started_at, one.started_by, _words(facts))
    return list(found.values())


def _resumed_as(path: str, at: float, who: str | None, words: str) -> Happening:
    name = os.path.basename(path.rstrip("/"))
    return Happening(at=at, what="resumed as", who=who or "", details=", ".join(filter(None, (name, words))))


def _recorded(run: Run) -> Iterable[Happening]:
    if run.started_at is not None:
        source = f"from {_value(run.resumed_from.run)}" if run.resumed_from is not None else ""
        what = "resumed" if source else "launched"
        yield Happening(at=run.started_at, what=what, who=run.started_by or "", details=source)
    end = run.end
    if end is None:
        return
    if end.stop_requested and end.stop_asked_at is not None:
        yield Happening(at=end.stop_asked_at, what="stop asked", who=end.stop_by or "", details=end.stop_why or "")
    if end.ended_at is not None:
        yield Happening(at=end.ended_at, what="ended", details=run.state_reason)


def _words(facts: Mapping[str, Any]) -> str:
    """ "world_size 4, from run-…": names and values, what only machines need left out."""
    names = sorted((name for name, value in facts.items() if _is_told(name, value)), key=lambda name: name in _LAST)
    return ", ".join(_fact(name, facts[name]) for name in names)


def _fact(name: str, value: Any) -> str:
    if name == "grace_seconds":
        return f"{_value(value)} s to save"
    return f"{_LABELS.get(name, name)} {_value(value)}".strip()


def _is_told(name: str, value: Any) -> bool:
    return name not in _LEFT_OUT and value not in (None, "", False) and not isinstance(value, dict)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(text.value(one) for one in value)
    words = text.value(value)
    return words.rstrip("/").rpartition("/")[2] if words.startswith("/") else words
