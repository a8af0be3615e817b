"""From a proposal to a training that runs: lock, look again, merge, write the plan, launch. Or nothing at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from lavender_tui import checkpoints
from lavender_tui.errors import AlreadyRunning, BadState, LaunchFailed, Refused, ResumedAlready
from lavender_tui.launch import living, slurm, slurm_living
from lavender_tui.launch import start as launch_start
from lavender_tui.launch.locks import Held, resume_lock
from lavender_tui.launch.record import LaunchRecord, read_launch, write_atomically
from lavender_tui.launch.run_dir import new_run_dir, remove_if_untouched
from lavender_tui.launch.starting import OUR_NAMES, refuse_second_resume
from lavender_tui.model.plan import PLAN_NAME, Launch, Proposal, ResumePlan, Verdict
from lavender_tui.model.run import Lineage
from lavender_tui.model.state_rules import difference
from lavender_tui.model.text import clean
from lavender_tui.resume.child import Child
from lavender_tui.resume.choose import resumed_as
from lavender_tui.resume.examining import examined, is_examined_by_default
from lavender_tui.resume.looking import look_at_table, with_checks
from lavender_tui.resume.proposing import STATE_NAME, uses_state, with_launch
from lavender_tui.resume.request import Launched, Options, Prepared, sentence_case

PLAN_AGAIN = "Plan it again"


def warm_child() -> Child:
    """A merging child that imports its libraries from now on; hand it to `carry_out`, and close it."""
    return Child()


def carry_out(proposal: Proposal, *, again: bool = False, child: Child | None = None) -> Launched:
    """Start the training as proposed, in a run directory of its own; returns once its program runs.

    What was not examined is examined now (`resume.examined`, as far as `Options.verify` has it), which reads the whole
    checkpoint. The old run is only read, and locked meanwhile against a second resume. `again` resumes it though a run
    that lives was resumed from it before. `child`: a warm one; closing it from another thread cancels the merge.

    Whatever fails before the start leaves nothing behind. Raises Refused (with the checks), AlreadyRunning, BadState
    (what was checked has changed, or library and owners disagree), LaunchFailed, and other LavenderErrors.
    """
    ready, plan = _startable(proposal)
    if is_examined_by_default(ready):
        _refuse_changes(ready)
        ready, plan = _startable(examined(ready))
    with resume_lock(plan.source.run) as held:
        _refuse_changes(ready)
        _refuse_the_living(ready, plan, again)
        with _a_child(child, needed=_needs_child(ready, plan)) as using:
            if using is not None:
                ready, plan = _startable(_verify(ready, plan, using))
            held.confirm()
            with new_run(ready.root) as run_dir:
                return _launch(ready, plan, run_dir, using, again, held)


def _startable(proposal: Proposal) -> tuple[Prepared, ResumePlan]:
    refused = [check for check in proposal.checks if check.verdict is Verdict.REFUSE]
    plan = proposal.plan
    if refused or plan is None:
        what = f"not resumed: {refused[0].what}" if refused else "there is nothing to resume"
        raise Refused(what, hint=sentence_case(refused[0].remedy) if refused else None, checks=proposal.checks)
    if not isinstance(proposal, Prepared) or proposal.command is None:
        raise Refused("this proposal has no command to start", hint=PLAN_AGAIN, checks=proposal.checks)
    return proposal, plan


def _refuse_changes(ready: Prepared) -> None:
    """The files that the plan rests on are those that were read: same file, same size, same time."""
    for path, then in ready.files:
        try:
            now = checkpoints.file_facts(path)
        except OSError as error:
            raise BadState(f"is gone since it was checked ({error.strerror})", where=path, hint=PLAN_AGAIN) from error
        if any(getattr(now, name) != getattr(then, name) for name in ("dev", "inode", "size_bytes", "mtime_ns")):
            raise BadState("has changed since it was checked", where=path, hint=PLAN_AGAIN)


def _refuse_the_living(ready: Prepared, plan: ResumePlan, again: bool) -> None:
    if ready.options.job is not None:
        return  # Slurm runs a job once at a time, and this is the job
    if not ready.options.though_alive and living.is_alive(plan.source.run):
        raise AlreadyRunning(_lives(plan.source.run), where=plan.source.run, hint="Stop it first")
    if not again:
        refuse_second_resume(plan.source.run, [ready.root])
        _refuse_resumed_meanwhile(ready, plan)


def _refuse_resumed_meanwhile(ready: Prepared, plan: ResumePlan) -> None:
    """Of two at once the second gets its turn when the first is done, be that training over by then: nobody knew it."""
    known = set(map(os.path.realpath, ready.resumed_as))
    for run_dir in resumed_as(plan.source.run, ready.root):
        if os.path.realpath(run_dir) not in known:
            raise ResumedAlready(
                f"this run was resumed since it was checked, as {clean(os.path.basename(run_dir))}",
                where=plan.source.run,
                hint="Look at that one, then plan it again",
            )


def _lives(run_dir: str) -> str:
    record = read_launch(run_dir)
    told = slurm_living.why_alive(run_dir, record) if record is not None and record.slurm is not None else None
    return f"the old run lives: {told}" if told else "the old run lives"


def _verify(ready: Prepared, plan: ResumePlan, child: Child) -> Prepared:
    """The library merges to what the owners say, and the table opens at the version that the states are of."""
    if not ready.states:
        return _verify_table(ready, child)
    merged = child.merge(ready.states)
    if merged != plan.dataset:
        raise BadState(
            f"the library's merge and the owners of the splits disagree ({difference(merged, plan.dataset or {})})",
            where=plan.source.checkpoint,
            hint="Take another checkpoint, or start the epoch again with --policy replay-epoch",
        )
    return _verify_table(ready, child)


def _verify_table(ready: Prepared, child: Child) -> Prepared:
    """What the child sees in the table refuses before anything is made, or goes into the plan's warnings."""
    found = look_at_table(ready, child)
    data = (ready.plan.data if ready.plan is not None else None) or {}
    for check in found:
        if check.verdict is Verdict.REFUSE:
            where = clean(f"{data.get('table')} in {data.get('uri')}", 300)
            raise BadState(check.what, where=where, hint=sentence_case(check.remedy))
    return cast(Prepared, with_checks(ready, found))


def _launch(ready: Prepared, plan: ResumePlan, run_dir: str, child: Child | None, again: bool, held: Held) -> Launched:
    assert ready.command is not None
    plan = with_launch(plan, ready.command, ready.options, run_dir)
    if plan.dataset is not None and uses_state(ready.command):
        assert child is not None
        child.save(plan.dataset, os.path.join(run_dir, STATE_NAME))
    plan_path = os.path.join(run_dir, PLAN_NAME)
    try:
        write_atomically(plan_path, _document(plan))
    except OSError as error:
        what = f"the plan can't be written ({error.strerror or error})"
        raise LaunchFailed(what, where=plan_path, hint="Make room, or choose another root (--root)") from error
    held.confirm()
    record = _start(ready, plan, run_dir, again)
    return Launched(run_dir=run_dir, plan_path=plan_path, record=record, argv=plan.launch.argv)


def _document(plan: ResumePlan) -> bytes:
    """For people as long as that is short; a number a line is of no use for thousands of splits."""
    is_long = plan.dataset is not None and (plan.dataset["num_splits"] > 64 or "pack_buffers" in plan.dataset)
    return json.dumps(plan.to_json(), indent=None if is_long else 1).encode() + b"\n"


def _start(ready: Prepared, plan: ResumePlan, run_dir: str, again: bool) -> LaunchRecord:
    assert ready.command is not None
    came_from = Lineage(run=plan.source.run, checkpoint=plan.source.checkpoint)
    return begin(
        ready.options,
        plan.launch,
        run_dir,
        resumed_from=came_from,
        world_size=plan.world_size,
        command=ready.command.argv,
        again=again,
    )


def begin(
    options: Options,
    launch: Launch,
    run_dir: str,
    *,
    world_size: int,
    command: tuple[str, ...],
    resumed_from: Lineage | None = None,
    again: bool = False,
) -> LaunchRecord:
    """Start the training; from inside of a job of Slurm only prepare it, for the job then becomes it."""
    facts = {"resumed_from": resumed_from, "world_size": world_size, "command": command}
    run_id = launch.env[living.RUN_ID]
    if options.job is None:
        return launch_start(launch, run_dir, run_id=run_id, again=again, **facts)  # type: ignore[arg-type]
    return slurm.begin_inside(launch, run_dir, job=options.job, attempt=options.attempt, run_id=run_id, **facts)


def _needs_child(ready: Prepared, plan: ResumePlan) -> bool:
    """An epoch read from its start needs neither torch nor lancedb here."""
    writes_state = plan.dataset is not None and ready.command is not None and uses_state(ready.command)
    return bool(ready.states) or writes_state


@contextmanager
def _a_child(given: Child | None, *, needed: bool) -> Iterator[Child | None]:
    if given is not None and (given.is_usable or not needed):
        yield given
        return
    if not needed:
        yield None
        return
    with Child() as own:
        yield own


@contextmanager
def new_run(root: str) -> Iterator[str]:
    """A new run directory, gone again if the block fails before anything lives in it."""
    run_dir = new_run_dir(root)
    try:
        yield run_dir
    except BaseException:
        record = read_launch(run_dir)
        # A job that may have been submitted keeps its record: it is found again by its name.
        if (record is None or record.slurm is None) and not living.members(run_dir, record):
            remove_if_untouched(run_dir, (PLAN_NAME, STATE_NAME, *OUR_NAMES))
        raise
