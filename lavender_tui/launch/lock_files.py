"""Files that are locks: made whole and exclusively, and taken over from the dead by exactly one.

A lock file is linked to its name when it is written, so it is whole from the first moment. To take over a dead one with
the token T, the lock named after T has to be taken first: whoever has that is alone, looks again whether T is still
there, and puts its own file in its place by one rename. A taker that dies leaves a dead lock as well, which is taken
over the same way. The age of a lock is told by the file system's own clock: of its file against one just written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from lavender_tui.launch.files import read_opened
from lavender_tui.launch.identity import is_same_process, start_ticks
from lavender_tui.launch.journal import open_directory, person
from lavender_tui.launch.record import Machine, is_system_text, this_machine

# A resume takes seconds, and says after each long step that it goes on: what is older is nobody's any more.
STALE_SECONDS = 600.0
_TRIES = 200  # of a name that others make and remove, or of a directory that they do
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
# Tokens of the locks that this process holds: a file of this pid that isn't among them was left behind.
_ours: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who made a lock file; `since` is in unix seconds by the clock of its host."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    start_ticks: int
    since: float
    who: str
    token: str

    @property
    def is_on_this_host(self) -> bool:
        return self.host == this_machine().host

    @property
    def is_here(self) -> bool:
        """May its pid be looked at from this process?"""
        return this_machine() == Machine(host=self.host, boot_id=self.boot_id, pid_namespace=self.pid_namespace)

    @property
    def is_dead(self) -> bool:
        """Surely; False for what can't be seen from here."""
        if not self.is_here:
            return False
        if self.pid == os.getpid() and self.start_ticks == start_ticks(self.pid):
            return self.token not in _ours
        return not is_same_process(self.pid, self.start_ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A lock file that is there; `holder` is None where it can't be read. `token` tells it from every other one."""

    holder: Holder | None
    token: str
    age_seconds: float

    @property
    def is_stale(self) -> bool:
        """Is nobody behind it any more?"""
        if abs(self.age_seconds) > STALE_SECONDS:
            return True
        return self.holder is not None and (self.holder.is_dead or is_of_earlier_boot(self.holder, self.age_seconds))


def is_of_earlier_boot(holder: Holder, age_seconds: float, uptime_seconds: float | None = None) -> bool:
    """Was it made on this host before the system was started?

    A file younger than that is another machine's that has the same name, as containers do.
    """
    here = this_machine()
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME) if uptime_seconds is None else uptime_seconds
    return holder.host == here.host and holder.boot_id != here.boot_id and age_seconds >= uptime


class Taken(Exception):
    """Somebody else has it."""

    def __init__(self, found: Found) -> None:
        super().__init__("taken")
        self.found = found


class Locks:
    """The lock `name` in a directory, which is made where it is missing, and its like; a context manager."""

    def __init__(self, directory: str, name: str) -> None:
        """Raises OSError where the directory can't be made or opened; never goes through a link."""
        self._root, self._last = os.path.split(directory)
        self.name = name
        self._directory = self._open()

    def __enter__(self) -> Locks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._directory)
        with suppress(OSError):
            self._remove_directories()

    def take(self) -> str:
        """Take the lock and return its token. Raises Taken, and OSError where nothing can be written there."""
        for attempt in range(_TRIES):
            try:
                return self._take(self.name)
            except FileNotFoundError:
                # Whoever was the last one here removed the directory.
                if attempt == _TRIES - 1:
                    raise
                os.close(self._directory)
                self._directory = self._open()
        raise AssertionError("unreachable")

    def refresh(self, token: str) -> bool:
        """Make the lock young again; False where it is no longer the one with this token."""
        if not self._is(token):
            return False
        with suppress(OSError):
            os.utime(self.name, dir_fd=self._directory)
        return True

    def release(self, token: str) -> None:
        """Remove the lock if it is still ours, and what was left behind by others. Never raises."""
        if self.refresh(token):
            with suppress(OSError, Taken):
                self._sweep(os.stat(self.name, dir_fd=self._directory).st_mtime)
            self._remove(self.name)
        self._remove(_temporary(self.name, token))
        _ours.discard(token)

    def _is(self, token: str) -> bool:
        try:
            found = self._find(self.name, 0.0)
        except OSError:
            return False
        return found is not None and found.token == token

    # Taking

    def _take(self, name: str) -> str:
        token = os.urandom(8).hex()
        temporary, data, now = self._write(name, token)
        try:
            for _ in range(_TRIES):
                if self._link(temporary, name, data):
                    return token
                found = self._find(name, now)
                if found is None:
                    continue  # gone in between
                if found.token == token:
                    return token  # a network file system that did it and said that it didn't
                if not found.is_stale:
                    raise Taken(found)
                if self._retire(name, found, temporary):
                    return token
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), name)
        except BaseException:
            _ours.discard(token)
            raise
        finally:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._directory)

    def _write(self, name: str, token: str) -> tuple[str, bytes, float]:
        """(the name of a new file that holds our document, the document, the file system's time)."""
        temporary = _temporary(name, token)
        data = json.dumps(asdict(_this_process(token))).encode("ascii") + b"\n"
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=self._directory
        )
        try:
            if os.write(descriptor, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), temporary)
        except BaseException:
            self._remove(temporary)
            raise
        finally:
            os.close(descriptor)
        _ours.add(token)
        return temporary, data, os.stat(temporary, dir_fd=self._directory).st_mtime

    def _link(self, temporary: str, name: str, data: bytes) -> bool:
        """Give the file its name unless that is taken."""
        try:
            os.link(temporary, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return self._create(name, data)
        return True

    def _create(self, name: str, data: bytes) -> bool:
        """Where a file system has no links: torn for an instant, which is taken for somebody at work."""
        try:
            descriptor = os.open(
                name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=self._directory
            )
        except FileExistsError:
            return False
        try:
            os.write(descriptor, data)
        except BaseException:
            self._remove(name)
            raise
        finally:
            os.close(descriptor)
        return True

    def _retire(self, name: str, stale: Found, successor: str | None = None) -> bool:
        """Remove a stale file, or put the successor in its place, if it is still that one.

        Raises Taken where somebody else is at it.
        """
        claim = f".{hashlib.sha256(f'{name} {stale.token}'.encode()).hexdigest()[:20]}.claim"
        token = self._take(claim)
        try:
            now = self._find(name, 0.0)
            if now is None or now.token != stale.token:
                return False
            if successor is None:
                os.unlink(name, dir_fd=self._directory)
            else:
                os.rename(successor, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            return True
        finally:
            self._remove(claim)
            _ours.discard(token)

    # The directory

    def _open(self) -> int:
        """A descriptor of the directory, made with the rights of the root: who may make runs there may lock them."""
        root = os.path.dirname(self._root)
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # removed in between, by another that leaves
                above = open_directory(root)
                try:
                    return self._open_below(above)
                finally:
                    os.close(above)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._root)

    def _open_below(self, above: int) -> int:
        with suppress(FileExistsError):
            os.mkdir(self._last, dir_fd=above)
            os.chmod(self._last, stat.S_IMODE(os.fstat(above).st_mode) | 0o700, dir_fd=above)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._last, flags, dir_fd=above)

    def _find(self, name: str, now: float) -> Found | None:
        return _found(name, now, directory=self._directory)

    def _remove(self, name: str) -> None:
        """What can't be removed, not even the second time, is made old, so that it holds up nobody."""
        for _ in range(2):
            try:
                os.unlink(name, dir_fd=self._directory)
                return
            except FileNotFoundError:
                return
            except OSError:
                with suppress(OSError):
                    os.utime(name, (0, 0), dir_fd=self._directory)

    def _sweep(self, now: float) -> None:
        """Remove what takers left behind that were killed; `now` by the clock of the file system."""
        for name in os.listdir(self._directory):
            if name.startswith(".") and name.endswith((".tmp", ".claim")):
                found = self._find(name, now)
                if found is not None and found.is_stale:
                    self._retire(name, found)

    def _remove_directories(self) -> None:
        """Where they are empty."""
        os.rmdir(os.path.join(self._root, self._last))
        os.rmdir(self._root)


def _temporary(name: str, token: str) -> str:
    return f".{name}.{token}.tmp"


def _this_process(token: str) -> Holder:
    here = this_machine()
    return Holder(
        host=here.host,
        boot_id=here.boot_id,
        pid_namespace=here.pid_namespace,
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()) or 0,
        since=round(time.time(), 3),
        who=person(),
        token=token,
    )


# Reading


def found_at(path: str) -> Found | None:
    """The lock file at `path`, None where there is none; its age by the local clock. Never raises."""
    try:
        return _found(path, time.time())
    except (OSError, ValueError):
        return None


def _found(path: str, now: float, directory: int | None = None) -> Found | None:
    """Raises OSError where not even its name can be looked up."""
    try:
        facts = os.stat(path, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    holder = None
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            facts = os.fstat(descriptor)  # of the very file that is read
            holder = _holder(read_opened(descriptor)[0])
        finally:
            os.close(descriptor)
    token = holder.token if holder is not None else f"{facts.st_dev}-{facts.st_ino}-{facts.st_mtime_ns}"
    return Found(holder=holder, token=token, age_seconds=now - facts.st_mtime)


def _holder(document: dict[str, Any] | None) -> Holder | None:
    if document is None:
        return None
    texts = {key: document.get(key) for key in ("host", "boot_id", "pid_namespace", "who", "token")}
    pid, ticks, since = document.get("pid"), document.get("start_ticks"), document.get("since")
    if not all(map(is_system_text, texts.values())) or not texts["token"]:
        return None
    if type(pid) is not int or not 0 < pid < 1 << 31 or type(ticks) is not int or not 0 <= ticks < 1 << 63:
        return None
    if type(since) not in (int, float) or not 0 <= since < 1e12:  # type: ignore[operator]
        return None
    return Holder(pid=pid, start_ticks=ticks, since=float(since), **texts)  # type: ignore[arg-type]
