"""The run's own record: launch.json and exit.json, where nobody supervises the training and writes them."""

from __future__ import annotations

import atexit
import os
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from lavender_tui.errors import UsageError
from lavender_tui.launch import record
from lavender_tui.launch.files import HELD, LAUNCH
from lavender_tui.launch.run_dir import new_run_dir
from lavender_tui.model.failure import Failure, brief, lost_rank
from lavender_tui.model.run import Lineage
from lavender_tui.training.ranks import Ranks, first_does

_LONGEST = 500  # characters of an error
_claimed: set[str] = set()  # prepared directories that a manager of this process has taken


def claim_run_dir(root: str) -> str:
    """The directory that the launcher prepared, for the first manager of this process; else a new one under `root`.

    Raises UsageError where that run has ended: its variables are left over in a shell, and no old run is written to.
    """
    prepared = os.environ.get("LAVENDER_RUN_DIR")
    if prepared and os.path.abspath(prepared) not in _claimed:
        prepared = os.path.abspath(prepared)
        if has_ended(prepared):
            raise UsageError(
                "LAVENDER_RUN_DIR is left over from a run that has ended",
                where=prepared,
                hint="Unset LAVENDER_RUN_DIR, LAVENDER_RUN_ID and LAVENDER_RESUME_PLAN",
            )
        os.makedirs(prepared, exist_ok=True)
        _claimed.add(prepared)
        return prepared
    return new_run_dir(root)


def has_ended(run_dir: str) -> bool:
    """Its end is recorded, and this is no worker that torchrun starts again."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0" and record.read_exit(run_dir) is not None


@dataclass(frozen=True, slots=True)
class Ending:
    """`status`: "finished" (all epochs, or the final stage), "ended", "stopped" (asked to) or "failed".

    `code` is None where nobody can know it; `by` the signal that asked for the end, `signal` the one that ended it.
    """

    status: str
    code: int | None
    error: str | None = None
    signal: str | None = None
    by: str | None = None
    failure: Failure | None = None

    def in_words(self) -> dict[str, str]:
        values = {"status": self.status, "by": self.by, "signal": self.signal, "error": self.error}
        return {key: value for key, value in values.items() if value is not None}


def how_it_ended(error: BaseException, world_size: int = 1) -> Ending:
    """What an exception that leaves rank 0 means: Ctrl-C, `sys.exit` with its code, or a failure."""
    if isinstance(error, KeyboardInterrupt):
        return Ending("failed", None, error="KeyboardInterrupt", signal="SIGINT")
    if not isinstance(error, SystemExit):
        failure = _failure(f"{type(error).__name__}: {error}"[:_LONGEST], world_size)
        return Ending("failed", 1, error=failure.words, failure=failure)
    if error.code is None or isinstance(error.code, int):
        code = (error.code or 0) & 0xFF
        return Ending("failed" if code else "ended", code)
    return Ending("failed", 1, error=str(error.code)[:_LONGEST])


def _failure(exception: str, world_size: int) -> Failure:
    """Of a rank among several it may be the mere consequence of another one's end, of which nothing is known here."""
    if world_size == 1:
        return Failure(words=brief(exception), exception=exception)
    if (gone := lost_rank(exception)) is None:
        return Failure(words=f"rank 0: {brief(exception)}", rank=0, exception=exception)
    is_one_node = os.environ.get("LOCAL_WORLD_SIZE") == str(world_size)
    other = "another rank, which ended first" if is_one_node else "another rank, or the network to it"
    return Failure(words=f"rank 0 lost {other} ({gone})", rank=0, exception=exception)


class RunRecord:
    """Writes `launch.json` when the training begins and `exit.json` when it ends, unless a supervisor does.

    `exit.json` has the exit code where it is known: 0 after `close()`, 1 after an exception that ends the script,
    none where a script without `close()` just ends (it may have called `sys.exit` with any number).
    """

    def __init__(self, run_dir: str, *, world_size: int, resumed_from: Lineage | None) -> None:
        self._run_dir, self._began, self._pid = run_dir, time.time(), os.getpid()
        self._world_size = world_size
        self._ending = Ending("ended", None)
        self._ended = False
        self._hook_before: Any = None
        # Every launcher writes its record before the training begins. The variables alone tell nothing: they may be
        # inherited from an outer training.
        is_recorded = os.path.lexists(os.path.join(run_dir, LAUNCH))
        self.is_ours = not is_recorded and self._write_launch(world_size, resumed_from)
        if self.is_ours:
            self._hook_before, sys.excepthook = sys.excepthook, self._exception_came
            atexit.register(self._at_exit)

    def end(self, ending: Ending) -> None:
        """Record the end once. Never raises: the training is over, and its exit code must not change for this."""
        if not self.is_ours or self._ended or os.getpid() != self._pid:
            return
        self._ended = True
        now = time.time()
        ended = record.ExitRecord(
            code=ending.code,
            signal=ending.signal,
            ended_at=now,
            stop={"who": ending.by} if ending.by else None,
            error=ending.error,
            failure=ending.failure.to_json() if ending.failure is not None else None,
            wall_s=round(now - self._began, 3),
        )
        try:
            record.write_exit(self._run_dir, ended)
        except OSError as problem:
            print(f"lavender-tui: the end could not be recorded: {problem}", file=sys.stderr)

    def release(self) -> None:
        """Take the hooks out again; a notebook goes on after its run has ended."""
        if not self.is_ours:
            return
        atexit.unregister(self._at_exit)
        if sys.excepthook == self._exception_came:
            sys.excepthook = self._hook_before

    def _write_launch(self, world_size: int, resumed_from: Lineage | None) -> bool:
        described = record.describe_this_process(self._run_dir, world_size=world_size, resumed_from=resumed_from)
        try:
            record.write_launch(self._run_dir, described)
        except FileExistsError:
            return False  # started again in the same directory, or recorded by another hand
        return True

    def _exception_came(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        self._ending = how_it_ended(error, self._world_size)
        self._hook_before(kind, error, traceback)

    def _at_exit(self) -> None:
        self.end(self._ending)


class Hold:
    """A file of the run directory that this rank holds open until it ends, though nothing is ever written to it.

    By that its process is known to be the run's, also when the torchrun of a training that was started by hand is gone
    and nothing else ties its ranks to the run. Workers that it forks hold it too.
    """

    def __init__(self, run_dir: str, *, is_new: bool = False) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if is_new else 0)
        try:
            self._descriptor: int | None = os.open(os.path.join(run_dir, HELD), flags, 0o644)
        except OSError:  # a node without this directory, a full disk: it is known by less then
            self._descriptor = None

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def begin_record(ranks: Ranks, run_dir: str, resumed_from: Lineage | None) -> RunRecord | None:
    """On rank 0, for all: a directory that can't be written to is known now, not after the first half hour."""
    made: list[RunRecord] = []

    def begin_it() -> None:
        made.append(RunRecord(run_dir, world_size=ranks.world_size, resumed_from=resumed_from))
        Hold(run_dir, is_new=True).release()  # the other ranks find it

    first_does(ranks, begin_it)
    return made[0] if made else None
