"""The table behind the states: recorded, still there, still at that version. Each change of it reorders the rows."""

from __future__ import annotations

from typing import Any

from lavender_tui.model.plan import Check, Policy
from lavender_tui.model.state_rules import passed, refuse, warn
from lavender_tui.model.text import clean
from lavender_tui.resume.situation import Situation
from lavender_tui.resume.table_versions import look

# Each of them decides which rows come in which order; a state holds none of it.
READING = ("filter", "shuffle", "shuffle_clump_size", "columns")
_PIN = "open the table and check out the version that the saved training read"


def data_checks(it: Situation) -> list[Check]:
    """Only where a position in the data is carried on: an epoch read from its start has no order to keep."""
    if not it.set.found:
        return []
    data = it.checkpoint.data
    if not data:
        what = "the checkpoint doesn't say which table it read, at which version: a changed table can't be noticed"
        return [warn("data.recorded", what, remedy=_PIN)]
    checks = [passed("data.recorded", f"the rows come from {clean(_place(data), 200)}")]
    if it.policy is Policy.EXACT:
        checks += [*_version(data), *_reading(data)]
    return checks


def _version(data: dict[str, Any]) -> list[Check]:
    uri, table, version = data.get("uri"), data.get("table"), data.get("version")
    if not isinstance(uri, str) or not isinstance(table, str):
        return [warn("data.version", "the checkpoint doesn't say where its table lies", clean(_place(data), 200), _PIN)]
    files = look(uri, table)
    where = clean(f"{table} in {uri}", 300)
    if files.exists is False:
        what = "the table that the states are of is not there"
        return [refuse("data.version", what, where, "bring it back: the rows of another table come in another order")]
    if type(version) is not int:
        what = "the table's version was not recorded: a changed table can't be noticed"
        return [warn("data.version", what, where, _PIN)]
    if files.exists is None or not files.versions:
        return [warn("data.version", f"whether version {version} is still there can't be seen from here", where)]
    if version not in files.versions:
        what = (
            f"version {version} of the table is gone, now it is {files.current}: its rows would come in another order"
        )
        return [
            refuse("data.version", what, where, "start the epoch again (replay-epoch), and tag versions from now on")
        ]
    pinned = f" (now {files.current}: pinned)" if version != files.current else ""
    return [passed("data.version", f"the table is there at version {version}{pinned}", where)]


def _reading(data: dict[str, Any]) -> list[Check]:
    lacking = [key for key in READING if key not in data]
    if lacking:
        what = f"not recorded: {', '.join(lacking)}; with other ones the rows come in another order"
        return [warn("data.params", what, remedy="give the dataset what the saved training gave it")]
    return [passed("data.params", ", ".join(f"{key} {clean(data[key], 60)}" for key in READING))]


def _place(data: dict[str, Any]) -> str:
    return f"{data.get('table', '?')} @ version {data.get('version', '?')}, {data.get('uri', '?')}"
