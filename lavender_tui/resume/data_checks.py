"""The table behind the states: recorded, still there, still at that version. Each change of it reorders the rows.

This is the look that a plan takes in passing: names in a directory, words in a record. The deep one is `looking`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from lavender_tui.model.plan import Check, Policy
from lavender_tui.model.state_rules import passed, refuse, warn
from lavender_tui.model.text import clean, value
from lavender_tui.resume.situation import Situation
from lavender_tui.resume.table_versions import look

# Each of them decides which rows come in which order; a state holds none of it.
READING = ("filter", "shuffle", "shuffle_clump_size", "columns")
# Each of these is held against whatever else says it; the last three say which rows, the others in which order.
_COMPARED = (
    "filter", "shuffle", "shuffle_clump_size", "on_transform_error", "pack_sequences", "eos_id", "pad_id", "uri",
    "table", "version",
)  # fmt: skip
_PACKED = ("pack_sequences", "eos_id", "pad_id", "blocks_per_epoch")
_PIN = "open the table and check out the version that the saved training read"
_REPLAY = "start the epoch again (--policy replay-epoch), and tag versions from now on"


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
        checks += [*_version(data), *_reading(it, data), *_packing(it, data), *_before(it, data), *_told(it, data)]
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
        what = f"version {version} of the table is gone, now it is {files.current}: the whole epoch would be reshuffled"
        evidence = f"{where}; one row more or less moves all others: 28 to 160 of 1,000 come twice, as many never"
        return [refuse("data.version", what, evidence, _REPLAY)]
    pinned = f" (now {files.current}: pinned)" if version != files.current else ""
    return [passed("data.version", f"the table is there at version {version}{pinned}", where)]


def _reading(it: Situation, data: dict[str, Any]) -> list[Check]:
    lacking = [key for key in READING if key not in data]
    if lacking:
        what = f"not recorded: {', '.join(lacking)}; with other ones the rows come in another order"
        return [warn("data.params", what, remedy="give the dataset what the saved training gave it")]
    seed = it.set.states[0].state.get("shuffle_seed") if it.set.states else None
    return [passed("data.params", reading_words(data, seed))]


def reading_words(data: dict[str, Any], seed: object = None) -> str:
    """Which rows are read in which order, in plain words: "no filter, shuffled with seed 7, all columns"."""
    if data["shuffle"]:
        clumps = data["shuffle_clump_size"]
        order = "shuffled" + (f" with seed {value(seed, 20)}" if seed is not None else "")
        order += f" in clumps of {value(clumps, 20)}" if clumps is not None else ""
    else:
        order = "in the table's order"
    rows = "no filter" if data["filter"] in (None, "") else f"only rows where {value(data['filter'], 60)}"
    columns = "all columns" if data["columns"] is None else f"columns {value(data['columns'], 60)}"
    return f"{rows}, {order}, {columns}"


def _packing(it: Situation, data: dict[str, Any]) -> list[Check]:
    """The states and the record speak of one way of packing; the record alone says which column the tokens come of."""
    if not it.set.states:
        return []
    first = it.set.states[0]
    if first.mode != "packed":
        if data.get("pack_sequences") is None:
            return []
        what = f"the record says packed into {value(data['pack_sequences'], 20)}, the states are of single rows"
        return [refuse("data.packing", what, clean(first.origin), "take another checkpoint")]
    for key in _PACKED:
        if type(data.get(key)) is int and data[key] != first.state.get(key):
            what = f"{key} is {data[key]} in the record, {value(first.state.get(key), 20)} in the states"
            return [refuse("data.packing", what, clean(first.origin), "take another checkpoint")]
    return []


def _before(it: Situation, data: dict[str, Any]) -> list[Check]:
    """An earlier save of the same epoch was read in another way: then one of the two records is not true."""
    for other in reversed(it.run.checkpoints if it.run is not None else ()):
        same_epoch = other.stage == it.checkpoint.stage and other.epoch == it.checkpoint.epoch
        if other.order >= it.checkpoint.order or not same_epoch or not other.data:
            continue
        for key in _COMPARED:
            if key in data and key in other.data and data[key] != other.data[key]:
                what = (
                    f"{key} was {value(other.data[key], 60)} at an earlier save of this epoch, {_value(data, key)} here"
                )
                return [warn("data.before", what, clean(other.path), "make sure which of them was read")]
        return []
    return []


def _told(it: Situation, data: dict[str, Any]) -> list[Check]:
    """Options of the training command that are named as the dataset's, and say another thing than the record."""
    words = it.command.argv if it.command is not None else ()
    recorded = {**(it.set.states[0].state if it.set.states else {}), **data}
    checks = []
    for key, told in _options(words):
        if key in (*_COMPARED[:7], "num_splits", "shuffle_seed") and key in recorded and told != recorded[key]:
            what = f"the command says {key} {value(told, 60)}, the saved training read with {_value(recorded, key)}"
            cost = "read so, rows come in another order: 137 to 164 of 1,000 twice, as many never"
            checks.append(warn("data.command", what, cost, f"take it out, or say {_value(recorded, key)}"))
    return checks


def _options(words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """(`shuffle_clump_size`, 32) for `--shuffle-clump-size 32`, `--shuffle_clump_size=32`; True for a bare flag."""
    for place, word in enumerate(words):
        if not word.startswith("--") or len(word) < 3:
            continue
        name, is_set, given = word[2:].partition("=")
        if not is_set:
            following = words[place + 1] if place + 1 < len(words) else "--"
            given = "True" if following.startswith("--") else following
        key = name.replace("-", "_")
        if key.startswith("no_") and given == "True":
            key, given = key.removeprefix("no_"), "False"
        yield key, _plain(given)


def _plain(text: str) -> Any:
    """As a number, a truth value or None where it is written as one, else the text itself."""
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text.lower(), text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _value(data: dict[str, Any], key: str) -> str:
    return value(data.get(key), 60)


def _place(data: dict[str, Any]) -> str:
    return f"{data.get('table', '?')} @ version {data.get('version', '?')}, {data.get('uri', '?')}"
