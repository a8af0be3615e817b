"""The table to read on from, at the version that was read, in the way that it was read."""

from __future__ import annotations

import os
from typing import Any

from lavender_tui.errors import BadState, NotFound, UsageError
from lavender_tui.training.loading import LOG
from lavender_tui.training.provenance import READING, count_rows, fingerprint, is_local
from lavender_tui.training.ranks import current_ranks, first_does

# Any columns may be read without changing which rows come when; packed, they are what the tokens come from.
HARMLESS = ("columns",)


def open_table(
    uri: str | None, name: str | None, *, recorded: dict[str, Any], is_fresh: bool, exactly: bool = True
) -> Any:
    """See `Beginning.open_table`. `exactly`: a position in the recorded version will be used."""
    old_uri, old_name = recorded.get("uri"), recorded.get("table")
    uri, name = uri or old_uri, name or old_name
    if not uri or not name:
        raise UsageError("which table to read is not known", hint='Name it: open_table("data", "corpus")')
    if old_uri and (_place(uri), name) != (_place(old_uri), old_name):
        LOG.warning("reading table %s in %s; the old run read %s in %s", name, uri, old_name, old_uri)
    where, version = f"table {name} in {uri}", recorded.get("version")
    if version is None and not is_fresh:
        LOG.warning("the checkpoint doesn't say which version of the table was read: the newest is read now")
    if version is None or not exactly:
        # One rank chooses for all: on two versions, ranks would read some rows twice and others never.
        version = first_does(current_ranks(), lambda: _version_to_read(_open(uri, name), version, where))
    table = _open(uri, name)
    _check_out(table, version, recorded.get("tag"), where)
    if exactly:
        _check_rows(table, recorded, where)
    return table


def _version_to_read(table: Any, recorded: int | None, where: str) -> int:
    """The recorded version where it is still there; else the newest: an epoch from its start has no order to keep."""
    newest = int(table.version)
    if recorded is None:
        return newest
    try:
        table.checkout(recorded)
    except (ValueError, RuntimeError):
        LOG.warning("%s: version %s is gone; the epoch is read from its start, of version %s", where, recorded, newest)
        return newest
    return recorded


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
    """Another table may have the same version number: the number of its rows, or the rows themselves, tell it apart."""
    rows, sample = recorded.get("num_rows"), recorded.get("sample")
    if rows is not None and (here := count_rows(table, recorded.get("filter"))) is not None and here != rows:
        raise BadState(f"has {here:,} rows; the old run read {rows:,}", where=where, hint="Name the table it read")
    if sample is not None and (seen := fingerprint(table)) is not None and seen != sample:
        raise BadState(
            f"has other rows than the old run read (fingerprint {seen}, then {sample})",
            where=where,
            hint="Name the table it read, or start the epoch again, without the position",
        )


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
        elif exactly and not _is_harmless(key, recorded) and not _is_same(key, filled[key], old):
            raise BadState(
                f"the script reads with {key}={filled[key]!r}, the old run with {old!r}: another order of rows",
                hint=f"Leave {key} out, or start the epoch again",
            )
    if exactly and isinstance(recorded.get("blocks_per_epoch"), int):
        filled["blocks_per_epoch"] = recorded["blocks_per_epoch"]
    return filled


def _is_harmless(key: str, recorded: dict[str, Any]) -> bool:
    return key in HARMLESS and recorded.get("pack_sequences") is None


def _is_same(key: str, told: Any, old: Any) -> bool:
    """Clumps of one row are none; `blocks_per_epoch="auto"` was counted once, and that number is used again."""
    if key == "shuffle_clump_size" and {told, old} <= {None, 1}:
        return True
    if key == "columns" and isinstance(told, list | tuple) and isinstance(old, list | tuple):
        return list(told) == list(old)
    return _in_words(told) == old or (key == "blocks_per_epoch" and told == "auto" and isinstance(old, int))


def _in_words(value: Any) -> Any:
    return getattr(value, "__qualname__", None) or repr(value) if callable(value) else value
