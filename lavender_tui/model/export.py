"""Runs, checkpoints and proposals as the documents that the commands print. Numbers stay numbers, or null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.lineage import Family, Link, Stitched
from lavender_tui.model.plan import Policy, Proposal
from lavender_tui.model.run import LiveProcess, Run
from lavender_tui.model.secrets import masked
from lavender_tui.model.start import default_policy, is_training_over, policy_epoch

if TYPE_CHECKING:
    from lavender_tui.model.ending import StopRequest
    from lavender_tui.model.kept import KeptBy
    from lavender_tui.model.proof import Proof
    from lavender_tui.model.usage import Usage

EXPORT_FORMAT = "lavender-export"
EXPORT_VERSION = 1

RUN_COLUMNS = (
    "run", "path", "format", "state", "state_reason", "stage", "epoch", "epochs", "epoch_complete", "step",
    "save_count", "loss", "loss_text", "last_save_at", "remaining_hours", "world_size", "pid", "host", "resumed_from",
)  # fmt: skip


def export_document(
    runs: Sequence[Run], *, host: str, roots: Sequence[str], now: float, with_curve: bool = False
) -> dict[str, Any]:
    """The whole of `export --format json`."""
    return {
        "format": EXPORT_FORMAT,
        "version": EXPORT_VERSION,
        "generated_at": text.iso(now),
        "host": host,
        "roots": [text.utf8(root) for root in roots],
        "runs": run_documents(runs, with_curve=with_curve),
    }


def run_documents(runs: Sequence[Run], *, with_curve: bool = False) -> list[dict[str, Any]]:
    """Each RUN, with its lineage through the others; `with_curve`: and the one curve through all of them."""
    family = Family(runs)
    if not with_curve:
        return [run_document(run, family) for run in runs]
    return [{**run_document(run, family), "curve": curve_document(family.stitched(run))} for run in runs]


def curve_document(curve: Stitched) -> dict[str, Any]:
    """The loss from the first start to now, a segment for each run: {run, points: [[step, loss]…]}, oldest first.

    What a run did after the checkpoint that the next one took is left out. `by` says what the steps count, "step" or
    "save"; `whole` is false where an ancestor is missing. `marks` are [{kind, step, run, checkpoint, save_count}], of
    kind "checkpoint", or "resume" where `run` took over. A loss that is no number is null.
    """
    segments: list[dict[str, Any]] = []
    for point, owner in zip(curve.points, curve.owners, strict=True):
        if not segments or segments[-1]["run"] != text.utf8(owner):
            segments.append({"run": text.utf8(owner), "points": []})
        segments[-1]["points"].append([point.step, point.loss])
    marks = [
        {
            "kind": one.kind,
            "step": one.step,
            "run": text.utf8(one.run),
            "checkpoint": text.utf8(one.checkpoint) if one.checkpoint else None,
            "save_count": one.save_count,
        }
        for one in curve.marks
    ]
    return {"by": curve.axis, "whole": curve.is_whole, "segments": segments, "marks": marks}


def run_document(run: Run, family: Family | None = None) -> dict[str, Any]:
    """One RUN of the export, its checkpoints within it; `family` is the runs among which its ancestors are found.

    `proof` is null for a run without a resume plan, else {verdict, words, evidence: [{id, agrees, what}]}; `agrees` is
    null for what could not be compared. `lineage` is [{run, from_step}], the first start first and the run itself
    last: `run` is a path, `from_step` the step of the checkpoint that it was resumed from, null for a first start and
    where it isn't known. What an older run did after that step is not in the weights of the younger one. `request` is
    what a live run is asked for and hasn't come to yet: {what: "stop-at-next-save"|"stop-at-epoch-end", who, asked_at}.
    `kept_by` is who resumes it when it dies: {pid, host, alive, tries, tries_left, next_try_at}.
    """
    newest, resumed, bad = run.newest, run.resumed_from, dict(run.known_bad)
    return {
        "run": text.utf8(run.name),
        **path_fields(run.path),
        "format": run.format,
        "state": run.state.value,
        "state_reason": run.state_reason,
        "failure": run.end.failure.to_json() if run.end is not None and run.end.failure is not None else None,
        "stage": run.stage,
        "epoch": run.epoch,
        "epochs": run.epochs,
        "epoch_complete": newest.epoch_complete if newest else None,
        "step": newest.step if newest else None,
        "save_count": newest.save_count if newest else None,
        "loss": newest.loss if newest else None,
        "loss_text": newest.loss_text if newest else None,
        "last_save_at": text.iso(run.last_save_at),
        "remaining_hours": newest.remaining_hours if newest else None,
        "world_size": run.world_size,
        "pid": run.pid,
        "job": _job(run),
        "host": run.host,
        "resumed_from": {"run": text.utf8(resumed.run), "checkpoint": resumed.checkpoint} if resumed else None,
        "request": request_document(run.request) if run.request is not None else None,
        "kept_by": keeper_document(run.keeper) if run.keeper is not None else None,
        "lineage": lineage_document((family or Family((run,))).ancestry(run)),
        "proof": proof_document(run.proof) if run.proof is not None else None,
        "leftovers": [process_document(one) for one in run.leftovers],
        "usage": usage_document(run.usage) if run.usage is not None else None,
        "warnings": list(run.warnings),
        "checkpoints": [
            {**checkpoint_document(checkpoint), "known_bad": bad.get(checkpoint.path)} for checkpoint in run.checkpoints
        ],
    }


def keeper_document(keeper: KeptBy) -> dict[str, Any]:
    """`alive` is null where that can't be seen from here."""
    return {
        "pid": keeper.pid,
        "host": keeper.host,
        "alive": keeper.is_alive,
        "tries": keeper.tries,
        "tries_left": keeper.tries_left,
        "next_try_at": text.iso(keeper.next_try_at),
    }


def request_document(request: StopRequest) -> dict[str, Any]:
    return {"what": request.what.value, "who": request.who, "asked_at": text.iso(request.asked_at)}


def process_document(process: LiveProcess) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "role": process.role,
        "rank": process.rank,
        "command": [text.utf8(word) for word in masked(process.command)],
    }


def usage_document(usage: Usage) -> dict[str, Any]:
    """`cpu_percent`: 100 is one processor; rates are null where a run was looked at once only."""
    return {
        "cpu_percent": usage.cpu_percent,
        "rss_bytes": usage.rss_bytes,
        "read_bytes_per_second": usage.read_bytes_per_second,
        "written_bytes_per_second": usage.written_bytes_per_second,
        "gpus": [
            {
                "name": gpu.name,
                "index": gpu.index,
                "utilisation_percent": gpu.utilisation_percent,
                "memory_bytes": gpu.memory_bytes,
                "memory_total_bytes": gpu.memory_total_bytes,
                "temperature_celsius": gpu.temperature_celsius,
            }
            for gpu in usage.gpus
        ],
        "no_gpus": usage.no_gpus,
    }


def lineage_document(chain: Sequence[Link]) -> list[dict[str, Any]]:
    return [{"run": text.utf8(link.path), "from_step": link.from_step} for link in chain]


def proof_document(proof: Proof) -> dict[str, Any]:
    evidence = [{"id": one.id, "agrees": one.agrees, "what": one.what} for one in proof.evidence]
    return {"verdict": proof.verdict.value, "words": proof.words, "evidence": evidence}


def checkpoint_document(checkpoint: Checkpoint, *, with_keys: bool = False) -> dict[str, Any]:
    """One CHECKPOINT; `with_keys` adds the tree of keys (`inspect --json`)."""
    ranks = checkpoint.rank_states
    document: dict[str, Any] = {
        **path_fields(checkpoint.path),
        "format": checkpoint.format,
        "usable": checkpoint.is_usable,
        "reason": unusable_reason(checkpoint),
        "wholeness": checkpoint.wholeness.value,
        "stage": checkpoint.stage,
        "name_stage": checkpoint.name_stage,
        "epoch": checkpoint.epoch,
        "epochs": checkpoint.epochs,
        "epoch_complete": checkpoint.epoch_complete,
        "step": checkpoint.step,
        "save_count": checkpoint.save_count if checkpoint.save_count is not None else checkpoint.name_save_count,
        "loss": checkpoint.loss,
        "loss_text": checkpoint.loss_text,
        "lr": checkpoint.lr,
        "remaining_hours": checkpoint.remaining_hours,
        "world_size": checkpoint.world_size,
        "tensors": checkpoint.tensors,
        "parameters": checkpoint.parameters,
        "size_bytes": checkpoint.facts.size_bytes,
        "saved_at": text.iso(checkpoint.facts.mtime_ns / 1e9),
        "rank_states": {"found": ranks.found, "expected": ranks.expected, "complete": ranks.complete},
        "resume": resume_document(checkpoint),
        "refused_globals": list(checkpoint.refused_globals),
        "warnings": [*_disagreement(checkpoint), *checkpoint.warnings, *ranks.problems],
    }
    if with_keys:
        document["keys"] = checkpoint.keys
    return document


def _disagreement(checkpoint: Checkpoint) -> tuple[str, ...]:
    if not checkpoint.name_disagrees:
        return ()
    return (f"its name says {checkpoint.name_stage}, its content {checkpoint.stage}",)


def _job(run: Run) -> dict[str, Any] | None:
    """The job of Slurm that the run is: {id, state, reason, nodes}, in Slurm's own words; null for any other run."""
    job = run.job
    if job is None:
        return None
    reason = None if job.reason in (None, "", "None") else job.reason
    return {"id": job.job_id, "state": job.state or None, "reason": reason, "nodes": job.nodes}


def resume_document(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """Where a resume from this checkpoint would start by default; None where it can't be resumed from."""
    if not checkpoint.is_usable:
        return None
    policy = default_policy(checkpoint)
    why = {
        "next-epoch": "the epoch is complete",
        "exact": "all rank states are there",
        "replay-epoch": "the epoch is not complete and its rank states are not all there",
    }[policy.value]
    ranks = checkpoint.rank_states
    if policy is Policy.REPLAY_EPOCH and (ranks.found or ranks.problems) and not ranks.complete:
        why = "rank states are missing or don't agree: an exact resume is refused, a replay has to be asked for"
    if is_training_over(checkpoint):
        why = "the training is over"
    return {"policy": policy.value, "epoch": policy_epoch(policy, checkpoint), "why": why}


def unusable_reason(checkpoint: Checkpoint) -> str | None:
    if checkpoint.is_usable:
        return None
    return checkpoint.reason or ("holds no model weights" if checkpoint.is_whole else checkpoint.wholeness.value)


def proposal_document(proposal: Proposal) -> dict[str, Any]:
    """`plan --json`: the plan (or nulls) with its checks and what was passed over."""
    document: dict[str, Any] = proposal.plan.to_json() if proposal.plan else {"format": None, "version": None}
    document["refused"] = proposal.is_refused
    document["checks"] = [
        {"id": one.id, "verdict": one.verdict.value, "what": one.what, "evidence": one.evidence, "remedy": one.remedy}
        for one in proposal.checks
    ]
    document["passed_over"] = [{**path_fields(path), "reason": reason} for path, reason in proposal.passed_over]
    return document


def path_fields(path: str) -> dict[str, str]:
    """`path` as UTF-8; `path_bytes` beside it where the path isn't UTF-8."""
    fields = {"path": text.utf8(path)}
    if not text.is_utf8(path):
        fields["path_bytes"] = text.percent_encoded(path)
    return fields
