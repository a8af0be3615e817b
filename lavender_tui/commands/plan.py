"""`lavender-tui plan`: how a target would be resumed. Nothing is written or started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lavender_tui.commands import places
from lavender_tui.commands.printing import Counter, put_checks, put_json, say
from lavender_tui.config import load
from lavender_tui.errors import NotFound, Refused, UsageError
from lavender_tui.model import command_line, text
from lavender_tui.model.export import proposal_document
from lavender_tui.model.plan import Policy, Proposal, ResumePlan, Start, Verdict

if TYPE_CHECKING:
    from lavender_tui.resume import Options, Target


def run(*, command: tuple[str, ...], as_json: bool, target: str | None = None, **options: Any) -> int:
    from lavender_tui.resume import propose, verified

    asked = bool(options.get("verify"))
    proposal = looked_at(propose(target_of(target), options_of(command, **options)), asked=asked)
    if asked:
        proposal = verified(proposal)
    show(proposal, as_json=as_json)
    return 1 if proposal.is_refused else 0


def target_of(target: str | None) -> Target:
    """A root, run or checkpoint; the configured root where none is named. A run may be given by its name."""
    from lavender_tui.resume import Target

    if target is None:
        return Target(paths=places.resolve_roots(()))
    path = os.path.abspath(os.path.expanduser(target))
    if os.path.lexists(path):
        return Target(paths=(path,))
    if os.sep in target or target.endswith(".pt"):
        raise NotFound("there is no such root, run or checkpoint", where=target)
    return Target(paths=(places.resolve_run(target, None),))


def options_of(command: tuple[str, ...], *, policy: str | None = None, **options: Any) -> Options:
    from lavender_tui.resume import Options

    if command and not command[0]:
        raise UsageError("the command after -- is empty")
    verify_bytes = int(load()[0].verify_gb * 1e9)
    return Options(command=command, policy=Policy(policy) if policy else None, verify_bytes=verify_bytes, **options)


def looked_at(proposal: Proposal, *, asked: bool = False) -> Proposal:
    """The proposal after its whole checkpoint was read, where a resume would do so or it is `asked` for.

    Where that takes a while it is said how far it is, on a terminal.
    """
    from lavender_tui.resume import examined, is_examined_by_default

    if not is_examined_by_default(proposal) or (proposal.is_refused and not asked):
        return proposal
    with Counter("reading the checkpoint") as counter:
        return examined(proposal, on_progress=counter)


def show(proposal: Proposal, *, as_json: bool) -> None:
    if as_json:
        put_json(proposal_document(proposal))
        return
    put_checks(proposal)
    if proposal.is_refused:
        refusing = [check.what for check in proposal.checks if check.verdict is Verdict.REFUSE]
        say(f"refused: {refusing[0] if refusing else 'there is nothing to resume'}")
    elif proposal.plan is not None:
        for name, value in lines(proposal.plan):
            print(f"{name:<12}{value}")
        from lavender_tui.resume.as_command import resume_command

        print(f"{'to do it':<12}{command_line.shown(resume_command(proposal))}")
        if (script := proposal.plan.launch.shown_script) is not None:
            print("\n" + "\n".join(text.clean(line, 4000) for line in script.splitlines()))


def lines(plan: ResumePlan) -> list[tuple[str, str]]:
    """The plan in words, a fact a line."""
    start, batch = plan.start, plan.batch
    position = ""
    if start.policy is Policy.EXACT and start.samples_trained is not None:
        whole = None if start.samples_left is None else start.samples_trained + start.samples_left
        position = f", row {text.count(start.samples_trained)}" + (f" of {text.count(whole)}" if whole else "")
    return [
        ("checkpoint", text.clean(plan.source.checkpoint)),
        ("world_size", f"{plan.world_size_previous or '?'} → {plan.world_size}"),
        ("start", _start_words(start, plan.first_epoch + position)),
        ("repeats", _rows(start.samples_replayed)),
        ("leaves out", _rows(start.samples_skipped)),
        ("batch", f"{batch.global_size or '?'} = {plan.world_size} × {batch.per_rank or '?'}"),
        ("workers", f"{batch.num_workers} per rank"),
        ("runs", command_line.shown(plan.launch.argv)),
        ("in", text.clean(plan.launch.cwd)),
    ]


def _start_words(start: Start, epoch: str) -> str:
    if start.stage is not None:
        return f"stage {text.clean(start.stage)}: epoch 1, from the weights alone"
    return f"{start.policy.value}: {epoch}"


def _rows(number: int | None) -> str:
    return "nobody knows: there is no whole set of rank states" if number is None else text.plural(number, "row")


def refused(proposal: Proposal) -> Refused:
    """The first reason against it, whole: it is the last line that a script's log shows."""
    from lavender_tui.resume.request import sentence_case

    first = next((check for check in proposal.checks if check.verdict is Verdict.REFUSE), None)
    if first is None:
        return Refused("not resumed: there is nothing to resume", checks=proposal.checks)
    what = f"not resumed: {first.what}" + (f" ({first.evidence})" if first.evidence else "")
    return Refused(what, hint=sentence_case(first.remedy), checks=proposal.checks)
