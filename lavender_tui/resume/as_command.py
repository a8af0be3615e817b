"""A proposal as the command that carries it out: `lavender-tui resume CHECKPOINT --world-size N …`. Pure.

The training's own command line is no such thing: run by hand it finds neither plan nor directory, and trains afresh.
"""

from __future__ import annotations

from lavender_tui.model.plan import Proposal
from lavender_tui.resume.request import Options, Prepared


def resume_command(proposal: Proposal) -> tuple[str, ...]:
    """The words of the command, the training's after `--` only where they were given so; () without a plan."""
    if proposal.plan is None:
        return ()
    options = proposal.options if isinstance(proposal, Prepared) else Options()
    words = ["lavender-tui", "resume", proposal.plan.source.checkpoint, "--world-size", str(proposal.plan.world_size)]
    for name, value in _chosen(options):
        words += [name, str(value)]
    if options.verify is not None:
        words.append("--verify" if options.verify else "--no-verify")
    return (*words, "--", *options.command) if options.command else tuple(words)


def _chosen(options: Options) -> list[tuple[str, object]]:
    """What was chosen besides checkpoint and ranks; the checkpoint says which stage and which side of a jump."""
    values = (
        ("--num-workers", options.num_workers),
        ("--policy", options.policy.value if options.policy is not None else None),
        ("--next-stage", options.next_stage),
        ("--backend", options.backend),
        ("--nodes", options.nodes),
        ("--rdzv-endpoint", options.rdzv_endpoint),
        ("--max-restarts", options.max_restarts),
        ("--root", options.root),
    )
    return [(name, value) for name, value in values if value is not None]
