"""What a root needs next, for cron and job scripts: a first start, a resume, or nothing at all.

Alive: the newest run, or the one that would be resumed, lives; nothing is done. Over: nothing is left to train.
Fresh: there is no checkpoint, or only files of which nothing can be had any more. Else: resume. Files that may be
whole and only can't be read right now are no reason to begin anew: then the resume is refused as ever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from lavender_tui.errors import AlreadyRunning, LaunchFailed, UsageError
from lavender_tui.launch import command as commands
from lavender_tui.launch.arguments import parse
from lavender_tui.launch.record import LaunchRecord, read_launch, this_machine
from lavender_tui.launch.run_dir import try_lock
from lavender_tui.launch.slurm_living import is_around_us
from lavender_tui.model import text
from lavender_tui.model.checkpoint import Wholeness
from lavender_tui.model.choosing import over_runs, run_order
from lavender_tui.model.plan import Launch, Proposal, Verdict
from lavender_tui.model.run import ALIVE, RUN_NAME, Run
from lavender_tui.resume.carrying_out import begin, new_run
from lavender_tui.resume.proposing import propose
from lavender_tui.resume.request import Options, Target
from lavender_tui.watch.index import Index
from lavender_tui.watch.machine import cpu_count, devices
from lavender_tui.watch.scan import scan

LOCK_SECONDS = 60.0
# A run of another host can't be seen from here; while it wrote something so recently it is taken to live.
ELSEWHERE_SECONDS = 1800.0
_HOPELESS = (Wholeness.CUT, Wholeness.DAMAGED, Wholeness.FOREIGN)


class Next(StrEnum):
    """What is to be done with a root; the words of `resume --latest --json`."""

    FRESH = "fresh"
    RESUME = "resumed"
    ALIVE = "alive"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latest:
    """`run_dir` is the run that lives or is over; `proposal` what would be resumed, or why it can't be."""

    next: Next
    why: str
    run_dir: str | None = None
    pid: int | None = None
    proposal: Proposal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """A first start that was made."""

    run_dir: str
    record: LaunchRecord
    argv: tuple[str, ...]


@contextmanager
def one_at_a_time(root: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Make the root where it is missing, and keep others out that decide what it needs; waits `seconds` for them.

    Raises AlreadyRunning where one doesn't finish, LaunchFailed where the root can't be made, UsageError for no root.
    """
    _refuse_other_places(root)
    try:
        os.makedirs(root, exist_ok=True)
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        what = f"the root can't be made ({error.strerror or error})"
        raise LaunchFailed(what, where=root, hint="Choose another root, or make it writable") from error
    deadline = time.monotonic() + seconds
    try:
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                raise AlreadyRunning("somebody else is starting a run in here", where=root, hint="Look at its runs")
            time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _refuse_other_places(root: str) -> None:
    """A run or a file is no root, and no new run is made inside one."""
    if RUN_NAME.fullmatch(os.path.basename(root)) or (os.path.lexists(root) and not os.path.isdir(root)):
        raise UsageError("this is no root of runs", where=root, hint="Name the directory that holds them")


def latest(root: str, options: Options, *, index: Index | None = None) -> Latest:
    """What the root (absolute; it may be missing) needs next. Nothing is written. Raises UsageError for no root."""
    _refuse_other_places(root)
    index = Index() if index is None else index
    runs = scan((root,), index=index) if os.path.isdir(root) else ()
    newest = max(runs, key=run_order, default=None)
    if newest is not None and (why := why_alive(newest)) is not None:
        return Latest(next=Next.ALIVE, why=why, run_dir=newest.path, pid=newest.pid)
    if not any(run.checkpoints for run in runs) and options.next_stage is None:
        said = next((f" ({run.title}: {text.clean(run.warnings[0], 200)})" for run in runs if run.warnings), "")
        return Latest(next=Next.FRESH, why=f"no run in {root} has a checkpoint{said}")
    proposal = propose(Target(paths=(root,)), _stage_on(options, runs), index=index)
    return _of_proposal(proposal, runs, options)


def _stage_on(options: Options, runs: Sequence[Run]) -> Options:
    """Once the next stage has a checkpoint of its own it is resumed, not begun again."""
    stage = options.next_stage
    if stage is None or over_runs(runs, stage).checkpoint is None:
        return options
    return replace(options, stage=stage, next_stage=None)


def _of_proposal(proposal: Proposal, runs: Sequence[Run], options: Options) -> Latest:
    refused = [check for check in proposal.checks if check.verdict is Verdict.REFUSE]
    ids = {check.id for check in refused}
    source = proposal.plan.source.run if proposal.plan is not None else None
    busy = [check.what for check in refused if check.id in ("source.alive", "source.lock")]
    if busy:
        run = next((one for one in runs if one.path == source), None)
        why = busy[0]
        return Latest(next=Next.ALIVE, why=why, run_dir=source, pid=run.pid if run else None)
    if ids == {"epoch.over"} and options.policy is None:
        over = refused[0]
        return Latest(next=Next.OVER, why=f"{over.what}; {over.remedy}", run_dir=source, proposal=proposal)
    if ids == {"checkpoint.found"} and options.next_stage is None and _is_hopeless(proposal, runs):
        lost = text.plural(len(proposal.passed_over), "checkpoint")
        of_stage = f" of stage {options.stage}" if options.stage else ""
        why = f"nothing{of_stage} can be resumed" + (f": {lost} cut off or damaged" if proposal.passed_over else "")
        return Latest(next=Next.FRESH, why=why, proposal=proposal)
    return Latest(next=Next.RESUME, why="", run_dir=source, proposal=proposal)


def _is_hopeless(proposal: Proposal, runs: Sequence[Run]) -> bool:
    """Is what was passed over lost for good, rather than out of reach for now?"""
    passed = {path for path, _ in proposal.passed_over}
    return all(one.wholeness in _HOPELESS for run in runs for one in run.checkpoints if one.path in passed)


def why_alive(run: Run, now: float | None = None) -> str | None:
    """In words, or None. A run of this host from before it was started again is surely dead."""
    if run.state in ALIVE:
        return f"{run.title} lives: {run.state_reason}"
    if run.job is not None and (run.job.is_active or run.job.away_since is not None):
        return f"{run.title} seems to live: {run.state_reason}"
    record = read_launch(run.path)
    if run.is_surely_over or (record is not None and _is_known_here(record)):
        return None
    where, sign_at = (record.host, record.started_at) if record is not None else (run.elsewhere, run.last_sign_at)
    silent = (time.time() if now is None else now) - (run.last_activity_at or sign_at or 0.0)
    if where is None or silent > ELSEWHERE_SECONDS:
        return None
    return f"{run.title} seems to live on {text.clean(where, 60)}: it wrote {text.age(silent)}"


def _is_known_here(record: LaunchRecord) -> bool:
    """Would its processes be seen from here, or have they ended with this host's last start?"""
    here = this_machine()
    is_of_before = record.host == here.host and record.boot_id != here.boot_id
    return record.machine == here or is_around_us(record) or is_of_before


def fresh_launch(options: Options, run_dir: str) -> tuple[Launch, commands.CommandSource, int]:
    """(launch, command, world_size) of a first start. Raises UsageError where no command is known or it can't fit."""
    command = commands.find_command(None, explicit=options.command, project_dir=options.project_dir)
    size = options.world_size or _asked_by(command)
    launch = commands.build(
        command,
        world_size=size,
        run_dir=run_dir,
        backend=options.backend,
        stage=options.stage,
        start_epoch=1,
        cores=cpu_count(),
        attempt=options.attempt,
        hosts=options.hosts,
    )
    return launch, command, size


def start_fresh(root: str, options: Options) -> Fresh:
    """Start the training from scratch in a new run directory. On any failure nothing stays behind."""
    with new_run(root) as run_dir:
        launch, command, size = fresh_launch(options, run_dir)
        record = begin(options, launch, run_dir, world_size=size, command=command.argv)
        return Fresh(run_dir=run_dir, record=record, argv=launch.argv)


def _asked_by(command: commands.CommandSource) -> int:
    """How many processes the command itself starts; torchrun's words for all devices mean those of this machine."""
    told = parse(command.argv).option("--nproc-per-node")
    if told is None:
        return 1
    if told.isascii() and told.isdigit() and len(told) < 8:
        return max(1, int(told))
    return cpu_count() if told == "cpu" else devices() or (cpu_count() if told == "auto" else 1)
