"""A keeper in the background: a session of its own, its words in a log beside the runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from lavender_tui.errors import AlreadyRunning, LaunchFailed, NotFound
from lavender_tui.launch import journal, keepers
from lavender_tui.launch.environment import outside_of_runs
from lavender_tui.launch.files import open_regular
from lavender_tui.model.text import clean
from lavender_tui.resume.keeper import FINISHED, GAVE_UP, STOPPED, Limits

PATIENCE_SECONDS = 60.0  # a busy machine imports slowly
DECIDING_SECONDS = 120.0  # to find a start, and to read what it starts from
_DECIDED = (FINISHED, GAVE_UP, STOPPED)
_LOG_BYTES = 1 << 20  # of words from keepers of before, kept in one file
_TOLD_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """A keeper: its pid, and where its words go. `code`: where it found nothing to keep, the exit code that it ended
    with, and `said` its last sentence."""

    pid: int
    log: str
    code: int | None = None
    said: str = ""


def keep_detached(run_dir: str, limits: Limits, command: Sequence[str] = ()) -> Detached:
    """Start a keeper of the run that outlives this process and its terminal; returns when it has something to keep, or
    has ended because there is nothing.

    Call it in a worker: it takes a second or more. Raises AlreadyRunning where the run is kept already, NotFound where
    there is none, LaunchFailed with the keeper's own words where it failed.
    """
    directory, name = keepers.place_of(run_dir)
    log = os.path.join(directory, f"{name}.log")
    words = ["supervise", run_dir, "--tries", str(limits.tries), "--backoff", str(limits.backoff_seconds)]
    if limits.world_sizes:
        words += ["--world-sizes", ",".join(map(str, limits.world_sizes))]
    descriptor = _open_log(directory, log)
    try:
        begun_at = os.fstat(descriptor).st_size
        process = subprocess.Popen(
            [sys.executable, "-m", "lavender_tui", *words, *(("--", *command) if command else ())],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            env=outside_of_runs(),
        )
    except OSError as error:
        raise LaunchFailed(f"the keeper can't be started ({error.strerror or error})", where=sys.executable) from error
    finally:
        os.close(descriptor)
    if (code := _wait_until_it_keeps(run_dir, process, log)) is not None:
        said = _told(log, begun_at)
        _raise_unless_done(code, run_dir, said)
        return Detached(pid=process.pid, log=log, code=code, said=said)
    # Where this process outlives it, as the app may, it leaves no zombie.
    threading.Thread(target=process.wait, name="keeper", daemon=True).start()
    return Detached(pid=process.pid, log=log)


def _open_log(directory: str, path: str) -> int:
    try:
        os.close(journal.open_directory(os.path.dirname(os.path.dirname(directory))))
        os.makedirs(directory, exist_ok=True)
        if os.path.lexists(path) and os.path.getsize(path) > _LOG_BYTES:
            os.replace(path, f"{path}.1")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(path, flags, 0o644)
    except OSError as error:
        raise LaunchFailed(f"the keeper's log can't be written ({error.strerror or error})", where=path) from error


def _wait_until_it_keeps(run_dir: str, process: subprocess.Popen[bytes], log: str) -> int | None:
    """Its exit code where it has ended. One that is up but takes long to decide is left to it."""
    root = os.path.realpath(journal.root_of(run_dir))
    begun = time.monotonic()
    while time.monotonic() - begun < DECIDING_SECONDS:
        standing = _standing_of(process.pid, root)
        if standing is not None and standing.is_settled:
            return None
        if process.poll() is not None:
            return process.returncode
        if standing is None and time.monotonic() - begun > PATIENCE_SECONDS:
            process.kill()
            process.wait()
            raise LaunchFailed(f"the keeper didn't come up within {PATIENCE_SECONDS:.0f} s", where=log)
        time.sleep(0.02)
    return None


def _standing_of(pid: int, root: str) -> keepers.Standing | None:
    """Where the keeper with that pid stands; None as long as it has no post."""
    for seen in keepers.seen_in(root).values():
        kept = seen.now()
        if kept is not None and kept.pid == pid:
            return seen.standing
    return None


def _raise_unless_done(code: int, run_dir: str, told: str) -> None:
    """What the keeper decided is an answer; that it could not keep is an error."""
    if code in _DECIDED:
        return
    if "kept alive already" in told:
        raise AlreadyRunning(told, where=run_dir, hint="End that keeper first")
    kind = NotFound if code == NotFound.exit_code else LaunchFailed
    raise kind(told or f"the keeper ended at once (exit code {code})", where=run_dir)


def _told(log: str, begun_at: int) -> str:
    """Its last line, without who says it."""
    try:
        with open(open_regular(log), "rb") as file:
            file.seek(begun_at)
            lines = file.read(64 * _TOLD_BYTES)[-_TOLD_BYTES:].decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return clean(lines[-1].rpartition("lavender-tui: ")[2], 400) if lines else ""
