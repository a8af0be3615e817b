"""What a rank state doesn't say: which table, at which version, read how. Each of it changes the rows' order."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from lavender_tui import __version__
from lavender_tui.launch.code_version import code_version
from lavender_tui.training.fingerprint import sample_of

# Keyword arguments of StreamingDataset that decide which rows come in which order.
READING = (
    "filter",
    "shuffle",
    "shuffle_clump_size",
    "columns",
    "on_transform_error",
    "pack_sequences",
    "eos_id",
    "pad_id",
    "blocks_per_epoch",
)
_MISSING = object()


def describe(dataset: Any, table: Any = None, told: dict[str, Any] | None = None) -> dict[str, Any]:
    """The checkpoint's `data`: where the rows come from and how they are read.

    What the script tells comes first. Else the table's public attributes, and of the dataset what lancedb (0.38 to
    0.40) keeps under private names: absent in another version, they are left out, never guessed.
    """
    told = dict(told or {})
    table = table if table is not None else _kept(dataset, "table", None)
    record: dict[str, Any] = {} if table is None else _describe_table(table)
    if table is not None:
        record["num_rows"] = count_rows(table, told.get("filter", _kept(dataset, "filter", None)))
    version = _base_version(dataset)
    if version is not None:
        record["version"] = version
    if table is not None and record.get("version") == _public(table, "version"):
        sample = fingerprint(table)
        record.update({"sample": sample} if sample is not None else {})
    for key in READING:
        value = _kept(dataset, key, _MISSING)
        if value is not _MISSING:
            record[key] = _in_words(value)
    record.update({key: _in_words(value) for key, value in told.items()})
    return record


def _describe_table(table: Any) -> dict[str, Any]:
    name = _public(table, "name")
    return {
        "uri": database_uri(_public(table, "uri"), name),
        "table": name,
        "version": _public(table, "version"),
    }


def count_rows(table: Any, filter: str | None) -> int | None:
    """The rows that an epoch reads: those that pass the filter."""
    try:
        return int(table.count_rows(filter))
    except (NotImplementedError, RuntimeError, ValueError, OSError):
        return None


def fingerprint(table: Any) -> str | None:
    """`sample_of`, None where the table can't be read from right now."""
    try:
        return sample_of(table)
    except (NotImplementedError, RuntimeError, ValueError, OSError):
        return None


def database_uri(table_uri: str | None, name: str | None) -> str | None:
    """The uri for `lancedb.connect`, from the uri of a table in it; a local one as an absolute path."""
    if not table_uri or not name:
        return table_uri
    folder, last = table_uri.rstrip("/").rpartition("/")[::2]
    uri = folder if last == f"{name}.lance" else table_uri
    return os.path.abspath(uri) if is_local(uri) else uri


def is_local(uri: str) -> bool:
    """A path of this machine, and not s3://, gs://, db://, memory:// and the like."""
    return "://" not in uri


def _public(table: Any, name: str) -> Any:
    """A public attribute, None where this kind of table can't say (remote tables raise in several places)."""
    try:
        return getattr(table, name)
    except (AttributeError, NotImplementedError, RuntimeError, ValueError, OSError):
        return None


def _kept(dataset: Any, name: str, default: Any) -> Any:
    return getattr(dataset, f"_{name}", default)


def _base_version(dataset: Any) -> int | None:
    """The version that the dataset pinned when it was built: the table's handle may have moved on since."""
    metadata = getattr(getattr(_kept(dataset, "perm_table", None), "schema", None), "metadata", None) or {}
    text = metadata.get(b"base_version")
    return int(text) if text is not None and text.isdigit() else None


def _in_words(value: Any) -> Any:
    """A function (`on_transform_error` may be one) by its name."""
    return getattr(value, "__qualname__", None) or repr(value) if callable(value) else value


def versions() -> dict[str, Any]:
    """The checkpoint's `versions`: the libraries, and the code's commit where git knows one.

    Ask once, when the training begins: that is the code that runs, whatever is edited later. Never raises.
    """
    found: dict[str, Any] = {"python": platform.python_version(), "lavender_tui": __version__}
    for package in ("torch", "lancedb"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    code = code_version(_script_directory())
    if code is not None:
        found["git_commit"] = code.commit
        if code.changed is not None:
            found["git_changed"] = code.changed
    return found


def _script_directory() -> str:
    """Where the training's script lies; the working directory in a notebook or a shell."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.realpath(script)) if script else os.curdir


class Pins:
    """The tags that keep a run's table versions from being cleaned up while the run can still be resumed.

    One tag for each version that the run reads: `lavender-<run>`, then `lavender-<run>-v<version>`. A resumed run
    makes its own and remembers those of the runs before it. A run that ends well drops them all; a run that ends
    in another way leaves them, because it is the one that will be resumed. A tag that can't be made or dropped is a
    warning: training never stops for it.
    """

    def __init__(self, run_name: str, inherited: list[dict[str, Any]] | None = None) -> None:
        self._base = f"lavender-{run_name}"
        self.inherited = list(inherited or [])
        self._tables: dict[str, tuple[Any, int]] = {}  # tag → table, version

    def pin(self, table: Any, version: int | None) -> tuple[str | None, str | None]:
        """(the tag that holds this version, None), or (None, why there is none)."""
        if version is None:
            return None, "the table's version isn't known; name it with set_dataset(..., version=)"
        for tag, (known, pinned) in self._tables.items():
            if pinned == version and _public(known, "uri") == _public(table, "uri"):
                return tag, None
        try:
            tag = self._make(table, version)
        except Exception as error:  # whatever a storage backend raises: the training goes on without the tag
            return None, f"no tag on version {version} of the table ({error}); a cleanup may remove it"
        self._tables[tag] = (table, version)
        return tag, None

    def _make(self, table: Any, version: int) -> str:
        existing = table.tags.list()
        tag = self._base
        if self._tables or (tag in existing and int(existing[tag]["version"]) != version):
            tag = f"{self._base}-v{version}"
        if tag not in existing:
            table.tags.create(tag, version)
        return tag

    def drop(self) -> list[str]:
        """Delete this run's tags and the inherited ones of the same tables. Returns what could not be deleted."""
        complaints = []
        for tag, (table, _) in self._tables.items():
            complaints += self._delete(table, tag)
            for old in self.inherited:
                if old.get("tag") and old.get("table") == _public(table, "name"):
                    complaints += self._delete(table, old["tag"])
        self._tables.clear()
        return complaints

    def _delete(self, table: Any, tag: str) -> list[str]:
        try:
            if tag in table.tags.list():
                table.tags.delete(tag)
        except Exception as error:  # as above: what is left behind is said, nothing else depends on it
            return [f"tag {tag} is still on the table ({error})"]
        return []
