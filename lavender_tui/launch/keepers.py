"""Who keeps which run alive: one keeper for all the runs that were resumed from one another.

`ROOT/.lavender-tui/keepers/` holds two files a keeper, named after the first run of the family: a lock that is taken
over from the dead by exactly one, and a document that says which run is followed and how many tries are left. A keeper
that ends removes both; one that was killed leaves them, and the next one goes on counting where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from lavender_tui.errors import AlreadyRunning, LaunchFailed
from lavender_tui.launch import journal
from lavender_tui.launch.files import encode, read_document, write_atomically
from lavender_tui.launch.identity import send_signal
from lavender_tui.launch.lock_files import Found, Holder, Locks, Taken, found_at
from lavender_tui.launch.record import is_system_text, read_launch
from lavender_tui.model.kept import KeptBy
from lavender_tui.model.text import clean

DIRECTORY = "keepers"
SCHEMA = 1
MOST_ANCESTORS = 10_000
MOST_KEEPERS = 200
_HARMLESS = re.compile(r"[A-Za-z0-9_.+-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a keeper has come to. `bad`: the checkpoints that its own tries failed at once from, path -> why;
    `stepless`: so many of them, one after the other, before the first step. `is_settled`: there is something to keep, a
    run that lives or a next try; until then the keeper may find that nothing is to be done, and end."""

    run: str
    tries: int
    tries_used: int = 0
    next_try_at: float | None = None
    bad: dict[str, str] = field(default_factory=dict)
    stepless: int = 0
    is_settled: bool = False


def first_of(run_dir: str) -> str:
    """The first run of the family, as far back as records lead; it need not exist any more."""
    path, seen = os.path.realpath(run_dir), set[str]()
    while path not in seen and len(seen) < MOST_ANCESTORS:
        seen.add(path)
        record = read_launch(path)
        if record is None or record.resumed_from is None:
            return path
        path = os.path.realpath(record.resumed_from.run)
    return min(seen)  # records that lead in a circle


def place_of(run_dir: str) -> tuple[str, str]:
    """(the directory of the root's keepers, the name of this family's files without their ending)."""
    first = first_of(run_dir)
    digest = hashlib.sha256(os.fsencode(os.path.basename(first))).hexdigest()[:10]
    shown = os.path.basename(first) if _HARMLESS.fullmatch(os.path.basename(first)) else "run"
    return os.path.join(os.path.realpath(journal.root_of(run_dir)), journal.DIRECTORY, DIRECTORY), f"{shown}-{digest}"


# Being the keeper


class Post:
    """The place of a keeper, while it is held."""

    def __init__(self, path: str, locks: Locks, token: str) -> None:
        self.path, self._locks, self.token = path, locks, token

    def is_held(self) -> bool:
        """Say that the keeper lives; False where it was silent for so long that another one took over."""
        return self._locks.refresh(self.token)

    def predecessor(self) -> Standing | None:
        """Where one stood that was killed."""
        return _standing(read_document(f"{self.path}.json")[0])

    def write(self, standing: Standing) -> None:
        """Raises OSError."""
        write_atomically(f"{self.path}.json", encode({"schema": SCHEMA, **asdict(standing)}), replace=True)

    def told_to_leave(self) -> str | None:
        """Who asked that the run be left alone, while it doesn't run."""
        document, reason = read_document(f"{self.path}.leave")
        if document is None and reason is None:
            return None
        who = (document or {}).get("who")
        return who if isinstance(who, str) and who else "somebody"


@contextmanager
def hold(run_dir: str) -> Iterator[Post]:
    """Be the one keeper of the run's family. Raises AlreadyRunning where another lives, LaunchFailed where the root
    can't be written to."""
    directory, name = place_of(run_dir)
    try:
        locks = Locks(directory, f"{name}.lock")
    except OSError as error:
        raise _no_place(directory, error) from error
    with locks:
        post = _take(run_dir, os.path.join(directory, name), locks)
        try:
            yield post
        finally:
            if post.is_held():  # else it is somebody else's by now
                for ending in ("json", "leave"):
                    _unlink(f"{post.path}.{ending}")
            locks.release(post.token)


def _take(run_dir: str, path: str, locks: Locks) -> Post:
    try:
        post = Post(path, locks, locks.take())
    except Taken as error:
        raise AlreadyRunning(
            f"it is kept alive already, {_who(error.found.holder)}", where=run_dir, hint="End that keeper first"
        ) from error
    except OSError as error:
        raise _no_place(os.path.dirname(path), error) from error
    _unlink(f"{path}.leave")
    return post


def _no_place(directory: str, error: OSError) -> LaunchFailed:
    what = f"nothing can be written beside the runs ({error.strerror or error})"
    return LaunchFailed(what, where=directory, hint="Make room, or keep it alive as the user who owns the root")


def _who(holder: Holder | None) -> str:
    return "by somebody" if holder is None else f"by pid {holder.pid} on {clean(holder.host, 60)}"


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


# Looking at keepers


@dataclass(frozen=True, slots=True)
class Seen:
    """A keeper's document as it was read; whether it lives is for `now` to say."""

    standing: Standing
    lock: str

    def now(self) -> KeptBy | None:
        """None where nobody is named, as between the two files of one that is just leaving."""
        found = found_at(self.lock)
        if found is None or found.holder is None:
            return None
        return KeptBy(
            pid=found.holder.pid,
            host=found.holder.host,
            tries=self.standing.tries,
            tries_used=self.standing.tries_used,
            next_try_at=self.standing.next_try_at,
            is_alive=is_alive(found),
        )


def seen_in(root: str) -> dict[str, Seen]:
    """The run that is followed (its real path) -> who follows it, for every keeper of the root. Never raises."""
    directory = os.path.join(root, journal.DIRECTORY, DIRECTORY)
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".json"))[:MOST_KEEPERS]
    except OSError:
        return {}
    paths = [os.path.join(directory, name) for name in names]
    read = [(path, _standing(read_document(path)[0])) for path in paths]
    return {one.run: Seen(one, f"{path.removesuffix('.json')}.lock") for path, one in read if one is not None}


def is_alive(lock: Found) -> bool | None:
    """None where its process can't be seen from here, and its lock is young."""
    if lock.is_stale:
        return False
    return True if lock.holder is not None and lock.holder.is_here else None


def keeper_of(run_dir: str) -> KeptBy | None:
    """The keeper that follows this run, a dead one too; None where there is none. Never raises."""
    seen = seen_in(os.path.realpath(journal.root_of(run_dir))).get(os.path.realpath(run_dir))
    return seen.now() if seen is not None else None


def tell_to_leave(run_dir: str, who: str) -> KeptBy | None:
    """Ask the living keeper of a run that doesn't run to let it be; the keeper asked, None where there is none."""
    kept = keeper_of(run_dir)
    if kept is None or kept.is_alive is False:
        return None
    directory, name = place_of(run_dir)
    path = os.path.join(directory, name)
    try:
        asked = {"schema": SCHEMA, "who": who, "asked_at": time.time()}
        write_atomically(f"{path}.leave", encode(asked), replace=True)
    except OSError:
        return None
    found = found_at(f"{path}.lock")
    if found is not None and found.holder is not None and found.holder.is_here:
        with suppress(PermissionError):
            send_signal(found.holder.pid, found.holder.start_ticks, signal.SIGUSR1)  # it looks at once
    return kept


def _standing(document: dict[str, Any] | None) -> Standing | None:
    if document is None or document.get("schema") != SCHEMA or not is_system_text(document.get("run")):
        return None
    tries, used, stepless = (document.get(key) for key in ("tries", "tries_used", "stepless"))
    next_try, bad = document.get("next_try_at"), document.get("bad")
    if not all(type(one) is int and 0 <= one < 1 << 31 for one in (tries, used, stepless)):
        return None
    is_time = isinstance(next_try, (int, float)) and not isinstance(next_try, bool) and 0 <= next_try < 1e12
    known = bad if isinstance(bad, dict) and all(isinstance(why, str) for why in bad.values()) else {}
    return Standing(
        run=document["run"],
        tries=tries,  # type: ignore[arg-type]
        tries_used=used,  # type: ignore[arg-type]
        next_try_at=float(next_try) if is_time else None,  # type: ignore[arg-type]
        bad=known,
        stepless=stepless,  # type: ignore[arg-type]
        is_settled=document.get("is_settled") is True,
    )
