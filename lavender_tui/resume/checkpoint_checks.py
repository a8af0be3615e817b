"""What is looked at inside the checkpoint before a resume, by its metadata alone."""

from __future__ import annotations

import os
from collections import Counter

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.plan import Check
from lavender_tui.model.state_rules import passed, refuse, warn
from lavender_tui.resume.contents import Contents, Optimizer, read_contents
from lavender_tui.resume.examining import known_checks
from lavender_tui.resume.restore_checks import restore_checks
from lavender_tui.resume.situation import Situation
from lavender_tui.resume.version_checks import version_checks

# What wrappers put before a parameter's name, and which wrapper it was.
PREFIXES = {
    "module.": "DistributedDataParallel or DataParallel",
    "_orig_mod.": "torch.compile",
    "_fsdp_wrapped_module.": "FSDP",
    "_checkpoint_wrapped_module.": "activation checkpointing",
    "_forward_module.": "a strategy of Lightning",
}
_MANY_TENSORS = 20_000  # a save before with more isn't read only for being compared


def checkpoint_checks(it: Situation) -> list[Check]:
    """Everything about the file itself. Of one that isn't whole only that is said."""
    checks = [*_whole(it), *_name_and_content(it)]
    one = it.checkpoint
    if not (one.is_whole and one.has_model and one.parameters):
        return checks
    contents = read_contents(one.path)
    if contents is not None:
        shards = _shards(it, contents)
        checks += [*shards, *_prefixes(contents)]
        if it.options.next_stage is None:
            checks += [*(() if shards else _fits(contents)), *_groups(it, contents), *restore_checks(it, contents)]
    return [*checks, *version_checks(it), *known_checks(it)]


def _whole(it: Situation) -> list[Check]:
    one = it.checkpoint
    where = text.clean(one.path)
    if not one.is_whole:
        reason = one.reason or one.wholeness.value
        return [
            refuse("checkpoint.whole", f"the checkpoint can't be resumed from: {reason}", where, "take an earlier one")
        ]
    checks = [passed("checkpoint.whole", f"the checkpoint is whole ({text.size(one.facts.size_bytes)})", where)]
    if not one.has_model:
        return [*checks, refuse("checkpoint.model", "the checkpoint holds no model weights", where, "take another one")]
    if not one.parameters:
        what = "the checkpoint's model has no weights of its own: it is a part of another checkpoint, or an empty one"
        return [*checks, refuse("checkpoint.model", what, where, "take another one")]
    checks.append(passed("checkpoint.model", f"model weights: {text.count(one.parameters)} parameters"))
    if it.options.next_stage is not None:
        return checks
    if one.has_optimizer:
        checks.append(passed("checkpoint.optimizer", "the optimizer's state is there"))
    else:
        what = "no optimizer state: the training would go on without its moments"
        remedy = "weights alone are for the start of a new stage; to resume, take a checkpoint with its optimizer"
        checks.append(warn("checkpoint.optimizer", what, where, remedy))
    return checks


def _name_and_content(it: Situation) -> list[Check]:
    one, checks = it.checkpoint, []
    if one.name_disagrees:
        what = f"the name says {text.clean(one.name_stage)}, the content {text.clean(one.stage)}"
        checks.append(warn("checkpoint.name", what, text.clean(one.path), "the content is what counts"))
    if it.options.stage is not None and one.stage is not None and it.named and it.options.stage != one.stage:
        what = f"the checkpoint is of stage {text.clean(one.stage)}, not {text.clean(it.options.stage)}"
        checks.append(refuse("checkpoint.name", what, text.clean(one.path), "name a checkpoint of the stage"))
    if one.refused_globals:
        what = "loading it runs code that it names; looking at it did not"
        checks.append(
            warn("checkpoint.globals", what, text.clean(", ".join(one.refused_globals), 200), "trust its origin")
        )
    for warning in one.warnings:
        stands_still = warning.startswith("its rank states")
        checks.append(warn("states.moved" if stands_still else "checkpoint.warnings", text.clean(warning)))
    if it.passed_over:
        newest = it.passed_over[0]
        what = f"{text.plural(len(it.passed_over), 'newer checkpoint')} passed over"
        checks.append(
            warn("checkpoint.newer", what, f"{text.clean(os.path.basename(newest[0]))}: {text.clean(newest[1])}")
        )
    return checks


# ---- names


def _prefixes(contents: Contents) -> list[Check]:
    """Names that a wrapper has changed: a model wrapped in another way finds none of them."""
    found = Counter(_prefix_of(name) for name in contents.names)
    wrapped = {prefix: count for prefix, count in found.items() if prefix}
    if not wrapped:
        return []
    bare = {_without_prefix(name) for name in contents.names if _prefix_of(name)} & set(contents.names)
    if bare:
        what = f"the same weight stands twice: {text.clean(min(bare), 80)} and {_twin(contents, min(bare))}"
        remedy = "nobody can say which of them counts: take a save from before the names were mixed"
        return [warn("checkpoint.prefixes", what, _listed(wrapped, len(contents.names)), remedy)]
    prefix = max(wrapped, key=lambda one: wrapped[one])
    what = f"the weights' names carry {prefix} (saved from inside {_meaning(prefix)})"
    remedy = "load them into a model that is wrapped in the same way, or take the prefix off"
    return [warn("checkpoint.prefixes", what, _listed(wrapped, len(contents.names)), remedy)]


def _prefix_of(name: str) -> str:
    """All that wrappers put in front, also several ("_orig_mod.module."), else one of them further inside, else ""."""
    front = ""
    while found := next((one for one in PREFIXES if name.startswith(one, len(front))), ""):
        front += found
    return front or next((one for one in PREFIXES if one != "module." and f".{one}" in name), "")


def _without_prefix(name: str) -> str:
    front = _prefix_of(name)
    return name.removeprefix(front) if name.startswith(front) else name.replace(front, "")


def _twin(contents: Contents, bare: str) -> str:
    return text.clean(next(one for one in contents.names if one != bare and _without_prefix(one) == bare), 80)


def _shards(it: Situation, contents: Contents) -> list[Check]:
    """Weights that are spread over the ranks that saved them: another number of ranks can't put them together."""
    if not contents.sharded:
        return []
    many = text.plural(len(contents.sharded), "tensor")
    saved_by = it.saved_by or 0
    what = f"the weights are one rank's shards: of {many} this file holds only its part"
    first = f"{text.clean(contents.sharded[0], 80)} is a ShardedTensor or DTensor, as FSDP saves it"
    remedy = "save whole weights (FSDP: StateDictType.FULL_STATE_DICT, DTensor: full_tensor())"
    if saved_by > 1 and it.world_size != saved_by:
        remedy = f"take world_size {saved_by}, as it was saved, and from now on {remedy}"
        return [refuse("checkpoint.shards", f"{what}, for the {saved_by} ranks that saved it", first, remedy)]
    return [warn("checkpoint.shards", f"{what}; each rank must load its own file", first, remedy)]


def _meaning(prefix: str) -> str:
    """The wrappers from the outermost in: "torch.compile around DistributedDataParallel or DataParallel"."""
    return " around ".join(PREFIXES[f"{part}."] for part in prefix.split(".") if part)


def _listed(wrapped: dict[str, int], names: int) -> str:
    return "; ".join(f"{prefix} before {count} of {names} names" for prefix, count in sorted(wrapped.items()))


# ---- the optimizer and the model


def _fits(contents: Contents) -> list[Check]:
    """Does the optimizer's state belong to these weights, as far as that shows without the model's code?"""
    optimizer = contents.optimizer
    if optimizer is None:
        return []
    remedy = "build the optimizer as it was built for this save, before its state is loaded"
    ids = {one for group in optimizer.groups for one in group}
    strangers = optimizer.states - ids
    if strangers:
        what = f"the optimizer holds state of {text.plural(len(strangers), 'parameter')} that no group of it has"
        return [warn("checkpoint.fits", what, _groups_in_words(optimizer), remedy)]
    odd = _unknown_names(contents, optimizer) if optimizer.is_by_name else _odd_shape(contents, optimizer)
    if odd:
        return [warn("checkpoint.fits", odd, _groups_in_words(optimizer), remedy)]
    count, there = optimizer.count, len(contents.parameters)
    if count > len(contents.shapes):
        what = f"the optimizer is of {text.plural(count, 'parameter')}, the model has {len(contents.shapes)}"
        return [warn("checkpoint.fits", what, _groups_in_words(optimizer), remedy)]
    if count < there:
        what = f"the optimizer covers {count} of the model's {text.plural(there, 'parameter')}: are the others frozen?"
        remedy = "freeze the same ones again before the optimizer is built, else it refuses its own state"
        return [warn("checkpoint.fits", what, _groups_in_words(optimizer), remedy)]
    what = f"the optimizer fits the model: {text.plural(count, 'parameter')}"
    return [passed("checkpoint.fits", what, _groups_in_words(optimizer))]


def _unknown_names(contents: Contents, optimizer: Optimizer) -> str:
    known = set(contents.names)
    lacking = [one for group in optimizer.groups for one in group if one not in known]
    if not lacking:
        return ""
    return f"the optimizer is of {text.clean(lacking[0], 80)}, which the model doesn't have ({len(lacking)} such names)"


def _odd_shape(contents: Contents, optimizer: Optimizer) -> str:
    """Each moment has the shape of its parameter: the model must have as many weights of every shape."""
    there = Counter(contents.shapes)
    for key, shape in optimizer.moments.items():
        if there[shape] == 0:
            return f"the state of parameter {text.clean(key, 40)} has the shape {list(shape)}; no other weight has that"
        there[shape] -= 1
    return ""


def _groups_in_words(optimizer: Optimizer) -> str:
    sizes = [len(group) for group in optimizer.groups]
    shown = " + ".join(map(str, sizes[:12])) + (" + …" if len(sizes) > 12 else "")
    return f"{text.plural(len(sizes), 'group')} ({shown})"


def _groups(it: Situation, contents: Contents) -> list[Check]:
    """Against the save before: an optimizer that was built in another way refuses this state, or mixes it up."""
    before, now = _save_before(it), contents.optimizer
    if before is None or now is None:
        return []
    earlier = read_contents(before.path)
    then = earlier.optimizer if earlier is not None else None
    if then is None or [len(one) for one in then.groups] == [len(one) for one in now.groups]:
        return []
    what = f"the optimizer has {_groups_in_words(now)}, in the save before it had {_groups_in_words(then)}"
    where = text.clean(os.path.basename(before.path))
    if before.stage != it.checkpoint.stage:
        return [passed("checkpoint.groups", f"{what}, of stage {text.clean(before.stage)}", where)]
    return [warn("checkpoint.groups", what, where, "build the optimizer as it was built for this save")]


def _save_before(it: Situation) -> Checkpoint | None:
    """The newest whole save of the run before this one that has an optimizer."""
    one = it.checkpoint
    earlier = [
        other
        for other in (it.run.checkpoints if it.run is not None else ())
        if other.path != one.path and other.is_whole and other.has_optimizer and other.order < one.order
    ]
    newest = max(earlier, key=lambda other: other.order, default=None)
    return newest if newest is not None and newest.tensors <= _MANY_TENSORS else None
