"""From a target and what is wanted to a plan with every check behind it. Nothing is written, made or started."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from lavender_tui.errors import LavenderError
from lavender_tui.launch import command as commands
from lavender_tui.launch import slurm
from lavender_tui.launch.record import read_launch
from lavender_tui.launch.run_dir import NAME
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.plan import (
    PLAN_NAME,
    Batch,
    Check,
    Launch,
    Policy,
    Proposal,
    ResumePlan,
    Source,
    Start,
    Verdict,
)
from lavender_tui.model.start import scheduler_steps, weights_only
from lavender_tui.model.state_rules import epoch_size, refuse, work_key
from lavender_tui.model.text import clean
from lavender_tui.model.topology import per_rank_batch
from lavender_tui.resume.choose import Chosen, choose, resumed_as
from lavender_tui.resume.cost import environment, planned_data
from lavender_tui.resume.gather import Gathered, gather, without_states
from lavender_tui.resume.preflight import preflight
from lavender_tui.resume.request import Options, Prepared, Target
from lavender_tui.resume.situation import Situation, new_root
from lavender_tui.watch.index import Index
from lavender_tui.watch.machine import cpu_count, devices

STATE_NAME = "state.pt"


def propose(target: Target, options: Options | None = None, *, index: Index | None = None) -> Proposal:
    """How the target would be resumed, and everything that speaks for or against it.

    The library's merge and the look into the table are left to `carry_out`: what stands here as `plan.dataset` is what
    the owners of the splits say, and the library must come to the same. `plan.run_dir` is the name that would be taken
    now. Raises NotFound for a target that doesn't exist; everything else is a check.
    """
    options = options or Options()
    chosen = choose(target, options, index)
    if chosen.checkpoint is None:
        return _nothing(chosen, options)
    it, files = _situation(chosen, options)
    checks = preflight(it)
    plan, problem = plan_of(it, checks, run_dir=os.path.join(it.root, time.strftime(NAME)))
    return Prepared(
        plan=plan,
        checks=(*checks, *problem),
        passed_over=chosen.passed_over,
        options=options,
        root=it.root,
        backends=commands.startable(),
        command=it.command,
        checkpoint=chosen.checkpoint,
        before_spike=chosen.behind.checkpoint if chosen.behind is not None else None,
        spike=str(chosen.behind.spike) if chosen.behind is not None else chosen.spike,
        states=tuple(state.state for state in it.set.states) if it.policy is Policy.EXACT else (),
        files=files,
        resumed_as=it.resumed_as,
    )


def _nothing(chosen: Chosen, options: Options) -> Proposal:
    if chosen.problem:
        what = f"nothing to go back to: {clean(chosen.problem, 300)}"
        check = refuse("spike.before", what, remedy="leave --before-spike out, or name a checkpoint")
        return Prepared(plan=None, checks=(check,), passed_over=chosen.passed_over, options=options)
    stage = f" of stage {clean(options.stage)}" if options.stage else ""
    what, told = f"no checkpoint{stage} can be resumed from", [*chosen.passed_over, *chosen.reasons]
    if len(told) == 1:
        what = f"{what}: {clean(told[0][1], 300)}"
    evidence = "; ".join(f"{clean(os.path.basename(path))}: {clean(why, 200)}" for path, why in told[:5])
    check = refuse("checkpoint.found", what, evidence, "name another root or run")
    return Prepared(plan=None, checks=(check,), passed_over=chosen.passed_over, options=options)


def _situation(chosen: Chosen, options: Options) -> tuple[Situation, tuple[tuple[str, FileFacts], ...]]:
    checkpoint = chosen.checkpoint
    assert checkpoint is not None
    record = read_launch(chosen.run_path)
    recorded = record.world_size if record is not None else None
    if options.next_stage is None:
        gathered = gather(checkpoint, world_size=recorded, num_workers=options.num_workers or 0)
    else:
        gathered, checkpoint = without_states(checkpoint), weights_only(checkpoint)
    command, problem = _command(chosen, options)
    root = new_root(chosen.run_path, options)
    it = Situation(
        run=chosen.run,
        run_path=chosen.run_path,
        checkpoint=checkpoint,
        named=chosen.named,
        passed_over=chosen.passed_over,
        resumed_as=tuple(resumed_as(chosen.run_path, root)),
        set=gathered.set,
        facts=gathered.facts,
        options=options,
        saved_by=_saved_by(gathered, recorded),
        devices=0 if _is_a_job(options, command) else devices(),
        root=root,
        command=command,
        command_problem=problem,
        scheduler_epoch=gathered.scheduler_epoch,
        known_bad=chosen.known_bad,
        spike=chosen.spike,
        behind=chosen.behind,
    )
    return it, gathered.files


def _is_a_job(options: Options, command: commands.CommandSource | None) -> bool:
    """Its ranks run on nodes of a cluster: what this machine has says nothing of them."""
    return (options.backend or (command.backend if command is not None else None)) == slurm.NAME


def _saved_by(gathered: Gathered, recorded: int | None) -> int | None:
    if gathered.facts.world_size is not None:
        return gathered.facts.world_size
    return gathered.set.recorded_ranks or (None if gathered.set.is_lone else gathered.set.world_size) or recorded


def _command(chosen: Chosen, options: Options) -> tuple[commands.CommandSource | None, str]:
    try:
        return commands.find_command(chosen.run, explicit=options.command, project_dir=options.project_dir), ""
    except LavenderError as error:
        return None, f"{error.where}: {error.what}" if error.where else error.what


def plan_of(it: Situation, checks: tuple[Check, ...], *, run_dir: str) -> tuple[ResumePlan | None, tuple[Check, ...]]:
    """(the plan, ()), or (a plan that can't start anything, why); None without a whole checkpoint or a known start."""
    checkpoint, epoch = it.checkpoint, it.epoch
    if not checkpoint.is_whole or (epoch is None and not it.epoch_may_be_absent):
        return None, ()
    start_epoch = epoch if epoch is not None else 1
    plan = ResumePlan(
        source=_source(it),
        world_size_previous=it.saved_by,
        world_size=it.world_size,
        start=Start(
            policy=it.policy,
            epoch=start_epoch,
            scheduler_steps=scheduler_steps(checkpoint, start_epoch),
            samples_replayed=_replayed(it),
            scheduler_extra=it.scheduler_extra,
            stage=it.options.next_stage,
            **_counts(it),
        ),
        dataset=it.dataset,
        data=planned_data(checkpoint.data, it.num_splits, it.world_size),
        batch=Batch(
            global_size=it.global_batch,
            per_rank=per_rank_batch(it.global_batch, it.world_size),
            num_workers=it.num_workers,
        ),
        run_dir=run_dir,
        launch=Launch(backend=it.options.backend or "local", argv=(), cwd=it.options.project_dir or os.getcwd()),
        warnings=tuple(_sentence(one) for one in checks if one.verdict is Verdict.WARN),
    )
    if it.command is None or it.world_size < 1:
        return plan, ()
    try:
        return with_launch(plan, it.command, it.options, run_dir), ()
    except LavenderError as error:
        return plan, (refuse("command.fits", error.what, error.where or "", error.hint or ""),)


def _source(it: Situation) -> Source:
    one = it.checkpoint
    return Source(
        run=it.run_path,
        checkpoint=one.path,
        size=one.facts.size_bytes,
        mtime_ns=one.facts.mtime_ns,
        stage=one.stage,
        save_count=one.save_count if one.save_count is not None else one.name_save_count,
        epoch=one.epoch,
        epochs=one.epochs,
        epoch_complete=one.epoch_complete,
        loss=one.loss,
    )


def _replayed(it: Situation) -> int | None:
    """Rows that are read a second time: none, or in a replayed epoch what was read of it, where anything says that."""
    merged = it.merged
    if it.policy is Policy.EXACT:
        return None if merged is None else 0
    if it.policy is not Policy.REPLAY_EPOCH:
        return 0
    if merged is None or it.checkpoint.epoch_complete:
        return None if merged is None else 0
    return sum(merged["samples_consumed_per_split"])


def _counts(it: Situation) -> dict[str, int | None]:
    """What of the saved epoch is trained, what will be skipped, and what lies before the epoch that is started in."""
    merged = it.merged
    usable = epoch_size(merged, it.facts.num_rows) if merged is not None else None
    trained = sum(merged[work_key(it.set.states[0])]) if merged is not None else None
    if it.checkpoint.epoch_complete and usable is not None:
        trained = usable
    rest = None if usable is None or trained is None else max(0, usable - trained)
    goes_on = it.policy is Policy.EXACT
    skips = it.policy is Policy.SKIP_EPOCH or (it.policy is Policy.NEXT_EPOCH and not it.checkpoint.epoch_complete)
    return {
        "samples_trained": trained,
        "samples_skipped": rest if skips else 0 if merged is not None or not goes_on else None,
        "samples_left": rest if goes_on else usable,
    }


def with_launch(plan: ResumePlan, command: commands.CommandSource, options: Options, run_dir: str) -> ResumePlan:
    """The plan for this run directory, the command with everything in its place. Raises UsageError."""
    launch = commands.build(
        command,
        world_size=plan.world_size,
        run_dir=run_dir,
        backend=options.backend,
        plan_path=os.path.join(run_dir, PLAN_NAME),
        checkpoint=plan.source.checkpoint,
        state_path=os.path.join(run_dir, STATE_NAME) if plan.dataset is not None else None,
        stage=plan.start.stage or plan.source.stage,
        start_epoch=plan.start.epoch,
        cores=cpu_count(),
        attempt=options.attempt,
        hosts=options.hosts,
    )
    launch = replace(launch, env={**environment(plan, launch.env), **launch.env})
    return replace(plan, run_dir=run_dir, launch=launch)


def uses_state(command: commands.CommandSource) -> bool:
    """Does the command take the merged state as a file of its own?"""
    return any("{state}" in word for word in (*command.argv, *command.env.values()))


def _sentence(check: Check) -> str:
    return f"{check.what} ({check.evidence})" if check.evidence else check.what
