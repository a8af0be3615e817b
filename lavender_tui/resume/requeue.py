"""A job of Slurm that was queued again goes on: planned by the same rules as every resume, from inside of the job.

The newest save of any attempt that passes every check is resumed from, into a new run directory. Where no attempt has
saved anything, or nothing that can be resumed from, what the first one was resumed from is, and a first start that
has saved nothing is made again. Nothing is submitted: the caller becomes the job.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from lavender_tui.errors import AlreadyRunning, BadState, Refused, UsageError
from lavender_tui.launch import journal, slurm
from lavender_tui.launch.files import read_document
from lavender_tui.launch.record import GOES_ON, ExitRecord, LaunchRecord, read_launch, read_stop, write_exit
from lavender_tui.launch.slurm_living import attempts
from lavender_tui.model.choosing import why_passed_over
from lavender_tui.model.plan import PLAN_NAME, Proposal, ResumePlan, Verdict
from lavender_tui.resume.carrying_out import carry_out
from lavender_tui.resume.examining import examined_by_default
from lavender_tui.resume.fresh import start_fresh
from lavender_tui.resume.next_start import MOST_CANDIDATES, run_at, suspects_of
from lavender_tui.resume.proposing import propose
from lavender_tui.resume.request import Options, Target, sentence_case
from lavender_tui.watch.index import Index

Say = Callable[[str], None]


def go_on(run_dir: str, *, job_id: int, attempt: int, say: Say = lambda text: None) -> str | None:
    """Prepare the job's next `attempt` (2 or more); returns the script to execute, or None where nothing is left to do.

    `run_dir` is any run of the job. Raises AlreadyRunning where that attempt has a run already, Refused where the plan
    is, and what `carry_out` raises.
    """
    tries = _attempts(run_dir, job_id)
    last_dir, last = tries[-1]
    if last.attempt >= attempt:
        raise AlreadyRunning(f"attempt {attempt} of this job has a run already", where=last_dir)
    _close(last_dir)
    if (stop := read_stop(last_dir)) is not None:
        say(f"it was stopped by {stop.who}: nothing is started again")
        return None
    options = _options(last, os.path.dirname(last_dir), job_id, attempt)
    proposal, passed = _from_newest_save(tries, options)
    for words in passed:
        say(f"passed over: {words}")
    if proposal is None:
        say("no attempt of this job has saved anything: it begins again")
        return _begin_again(tries[0][0], tries[0][1], options)
    if _is_over(proposal):
        say("the training is over: nothing is left to do")
        return None
    if proposal.is_refused and tries[0][1].resumed_from is not None:
        say("no save of this job can be resumed from: it begins again, from where it began")
        return _begin_again(tries[0][0], tries[0][1], options, passed)
    return _carry_out(proposal, passed)


def _attempts(run_dir: str, job_id: int) -> list[tuple[str, LaunchRecord]]:
    record = read_launch(run_dir)
    if record is None or record.slurm is None or record.slurm.job_id not in (None, job_id):
        raise UsageError(f"this is no run of job {job_id}", where=run_dir)
    return attempts(run_dir, record)


def _close(run_dir: str) -> None:
    """Killed at once (a lost node, a preemption without grace), an attempt could not record its own end."""
    stop = {"who": "Slurm", "how": GOES_ON, "why": "Slurm put the job back into the queue"}
    with suppress(OSError):
        write_exit(run_dir, ExitRecord(code=None, signal=None, ended_at=time.time(), stop=stop))


def _options(last: LaunchRecord, root: str, job_id: int, attempt: int) -> Options:
    """As the last attempt was, whatever the project's settings say by now: it is the same job."""
    assert last.slurm is not None
    return Options(
        world_size=last.world_size,
        nodes=last.nodes or 1,
        max_restarts=last.max_restarts,
        backend=slurm.NAME,
        command=last.command,
        project_dir=last.cwd,
        root=root,
        job=replace(last.slurm, job_id=job_id),
        attempt=attempt,
    )


def _from_newest_save(tries: Sequence[tuple[str, LaunchRecord]], options: Options) -> tuple[Proposal | None, list[str]]:
    """(the plan from the newest save of any attempt that passes every check, why newer ones were passed over).

    The plan of the newest one, refused, where none passes; None where nothing was saved.
    """
    passed: list[str] = []
    refused = None
    for run_dir, _ in reversed(tries):
        for path in _usable_saves(run_dir):
            proposal = examined_by_default(propose(Target(paths=(path,)), options))
            if not proposal.is_refused or _is_over(proposal):
                return proposal, passed
            why = next(check.what for check in proposal.checks if check.verdict is Verdict.REFUSE)
            passed.append(f"{os.path.basename(path)}: {why}")
            refused = refused or proposal
    return refused, passed


def _usable_saves(run_dir: str) -> list[str]:
    """Newest first, those last that a resume broke from."""
    index = Index()
    run = run_at(run_dir, index)
    if run is None:
        return []
    bad = suspects_of(run, index)
    newest_first = sorted(run.checkpoints, key=lambda one: one.order, reverse=True)
    usable = [one.path for one in newest_first if why_passed_over(one) is None]
    return sorted(usable, key=bad.__contains__)[:MOST_CANDIDATES]


def _begin_again(run_dir: str, first: LaunchRecord, options: Options, passed: Sequence[str] = ()) -> str:
    """What the job was submitted for: a resume with the same choices, or a first start."""
    if first.resumed_from is None or first.resumed_from.checkpoint is None:
        return _script(start_fresh(options.root or os.path.dirname(run_dir), options).record)
    plan = _plan(run_dir)
    if plan is not None:
        options = replace(
            options,
            policy=None if plan.start.stage else plan.start.policy,
            next_stage=plan.start.stage,
            num_workers=plan.batch.num_workers,
            global_batch=plan.batch.global_size,
        )
    return _carry_out(propose(Target(paths=(first.resumed_from.checkpoint,)), options), passed)


def _plan(run_dir: str) -> ResumePlan | None:
    path = os.path.join(run_dir, PLAN_NAME)
    document, _ = read_document(path)
    try:
        return ResumePlan.from_json(document, where=path) if document is not None else None
    except BadState:
        return None


def _carry_out(proposal: Proposal, passed: Sequence[str] = ()) -> str:
    proposal = examined_by_default(proposal)
    for check in proposal.checks:
        if check.verdict is Verdict.REFUSE:
            raise Refused(f"not resumed: {check.what}", hint=sentence_case(check.remedy), checks=proposal.checks)
    return _script(carry_out(_saying(proposal, passed), again=True).record, passed)


def _note(record: LaunchRecord, passed: Sequence[str]) -> None:
    """In the root's journal, as every start."""
    came_from = record.resumed_from
    facts: dict[str, object] = {}
    if came_from is not None:
        facts |= {"from": came_from.run, "checkpoint": came_from.checkpoint}
    what = {**record.identity, "attempt": record.attempt, "world_size": record.world_size, "backend": record.backend}
    facts |= {"passed_over": list(passed[:8])} if passed else {}
    journal.note(journal.root_of(record.run_dir), "requeued", run=record.run_dir, who=None, **what, **facts)


def _saying(proposal: Proposal, passed: Sequence[str]) -> Proposal:
    """What was passed over stands among the warnings of the plan."""
    if proposal.plan is None or not passed:
        return proposal
    warnings = (*proposal.plan.warnings, *(f"passed over: {words}" for words in passed))
    return replace(proposal, plan=replace(proposal.plan, warnings=warnings))


def _script(record: LaunchRecord, passed: Sequence[str] = ()) -> str:
    assert record.slurm is not None
    _note(record, passed)
    return record.slurm.script


def _is_over(proposal: Proposal) -> bool:
    return _refusals(proposal) == {"epoch.over"}


def _refusals(proposal: Proposal) -> set[str]:
    return {check.id for check in proposal.checks if check.verdict is Verdict.REFUSE}
