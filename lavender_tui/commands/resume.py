"""`lavender-tui resume`: plan, merge, launch; prints the new run's path."""

from __future__ import annotations

from typing import Any

from lavender_tui.commands.plan import options_of, show, target_of
from lavender_tui.commands.printing import ask, is_terminal, put_checks, put_json, say
from lavender_tui.errors import AlreadyRunning, Refused
from lavender_tui.model import text
from lavender_tui.model.plan import Proposal, Verdict


def run(
    *, command: tuple[str, ...], as_json: bool, dry_run: bool, yes: bool, follow: bool, target: str | None = None,
    **options: Any,
) -> int:  # fmt: skip
    from lavender_tui.resume import propose

    proposal = propose(target_of(target), options_of(command, **options))
    if dry_run:
        show(proposal, as_json=as_json)
        return 1 if proposal.is_refused else 0
    put_checks(proposal)
    if proposal.is_refused:
        if as_json:
            show(proposal, as_json=True)
        raise refused(proposal)
    again = [
        check.evidence for check in proposal.checks if check.id == "source.resumed" and check.verdict is Verdict.WARN
    ]
    if (
        again
        and not yes
        and is_terminal()
        and not ask(f"This run was resumed before ({again[0]}). Resume it once more?")
    ):
        say("nothing was started")
        return 1
    launched = _carry_out(proposal, yes=yes)
    if as_json:
        put_json(
            {
                "run_dir": text.utf8(launched.run_dir),
                "plan": text.utf8(launched.plan_path),
                "pid": launched.record.leader.pid if launched.record.leader else None,
                "argv": list(launched.argv),
            }
        )
    else:
        print(launched.run_dir, flush=True)
    if follow:
        from lavender_tui.commands import logs

        return logs.follow_to_the_end(launched.run_dir, rank=None, lines=0)
    return 0


def refused(proposal: Proposal) -> Refused:
    """The first reason against it, whole: it is the last line that a script's log shows."""
    from lavender_tui.resume.request import sentence_case

    first = next((check for check in proposal.checks if check.verdict is Verdict.REFUSE), None)
    if first is None:
        return Refused("not resumed: there is nothing to resume", checks=proposal.checks)
    what = f"not resumed: {first.what}" + (f" ({first.evidence})" if first.evidence else "")
    return Refused(what, hint=sentence_case(first.remedy), checks=proposal.checks)


def _carry_out(proposal: Any, *, yes: bool) -> Any:
    """Launch; while an earlier resume of the run lives, only where somebody says so."""
    from lavender_tui.resume import carry_out

    try:
        return carry_out(proposal, again=yes)
    except AlreadyRunning as error:
        if yes or not ask(f"{error} Resume it once more?"):
            raise
        say("resuming once more")
        return carry_out(proposal, again=True)
