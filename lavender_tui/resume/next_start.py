"""From where a run that died is resumed: the newest checkpoint of its line that passes every check, on as many ranks as
may be now. Nothing is written or started."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from lavender_tui.errors import BadState, UsageError
from lavender_tui.launch import bad_files
from lavender_tui.launch.command import find_command
from lavender_tui.launch.files import read_document
from lavender_tui.launch.record import read_launch
from lavender_tui.model.checkpoint import Checkpoint, parse_name
from lavender_tui.model.choosing import why_passed_over
from lavender_tui.model.plan import PLAN_NAME, Check, Policy, Proposal, ResumePlan, Verdict
from lavender_tui.model.run import Run
from lavender_tui.model.suspects import Follower, suspects
from lavender_tui.model.text import clean, plural
from lavender_tui.resume.choose import resumed_as
from lavender_tui.resume.examining import examined_by_default
from lavender_tui.resume.keeping import sizes
from lavender_tui.resume.proposing import propose
from lavender_tui.resume.request import Options, Target
from lavender_tui.watch.index import Index
from lavender_tui.watch.scan import scan

MOST_CANDIDATES = 50  # checkpoints looked at for one try
MOST_ANCESTORS = 100
_AS_GIVEN = Options()


class Outcome(StrEnum):
    """What the search for a start came to."""

    FOUND = "found"
    ALIVE = "alive"
    OVER = "over"
    NOTHING = "nothing"
    REFUSED = "refused"  # now; it may be otherwise later


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """`why`: in words, whatever came out; `passed_over`: (checkpoint, why not), newest first."""

    outcome: Outcome
    why: str
    proposal: Proposal | None = None
    passed_over: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a try asks for: `options` as the person gave them; the `permitted` world sizes, () for any; how many
    `devices` there are now, 0 without any; `bad`: checkpoints that are out of the question, path -> why."""

    options: Options = _AS_GIVEN
    permitted: tuple[int, ...] = ()
    devices: int = 0
    bad: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Candidate:
    run: Run
    checkpoint: Checkpoint
    options: Options


def best_proposal(run_dir: str, wanted: Wanted, *, index: Index | None = None) -> Search:
    """The start of the next try: the newest usable checkpoint of the run, or of those that it came from, that passes
    every check, on the best world size.

    Never one that a run failed at once from. Nothing is written or started; the checkpoint is read whole, as before
    any resume. Raises the LavenderErrors of the planning.
    """
    index = Index() if index is None else index
    passed: list[tuple[str, str]] = []
    first: Search | None = None
    most = most_ranks(run_dir)
    for candidate in itertools.islice(_candidates(run_dir, wanted, index, passed), MOST_CANDIDATES):
        found = _look_at(candidate, wanted, most, index)
        if found.outcome is not Outcome.REFUSED:
            return replace(found, passed_over=tuple(passed))
        first = first or found
        passed.append((candidate.checkpoint.path, found.why))
    if first is not None:
        return replace(first, passed_over=tuple(passed))
    bad = next((f": {clean(os.path.basename(path))}: {why}" for path, why in passed), "")
    return Search(outcome=Outcome.NOTHING, why=f"no checkpoint is left to resume from{bad}", passed_over=tuple(passed))


def most_ranks(run_dir: str) -> int | None:
    """The most ranks that any run of its line was launched with; None where no record says it."""
    counts, path = [], run_dir
    for _ in range(MOST_ANCESTORS):
        record = read_launch(path)
        if record is None:
            break
        counts.append(record.world_size)
        if record.resumed_from is None:
            break
        path = record.resumed_from.run
    return max((one for one in counts if one is not None), default=None)


def _candidates(run_dir: str, wanted: Wanted, index: Index, passed: list[tuple[str, str]]) -> Iterator[_Candidate]:
    """Newest first: the run's own checkpoints, then those of the run that it was resumed from, up to the one that it
    was resumed from, and so on. What is known to be bad goes to `passed`."""
    path, options, source = run_dir, _with_command(run_dir, wanted.options, index), None
    at_source = options
    for _ in range(MOST_ANCESTORS):
        run = run_at(path, index)
        if run is None:
            return
        bad = {**suspects_of(run, index), **wanted.bad}
        for checkpoint in _up_to(source, run):
            why = bad.get(checkpoint.path) or why_passed_over(checkpoint)
            if why is not None:
                passed.append((checkpoint.path, why))
            elif source is not None and os.path.basename(checkpoint.path) == os.path.basename(source):
                yield _Candidate(run, checkpoint, at_source)
            else:
                yield _Candidate(run, checkpoint, options)
        if run.resumed_from is None:
            return
        path, source = run.resumed_from.run, run.resumed_from.checkpoint
        options, at_source = _as_it_began(run.path, options)


def run_at(path: str, index: Index) -> Run | None:
    """The run in that directory; None where there is none."""
    runs = scan((path,), index=index) if os.path.isdir(path) else ()
    return next((run for run in runs if os.path.realpath(run.path) == os.path.realpath(path)), None)


def suspects_of(run: Run, index: Index) -> dict[str, str]:
    """Its checkpoints that are known to be bad, path -> why: a resume from them broke, or a look found damage."""
    resumed = resumed_as(run.path, os.path.dirname(run.path))
    runs = scan(resumed, index=index) if resumed else ()
    return suspects(run.checkpoints, [Follower.of(one) for one in runs], bad_files.remembered())


def _up_to(source: str | None, run: Run) -> list[Checkpoint]:
    """The run's checkpoints, newest first; of one that was resumed from `source`, that one and those before it."""
    newest_first = sorted(run.checkpoints, key=lambda one: one.order, reverse=True)
    if source is None:
        return newest_first
    name = os.path.basename(source)
    there = next((one for one in newest_first if os.path.basename(one.path) == name), None)
    if there is not None:
        return [one for one in newest_first if one.order <= there.order]
    count = parse_name(name)[1]  # the file is gone
    return [one for one in newest_first if count is not None and (one.name_save_count or count + 1) <= count]


def _with_command(run_dir: str, options: Options, index: Index) -> Options:
    """Where no command is given and the settings name none: the one that this very run was started with, also where
    the checkpoint lies in an older run that had another."""
    record = read_launch(run_dir)
    if options.command or record is None or not record.command:
        return options
    try:
        found = find_command(run_at(run_dir, index), project_dir=options.project_dir)
    except UsageError:
        return options
    if found.argv != record.command:
        return options
    return replace(options, command=found.argv, project_dir=found.cwd)


def _as_it_began(run_dir: str, options: Options) -> tuple[Options, Options]:
    """(the options for older checkpoints, those for the one that the run began from): as its plan says.

    A next stage stays that, whichever weights it starts from; a part of an epoch that a person left out is left out.
    """
    document, _ = read_document(os.path.join(run_dir, PLAN_NAME))
    try:
        plan = ResumePlan.from_json(document)
    except BadState:
        return options, options
    older = replace(options, next_stage=plan.start.stage)
    asked = plan.start.policy if plan.start.policy is Policy.SKIP_EPOCH and plan.start.stage is None else None
    return older, replace(older, policy=asked)


def _look_at(candidate: _Candidate, wanted: Wanted, most: int | None, index: Index) -> Search:
    """The candidate on each size that may do, best first; the first that passes, else why the first one doesn't."""
    one = candidate.checkpoint
    worlds = sizes(
        before=one.world_size or one.rank_states.expected or most,
        most=most,
        devices=wanted.devices,
        permitted=wanted.permitted,
        num_splits=one.rank_states.num_splits,
        global_batch=one.global_batch,
    )
    first: Search | None = None
    for world in worlds:
        found = _propose(candidate, world, index)
        if found.outcome is not Outcome.REFUSED:
            return found
        first = first or found
    return first or Search(outcome=Outcome.REFUSED, why=_no_size(wanted, one))


def _no_size(wanted: Wanted, one: Checkpoint) -> str:
    permitted = ", ".join(map(str, wanted.permitted)) or "any"
    here = f"{plural(wanted.devices, 'device')} here" if wanted.devices else "no device here"
    splits = f", {one.rank_states.num_splits} splits" if one.rank_states.num_splits else ""
    return f"no world_size fits (permitted: {permitted}; {here}{splits})"


def _propose(candidate: _Candidate, world: int | None, index: Index) -> Search:
    options = replace(candidate.options, world_size=world)
    proposal = examined_by_default(propose(Target(paths=(candidate.checkpoint.path,)), options, index=index))
    refused = [check for check in proposal.checks if check.verdict is Verdict.REFUSE]
    ids = {check.id for check in refused}
    if "source.alive" in ids:
        return Search(outcome=Outcome.ALIVE, why=_in_words(refused, "source.alive"))
    if "epoch.over" in ids:
        return Search(outcome=Outcome.OVER, why=_in_words(refused, "epoch.over"))
    if refused or proposal.plan is None:
        return Search(outcome=Outcome.REFUSED, why=_in_words(refused, ""))
    plan = proposal.plan
    why = f"from {clean(os.path.basename(plan.source.checkpoint))} on {plural(plan.world_size, 'rank')}"
    return Search(outcome=Outcome.FOUND, why=why, proposal=proposal)


def _in_words(refused: Sequence[Check], id: str) -> str:
    check = next((one for one in refused if one.id.startswith(id)), None)
    if check is None:
        return "there is nothing to resume"
    return check.what + (f" ({check.evidence})" if check.evidence else "")
