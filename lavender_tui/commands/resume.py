"""`lavender-tui resume`: plan, merge, launch; prints the new run's path."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from lavender_tui.commands.plan import looked_at, options_of, refused, show, target_of
from lavender_tui.commands.printing import ask, is_terminal, put_findings, put_json, say, talk_of
from lavender_tui.errors import Refused, ResumedAlready
from lavender_tui.model import text
from lavender_tui.model.plan import Proposal, Verdict
from lavender_tui.model.secrets import masked

if TYPE_CHECKING:
    from lavender_tui.resume import Launched


def run(
    *, command: tuple[str, ...], as_json: bool, dry_run: bool, yes: bool, follow: bool, target: str | None = None,
    latest: bool = False, quiet: bool = False, verbose: bool = False, **options: Any,
) -> int:  # fmt: skip
    talk = talk_of(quiet=quiet, verbose=verbose)
    if latest:
        from lavender_tui.commands import latest as to_be_current

        return to_be_current.run(
            command=command, as_json=as_json, dry_run=dry_run, follow=follow, target=target, talk=talk, **options
        )
    from lavender_tui.resume import propose

    proposal = looked_at(propose(target_of(target), options_of(command, **options)), asked=bool(options.get("verify")))
    if dry_run:
        show(proposal, as_json=as_json)
        return 1 if proposal.is_refused else 0
    put_findings(proposal, talk)
    if proposal.is_refused:
        if as_json:
            show(proposal, as_json=True)
        raise refused(proposal)
    if not _may_branch(proposal, yes):
        say("nothing was started")
        return 1
    launched = _carry_out(proposal)
    if as_json:
        put_json(
            {
                "run_dir": text.utf8(launched.run_dir),
                "plan": text.utf8(launched.plan_path),
                **launched.record.identity,
                "argv": list(masked(launched.argv)),
            }
        )
    else:
        print(launched.run_dir, flush=True)
    if follow:
        from lavender_tui.commands import logs

        # With --json stdout holds the one document, so the training's words go where words go.
        return logs.follow_to_the_end(
            launched.run_dir, rank=None, lines=logs.FROM_ITS_START, out=sys.stderr if as_json else None
        )
    return 0


def _may_branch(proposal: Proposal, yes: bool) -> bool:
    """A run that went on as another one is resumed again only where somebody says so. Raises Refused where nobody can.

    Whether that other one lives is left to the launch: beside a living run nothing starts on a mere --yes.
    """
    before = [check for check in proposal.checks if check.id == "source.resumed" and check.verdict is Verdict.WARN]
    if not before or yes:
        return True
    if is_terminal():
        return ask(f"{before[0].what}. Resume this one once more?")
    hint = f"{before[0].remedy[:1].upper()}{before[0].remedy[1:]} (then say --yes)"
    where = text.clean(proposal.plan.source.run) if proposal.plan is not None else None
    raise Refused(f"not resumed: {before[0].what}", where=where, hint=hint, checks=proposal.checks)


def _carry_out(proposal: Proposal) -> Launched:
    """Launch; beside a living resume of the same run only after a question."""
    from lavender_tui.resume import carry_out

    try:
        return carry_out(proposal)
    except ResumedAlready as error:
        if not ask(f"{error}. Start a second one beside it?"):
            raise
        return carry_out(proposal, again=True)
