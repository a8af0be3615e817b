"""Stop a run: ask its processes to save and end, and end them when their time is over.

The intent is on disk before the first signal, for the exit code of a stopped training is like that of a failed one. A
signal goes only to a process that is surely of the run, with pid and start ticks checked on a handle of the process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lavender_tui.checkpoints import is_checkpoint_name
from lavender_tui.errors import LavenderError, NotFound
from lavender_tui.launch import journal
from lavender_tui.launch.files import LAUNCH, STOP
from lavender_tui.launch.living import belongs_here, members
from lavender_tui.launch.record import (
    ExitRecord,
    LaunchRecord,
    ProcessId,
    StopRecord,
    examine_launch,
    read_exit,
    send_signal,
    this_machine,
    write_exit,
    write_stop,
)

TICK = 0.05
SEARCH_TICK = 0.2  # a look at every process of the machine takes milliseconds
# Seconds past the grace after which a supervisor that did nothing is taken for stuck, and its work done from here.
PATIENCE = 5.0
KILL_PATIENCE = 10.0


class CannotStop(LavenderError):
    """The run's processes can't be told apart from others, or are not ours to signal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOutcome:
    """What a stop did. `words` is the sentence to show.

    `how` is "ended" (by itself, after being asked), "killed", "asked" (not waited for), "not running", or "alive" where
    something outlived even SIGKILL: `left` says what.
    """

    how: str
    words: str
    waited_seconds: float = 0.0
    left: tuple[ProcessId, ...] = ()
    supervised: bool = False

    @property
    def has_ended(self) -> bool:
        return self.how in ("ended", "killed", "not running")


def stop(
    run_dir: str,
    *,
    kill: bool = False,
    grace: float = 30.0,
    who: str | None = None,
    why: str | None = None,
    wait: bool = True,
) -> StopOutcome:
    """Ask the run to save and end; after `grace` seconds (at once with `kill`) end every process of it.

    Without `wait` it returns when the run has been asked; a supervisor then sees to the rest. Raises NotFound where
    nothing says which processes are the run's, CannotStop where they are elsewhere or another user's.
    """
    run_dir = os.path.abspath(run_dir)
    record = _record(run_dir)
    supervisor = _living_supervisor(record)
    targets = members(run_dir, record)
    if supervisor is None and not targets:
        return _not_running(run_dir, record)
    asked = StopRecord(
        who=who or journal.person(),
        how="kill" if kill else "graceful",
        asked_at=time.time(),
        why=why,
        grace_seconds=grace,
    )
    before = _saves(run_dir)
    wrote = _announce(run_dir, asked)
    stopping = _Stopping(run_dir, record, supervisor, 0.0 if kill else grace, before)
    try:
        stopping.ask(kill)
    except PermissionError as error:
        if wrote:
            os.unlink(os.path.join(run_dir, STOP))  # nobody was told: the run isn't stopped
        raise CannotStop("its processes belong to another user", where=run_dir, hint="Ask their owner") from error
    journal.note(
        journal.root_of(run_dir), "stop asked", run=run_dir, who=asked.who, how=asked.how, why=why, grace_seconds=grace
    )
    if not wait:
        words = "asked to save and end" if not kill else "told to end at once"
        if supervisor is None:
            words += "; no supervisor is left to end it by force later"
        return StopOutcome(how="asked", words=words, supervised=supervisor is not None)
    outcome = stopping.finish()
    if outcome.how == "killed":
        journal.note(journal.root_of(run_dir), "killed", run=run_dir, who=asked.who, why=outcome.words)
    return outcome


def _saves(run_dir: str) -> set[tuple[str, int, int]]:
    """Name, time and size of each checkpoint in the directory: what is new after a stop was saved by it."""
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


def _record(run_dir: str) -> LaunchRecord | None:
    """The run's record, if its pids mean something here; None where there is none. Raises CannotStop, NotFound."""
    if not os.path.isdir(run_dir):
        raise NotFound("there is no such run", where=run_dir)
    record, reason = examine_launch(run_dir)
    if reason is not None:
        # Its processes may still be known by their environment: that is looked at next, by the directory.
        return None
    if record is None:
        return None
    if not belongs_here(record, run_dir):
        raise CannotStop(
            "this is a copy: its launch record is that of another directory",
            where=run_dir,
            hint=f"Stop the original, {record.run_dir}",
        )
    refuse_elsewhere(record, run_dir)
    return record


def refuse_elsewhere(record: LaunchRecord, run_dir: str) -> None:
    """Raise CannotStop where the recorded pids are those of another host, boot or pid namespace."""
    here = this_machine()
    if record.host != here.host:
        raise CannotStop(
            f"it was started on {record.host}, and this is {here.host}", where=run_dir, hint=f"Stop it on {record.host}"
        )
    if record.boot_id != here.boot_id:
        raise CannotStop(
            "this machine was restarted since: what ran then is gone, and its pids are others' now", where=run_dir
        )
    if record.pid_namespace != here.pid_namespace:
        raise CannotStop(
            "it was started in another container (pid namespace): its pids mean something else here",
            where=run_dir,
            hint="Stop it in the container where it was started",
        )


def _living_supervisor(record: LaunchRecord | None) -> ProcessId | None:
    supervisor = record.supervisor if record is not None else None
    return supervisor if supervisor is not None and supervisor.is_alive else None


def _not_running(run_dir: str, record: LaunchRecord | None) -> StopOutcome:
    if record is None:
        _, reason = examine_launch(run_dir)
        told = f"its {LAUNCH} {reason}" if reason else f"it has no {LAUNCH}"
        raise NotFound(
            f"{told}, and no process was started with it in its environment: which processes are its own is not known",
            where=run_dir,
            hint="If it runs, stop it where it was started",
        )
    return StopOutcome(how="not running", words="it isn't running: its processes are gone")


def _announce(run_dir: str, asked: StopRecord) -> bool:
    """Put the intent on disk; False where it is there already. Raises CannotStop where it can't be written."""
    try:
        write_stop(run_dir, asked)
    except FileExistsError:
        return False
    except OSError as error:
        raise CannotStop(
            f"the stop can't be recorded ({error.strerror or error}); without that it would look like a failure",
            where=run_dir,
            hint="Make room, or make the directory writable",
        ) from error
    return True


class _Stopping:
    """A stop under way, by the supervisor where one lives and by ourselves where none does."""

    def __init__(
        self,
        run_dir: str,
        record: LaunchRecord | None,
        supervisor: ProcessId | None,
        grace: float,
        saves_before: set[tuple[str, int, int]],
    ) -> None:
        self.run_dir, self.record, self.supervisor, self.grace = run_dir, record, supervisor, grace
        self.saves_before = saves_before
        self.since = time.monotonic()
        self.killed = False

    def ask(self, kill: bool) -> None:
        if self.supervisor is not None:
            signum = signal.SIGUSR2 if kill else signal.SIGTERM
            if send_signal(self.supervisor.pid, self.supervisor.start_ticks, signum):
                return
            self.supervisor = None  # it ended between look and signal
        self.terminate()

    def terminate(self) -> None:
        """TERM to the leader alone, for it passes it on; to every process where the leader is gone."""
        leader = self.record.leader if self.record is not None else None
        targets = [leader] if leader is not None and leader.is_alive else self.left()
        self.signal(targets, signal.SIGTERM)
        self.signal(targets, signal.SIGCONT)

    def signal(self, targets: Sequence[ProcessId], signum: int) -> None:
        for target in targets:
            send_signal(target.pid, target.start_ticks, signum)

    def left(self) -> list[ProcessId]:
        return members(self.run_dir, self.record)

    def finish(self) -> StopOutcome:
        """Wait for the end, enforce it when the grace is over, and record it where no supervisor did."""
        supervised = self.supervisor is not None
        if supervised:
            self.wait_until(lambda: not self.supervisor_lives(), self.grace + PATIENCE)
        if not supervised:
            self.wait_until(lambda: not self.left(), self.grace, tick=SEARCH_TICK)
        left = self.kill_what_is_left()
        ended = read_exit(self.run_dir)
        if ended is None and not left:
            self.record_end()
        killed = self.killed or (ended is not None and ended.killed)
        return self.outcome(left, killed, supervised)

    def supervisor_lives(self) -> bool:
        return self.supervisor is not None and self.supervisor.is_alive

    def wait_until(self, is_true: Callable[[], bool], seconds: float, tick: float = TICK) -> bool:
        deadline = self.since + seconds
        while not is_true():
            if time.monotonic() >= deadline:
                return False
            time.sleep(tick)
        return True

    def kill_what_is_left(self) -> list[ProcessId]:
        """SIGKILL until nothing is left, for what one process starts while another is killed comes up later."""
        deadline = time.monotonic() + KILL_PATIENCE
        while left := self.left():
            self.killed = True
            self.signal(left, signal.SIGKILL)
            if time.monotonic() >= deadline:
                break
            time.sleep(TICK)
        if self.supervisor_lives() and not left:
            # Frozen (SIGSTOP) or stuck: continued, it finds its children gone and records the end.
            assert self.supervisor is not None
            self.signal([self.supervisor], signal.SIGCONT)
            self.since = time.monotonic()
            self.wait_until(lambda: not self.supervisor_lives(), PATIENCE)
        return left

    def record_end(self) -> None:
        """Nobody was there to see the exit code; when and why it ended is known all the same."""
        started = self.record.started_at if self.record is not None else None
        now = time.time()
        try:
            write_exit(
                self.run_dir,
                ExitRecord(
                    code=None,
                    signal=None,
                    ended_at=now,
                    stop={"who": journal.person(), "how": "its supervisor was gone"},
                    killed=self.killed,
                    wall_s=round(now - started, 3) if started is not None else None,
                ),
            )
        except OSError:
            return  # the stop record says that it was stopped

    def outcome(self, left: list[ProcessId], killed: bool, supervised: bool) -> StopOutcome:
        seconds = time.monotonic() - self.since
        if left:
            pids = ", ".join(str(process.pid) for process in left)
            how, words = (
                "alive",
                f"still there after SIGKILL (waiting for a disk, a network mount or a GPU): pid {pids}",
            )
        elif killed:
            how, words = "killed", "had to be killed: it did not end in time"
        else:
            saved = bool(_saves(self.run_dir) - self.saves_before)
            how = "ended"
            words = f"saved and ended {seconds:.1f} s after it was asked"
            if not saved:
                words = f"ended {seconds:.1f} s after it was asked, without a new checkpoint in its directory"
        return StopOutcome(how=how, words=words, waited_seconds=seconds, left=tuple(left), supervised=supervised)
