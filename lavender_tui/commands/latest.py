"""`lavender-tui resume --latest`: start a training fresh, resume it, or leave it alone. For cron and job scripts.

A training that lives, or that is over, is no error: its run is printed, and the exit code is 0.
"""

from __future__ import annotations

import os
from typing import Any

from lavender_tui.commands import places
from lavender_tui.commands.plan import looked_at, options_of, refused, show
from lavender_tui.commands.printing import Talk, put_findings, put_json, say
from lavender_tui.errors import AlreadyRunning, UsageError
from lavender_tui.model import text
from lavender_tui.model.secrets import masked


def run(
    *, command: tuple[str, ...], as_json: bool, dry_run: bool, follow: bool, talk: Talk, target: str | None = None,
    **options: Any,
) -> int:  # fmt: skip
    """See the module; `options` are those of `plan`."""
    from lavender_tui.resume import fresh

    if options.pop("root", None) is not None:
        raise UsageError("--latest makes the new run in the root that it looks at", hint="Leave --root out")
    if options.get("before_spike"):
        raise UsageError("--before-spike is a decision for once", hint="Leave --latest out")
    root = os.path.abspath(os.path.expanduser(target if target is not None else places.settings().root))
    wanted = options_of(command, **options)
    if dry_run:
        return _show(fresh.latest(root, wanted), root, wanted, as_json)
    with fresh.one_at_a_time(root):
        found = fresh.latest(root, wanted)
        if found.next in (fresh.Next.ALIVE, fresh.Next.OVER):
            return _nothing_to_do(found, as_json)
        try:
            run_dir = _start(found, root, wanted, as_json, talk)
        except AlreadyRunning as error:
            return _nothing_to_do(fresh.Latest(next=fresh.Next.ALIVE, why=str(error)), as_json)
    if follow:
        from lavender_tui.commands import logs

        return logs.follow_to_the_end(run_dir, rank=None, lines=logs.FROM_ITS_START)
    return 0


def _start(found: Any, root: str, wanted: Any, as_json: bool, talk: Talk) -> str:
    """Start what is to be started; the new run's directory."""
    from lavender_tui.resume import carry_out, fresh

    if found.next is fresh.Next.FRESH:
        say(f"{found.why}: starting fresh")
        made = fresh.start_fresh(root, wanted)
        _put(found.next, made.run_dir, None, made.record.identity, made.argv, as_json)
        return made.run_dir
    proposal = looked_at(found.proposal)
    put_findings(proposal, talk)
    if proposal.is_refused:
        if as_json:
            show(proposal, as_json=True)
        raise refused(proposal)
    launched = carry_out(proposal)
    _put(found.next, launched.run_dir, launched.plan_path, launched.record.identity, launched.argv, as_json)
    return launched.run_dir


def _nothing_to_do(found: Any, as_json: bool) -> int:
    say(f"nothing was started: {found.why}")
    _put(found.next, found.run_dir, None, {"pid": found.pid}, None, as_json)
    return 0


def _put(
    started: str,
    run_dir: str | None,
    plan: str | None,
    process: dict[str, int | None],
    argv: tuple[str, ...] | None,
    as_json: bool,
) -> None:
    if not as_json:
        if run_dir is not None:
            print(run_dir, flush=True)
        return
    put_json(
        {
            "started": str(started),
            "run_dir": text.utf8(run_dir) if run_dir is not None else None,
            "plan": text.utf8(plan) if plan is not None else None,
            **process,
            "argv": list(masked(argv)) if argv is not None else None,
        }
    )


def _show(found: Any, root: str, wanted: Any, as_json: bool) -> int:
    """What would be done, without doing it."""
    from lavender_tui.resume import fresh

    if found.next is fresh.Next.RESUME:
        show(found.proposal, as_json=as_json)
        return 1 if found.proposal.is_refused else 0
    argv = None
    if found.next is fresh.Next.FRESH:
        argv = fresh.fresh_launch(wanted, os.path.join(root, "run"))[0].argv
        say(f"{found.why}: it would start fresh")
    else:
        say(f"nothing would be started: {found.why}")
    _put(found.next, found.run_dir, None, {"pid": found.pid}, argv, as_json)
    return 0
