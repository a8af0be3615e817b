"""The deep look into the checkpoint: its last byte and its last number. Slow as a disk, so it is asked for."""

from __future__ import annotations

import os
from dataclasses import replace

from lavender_tui import checkpoints
from lavender_tui.checkpoints.findings import Cancelled, Integrity, NonFinite
from lavender_tui.checkpoints.integrity import IsCancelled, Progress, look_through
from lavender_tui.checkpoints.remembered import recall
from lavender_tui.errors import UnreadableFile
from lavender_tui.launch import bad_files
from lavender_tui.model import text
from lavender_tui.model.checkpoint import FileFacts, parse_name
from lavender_tui.model.plan import Check, Proposal, ResumePlan, Verdict
from lavender_tui.model.state_rules import passed, refuse, warn
from lavender_tui.resume.request import Prepared
from lavender_tui.resume.situation import Situation

SUMS, FINITE, STATES_SUMS = "checkpoint.sums", "checkpoint.finite", "states.sums"
_MOST_LOOKED_AT = 8  # earlier saves, for the one to go back to

__all__ = ["Cancelled", "examine", "examined", "examined_by_default", "is_examined_by_default", "known_checks"]


def examine(
    proposal: Proposal, *, on_progress: Progress | None = None, is_cancelled: IsCancelled | None = None
) -> tuple[Check, ...]:
    """Look through the whole checkpoint of a proposal: checks `checkpoint.sums` and `checkpoint.finite`.

    And, where rank states lie beside it and are used, through their files: check `states.sums`.

    It reads the file once from end to end (some GB a second where it is cached, else as fast as the disk is), with a
    few MB of memory. Call it in a worker: `on_progress(bytes done, bytes in all)` comes from that thread, a few times
    for each 100 MB and once at the end; `is_cancelled()` is asked for each MB, and where it says True, Cancelled is
    raised and nothing is remembered. What was found is remembered while the file stays as it is, so that asking again
    costs nothing; with `Options.verify` True it is read again nevertheless.

    () where there is no plan. Whatever is wrong with the file is a check; only Cancelled is raised. `examined` puts
    the checks into the proposal, whose `is_refused` then counts them.
    """
    plan = proposal.plan
    if plan is None:
        return ()
    path, options = plan.source.checkpoint, proposal.options if isinstance(proposal, Prepared) else None
    try:
        found = look_through(
            path,
            on_progress=on_progress,
            is_cancelled=is_cancelled,
            fresh=options is not None and options.verify is True,
            keep_cached=True,  # the training reads the same file next
        )
    except UnreadableFile as error:
        return (refuse(SUMS, f"the checkpoint can't be read to its end: {error.what}", text.clean(path)),)
    weights_only = options is not None and options.next_stage is not None
    checks = _checks(path, plan.source.size, found, weights_only=weights_only)
    _keep_in_mind(path, checks, weights_only=weights_only)
    return (*checks, *_beside(proposal, is_cancelled))


def _beside(proposal: Proposal, is_cancelled: IsCancelled | None) -> list[Check]:
    """The rank files that the merge rests on: a count that a bad disk has changed is a count like any other."""
    if not isinstance(proposal, Prepared) or not proposal.states:
        return []
    archives = [path for path, _ in proposal.files[1:] if not path.endswith(".json")]
    for path in archives:
        try:
            found = look_through(path, finite=False, is_cancelled=is_cancelled, keep_cached=True, remembers=False)
        except UnreadableFile as error:
            return [_spoilt(path, error.what)]
        if found.problems:
            return [_spoilt(path, found.problems[0].what)]
    return (
        [passed(STATES_SUMS, f"every checksum of {text.plural(len(archives), 'rank file')} agrees")] if archives else []
    )


def _spoilt(path: str, what: str) -> Check:
    remedy = "bring the file back as it was saved, take an earlier save, or start the epoch again (replay-epoch)"
    return refuse(STATES_SUMS, f"a rank's file is damaged: {text.clean(what, 300)}", text.clean(path), remedy)


def examined(
    proposal: Proposal, *, on_progress: Progress | None = None, is_cancelled: IsCancelled | None = None
) -> Proposal:
    """The proposal with what the deep look found, in the place of what was not yet known. Raises Cancelled."""
    found = examine(proposal, on_progress=on_progress, is_cancelled=is_cancelled)
    if isinstance(proposal, Prepared):
        proposal = replace(proposal, is_examined=True)
    if not found or proposal.plan is None:
        return proposal
    before = next((at for at, one in enumerate(proposal.checks) if one.id == SUMS), len(proposal.checks))
    kept = [one for one in proposal.checks if one.id not in (SUMS, FINITE, STATES_SUMS)]
    checks = (*kept[:before], *found, *kept[before:])
    plan: ResumePlan = replace(proposal.plan, warnings=tuple(_sentence(c) for c in checks if c.verdict is Verdict.WARN))
    return replace(proposal, plan=plan, checks=checks)


def is_examined_by_default(proposal: Proposal) -> bool:
    """Before it is carried out: always, up to the size that is set; beyond it, or not at all, as it was asked for.

    False for one that was examined already.
    """
    if not isinstance(proposal, Prepared) or proposal.plan is None or proposal.is_examined:
        return False
    asked = proposal.options.verify
    return asked if asked is not None else proposal.plan.source.size <= proposal.options.verify_bytes


def examined_by_default(proposal: Proposal) -> Proposal:
    """As `examined`, where a resume would look by itself and nothing refuses it already."""
    return examined(proposal) if not proposal.is_refused and is_examined_by_default(proposal) else proposal


def _keep_in_mind(path: str, checks: tuple[Check, ...], *, weights_only: bool) -> None:
    """A file that failed is no default any more, until it is another one or a whole look finds nothing."""
    try:
        facts = checkpoints.file_facts(path)
    except OSError:
        return  # gone meanwhile: there is nothing to keep away from
    failed = [check.what for check in checks if check.verdict is Verdict.REFUSE]
    if failed:
        bad_files.remember(path, facts, failed[0])
    elif not weights_only:
        bad_files.forget(facts)


def why_unsound(path: str) -> str | None:
    """Read the whole file, unless that was done: why a resume would refuse it, which is remembered; None if it is good.

    As slow as the disk is, for a file that wasn't read since it was saved.
    """
    try:
        facts = checkpoints.file_facts(path)
        found = look_through(path)
    except UnreadableFile as error:
        return f"can't be read to its end ({error.what})"
    except OSError as error:
        return f"can't be read ({error.strerror or error})"
    checks = _checks(path, facts.size_bytes, found, weights_only=False)
    _keep_in_mind(path, checks, weights_only=False)
    return next((check.what for check in checks if check.verdict is Verdict.REFUSE), None)


def known_checks(it: Situation) -> list[Check]:
    """Without looking: what is remembered of this very file, or that it was not looked at."""
    one, weights_only = it.checkpoint, it.options.next_stage is not None
    found = recall(one.facts)
    if found is not None and found.problems is not None and found.non_finite is not None:
        return list(_checks(one.path, one.facts.size_bytes, found, weights_only=weights_only))
    if it.options.verify is False:
        return [passed(SUMS, "bytes and numbers: not looked at (--no-verify)")]
    if it.options.verify or one.facts.size_bytes <= it.options.verify_bytes:
        return [passed(SUMS, "bytes and numbers: looked at before it is resumed")]
    return [passed(SUMS, f"bytes and numbers: only with --verify ({text.size(one.facts.size_bytes)})")]


def _checks(path: str, size: int, found: Integrity, *, weights_only: bool) -> tuple[Check, ...]:
    return (_sums(path, size, found), _finite(path, found, weights_only=weights_only))


def _sums(path: str, size: int, found: Integrity) -> Check:
    problems = found.problems or ()
    if problems:
        first = problems[0]
        named = f"bytes of {text.clean(first.tensor, 120)} are not what was saved" if first.tensor else first.what
        more = f"; {len(problems) - 1} more such places" if len(problems) > 1 else ""
        return refuse(SUMS, f"the checkpoint is damaged: {named}", f"{text.clean(first.what, 300)}{more}", _back(path))
    if not found.has_sums:
        why = "torch's older format has none" if found.container == "legacy" else "it was saved without them"
        return passed(SUMS, f"no checksums to compare ({why}): every tensor's bytes are there, that is all one can say")
    return passed(SUMS, f"every checksum agrees ({text.size(size)} read)")


def _finite(path: str, found: Integrity, *, weights_only: bool) -> Check:
    odd = [one for one in found.non_finite or () if not one.is_meant]
    bad = [one for one in odd if one.part == "model" or (one.part == "optimizer" and not weights_only)]
    if bad:
        kind = "weights" if bad[0].part == "model" else "optimizer's state"
        what = f"the {kind} hold{'s' if bad[0].part != 'model' else ''} numbers that are none: {_in_words(bad[0])}"
        more = f"and {text.plural(len(bad) - 1, 'more tensor')}: {_names(bad[1:])}" if len(bad) > 1 else ""
        return refuse(FINITE, what, more, f"{_back(path)}: a NaN spreads to every weight")
    if odd:
        what = f"numbers that are none, beside the model: {_in_words(odd[0])}"
        return warn(FINITE, what, _names(odd[1:]), "look whether the training uses them")
    meant = [one for one in found.non_finite or () if one.is_meant]
    said = f" (but for {_names(meant)}, where they are meant)" if meant else ""
    return passed(FINITE, f"no NaN and no infinity in any tensor{said}")


def _in_words(one: NonFinite) -> str:
    parts = [
        f"{text.count(one.nans)} NaN" if one.nans else "",
        f"{text.count(one.infinities)} inf" if one.infinities else "",
    ]
    return f"{text.clean(one.name, 120)} ({' and '.join(filter(None, parts))} of {text.count(one.elements)})"


def _names(tensors: list[NonFinite]) -> str:
    return ", ".join(text.clean(one.name, 80) for one in tensors[:5]) + (", …" if len(tensors) > 5 else "")


def _back(path: str) -> str:
    earlier = earlier_save(path)
    return f"go back to {text.clean(os.path.basename(earlier), 120)}" if earlier else "take an earlier checkpoint"


def earlier_save(path: str) -> str | None:
    """The newest usable save before this one in its directory: of its own stage, else of any; none known to be bad."""
    directory, (stage, count) = os.path.dirname(path), parse_name(os.path.basename(path))
    if count is None:
        return None
    try:
        names = [name for name in os.listdir(directory) if checkpoints.is_checkpoint_name(name)]
    except OSError:
        return None
    parsed = [(parse_name(name), name) for name in names]
    older = [(one[0] == stage, one[1], name) for one, name in parsed if one[1] is not None and 0 < one[1] < count]
    ordered = [os.path.join(directory, name) for _, _, name in sorted(older, reverse=True)]
    return next((one for one in ordered[:_MOST_LOOKED_AT] if _may_be_good(one)), None)


def _may_be_good(path: str) -> bool:
    one = checkpoints.read_checkpoint(path)
    return one.is_usable and not _is_known_bad(one.facts)


def _is_known_bad(facts: FileFacts) -> bool:
    known = recall(facts)
    return known is not None and bool(known.problems or any(not one.is_meant for one in known.non_finite or ()))


def _sentence(check: Check) -> str:
    return f"{check.what} ({check.evidence})" if check.evidence else check.what
