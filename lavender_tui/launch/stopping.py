"""Stop a run: ask its processes to save and end, and end them when their time is over.

The intent is on disk before the first signal, for the exit code of a stopped training is like that of a failed one. A
signal goes only to a process that is surely of the run, with pid and start ticks checked on a handle of the process.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

from lavender_tui.checkpoints import is_checkpoint_name
from lavender_tui.errors import LavenderError, NotFound
from lavender_tui.launch import journal, keepers, nodes
from lavender_tui.launch.files import LAUNCH, STOP
from lavender_tui.launch.living import also_trained, belongs_here, is_vouched_for, members
from lavender_tui.launch.record import (
    ExitRecord,
    LaunchRecord,
    ProcessId,
    StopRecord,
    examine_launch,
    read_exit,
    read_launch,
    send_signal,
    this_machine,
    write_exit,
    write_stop,
)
from lavender_tui.model import command_line
from lavender_tui.model.plan import PLAN_NAME
from lavender_tui.model.text import clean

TICK = 0.05
SEARCH_TICK = 0.2  # a look at every process of the machine takes milliseconds
# Seconds past the grace after which a supervisor that did nothing is taken for stuck, and its work done from here.
PATIENCE = 5.0
KILL_PATIENCE = 10.0


class CannotStop(LavenderError):
    """The run's processes can't be told apart from others, or are not ours to signal."""


class CannotRecord(CannotStop):
    """The stop could be carried out, but not be written down: the end would read as a failure."""


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


def stop(
    run_dir: str,
    *,
    kill: bool = False,
    interrupt: bool = False,
    grace: float = 30.0,
    who: str | None = None,
    why: str | None = None,
    wait: bool = True,
    unrecorded: bool = False,
) -> StopOutcome:
    """Ask the run to save and end; after `grace` seconds (at once with `kill`) end every process of it.

    SIGTERM asks, with `interrupt` SIGINT. What a run that has ended left running is ended in the same way, without a
    word in its record. Without `wait` it returns when the run has been asked; a supervisor then sees to the rest.
    Raises NotFound where nothing says which processes are the run's, CannotStop where they are elsewhere or another
    user's, and CannotRecord where the stop can't be written down, unless `unrecorded` (or `kill`) takes that.
    """
    run_dir = os.path.abspath(run_dir)
    record = _record(run_dir, ["--kill"] if kill else ["--interrupt"] if interrupt else [])
    if record is not None and record.slurm is not None and not (record.is_job_by_hand and members(run_dir, record)):
        # Its processes are wherever Slurm put them: the job is told, by what Slurm has for that.
        by_slurm = import_module("lavender_tui.launch.slurm_stop")
        outcome: StopOutcome = by_slurm.stop(
            run_dir, record, kill=kill, interrupt=interrupt, grace=grace, who=who, why=why, wait=wait
        )
        return outcome
    supervisor = _living_supervisor(run_dir, record)
    targets = members(run_dir, record)
    if supervisor is None and not targets:
        return _not_running(run_dir, record, who or journal.person())
    _refuse_foreign(run_dir, [*targets, *([supervisor] if supervisor is not None else [])])
    for target in targets:
        if (other := also_trained(run_dir, record, target.pid)) is not None:
            what = f"pid {target.pid} trains {clean(os.path.basename(other))} too"
            raise CannotStop(what, where=run_dir, hint="Stop it where it was started")
    how = "kill" if kill else "interrupt" if interrupt else "graceful"
    asked = StopRecord(who=who or journal.person(), how=how, asked_at=time.time(), why=why, grace_seconds=grace)
    is_over = supervisor is None and read_exit(run_dir) is not None
    before = saves(run_dir)
    is_silent = is_over or not is_ours(run_dir)
    announced = _Announcement(run_dir) if is_silent else announce(run_dir, asked, kill or unrecorded)
    stopping = _Stopping(run_dir, record, supervisor, 0.0 if kill else grace, before)
    stopping.nodes = _nodes_here(run_dir)
    stopping.is_over = is_over
    try:
        told = stopping.ask(how)
    except PermissionError as error:
        announced.take_back()  # nobody was told: the run isn't stopped
        raise CannotStop("its processes belong to another user", where=run_dir, hint="Ask their owner") from error
    if not told:
        announced.take_back()
        return StopOutcome(how="not running", words="it has just ended by itself")
    facts = {"how": how, "why": why, "grace_seconds": grace, "unrecorded": announced.failed, "left_over": is_over}
    journal.note(journal.root_of(run_dir), "stop asked", run=run_dir, who=asked.who, **facts)
    if not wait:
        return _asked(how, supervisor is not None, announced)
    outcome = stopping.finish()
    if outcome.how == "not running":
        announced.take_back()
    if outcome.how == "killed":
        journal.note(journal.root_of(run_dir), "killed", run=run_dir, who=asked.who, why=outcome.words)
    return with_warning(outcome, announced)


def nothing_runs(run_dir: str, options: Sequence[str] = ()) -> bool:
    """Would `stop` find no process and no keeper of the run to tell? False where only Slurm knows.

    Raises NotFound and CannotStop as `stop` does; `options` as in `_record`.
    """
    run_dir = os.path.abspath(run_dir)
    record = _record(run_dir, options)
    if record is not None and record.slurm is not None:
        return False
    if _living_supervisor(run_dir, record) is not None or members(run_dir, record):
        return False
    kept = keepers.keeper_of(run_dir)
    return kept is None or kept.is_alive is False


def is_ours(run_dir: str) -> bool:
    """Did we make the directory, or write into it before? In any other one nothing is written."""
    return any(os.path.lexists(os.path.join(run_dir, name)) for name in (LAUNCH, PLAN_NAME))


def _asked(how: str, supervised: bool, announced: _Announcement) -> StopOutcome:
    words = {"kill": "told to end at once", "interrupt": "interrupted"}.get(how, "asked to save and end")
    if not supervised:
        words += "; no supervisor is left to end it by force later"
    return with_warning(StopOutcome(how="asked", words=words, supervised=supervised), announced)


def with_warning(outcome: StopOutcome, announced: _Announcement) -> StopOutcome:
    """Without its record a stop looks like a failure: whoever asked hears that now."""
    if announced.failed is None:
        return outcome
    words = f"{outcome.words}. The stop could not be recorded ({announced.failed}): it will look like a failure"
    return replace(outcome, words=words, unrecorded=announced.failed)


def saves(run_dir: str) -> set[tuple[str, int, int]]:
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


def _record(run_dir: str, options: Sequence[str]) -> LaunchRecord | None:
    """The run's record, if its pids mean something here; None where there is none. Raises CannotStop, NotFound.

    `options` are those of the command that would do the same elsewhere.
    """
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
    if record.slurm is None:
        refuse_elsewhere(record, run_dir, options)
    return record


def refuse_elsewhere(record: LaunchRecord, run_dir: str, options: Sequence[str] = ()) -> None:
    """Raise CannotStop where the recorded pids are those of another host, boot or pid namespace."""
    here = this_machine()
    if record.host != here.host:
        command = command_line.stop_over_ssh(record.host, record.run_dir, *options)
        of_several = record.nodes is not None and record.nodes > 1
        what = f"it was started on {record.host}, and this is {here.host}"
        if of_several:
            what = f"its first node runs on {record.host}, and this is {here.host}: a stop there ends all its nodes"
        hint = f"Paste: {command}" if command else f"Stop it on {record.host}"
        raise CannotStop(what, where=run_dir, hint=hint)
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


def _living_supervisor(run_dir: str, record: LaunchRecord | None) -> ProcessId | None:
    supervisor = record.supervisor if record is not None else None
    if record is None or supervisor is None or not supervisor.is_alive:
        return None
    return supervisor if is_vouched_for(run_dir, record, supervisor) else None


def _nodes_here(run_dir: str) -> list[ProcessId]:
    """The supervisors of further nodes on this host. Those of other hosts read `stop.json` within seconds."""
    records = [(path, read_launch(path)) for _, path in nodes.directories(run_dir)]
    here = [_living_supervisor(path, record) for path, record in records if record is not None and record.is_here]
    return [supervisor for supervisor in here if supervisor is not None]


def _not_running(run_dir: str, record: LaunchRecord | None, who: str) -> StopOutcome:
    """There is nothing to signal; but a keeper that is about to resume it is told to let it be."""
    keeper = keepers.tell_to_leave(run_dir, who)
    if keeper is not None:
        journal.note(journal.root_of(run_dir), "stop asked", run=run_dir, who=who, how="not to be resumed")
        told = f"its keeper (pid {keeper.pid} on {keeper.host}) was told not to resume it"
        return StopOutcome(how="not running", words=f"it isn't running; {told}")
    if record is None:
        _, reason = examine_launch(run_dir)
        told = f"its {LAUNCH} {reason}" if reason else f"it has no {LAUNCH}"
        raise NotFound(
            f"{told}, and no process was started with it in its environment: which processes are its own is not known",
            where=run_dir,
            hint="If it runs, stop it where it was started",
        )
    return StopOutcome(how="not running", words="it isn't running: its processes are gone")


def _refuse_foreign(run_dir: str, targets: Sequence[ProcessId]) -> None:
    """Raise CannotStop for another user's processes before anything is written: no signal of ours would reach them."""
    me = os.geteuid()
    for target in targets:
        owner = _owner(target.pid)
        if me != 0 and owner is not None and owner != me:
            name = _user_name(owner)
            raise CannotStop(
                f"its processes belong to {name}, and you are {_user_name(me)}", where=run_dir, hint=f"Ask {name}"
            )


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


@dataclass(slots=True)
class _Announcement:
    """The intent on disk: is `stop.json` ours to take back, and why is it not there?"""

    run_dir: str
    is_ours: bool = False
    failed: str | None = None

    def take_back(self) -> None:
        if self.is_ours:
            self.is_ours = False
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.run_dir, STOP))


def announce(run_dir: str, asked: StopRecord, may_fail: bool) -> _Announcement:
    """Put the intent on disk; somebody else's is there already perhaps. Raises CannotRecord unless that `may_fail`."""
    try:
        write_stop(run_dir, asked)
    except FileExistsError:
        return _Announcement(run_dir)
    except OSError as error:
        reason = error.strerror or str(error)
        if may_fail:
            return _Announcement(run_dir, failed=reason)
        raise CannotRecord(
            f"the stop can't be recorded ({reason}): it would look like a failure, and a last save may fail as well",
            where=run_dir,
            hint="Make room, or make the directory writable; --yes or --kill stops it all the same",
        ) from error
    return _Announcement(run_dir, is_ours=True)


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
        self.killed = self.is_over = False
        self.nodes: list[ProcessId] = []  # supervisors of the run's further nodes

    def ask(self, how: str) -> bool:
        """Send the signal that `how` means; False where nobody is left to hear it."""
        signum = {"kill": signal.SIGUSR2, "interrupt": signal.SIGINT}.get(how, signal.SIGTERM)
        self.signal(self.nodes, signum)
        if self.supervisor is not None:
            if self.signal([self.supervisor], signum):
                return True
            self.supervisor = None  # it ended between look and signal
        return self.ask_directly(signal.SIGINT if how == "interrupt" else signal.SIGTERM)

    def ask_directly(self, signum: int) -> bool:
        """To the leader alone, for it passes it on; to every process where the leader is gone."""
        leader, left = self.record.leader if self.record is not None else None, self.left()
        targets = [leader] if leader is not None and leader in left else left
        told = self.signal(targets, signum)
        self.signal(targets, signal.SIGCONT)
        return told

    def signal(self, targets: Sequence[ProcessId], signum: int) -> bool:
        """True where one of them was there to get it."""
        reached = [send_signal(target.pid, target.start_ticks, signum) for target in targets]
        return any(reached)

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
        if supervised and ended is not None and ended.stop is None and not self.killed:
            return StopOutcome(how="not running", words="it ended by itself in the instant in which it was asked")
        if ended is None and not left and is_ours(self.run_dir):
            self.record_end()
        killed = self.killed or (ended is not None and ended.killed and not self.is_over)
        return self.outcome(left, killed, supervised)

    def supervisor_lives(self) -> bool:
        return any(one is not None and one.is_alive for one in (self.supervisor, *self.nodes))

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
            self.signal([*([self.supervisor] if self.supervisor else []), *self.nodes], signal.SIGCONT)
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
        if self.is_over and not left:
            how, words = ("killed" if killed else "ended"), "what it had left running is ended"
        elif left:
            pids = ", ".join(str(process.pid) for process in left)
            how, words = (
                "alive",
                f"still there after SIGKILL (waiting for a disk, a network mount or a GPU): pid {pids}",
            )
        elif killed:
            how, words = "killed", "had to be killed: it did not end in time"
        else:
            saved = bool(saves(self.run_dir) - self.saves_before)
            how = "ended"
            words = f"saved and ended {seconds:.1f} s after it was asked"
            if not saved:
                words = f"ended {seconds:.1f} s after it was asked, without a new checkpoint in its directory"
        return StopOutcome(how=how, words=words, waited_seconds=seconds, left=tuple(left), supervised=supervised)
