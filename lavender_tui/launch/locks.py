"""Nobody else resumes this run right now: a document beside the runs says so to every machine that sees them.

`ROOT/.lavender-tui/locks/<run>-<hash>.json` names who resumes the run, and is there only meanwhile. The lock on the
run's directory (flock) is held too: it ends with its process, but no other machine sees it, and some mounts have none.
Nothing is written into the run itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lavender_tui.errors import AlreadyRunning, LaunchFailed
from lavender_tui.launch.lock_files import Found, Locks, Taken, found_at
from lavender_tui.launch.run_dir import try_lock
from lavender_tui.model.text import clean, duration

WAIT = "Wait until that resume has started, then look at its run"
_HARMLESS = re.compile(r"[A-Za-z0-9_.+-]{1,80}")


@dataclass(slots=True)
class Held:
    """A lock that this process holds; `path` is its document, None where none could be made."""

    run: str
    path: str | None
    locks: Locks | None = None
    token: str = ""

    def confirm(self) -> None:
        """Say that the work goes on. Raises AlreadyRunning where this process was silent for so long that it lost it.

        To be called after whatever may take long, and right before what can't be undone.
        """
        if self.locks is not None and not self.locks.refresh(self.token):
            raise AlreadyRunning(
                "this resume took too long, and its lock is gone or another's by now", where=self.run, hint=WAIT
            )


@contextmanager
def resume_lock(old_run: str) -> Iterator[Held]:
    """Keep every other resume of `old_run` away while the block runs; raises AlreadyRunning where one is at work.

    A lock whose holder is dead is taken over; of several takers one gets it. Where the root can't be written, only the
    directory itself is locked, which no other machine sees. Raises LaunchFailed where it can't even be opened.
    """
    try:
        descriptor = os.open(old_run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LaunchFailed(f"can't be locked ({error.strerror or error})", where=old_run) from error
    try:
        if not try_lock(descriptor):
            raise AlreadyRunning(who_resumes(old_run) or "somebody else is resuming it", where=old_run, hint=WAIT)
        with _document(old_run) as held:
            yield held
    finally:
        os.close(descriptor)


@contextmanager
def _document(old_run: str) -> Iterator[Held]:
    directory, name = place_of(old_run)
    try:
        locks = Locks(directory, name)
    except OSError:
        yield _without(old_run)
        return
    with locks:
        held = _taken(old_run, locks, os.path.join(directory, name))
        try:
            yield held
        finally:
            if held.locks is not None:
                locks.release(held.token)


def _taken(old_run: str, locks: Locks, path: str) -> Held:
    try:
        return Held(old_run, path, locks, locks.take())
    except Taken as error:
        raise _refusal(old_run, path, error.found) from error
    except OSError:
        return _without(old_run)


def _without(old_run: str) -> Held:
    """No room, or no right to write there: the flock has to do, beside what others could write."""
    path = os.path.join(*place_of(old_run))
    found = found_at(path)
    if found is not None and not found.is_stale:
        raise _refusal(old_run, path, found)
    return Held(old_run, None)


def _refusal(old_run: str, path: str, found: Found) -> AlreadyRunning:
    return AlreadyRunning(in_words(found), where=old_run, hint=f"{WAIT}; if none is at work, remove {clean(path)}")


def place_of(old_run: str) -> tuple[str, str]:
    """(directory of the locks, name of this run's), the same however the run is named and wherever it is mounted."""
    root, run = os.path.split(os.path.realpath(old_run))
    digest = hashlib.sha256(os.fsencode(run)).hexdigest()[:10]
    shown = run if _HARMLESS.fullmatch(run) else "run"
    return os.path.join(root, ".lavender-tui", "locks"), f"{shown}-{digest}.json"


def who_resumes(old_run: str) -> str | None:
    """One sentence on who is resuming the run, as far as can be seen without writing anything; None for nobody."""
    directory, name = place_of(old_run)
    found = found_at(os.path.join(directory, name))
    if found is not None and not found.is_stale:
        return in_words(found)
    pid = _flocked_by(old_run)
    return None if pid is None else f"another process of this machine is resuming it (pid {pid})"


def in_words(found: Found) -> str:
    """Such as: gpu-07 is resuming it since 40 s (pid 123)."""
    holder = found.holder
    if holder is None:
        return f"somebody is resuming it since {duration(max(0.0, found.age_seconds))}"
    since = max(0.0, time.time() - holder.since if holder.is_on_this_host else found.age_seconds)
    return f"{clean(holder.host, 60)} is resuming it since {duration(since)} (pid {holder.pid})"


def _flocked_by(directory: str) -> int | None:
    """The process that holds the directory's flock, without touching that; None also where this can't be seen."""
    with suppress(OSError, ValueError, IndexError):
        facts = os.stat(directory)
        inode = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}:{facts.st_ino}"
        with open("/proc/locks", encoding="ascii") as file:
            for line in map(str.split, file):
                # 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
                if line[1] == "FLOCK" and line[5] == inode and int(line[4]) > 0:
                    return int(line[4])
    return None
