"""What lies in one run directory, by one scandir: names and stat, nothing is opened."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass, field
from functools import lru_cache

from lavender_tui.checkpoints import is_checkpoint_name as _is_checkpoint_name
from lavender_tui.checkpoints.names import first_of_ranks, rank_stem, stem_of
from lavender_tui.checkpoints.parts import Family, family_of_name
from lavender_tui.launch.files import LOCK
from lavender_tui.model.checkpoint import FileFacts, parse_name
from lavender_tui.model.run import cant_read
from lavender_tui.model.text import clean
from lavender_tui.watch.index import Companions

DOCUMENT_NAMES = ("launch.json", "stop.json", "exit.json", "resume.json", "request.json")
ACTIVITY_NAMES = ("metrics.jsonl", "train.log")
MAX_ENTRIES = 50_000  # of one directory; more is said, not walked
is_checkpoint_name = lru_cache(maxsize=1 << 16)(_is_checkpoint_name)  # every look asks for the same names again
_NUMBERS = re.compile(r"[0-9]+")
_RANK_DIRECTORY = re.compile(r"rank[_-]?[0-9]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """A checkpoint file as scandir saw it."""

    name: str
    path: str
    facts: FileFacts
    companions: Companions = ()


@dataclass(slots=True)
class Listing:
    """One run directory. `documents` and `activity` map the well-known names to what stat says.

    `parts` has the names of other programs' files that are no checkpoint alone, by the format that they are parts of.
    """

    path: str
    directory_mtime_ns: int = 0
    directory_mode: int = 0
    is_gone: bool = False
    unreadable: str | None = None  # the system's reason
    found: list[Found] = field(default_factory=list)
    documents: dict[str, FileFacts] = field(default_factory=dict)
    activity: dict[str, FileFacts] = field(default_factory=dict)
    heartbeat_ns: int | None = None  # when the run's supervisor last touched its lock
    parts: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def may_hold_a_run(name: str) -> bool:
    """Is a directory with a file of this name worth a row: for a checkpoint, or to say what else it holds?"""
    return is_checkpoint_name(name) or part_of(name) is not None or first_of_ranks(name) is not None


@lru_cache(maxsize=1 << 16)
def part_of(name: str) -> Family | None:
    """Whose part a file of this name is; None for hidden files: other tools have a `.metadata`, too."""
    return None if name.startswith(".") else family_of_name(name)


def list_run(path: str) -> Listing:
    """List one run directory. Never raises: what can't be read is a warning of the listing."""
    listing = Listing(path)
    try:
        info = os.stat(path)
        listing.directory_mtime_ns, listing.directory_mode = info.st_mtime_ns, info.st_mode
        with os.scandir(path) as entries:
            _take_entries(listing, entries)
        if not listing.found:
            _take_first_rank(listing)
    except (FileNotFoundError, NotADirectoryError):
        listing.is_gone = True
    except OSError as error:
        listing.unreadable = error.strerror or "no reason is given"
        listing.warnings.append(cant_read(listing.unreadable))
    return listing


def why_shut(path: str) -> str | None:
    """The system's reason where a directory can't be listed, "" where there is none; None where it can."""
    try:
        os.scandir(path).close()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return error.strerror or "no reason is given"
    return None


def _take_entries(listing: Listing, entries: os._ScandirIterator[str]) -> None:
    firsts: list[Found] = []
    beside: list[tuple[str, int, int]] = []
    for count, entry in enumerate(entries):
        if count >= MAX_ENTRIES:
            listing.warnings.append(f"more than {MAX_ENTRIES:,} files here; the rest isn't looked at")
            break
        try:
            _take_entry(listing, entry, firsts, beside)
        except FileNotFoundError:
            continue  # renamed or deleted between the listing and the stat
        except OSError as error:
            listing.warnings.append(f"{clean(entry.name)} can't be examined ({error.strerror})")
    listing.warnings.sort()
    stems = {stem_of(one.name) for one in listing.found} if firsts else set()
    listing.found += [one for one in firsts if first_of_ranks(one.name) not in stems]
    _attach(listing, beside)


def _take_first_rank(listing: Listing) -> None:
    """A run that keeps a directory for each rank: its checkpoints go by the files of rank 0."""
    for name in ("rank0", "rank_0", "rank-0"):
        directory = os.path.join(listing.path, name)
        if os.path.isdir(directory) and not os.path.islink(directory):
            ranks = tuple(
                sorted((one, *_size_and_time(os.path.join(listing.path, one))) for one in _ranks(listing.path))
            )
            with os.scandir(directory) as entries:
                for entry in entries:
                    if is_checkpoint_name(entry.name) and entry.is_file(follow_symlinks=False):
                        facts = FileFacts.of(entry.stat(follow_symlinks=False))
                        listing.found.append(Found(entry.name, entry.path, facts, ranks))


def _ranks(path: str) -> list[str]:
    return [name for name in os.listdir(path) if _RANK_DIRECTORY.fullmatch(name)]


def _size_and_time(path: str) -> tuple[int, int]:
    info = os.stat(path)
    return info.st_size, info.st_mtime_ns


def _take_entry(
    listing: Listing, entry: os.DirEntry[str], firsts: list[Found], beside: list[tuple[str, int, int]]
) -> None:
    name = entry.name
    if entry.is_symlink():
        warning = _link_warning(entry) if is_checkpoint_name(name) else None
        if warning:
            listing.warnings.append(warning)
    elif name in DOCUMENT_NAMES or name in ACTIVITY_NAMES:
        table = listing.documents if name in DOCUMENT_NAMES else listing.activity
        if entry.is_file(follow_symlinks=False):
            table[name] = FileFacts.of(entry.stat(follow_symlinks=False))
    elif name == LOCK:
        listing.heartbeat_ns = entry.stat(follow_symlinks=False).st_mtime_ns
    elif (family := part_of(name)) is not None:
        if entry.is_file(follow_symlinks=False):
            listing.parts.setdefault(family.format, []).append(name)
    elif is_checkpoint_name(name):
        if entry.is_file(follow_symlinks=False):
            listing.found.append(Found(name, entry.path, FileFacts.of(entry.stat(follow_symlinks=False))))
        elif not entry.is_dir(follow_symlinks=False):
            listing.warnings.append(f"{clean(name)} is no regular file and isn't opened")
    elif "rank" in name and not name.startswith("."):
        info = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(info.st_mode) or (stat.S_ISDIR(info.st_mode) and _RANK_DIRECTORY.fullmatch(name)):
            beside.append((name, info.st_size, info.st_mtime_ns))
            if stat.S_ISREG(info.st_mode) and first_of_ranks(name) is not None:
                firsts.append(Found(name, entry.path, FileFacts.of(info)))


def name_order(found: Found) -> tuple[int, int, int]:
    """Before anything is read: by the save_count of the name, else by its last number, else by time."""
    _, save_count = parse_name(found.name)
    numbers = _NUMBERS.findall(found.name)
    last = int(numbers[-1]) if numbers and len(numbers[-1]) < 19 else -1
    return (save_count if save_count is not None else -1, last, found.facts.mtime_ns)


def _link_warning(entry: os.DirEntry[str]) -> str | None:
    """Links are never counted; a link that leads nowhere is worth a word."""
    try:
        entry.stat()
    except FileNotFoundError:
        return f"{clean(entry.name)} is a link to a file that is gone"
    except OSError as error:
        why = "that goes in a circle" if error.errno == errno.ELOOP else f"that can't be followed ({error.strerror})"
        return f"{clean(entry.name)} is a link {why}"
    return None


def _attach(listing: Listing, beside: list[tuple[str, int, int]]) -> None:
    """Give each checkpoint the rank-state files that are named after it, and every rank directory."""
    if not beside:
        return
    beside.sort()
    directories = tuple(one for one in beside if _RANK_DIRECTORY.fullmatch(one[0]))
    by_stem: dict[str, list[tuple[str, int, int]]] = {}
    for one in beside:
        if (stem := rank_stem(one[0])) is not None:
            by_stem.setdefault(stem, []).append(one)
    listing.found = [
        Found(one.name, one.path, one.facts, directories + _named_after(one.name, by_stem)) for one in listing.found
    ]


def _named_after(name: str, by_stem: dict[str, list[tuple[str, int, int]]]) -> Companions:
    """The rank files of its stem; where it is itself rank 0's file, those of the other ranks."""
    stem, own = stem_of(name), rank_stem(name)
    after = [*by_stem.get(stem, ()), *(by_stem.get(own, ()) if own is not None else ())]
    return tuple(one for one in after if one[0] != name)
