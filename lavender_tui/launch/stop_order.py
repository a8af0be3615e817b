"""What all ways to stop a run share: the order, what came of it and the words for that, and the intent on disk."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from lavender_tui.checkpoints import is_checkpoint_name
from lavender_tui.errors import LavenderError
from lavender_tui.launch import journal
from lavender_tui.launch.files import LAUNCH, STOP
from lavender_tui.launch.record import ProcessId, StopRecord, write_stop
from lavender_tui.model.plan import PLAN_NAME

How = Literal["graceful", "interrupt", "kill"]
Save = tuple[str, int, int]  # name, time in nanoseconds and size of a checkpoint
Look = Callable[[list[ProcessId]], list[ProcessId]]  # what is left of these, with what they have started
TICK = 0.05
KILL_PATIENCE = 10.0  # seconds in which even a process that waits for a disk should be gone


class CannotStop(LavenderError):
    """The run's processes can't be told apart from others, or are not ours to signal."""


class CannotRecord(CannotStop):
    """The stop could be carried out, but not be written down: the end would read as a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """How a run shall end: asked by SIGTERM ("graceful") or SIGINT ("interrupt") and given time, or at once ("kill").

    What still lives `grace` seconds after it was asked is ended by force. `who` asks (None: the user of this process).
    Without `wait` nobody stays to see the end. With `unrecorded` it is carried out even where it can't be written down,
    as a kill always is.
    """

    how: How = "graceful"
    grace: float = 30.0
    who: str | None = None
    why: str | None = None
    wait: bool = True
    unrecorded: bool = False

    @property
    def signum(self) -> signal.Signals:
        """The signal that asks."""
        return signal.SIGINT if self.how == "interrupt" else signal.SIGTERM

    @property
    def seconds_to_end(self) -> float:
        return 0.0 if self.how == "kill" else self.grace

    @property
    def asked_by(self) -> str:
        return self.who or journal.person()

    @property
    def options(self) -> tuple[str, ...]:
        """Those of the command that gives the same order elsewhere."""
        return () if self.how == "graceful" else (f"--{self.how}",)

    @property
    def words(self) -> str:
        """What is said of a run that got the order."""
        return {"kill": "told to end at once", "interrupt": "interrupted"}.get(self.how, "asked to save and end")

    @property
    def words_if_killed(self) -> str:
        """What is said of a run that was ended by force: by the order itself, or because it didn't follow it."""
        return "killed, as asked" if self.how == "kill" else "had to be killed: it did not end in time"


GRACEFUL, KILL = StopOrder(), StopOrder(how="kill")


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOutcome:
    """What a stop did. `words` is the sentence to show.

    `how` is "ended" (by itself, after being asked), "killed", "asked" (not waited for), "not running", or "alive" where
    something outlived even SIGKILL: `left` says what. `unrecorded` says why the stop could not be written down.
    """

    how: str
    words: str
    waited_seconds: float = 0.0
    left: tuple[ProcessId, ...] = ()
    supervised: bool = False
    unrecorded: str | None = None

    @property
    def has_ended(self) -> bool:
        return self.how in ("ended", "killed", "not running")


JUST_ENDED = StopOutcome(how="not running", words="it has just ended by itself")


def with_warning(outcome: StopOutcome, failed: str | None) -> StopOutcome:
    """Without its record a stop looks like a failure: whoever asked hears that now, with what has `failed`."""
    if failed is None:
        return outcome
    words = f"{outcome.words}. The stop could not be recorded ({failed}): it will look like a failure"
    return replace(outcome, words=words, unrecorded=failed)


def wait_for_end(left: list[ProcessId], look: Look, seconds: float) -> list[ProcessId]:
    """What is left of them, when nothing is or `seconds` are over."""
    deadline = time.monotonic() + seconds
    while (left := look(left)) and time.monotonic() < deadline:
        time.sleep(TICK)
    return left


def kill_all(left: list[ProcessId], look: Look, send: Callable[[list[ProcessId], int], object]) -> list[ProcessId]:
    """SIGKILL until nothing is left, for what one process starts while another is killed comes up later."""
    deadline = time.monotonic() + KILL_PATIENCE
    while left and time.monotonic() < deadline:
        send(left, signal.SIGKILL)
        time.sleep(TICK)
        left = look(left)
    return left


def still_there(left: Iterable[ProcessId]) -> str:
    pids = ", ".join(str(one.pid) for one in left)
    return f"still there after SIGKILL (waiting for a disk, a network mount or a GPU): pid {pids}"


def ended_words(run_dir: str, before: set[Save], seconds: float) -> str:
    """Of a run that ended as asked; `before` are the `saves` that it had then."""
    if saves(run_dir) - before:
        return f"saved and ended {seconds:.1f} s after it was asked"
    return f"ended {seconds:.1f} s after it was asked, without a new checkpoint in its directory"


def saves(run_dir: str) -> set[Save]:
    """The checkpoints in the directory: what is new after a stop was saved by it."""
    found = set()
    try:
        with os.scandir(run_dir) as entries:
            for entry in entries:
                if is_checkpoint_name(entry.name):
                    stat = entry.stat(follow_symlinks=False)
                    found.add((entry.name, stat.st_mtime_ns, stat.st_size))
    except OSError:
        return found  # then nothing is said to be saved
    return found


def is_ours(run_dir: str) -> bool:
    """Did we make the directory, or write into it before? In any other one nothing is written."""
    return any(os.path.lexists(os.path.join(run_dir, name)) for name in (LAUNCH, PLAN_NAME))


@dataclass(slots=True)
class Announcement:
    """A stop as it is written down: the intent in the run's `stop.json`, what was done in the journal of its root.

    `is_ours`: `stop.json` is this stop's, to be taken back. `failed` says why it could not be written.
    """

    run_dir: str
    order: StopOrder
    is_ours: bool = False
    failed: str | None = None

    def take_back(self) -> None:
        if self.is_ours:
            self.is_ours = False
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.run_dir, STOP))

    def note_asked(self, **facts: Any) -> None:
        order = self.order
        self._note(
            "stop asked", how=order.how, why=order.why, grace_seconds=order.grace, unrecorded=self.failed, **facts
        )

    def conclude(self, outcome: StopOutcome) -> StopOutcome:
        """The outcome as whoever asked shall hear it; that something had to be killed is noted."""
        if outcome.how == "killed":
            self._note("killed", why=outcome.words)
        return with_warning(outcome, self.failed)

    def _note(self, what: str, **facts: Any) -> None:
        journal.note(journal.root_of(self.run_dir), what, run=self.run_dir, who=self.order.asked_by, **facts)


def announce(run_dir: str, order: StopOrder) -> Announcement:
    """Put the intent on disk; somebody else's is there already perhaps.

    Raises CannotRecord where that can't be done, unless the order takes that.
    """
    asked = StopRecord(
        who=order.asked_by, how=order.how, asked_at=time.time(), why=order.why, grace_seconds=order.grace
    )
    try:
        write_stop(run_dir, asked)
    except FileExistsError:
        return Announcement(run_dir, order)
    except OSError as error:
        reason = error.strerror or str(error)
        if order.unrecorded or order.how == "kill":
            return Announcement(run_dir, order, failed=reason)
        raise CannotRecord(
            f"the stop can't be recorded ({reason}): it would look like a failure, and a last save may fail as well",
            where=run_dir,
            hint="Make room, or make the directory writable; --yes or --kill stops it all the same",
        ) from error
    return Announcement(run_dir, order, is_ours=True)
