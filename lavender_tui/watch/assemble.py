"""One run directory to one Run: its checkpoints read through the index, its documents, its processes, its state."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from lavender_tui.checkpoints.parts import FAMILIES
from lavender_tui.launch.as_it_ran import command_as_it_ran
from lavender_tui.launch.identity import host_name
from lavender_tui.launch.journal import person
from lavender_tui.launch.record import LaunchRecord
from lavender_tui.model.checkpoint import Checkpoint, Wholeness, parse_name
from lavender_tui.model.job import NOT_ASKED, Job
from lavender_tui.model.job import facts as job_facts
from lavender_tui.model.kept import KeptBy
from lavender_tui.model.run import (
    RUN_NAME,
    UNREAD_FORMAT,
    EndFacts,
    LiveProcess,
    LossPoint,
    Run,
    RunState,
    started_at_from_name,
)
from lavender_tui.model.state import JobFacts, RunFacts, decide_state
from lavender_tui.model.text import clean, plural
from lavender_tui.watch.first_gone import with_first_gone
from lavender_tui.watch.flags import flag_rank_states
from lavender_tui.watch.hand_ends import ended_by, stop_by_hand_of
from lavender_tui.watch.index import Index
from lavender_tui.watch.keeping import keeper_of
from lavender_tui.watch.listing import Found, Listing, name_order
from lavender_tui.watch.metrics import METRICS_NAME, MetricsTail
from lavender_tui.watch.proving import proof_of
from lavender_tui.watch.records import Papers
from lavender_tui.watch.standing import NOTHING, Observed, Standing, standing, unseen, vanished
from lavender_tui.watch.times import CLOCK_SLACK_SECONDS, Times
from lavender_tui.watch.unseen import unseen_end

MAX_SHOWN_WARNINGS = 12
NEWEST_TRIES = 3  # how many cut or foreign files are passed in the first pass, looking for one that is whole

MayRead = Callable[[], bool]


def assemble(
    listing: Listing,
    root: str,
    papers: Papers,
    *,
    index: Index,
    observed: Observed = NOTHING,
    now: float,
    may_read: MayRead = lambda: True,
    must_read_newest: bool = True,
    metrics_budget_bytes: int = 8 << 20,
) -> Run | None:
    """The Run of one directory; None where it holds no checkpoint, nor a part of one, and has no run's name or record.

    The newest checkpoint is read in any case (unless `must_read_newest` is off); the others are as long as `may_read()`
    says so, newest first. What isn't read is listed by its name, as `Wholeness.UNREAD`. Never raises.
    """
    checkpoints, ignored, parts = read_checkpoints(listing, index, may_read, must_read_newest)
    is_named_run = RUN_NAME.fullmatch(os.path.basename(listing.path)) is not None
    if not (checkpoints or parts or papers.has_launch or is_named_run or listing.unreadable):
        return None
    tail = _tail(listing, index, metrics_budget_bytes)
    flagged = flag_rank_states(checkpoints)
    newest = next((one for one in reversed(flagged) if one.is_whole), None)
    stands = standing(observed, papers.launch, papers.end)
    times = Times(flagged, listing, tail, papers.launch, now, stands.alive_since)
    end = papers.end or _unrecorded_end(listing, papers, observed, stands, times, index)
    end = with_first_gone(end, observed.gone)
    facts = _facts(papers, observed, stands, times, newest, end, listing.unreadable)
    state, reason = decide_state(facts)
    said = _said_of_parts(parts)
    if said and not checkpoints and state is RunState.IDLE:
        reason = said[0]
    started_at = started_at_from_name(os.path.basename(listing.path))
    losses, losses_by = _losses(tail, flagged)
    return Run(
        path=listing.path,
        root=root,
        name=os.path.basename(listing.path) or listing.path,
        format=_format(flagged, newest, listing.path, parts),
        state=state,
        state_reason=reason,
        checkpoints=flagged,
        newest=newest,
        processes=stands.processes,
        leftovers=stands.leftovers,
        elsewhere=facts.elsewhere,
        usage=observed.usage if stands.processes else None,
        started_at=started_at if started_at is not None else (papers.launch.started_at if papers.launch else None),
        last_save_at=times.last_save_at,
        last_activity_at=times.last_activity_at,
        last_sign_at=times.sign.at if times.sign else None,
        save_interval_seconds=times.interval,
        world_size=_world_size(papers, observed, newest),
        pid=_pid(papers.launch, stands.processes),
        host=papers.launch.host if papers.launch else (host_name() if observed.processes else None),
        launched_command=_command(papers.launch, observed),
        resumed_from=papers.resumed_from,
        end=end,
        losses=losses,
        losses_by=losses_by,
        planned=papers.planned,
        begin=tail.begin if tail is not None else None,
        proof=proof_of(listing, index, tail),
        request=facts.request,
        keeper=_keeper(listing, index, state),
        is_ours=papers.has_launch or "resume.json" in listing.documents,
        is_by_hand=listing.unreadable is None and _is_by_hand(papers, stands, observed),
        unreadable=listing.unreadable,
        started_by=papers.launch.started_by if papers.launch else _owner(stands.processes),
        job=observed.job,
        warnings=_warnings(listing, papers, [*said, *ignored], times, tail, started_at, now),
    )


def _unrecorded_end(
    listing: Listing, papers: Papers, observed: Observed, stands: Standing, times: Times, index: Index
) -> EndFacts | None:
    """How it ended, where nothing of ours recorded it: as it was seen, as its files tell, or as the journal does."""
    seen_end = observed.end if not stands.processes else None
    if papers.has_launch:
        is_here = papers.launch is not None and unseen(papers.launch, times.sign)[0] is None
        return unseen_end(listing, papers.launch, index, stands, seen_end) if is_here else seen_end
    stop = stop_by_hand_of(listing.path, index, stands.processes, observed.seen, times.last_activity_at)
    return ended_by(stop, seen_end, observed.seen) if stop is not None else seen_end


def _facts(
    papers: Papers,
    observed: Observed,
    stands: Standing,
    times: Times,
    newest: Checkpoint | None,
    end: EndFacts | None,
    unreadable: str | None,
) -> RunFacts:
    """What decides the state."""
    elsewhere, restarted_at = unseen(papers.launch or observed.seen, times.sign)
    elsewhere = f"the account of {papers.private_to}" if papers.private_to is not None else elsewhere
    return RunFacts(
        now=times.now,
        newest=newest,
        processes=stands.processes,
        had_all_ranks=observed.had_all_ranks,
        had_ranks=observed.had_ranks or times.had_ranks(stands.alive_since, observed.searched_at),
        leftovers=stands.leftovers,
        end=end,
        has_record=papers.has_launch,
        unreadable=unreadable,
        elsewhere=elsewhere,
        restarted_at=restarted_at,
        copied_from=papers.copied_from,
        is_ending=stands.is_ending,
        is_unsupervised=stands.is_unsupervised,
        vanished=vanished(observed),
        job=_job_facts(papers, observed.job),
        sign=times.sign,
        last_save_at=times.progress_by_save_at,
        last_step_at=times.progress_by_step_at,
        saves=times.saves,
        steps=times.steps,
        request=papers.request if _may_read_requests(stands, elsewhere, observed.job) else None,
    )


def _may_read_requests(stands: Standing, elsewhere: str | None, job: Job | None) -> bool:
    """Does it live, or may it: on another host, or on the nodes of Slurm? Of what is over nothing is asked any more."""
    return bool(stands.processes) or elsewhere is not None or (job is not None and job.is_active)


def _job_facts(papers: Papers, job: Job | None) -> JobFacts | None:
    if job is not None:
        return job_facts(job)
    is_a_job = papers.launch is not None and papers.launch.slurm is not None and not papers.launch.is_job_by_hand
    return NOT_ASKED if is_a_job and papers.end is None else None


def _keeper(listing: Listing, index: Index, state: RunState) -> KeptBy | None:
    """That a keeper was killed is of no interest any more where the run has ended for good."""
    found = keeper_of(listing.path, index)
    is_over = state in (RunState.STOPPED, RunState.FINISHED)
    return None if found is not None and found.is_alive is False and is_over else found


def read_checkpoints(
    listing: Listing, index: Index, may_read: MayRead, must_read_newest: bool = True
) -> tuple[list[Checkpoint], list[str], dict[str, list[str]]]:
    """(checkpoints, oldest first by what they say of themselves; warnings on files that are none; parts by format).

    Parts are the files of `listing.parts`, and those whose content says that they are one.
    """
    checkpoints: list[Checkpoint] = []
    ignored: list[str] = []
    parts = {format: list(names) for format, names in listing.parts.items()}
    tries = 0 if must_read_newest else NEWEST_TRIES
    for found in sorted(listing.found, key=name_order, reverse=True):
        checkpoint = index.known(found.path, found.facts, found.companions)
        if checkpoint is None and (tries < NEWEST_TRIES or may_read()):
            checkpoint = index.get(found.path, found.facts, found.companions)
        if checkpoint is None:
            checkpoints.append(unread(found))
            continue
        tries = NEWEST_TRIES if checkpoint.is_whole else tries + 1
        if _is_part(found, checkpoint):
            parts.setdefault(checkpoint.format, []).append(found.name)
        elif (why := _why_ignored(found, checkpoint)) is not None:
            ignored.append(why)
        else:
            checkpoints.append(checkpoint)
    index.keep_only(listing.path, (found.path for found in listing.found))
    checkpoints.sort(key=lambda one: (*one.order, one.facts.mtime_ns, one.path))
    return checkpoints, sorted(ignored), parts


def unread(found: Found) -> Checkpoint:
    """A checkpoint as its name tells of it."""
    stage, save_count = parse_name(found.name)
    return Checkpoint(
        path=found.path,
        format=UNREAD_FORMAT,
        facts=found.facts,
        wholeness=Wholeness.UNREAD,
        reason="not read yet",
        name_stage=stage,
        name_save_count=save_count,
    )


def is_pending(run: Run) -> bool:
    """Does some checkpoint of the run wait to be read?"""
    return any(one.wholeness is Wholeness.UNREAD for one in run.checkpoints)


def is_unsettled(run: Run) -> bool:
    """Is some checkpoint of the run being written, so that it has to be judged again as time passes?"""
    return any(one.wholeness is Wholeness.WRITING for one in run.checkpoints)


def _is_part(found: Found, checkpoint: Checkpoint) -> bool:
    """Another program's part is said with the others of its kind; one that is named like ours keeps its row."""
    foreign = checkpoint.wholeness is Wholeness.FOREIGN and checkpoint.format in FAMILIES
    return foreign and parse_name(found.name)[1] is None


def _said_of_parts(parts: dict[str, list[str]]) -> list[str]:
    """A sentence for each program, the one with most files first."""
    ranked = sorted(parts.items(), key=lambda one: (-len(one[1]), one[0]))
    return [FAMILIES[format].said_of([clean(name) for name in sorted(names)]) for format, names in ranked]


def _why_ignored(found: Found, checkpoint: Checkpoint) -> str | None:
    """Files that only end like checkpoints are said once, not listed: no checkpoint by name and none by content."""
    if parse_name(found.name)[1] is not None or checkpoint.is_whole:
        return None
    if found.facts.size_bytes == 0:
        return f"{clean(found.name)} is ignored: it is empty"
    if checkpoint.wholeness is Wholeness.FOREIGN:
        return f"{clean(found.name)} is ignored: {checkpoint.reason or 'it is no checkpoint'}"
    return None


def _tail(listing: Listing, index: Index, budget_bytes: int) -> MetricsTail | None:
    if METRICS_NAME not in listing.activity:
        return None
    tail = index.tail(os.path.join(listing.path, METRICS_NAME))
    if budget_bytes:
        tail.read(budget_bytes)
    return tail


def _losses(tail: MetricsTail | None, checkpoints: Sequence[Checkpoint]) -> tuple[tuple[LossPoint, ...], str]:
    """(the curve, what its points count: "step", or "save" where the checkpoints tell no step). Never both in one."""
    if tail is not None and (points := tail.points):
        return points, "step"
    told = [one for one in checkpoints if one.loss is not None or one.loss_is_no_number]
    by = "step" if any(one.step is not None for one in told) else "save"
    saved = [(one.step if by == "step" else one.save_count, one) for one in told]
    points = tuple(
        LossPoint(step=at, loss=one.loss, lr=one.lr, is_no_number=one.loss_is_no_number)
        for at, one in saved
        if at is not None
    )
    return points, by


def _format(
    checkpoints: Sequence[Checkpoint], newest: Checkpoint | None, path: str, parts: dict[str, list[str]]
) -> str:
    if newest is not None:
        return newest.format
    known = [one.format for one in checkpoints if one.format != UNREAD_FORMAT]
    if parts and not checkpoints:
        return max(sorted(parts), key=lambda format: len(parts[format]))
    return known[-1] if known else "lavender" if RUN_NAME.fullmatch(os.path.basename(path)) else "unknown"


def _world_size(papers: Papers, observed: Observed, newest: Checkpoint | None) -> int | None:
    """What it runs on now; else what the record, the plan or the memory says; else what the newest checkpoint does."""
    live = [process.world_size for process in observed.processes if process.world_size and process.role == "worker"]
    started = papers.launch or observed.seen
    recorded = started.world_size if started else None
    saved = (newest.world_size or newest.rank_states.expected) if newest else None
    return (live[0] if live else None) or recorded or papers.planned_world_size or saved


def _command(launch: LaunchRecord | None, observed: Observed) -> tuple[str, ...]:
    if launch is not None:
        return command_as_it_ran(launch)
    return observed.seen.argv if observed.seen is not None else ()


def _pid(launch: LaunchRecord | None, processes: Sequence[LiveProcess]) -> int | None:
    """The pid to name: the recorded leader where it lives, else the agent, else the first rank."""
    leader = launch.leader if launch is not None else None
    if leader is not None and any(process.pid == leader.pid for process in processes):
        return leader.pid
    order = {"agent": 0, "worker": 1, "process": 1, "supervisor": 2}
    ranked = sorted(processes, key=lambda process: (order.get(process.role, 3), process.rank or 0, process.pid))
    return ranked[0].pid if ranked else None


def _is_by_hand(papers: Papers, stands: Standing, observed: Observed) -> bool:
    """Of a run without a record it is known while it lives, or because it was seen then."""
    if papers.launch is not None:
        return papers.launch.written_by == "training"
    return not papers.has_launch and (bool(stands.processes) or observed.seen is not None)


def _owner(processes: Sequence[LiveProcess]) -> str | None:
    if not processes:
        return None
    return next((f"{one.owner}@{host_name()}" for one in processes if one.owner), None) or person()


def _warnings(
    listing: Listing,
    papers: Papers,
    ignored: Sequence[str],
    times: Times,
    tail: MetricsTail | None,
    started_at: float | None,
    now: float,
) -> tuple[str, ...]:
    warnings = [*listing.warnings, *papers.warnings]
    if started_at is not None and started_at > now + CLOCK_SLACK_SECONDS:
        warnings.append("its name lies in the future: the clocks differ")
    if times.ahead:
        newest = max(times.ahead, key=lambda one: one.facts.mtime_ns)
        ahead = (newest.facts.mtime_ns / 1e9 - now) / 60
        more = f" (and {len(times.ahead) - 1} more)" if len(times.ahead) > 1 else ""
        name = clean(os.path.basename(newest.path))
        warnings.append(f"the file time of {name}{more} lies {ahead:,.0f} min in the future: the clocks differ")
    if tail is not None and tail.bad_lines:
        count = plural(tail.bad_lines, "line")
        warnings.append(f"{METRICS_NAME}: {count} can't be read, left out")
    warnings += ignored
    hidden = len(warnings) - MAX_SHOWN_WARNINGS
    return tuple(warnings) if hidden <= 1 else (*warnings[:MAX_SHOWN_WARNINGS], f"and {hidden} more warnings")


def until(deadline: float | None, *, at_least: int = 0) -> MayRead:
    """A budget: reading goes on until `deadline` (monotonic seconds; None is no limit), `at_least` so many times."""
    asked = 0

    def may_read() -> bool:
        nonlocal asked
        asked += 1
        return asked <= at_least or deadline is None or time.monotonic() < deadline

    return may_read
