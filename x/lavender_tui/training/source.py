"""The table to read on from, at the version that was read, in the way that it was read."""

from __future__ import annotations

import os
from typing import Any

from lavender_tui.errors import BadState, NotFound, UsageError
from lavender_tui.training.loading import LOG
from lavender_tui.training.provenance import READING, is_local
from lavender_tui.training.ranks import current_ranks, first_does

# Any columns may be read without changing which rows come when.
HARMLESS = ("columns",)


def open_table(uri: str | None, name: str | None, *, recorded: dict[str, Any], is_fresh: bool) -> Any:
    """See `Beginning.open_table`."""
    old_uri, old_name = recorded.get("uri"), recorded.get("table")
    uri, name = uri or old_uri, name or old_name
    if not uri or not name:
        raise UsageError("which table to read is not known", hint='Name it: open_table("data", "corpus")')
    if old_uri and (_place(uri), name) != (_place(old_uri), old_name):
        LOG.warning("reading table %s in %s; the old run read %s in %s", name, uri, old_name, old_uri)
    version = recorded.get("version")
    if version is None:
        if not is_fresh:
            LOG.warning("the checkpoint doesn't say which version of the table was read: the newest is read now")
        # One rank chooses for all: on two versions, ranks would read some rows twice and others never.
        version = first_does(current_ranks(), lambda: int(_open(uri, name).version))
    table = _open(uri, name)
    _check_out(table, version, recorded.get("tag"), f"table {name} in {uri}")
    _check_rows(table, recorded, f"table {name} in {uri}")
    return table


def _place(uri: str) -> str:
    return os.path.realpath(uri) if is_local(uri) else uri


def _open(uri: str, name: str) -> Any:
    import lancedb

    if is_local(uri) and not os.path.isdir(uri):  # connect() would make it, and find it empty
        raise NotFound("there is no such directory of tables", where=uri, hint="Name the one that holds the table")
    try:
        return lancedb.connect(uri).open_table(name)
    except (ValueError, FileNotFoundError) as error:
        raise NotFound(f"table {name} can't be opened ({error})", where=uri) from error


def _check_out(table: Any, version: int, tag: str | None, where: str) -> None:
    try:
        table.checkout(version)
    except (ValueError, RuntimeError) as error:
        held = f"; its tag {tag} is gone" if tag else ""
        raise NotFound(
            f"version {version}, which was read, can't be checked out ({error}{held})",
            where=where,
            hint="On another version the rows come in another order: start the epoch again, without the position",
        ) from error


def _check_rows(table: Any, recorded: dict[str, Any], where: str) -> None:
    """Another table may have the same version number; the number of its rows seldom agrees as well."""
    rows = recorded.get("num_rows")
    if rows is None or recorded.get("filter") is not None:
        return
    here = table.count_rows()
    if here != rows:
        raise BadState(f"has {here:,} rows; the old run read {rows:,}", where=where, hint="Name the table it read")


def check_reading(options: dict[str, Any], recorded: dict[str, Any], *, exactly: bool) -> dict[str, Any]:
    """The options for the dataset, with those of the old run where the script names none.

    `exactly`: a saved position will be used, so every option that decides the order must be what it was. Raises
    BadState with both values.
    """
    filled = dict(options)
    for key in READING:
        if key not in recorded:
            continue
        old = recorded[key]
        if key not in filled:
            if old is not None and not (key == "on_transform_error" and old not in ("raise", "skip", "warn")):
                filled[key] = old
        elif exactly and key not in HARMLESS and _in_words(filled[key]) != old and not _is_estimate(key, filled, old):
            raise BadState(
                f"the script reads with {key}={filled[key]!r}, the old run with {old!r}: another order of rows",
                hint=f"Leave {key} out, or start the epoch again",
            )
    if exactly and isinstance(recorded.get("blocks_per_epoch"), int):
        filled["blocks_per_epoch"] = recorded["blocks_per_epoch"]
    return filled


def _is_estimate(key: str, options: dict[str, Any], old: Any) -> bool:
    """`blocks_per_epoch="auto"` was counted once; the number that came out is used again."""
    return key == "blocks_per_epoch" and options[key] == "auto" and isinstance(old, int)


def _in_words(value: Any) -> Any:
    return getattr(value, "__qualname__", None) or repr(value) if callable(value) else value
