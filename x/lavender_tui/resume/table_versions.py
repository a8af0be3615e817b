"""Which versions a Lance table on this machine still has, from the names in its `_versions` directory.

Nothing of Lance is imported and nothing is opened: this is the look that a plan takes. The launch asks Lance itself.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

_MANIFEST = re.compile(r"([0-9]{1,20})\.manifest")
_NEWEST_FIRST = 1 << 62  # names above this are 2**64 - 1 - version, so that a listing begins with the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """`exists` None where it can't be seen from here (another kind of storage)."""

    exists: bool | None
    versions: tuple[int, ...] = ()

    @property
    def current(self) -> int | None:
        return max(self.versions, default=None)


def look(uri: str, table: str) -> TableFiles:
    """`uri` is the database's, as for `lancedb.connect`; `table` the table's name. Never raises."""
    if uri.startswith("file://"):
        uri = uri.removeprefix("file://")
    if "://" in uri:
        return TableFiles(exists=None)
    path = os.path.join(os.path.expanduser(uri), f"{table}.lance")
    if "\0" in path or not os.path.isdir(path):
        return TableFiles(exists=False)
    try:
        names = os.listdir(os.path.join(path, "_versions"))
    except OSError:
        return TableFiles(exists=True)
    numbers = [int(match[1]) for name in names if (match := _MANIFEST.fullmatch(name))]
    versions = sorted((1 << 64) - 1 - number if number > _NEWEST_FIRST else number for number in numbers)
    return TableFiles(exists=True, versions=tuple(versions))
