"""What a root without runs is: missing, no directory, not to be read, empty, or full of other things."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from lavender_tui.model.run import RUN_NAME
from lavender_tui.watch.listing import may_hold_a_run

MOST_ENTRIES = 10_000  # of the root; that many is "more than"
_MOST_NAMES = 4
_MOST_NEIGHBOURS, _MOST_INSIDE, _MOST_NEAR = 200, 200, 3


class Vacancy(StrEnum):
    """Why there is no run."""

    MISSING = "missing"
    FILE = "file"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    OTHERS = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacantRoot:
    """`why` is the system's reason where it can't be read. `names` are the first of `count` entries. `near` are
    directories beside the root, or beside the first directory above it that exists, which hold runs."""

    path: str
    vacancy: Vacancy
    why: str = ""
    names: tuple[str, ...] = ()
    count: int = 0
    near: tuple[str, ...] = ()


def look_at_root(path: str) -> VacantRoot:
    """One root, in a few directory listings. Never raises."""
    if not os.path.lexists(path):
        return VacantRoot(path=path, vacancy=Vacancy.MISSING, near=_near(path))
    if os.path.exists(path) and not os.path.isdir(path):
        return VacantRoot(path=path, vacancy=Vacancy.FILE, near=_near(path))
    try:
        with os.scandir(path) as entries:
            names = sorted(one.name for one in islice(entries, MOST_ENTRIES))
    except OSError as error:
        return VacantRoot(path=path, vacancy=Vacancy.UNREADABLE, why=error.strerror or str(error), near=_near(path))
    seen = [name for name in names if not name.startswith(".")]
    if not seen:
        return VacantRoot(path=path, vacancy=Vacancy.EMPTY, near=_near(path))
    return VacantRoot(
        path=path, vacancy=Vacancy.OTHERS, names=tuple(seen[:_MOST_NAMES]), count=len(seen), near=_near(path)
    )


def _near(path: str) -> tuple[str, ...]:
    above = os.path.dirname(path)
    while above != os.path.dirname(above) and not os.path.isdir(above):
        above = os.path.dirname(above)
    found = (one for one in _directories(above, _MOST_NEIGHBOURS) if one != path and _holds_runs(one))
    return tuple(islice(found, _MOST_NEAR))


def _directories(path: str, most: int) -> Iterator[str]:
    try:
        with os.scandir(path) as entries:
            yield from sorted(
                one.path for one in islice(entries, most) if not one.name.startswith(".") and one.is_dir()
            )
    except OSError:
        return


def _holds_runs(path: str) -> bool:
    """By the names in it alone, and in the directories right under it."""
    if any(RUN_NAME.fullmatch(os.path.basename(one)) for one in _directories(path, _MOST_INSIDE)):
        return True
    try:
        with os.scandir(path) as entries:
            return any(may_hold_a_run(one.name) and one.is_file() for one in islice(entries, _MOST_INSIDE))
    except OSError:
        return False
