"""Stop a run: ask its processes to save and end, and end them when their time is over.

The intent is on disk before the first signal, for the exit code of a stopped training is like that of a failed one. A
signal goes only to a process that is surely of the run, with pid and start ticks checked on a handle of the process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from lavender_tui.errors import NotFound
from lavender_tui.launch import journal, keepers, nodes, slurm_stop
from lavender_tui.launch.files import LAUNCH
from lavender_tui.launch.identity import user_name
from lavender_tui.launch.living import also_trained, belongs_here, is_vouched_for, members
from lavender_tui.launch.record import (
    ExitRecord,
    LaunchRecord,
    ProcessId,
    examine_launch,
    read_exit,
    read_launch,
    send_signal,
    this_machine,
    write_exit,
)
from lavender_tui.launch.stop_order import (
    GRACEFUL,
    JUST_ENDED,
    TICK,
    Announcement,
    CannotStop,
    StopOrder,
    StopOutcome,
    announce,
    ended_words,
    is_ours,
    kill_all,
    saves,
    still_there,
)
from lavender_tui.model import command_line
from lavender_tui.model.text import clean

SEARCH_TICK = 0.2  # a look at every process of the machine takes milliseconds
# Seconds past the grace after which a supervisor that did nothing is taken for stuck, and its work done from here.
PATIENCE = 5.0


def stop(run_dir: str, order: StopOrder = GRACEFUL) -> StopOutcome:
    """Ask the run to save and end; when its time is over (at once where that is the order) end every process of it.

    What a run that has ended left running is ended in the same way, without a word in its record. Where the order is
    not to wait it returns when the run has been asked; a supervisor then sees to the rest. Raises NotFound where
    nothing says which processes are the run's, CannotStop where they are elsewhere or another user's, and CannotRecord
    where the stop can't be written down, unless the order takes that.
    """
    run_dir = os.path.abspath(run_dir)
    record = _record(run_dir, order)
    if record is not None and record.slurm is not None and not (record.is_job_by_hand and members(run_dir, record)):
        return slurm_stop.stop(run_dir, record, order)  # its processes are wherever Slurm put them
    supervisor, targets = _living_supervisor(run_dir, record), members(run_dir, record)
    if supervisor is None and not targets:
        return _not_running(run_dir, record, order.asked_by)
    _refuse_foreign(run_dir, targets if supervisor is None else [*targets, supervisor])
    _refuse_shared(run_dir, record, targets)
    return _Stopping(run_dir, record, supervisor, order).carry_out()


def nothing_runs(run_dir: str, order: StopOrder = GRACEFUL) -> bool:
    """Would `stop` find no process and no keeper of the run to tell? False where only Slurm knows.

    Raises NotFound and CannotStop as `stop` does.
    """
    run_dir = os.path.abspath(run_dir)
    record = _record(run_dir, order)
    if record is not None and record.slurm is not None:
        return False
    if _living_supervisor(run_dir, record) is not None or members(run_dir, record):
        return False
    kept = keepers.keeper_of(run_dir)
    return kept is None or kept.is_alive is False


def _record(run_dir: str, order: StopOrder) -> LaunchRecord | None:
    """The run's record, if its pids mean something here; None where there is none. Raises CannotStop, NotFound."""
    if not os.path.isdir(run_dir):
        raise NotFound("there is no such run", where=run_dir)
    record = read_launch(run_dir)
    if record is None:  # its processes may still be known by their environment: that is looked at next
        return None
    if not belongs_here(record, run_dir):
        raise CannotStop(
            "this is a copy: its launch record is that of another directory",
            where=run_dir,
            hint=f"Stop the original, {record.run_dir}",
        )
    if record.slurm is None:
        _refuse_elsewhere(record, run_dir, order)
    return record


def _refuse_elsewhere(record: LaunchRecord, run_dir: str, order: StopOrder) -> None:
    """Raise CannotStop where the recorded pids are those of another host, boot or pid namespace."""
    here = this_machine()
    if record.host != here.host:
        command = command_line.stop_over_ssh(record.host, record.run_dir, *order.options)
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
            name = user_name(owner)
            raise CannotStop(
                f"its processes belong to {name}, and you are {user_name(me)}", where=run_dir, hint=f"Ask {name}"
            )


def _refuse_shared(run_dir: str, record: LaunchRecord | None, targets: Sequence[ProcessId]) -> None:
    """Raise CannotStop for a process that trains another run, too: that would end with this one."""
    for target in targets:
        if (other := also_trained(run_dir, record, target.pid)) is not None:
            what = f"pid {target.pid} trains {clean(os.path.basename(other))} too"
            raise CannotStop(what, where=run_dir, hint="Stop it where it was started")


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


class _Stopping:
    """A stop under way, by the supervisor where one lives and by ourselves where none does.

    `nodes` are the supervisors of the run's further nodes; `is_over`: it has ended before, and left processes running.
    """

    def __init__(
        self, run_dir: str, record: LaunchRecord | None, supervisor: ProcessId | None, order: StopOrder
    ) -> None:
        self.run_dir, self.record, self.supervisor, self.order = run_dir, record, supervisor, order
        self.nodes = _nodes_here(run_dir)
        self.is_over = supervisor is None and read_exit(run_dir) is not None
        self.saves_before = saves(run_dir)
        self.since = time.monotonic()
        self.killed = False

    def carry_out(self) -> StopOutcome:
        is_silent = self.is_over or not is_ours(self.run_dir)
        announced = Announcement(self.run_dir, self.order) if is_silent else announce(self.run_dir, self.order)
        try:
            told = self.ask()
        except PermissionError as error:
            announced.take_back()  # nobody was told: the run isn't stopped
            what = "its processes belong to another user"
            raise CannotStop(what, where=self.run_dir, hint="Ask their owner") from error
        if not told:
            announced.take_back()
            return JUST_ENDED
        announced.note_asked(left_over=self.is_over)
        outcome = self.finish() if self.order.wait else self.asked()
        if outcome.how == "not running":
            announced.take_back()
        return announced.conclude(outcome)

    def ask(self) -> bool:
        """Send the signal that is the order; False where nobody is left to hear it."""
        signum = signal.SIGUSR2 if self.order.how == "kill" else self.order.signum
        self.signal(self.nodes, signum)
        if self.supervisor is not None:
            if self.signal([self.supervisor], signum):
                return True
            self.supervisor = None  # it ended between look and signal
        return self.ask_directly(self.order.signum)

    def asked(self) -> StopOutcome:
        supervised = self.supervisor is not None
        more = "" if supervised else "; no supervisor is left to end it by force later"
        return StopOutcome(how="asked", words=f"{self.order.words}{more}", supervised=supervised)

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
            self.wait_until(lambda: not self.supervisor_lives(), self.order.seconds_to_end + PATIENCE)
        if not supervised:
            self.wait_until(lambda: not self.left(), self.order.seconds_to_end, tick=SEARCH_TICK)
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
        left = self.left()
        self.killed = bool(left)
        left = kill_all(left, lambda _: self.left(), self.signal)
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
        if left:
            how, words = "alive", still_there(left)
        elif self.is_over:
            how, words = ("killed" if killed else "ended"), "what it had left running is ended"
        elif killed:
            how, words = "killed", self.order.words_if_killed
        else:
            how, words = "ended", ended_words(self.run_dir, self.saves_before, seconds)
        return StopOutcome(how=how, words=words, waited_seconds=seconds, left=tuple(left), supervised=supervised)
