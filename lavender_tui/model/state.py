"""The rules that decide a run's state, and its reason in words, from facts gathered elsewhere. No files, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.ending import StopAt, StopRequest, request_words, stopped_words
from lavender_tui.model.rhythm import Rhythm
from lavender_tui.model.run import EndFacts, LiveProcess, RunState, cant_read

# Signals that ask for an end, and who sends them where nobody asked through us.
_ASKING = {
    "SIGTERM": (15, "stopped by signal 15 (SIGTERM), not from here: preempted or shut down"),
    "SIGINT": (2, "stopped by signal 2 (SIGINT): Ctrl-C where it was started"),
}
_SHOWN_PIDS = 6
_YOUNG_SIGN_SECONDS = 30.0
_ENDING = "its leading process is gone; how it ended is about to be recorded"

_JOB_WAITS = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"})
_JOB_LIVES = frozenset({"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED", "SUSPENDED"})
# How a job ended: the state, and what to say.
_JOB_ENDS = {
    "PREEMPTED": (RunState.STOPPED, "preempted: another job got its place"),
    "TIMEOUT": (RunState.STOPPED, "its time limit was over"),
    "DEADLINE": (RunState.STOPPED, "its deadline was over"),
    "REVOKED": (RunState.STOPPED, "moved to another cluster"),
    "WENT_ON": (RunState.STOPPED, "Slurm put its job back into the queue, where it went on"),
    "OUT_OF_MEMORY": (RunState.FAILED, "out of memory: killed by the kernel"),
    "NODE_FAIL": (RunState.FAILED, "a machine that it ran on went down"),
    "BOOT_FAIL": (RunState.FAILED, "its machine could not be started"),
    "LAUNCH_FAILED": (RunState.FAILED, "it could not be started"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What a batch system says of the run's job. `state` is its own word, as PREEMPTED or OUT_OF_MEMORY.

    `words` is what else is worth saying: why it waits, or who cancelled it.
    """

    name: str  # "Slurm job 1234"
    state: str
    words: str | None = None
    exit_code: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """The newest sign of life that the files show: "save 0060", "step 1830", "log", "heartbeat"."""

    what: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanished:
    """A process that was seen alive and is gone, and nothing says how it ended."""

    pid: int
    at: float | None  # when it was found gone; None where nobody looked


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Everything that decides a run's state, gathered elsewhere. Instants are unix seconds."""

    now: float
    newest: Checkpoint | None = None
    processes: tuple[LiveProcess, ...] = ()
    had_all_ranks: bool = False  # every rank of the job was seen alive before, and some have been ever since
    had_ranks: bool = False  # what leads it now has had ranks: they were seen, or wrote something since it began
    leftovers: tuple[LiveProcess, ...] = ()  # outlived what led them: they never make a run alive
    end: EndFacts | None = None
    has_record: bool = False  # launch.json is there
    unreadable: str | None = None  # why its directory can't be read
    elsewhere: str | None = None  # where its processes run that can't be seen from here: "gpu-07"
    restarted_at: float | None = None  # when this machine was started anew, after the launch
    copied_from: str | None = None  # the run whose record this is, where the directory is a copy
    is_ending: bool = False  # its leader is gone, and its supervisor is about to record how
    is_unsupervised: bool = False  # its supervisor was killed: the training goes on, nobody will see how it ends
    vanished: Vanished | None = None
    job: JobFacts | None = None
    sign: Sign | None = None
    last_save_at: float | None = None  # newest of: a save, a file that is being saved, the launch
    last_step_at: float | None = None  # newest of: a step that moved, the start of its processes
    saves: Rhythm | None = None
    steps: Rhythm | None = None
    request: StopRequest | None = None  # of a live run: it was asked to stop at some later point


def decide_state(facts: RunFacts) -> tuple[RunState, str]:
    """The state and its reason in words (contract: "A run's state")."""
    if facts.processes:
        return _alive(facts)
    state, reason = _not_alive(facts)
    return state, reason + _leftover_words(facts)


def _not_alive(facts: RunFacts) -> tuple[RunState, str]:
    for rule in (_by_job_now, _by_record, _by_job_end, _by_content, _by_what_it_left):
        if decided := rule(facts):
            return decided
    if facts.unreadable is not None:
        return RunState.IDLE, cant_read(facts.unreadable)
    if facts.end is not None or (facts.job is not None and facts.job.state == "COMPLETED"):
        how = "by itself (nothing says how)" if facts.end is not None and facts.end.exit_code != 0 else "well"
        return RunState.IDLE, f"its process ended {how}, but the last epoch is not complete"
    return _unrecorded(facts)


def _by_record(facts: RunFacts) -> tuple[RunState, str] | None:
    end = facts.end
    if end is None:
        return None
    if end.stop_requested:
        return (
            _through_when_asked(facts, end)
            or _asked_elsewhere(facts, end)
            or _by_slurms_signal(facts, end)
            or (RunState.STOPPED, stopped_words(end, facts.newest))
        )
    for name, (number, words) in _ASKING.items():
        # A training that catches the signal and ends by itself says so by its exit code, as a shell does.
        if end.signal == name or (end.signal is None and end.exit_code == 128 + number):
            said = f"; {end.error}" if end.error and not end.error.startswith(("killed by signal", "Keyboard")) else ""
            return RunState.STOPPED, words + said
    if end.exit_code not in (0, None) or end.signal is not None:
        return RunState.FAILED, _failure(end)
    return None


def _through_when_asked(facts: RunFacts, end: EndFacts) -> tuple[RunState, str] | None:
    """A training that was asked to stop and has nothing left to do is finished."""
    if (through := _by_content(facts)) is None:
        return None
    by = f" by {end.stop_by}" if end.stop_by else ""
    where = f" {StopAt(end.stop_how).words}" if end.stop_how in tuple(StopAt) else ""
    return through[0], f"{through[1]} (asked to stop{where}{by})"


def _asked_elsewhere(facts: RunFacts, end: EndFacts) -> tuple[RunState, str] | None:
    """A stop was asked for where its processes can't be seen: it may be saving still, or not have heard of it."""
    if facts.elsewhere is None or facts.job is not None or end.ended_at is not None or end.stop_at is not None:
        return None
    asked = f" {text.coarse_age(facts.now - end.stop_asked_at)}" if end.stop_asked_at is not None else ""
    by = f" by {text.clean(end.stop_by, 60)}" if end.stop_by else ""
    last = f" (last sign: {facts.sign.what}, {text.coarse_age(facts.now - facts.sign.at)})" if facts.sign else ""
    return RunState.IDLE, f"on {facts.elsewhere}: stop asked{asked}{by}, its end isn't seen from here{last}"


def _by_slurms_signal(facts: RunFacts, end: EndFacts) -> tuple[RunState, str] | None:
    """A training that got a signal and saved doesn't know why; the job that it was in does."""
    if end.stop_how is not None or not (end.stop_by or "").startswith("SIG"):
        return None  # somebody asked through us
    decided = _by_job_end(replace(facts, end=None))
    if decided is None or facts.job is None or facts.job.state in ("GONE", "FAILED"):
        return None
    return decided


def _by_content(facts: RunFacts) -> tuple[RunState, str] | None:
    newest = facts.newest
    if newest is not None and newest.stage == "final":
        return RunState.FINISHED, "saved its final stage"
    if newest is not None and newest.epoch_complete and newest.epoch is not None and newest.epoch == newest.epochs:
        return RunState.FINISHED, f"completed epoch {newest.epoch} of {newest.epochs}"
    return None


def _by_what_it_left(facts: RunFacts) -> tuple[RunState, str] | None:
    """Nobody saw the end, and the training left a reason. It comes last: what it saved tells more."""
    end = facts.end
    return (RunState.FAILED, f"ended unseen: {end.error}") if end is not None and end.is_unseen else None


# What nothing recorded


def _unrecorded(facts: RunFacts) -> tuple[RunState, str]:
    if facts.copied_from is not None:
        return RunState.IDLE, f"a copy: its launch record is that of {facts.copied_from}"
    if facts.job is not None:
        return RunState.IDLE, f"{facts.job.name}: {facts.job.words or facts.job.state}"
    if facts.elsewhere is not None:
        return RunState.IDLE, elsewhere_words(facts.elsewhere, facts.sign, facts.now) + _asked_words(facts)
    if facts.restarted_at is not None:
        return RunState.FAILED, f"the machine was restarted at {text.clock(facts.restarted_at, facts.now)}"
    if facts.is_ending:
        return RunState.FAILED, _ENDING
    if facts.has_record:
        return RunState.FAILED, "its process is gone and left no exit record (killed, or the machine went down)"
    if facts.leftovers:
        return RunState.FAILED, "the process that led it is gone"
    if facts.vanished is not None:
        return _vanished(facts, facts.vanished)
    return RunState.IDLE, "no process and no launch record"


def _vanished(facts: RunFacts, vanished: Vanished) -> tuple[RunState, str]:
    """Seen alive, and gone. That it failed is known only where its saves say that it was not through."""
    since = f" since {text.clock(vanished.at, facts.now)}" if vanished.at is not None else ""
    gone = f"its process (pid {vanished.pid}) is gone{since}"
    newest = facts.newest
    if newest is None or newest.epoch is None or newest.epochs is None:
        return RunState.IDLE, f"{gone}; nobody saw how it ended"
    return RunState.FAILED, f"{gone}, in epoch {newest.epoch} of {newest.epochs}; nobody saw how it ended"


def elsewhere_words(where: str, sign: Sign | None, now: float) -> str:
    """ "on gpu-07: unknown since 14:02 (last sign: save 0060, 3 min ago)": what isn't seen is never guessed alive."""
    if sign is None:
        return f"on {where}: whether it lives can't be seen from here, and it left no sign of life"
    ago = text.coarse_age(now - sign.at)
    if now - sign.at <= _YOUNG_SIGN_SECONDS:
        return f"on {where}: last sign {ago} ({sign.what}); whether it lives can't be seen from here"
    return f"on {where}: unknown since {text.clock(sign.at, now)} (last sign: {sign.what}, {ago})"


def _leftover_words(facts: RunFacts) -> str:
    if not facts.leftovers:
        return ""
    are_ranks = all(one.role != "helper" or one.rank is not None for one in facts.leftovers)
    kind = "worker" if are_ranks else "process"
    count = text.plural(len(facts.leftovers), f"left-over {kind}", "left-over processes" if kind == "process" else None)
    verb = "runs" if len(facts.leftovers) == 1 else "run"
    return f"; {count} still {verb} (pid {_pids(facts.leftovers)})"


def _pids(processes: Sequence[LiveProcess]) -> str:
    shown = ", ".join(str(one.pid) for one in processes[:_SHOWN_PIDS])
    return shown + (", …" if len(processes) > _SHOWN_PIDS else "")


# A batch job


def _by_job_now(facts: RunFacts) -> tuple[RunState, str] | None:
    job = facts.job
    if job is None:
        return None
    said = f": {job.words}" if job.words else ""
    is_over = facts.end is not None and facts.end.ended_at is not None
    if not job.state and not is_over:  # nobody says: it is never guessed alive
        where = f"; {elsewhere_words(facts.elsewhere, facts.sign, facts.now)}" if facts.elsewhere else ""
        return RunState.IDLE, f"{job.name}{said}{where}"
    if job.state in _JOB_WAITS:
        return RunState.IDLE, f"{job.name} waits{said}"
    if job.state in _JOB_LIVES and not is_over:
        return _alive(facts)
    return None


def _by_job_end(facts: RunFacts) -> tuple[RunState, str] | None:
    job = facts.job
    if job is None or facts.end is not None:
        return None
    said = f"{job.words} ({job.name})" if job.words else job.name
    if job.state in _JOB_ENDS:
        state, words = _JOB_ENDS[job.state]
        return state, f"{words} ({said})"
    if job.state == "GONE":
        return RunState.FAILED, f"{job.name} is unknown to Slurm by now, and left no exit record"
    if job.state.startswith("CANCELLED"):
        return RunState.STOPPED, f"cancelled: {said}"
    if job.state == "FAILED":
        how = f"killed by {job.signal}" if job.signal else f"exit code {job.exit_code}"
        return RunState.FAILED, f"{how} ({said})"
    return None


# Alive


def _alive(facts: RunFacts) -> tuple[RunState, str]:
    if facts.is_ending and facts.processes and all(one.role == "supervisor" for one in facts.processes):
        return RunState.RUNNING, _ENDING
    if (stall := _stall(facts)) is not None:
        return RunState.STALLED, "; ".join(filter(None, (stall, _gone_words(facts)))) + _asked_words(facts)
    if not facts.processes and facts.job is not None:
        where = f" {facts.job.words}" if facts.job.words else ""
        return RunState.RUNNING, f"{facts.job.name} runs{where}{_asked_words(facts)}"
    owner = next((f" of user {text.clean(one.owner, 40)}" for one in facts.processes if one.owner), "")
    alone = "; its supervisor is gone" if facts.is_unsupervised else ""
    job = f" in {facts.job.name}" if facts.job is not None and facts.job.state in _JOB_LIVES else ""
    return RunState.RUNNING, (_gone_words(facts) or _count_words(facts)) + owner + job + alone + _asked_words(facts)


def _asked_words(facts: RunFacts) -> str:
    """What it was asked for and lives in spite of, whatever else is said of it."""
    if facts.end is not None and facts.end.stop_requested:
        return "; asked to end" + (f" by {facts.end.stop_by}" if facts.end.stop_by else "")
    return f"; {request_words(facts.request)}" if facts.request else ""


def live_ranks(processes: Sequence[LiveProcess]) -> tuple[set[int], int]:
    """(the ranks that live on this machine, how many the job has on all machines; 0 where no rank says so)."""
    workers = [one for one in processes if one.role == "worker" and one.world_size]
    world_size = max((one.world_size or 0 for one in workers), default=0)
    return {one.rank for one in workers if one.rank is not None}, world_size


def _gone_words(facts: RunFacts) -> str | None:
    """Which ranks died while the others and torchrun live on."""
    alive, world_size = live_ranks(facts.processes)
    missing = [rank for rank in range(world_size) if rank not in alive]
    if not facts.had_all_ranks or not missing:
        return None
    shown = ", ".join(map(str, missing[:_SHOWN_PIDS])) + (", …" if len(missing) > _SHOWN_PIDS else "")
    who, is_one = ("rank " if len(missing) == 1 else "ranks ") + shown, len(missing) == 1
    if _by_content(facts):
        return f"{who} {'has' if is_one else 'have'} ended"
    unnoticed = "; torchrun hasn't noticed yet" if any(one.role == "agent" for one in facts.processes) else ""
    return f"{who} {'is' if is_one else 'are'} gone{unnoticed}"


def _count_words(facts: RunFacts) -> str:
    """Of a job of several ranks those that are seen; neither torchrun nor a supervisor counts as a part of it."""
    alive, world_size = live_ranks(facts.processes)
    if world_size > 1:
        where = "alive" if len(alive) == world_size else "seen on this machine"
        return f"{len(alive)} of {world_size} ranks {where}"
    count = sum(1 for one in facts.processes if one.role in ("worker", "process"))
    if not count and any(one.role == "agent" for one in facts.processes):
        return _left_words(facts) or ("starting" if facts.newest is None else "no rank is seen yet")
    return text.plural(count or len(facts.processes), "live process", "live processes")


def _left_words(facts: RunFacts) -> str | None:
    """What of torchrun alone, whose ranks are gone: it may be about to end, or to start them again."""
    if not facts.had_ranks:
        return None
    is_through = _by_content(facts) or (facts.end is not None and facts.end.exit_code == 0)
    return f"its ranks {'have ended' if is_through else 'are gone'}; torchrun hasn't ended yet"


def _stall(facts: RunFacts) -> str | None:
    """Why it is stalled; None where it isn't. Neither CPU time nor a growing log is asked: a rank that waits for ever
    in a collective call burns the one and heartbeats fill the other."""
    steps = facts.steps if _steps_count(facts) else None
    instants = [facts.last_save_at, *([facts.last_step_at] if steps else [])]
    progress = max((at for at in instants if at is not None), default=None)
    if progress is None:
        return None
    silent = facts.now - progress
    if steps is not None and silent > steps.patience_seconds:
        usual = text.interval(steps.usual_seconds)
        return f"alive, but no step for {text.coarse(silent)}; it used to log one every {usual}"
    if facts.saves is not None and silent > facts.saves.patience_seconds:
        usual = text.interval(facts.saves.usual_seconds)
        return f"alive, but no save for {text.coarse(silent)}; it used to save every {usual}"
    return None


def _steps_count(facts: RunFacts) -> bool:
    """Does the log of its steps still tell? A training that saves on without logging has only its saves to show."""
    if facts.steps is None or facts.last_step_at is None:
        return False
    return facts.last_save_at is None or facts.last_save_at - facts.last_step_at <= facts.steps.patience_seconds


def _failure(end: EndFacts) -> str:
    if end.signal and end.error and end.error.startswith("killed by signal"):
        return end.error  # it names the signal, and what is known of who sent it
    if end.failure is not None and end.failure.rank is not None and end.error:
        return end.error  # torchrun's own exit code is 1 whatever happened
    how = f"killed by {end.signal}" if end.signal else f"exit code {end.exit_code}"
    return f"{how}: {end.error}" if end.error else how
