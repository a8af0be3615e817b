"""The trainer's own `<stage>-HH-MM-SS-NNNN.pt`: a dict with `model_state_dict`, and `stage` or `save_count`."""

from __future__ import annotations

import re
from typing import Any

from lavender_tui.checkpoints.formats.fields import (
    MISSING,
    Content,
    Fields,
    look,
    short,
    take_count,
    take_flag,
    take_loss,
    take_optimizer,
    take_real,
    take_whole,
)
from lavender_tui.checkpoints.scalars import plain
from lavender_tui.checkpoints.words import words
from lavender_tui.model.checkpoint import STAGES, parse_name

NAME = "lavender"
_SEPARATORS = re.compile(r"[\s_.-]+")
# What every save of this format holds, beside the weights and the optimizer's state.
_ALWAYS = ("stage", "save_count", "epoch", "model_cfg")
_RNG_KEYS = ("rng", "rng_state", "random_state")
_SCHEDULER_KEYS = ("scheduler_state_dict", "scheduler", "lr_scheduler", "lr_scheduler_state_dict")


def recognises(content: Content) -> bool:
    top = content.top
    if "model_state_dict" in top and ("stage" in top or "save_count" in top):
        return True
    named = parse_name(content.name)[0] is not None
    return named and ("stage" in top or "save_count" in top or "model_state_dict" in top)


def read(content: Content) -> Fields:
    top = content.top
    fields = Fields(format=NAME, model=top.get("model_state_dict"))
    fields.stage = _stage(fields, top.get("stage", MISSING))
    _counts(fields, top, content.name)
    _loss(fields, top)
    fields.remaining_hours = take_real(fields, "remaining_hours", top.get("remaining_hours", MISSING))
    take_optimizer(fields, top.get("optimizer_state_dict"))
    lacking = [key for key in _ALWAYS if key not in top]
    if lacking and "model_state_dict" in top:
        fields.warn(f"it lacks {', '.join(lacking)}")
    fields.has_scheduler = any(top.get(key) is not None for key in _SCHEDULER_KEYS)
    fields.has_rng = any(top.get(key) is not None for key in _RNG_KEYS)
    fields.world_size = take_count(fields, "world_size", top.get("world_size", MISSING), least=1)
    fields.global_batch = take_whole(fields, "batch.global", look(top, "batch", "global"))
    fields.num_workers = take_count(fields, "batch.num_workers", look(top, "batch", "num_workers"), least=0)
    fields.dataset = top.get("dataset", MISSING)
    fields.data, fields.versions = top.get("data"), top.get("versions")
    return fields


def _stage(fields: Fields, value: Any) -> str | None:
    value = plain(value)
    if value is MISSING or value is None:
        return None
    if type(value) is not str:
        fields.warn(f"stage is {words(value, 60)}, not a text")
        return short(words(value))
    if not value.strip():
        fields.warn("stage is an empty text")
        return None
    if value not in STAGES:
        fields.warn(_unknown_stage(value))
    return short(value)


def _unknown_stage(stage: str) -> str:
    """Stages are compared letter by letter, so another spelling is another stage, and isn't found by the usual one."""
    letters = _SEPARATORS.sub("", stage.casefold())
    meant = next((one for one in STAGES if one == letters), None)
    if meant is not None:
        return f"stage '{words(stage, 60)}' is not '{meant}': the spelling differs"
    return f"stage '{words(stage, 60)}' is none of {', '.join(STAGES)}"


def _counts(fields: Fields, top: dict[Any, Any], name: str) -> None:
    fields.save_count = take_whole(fields, "save_count", top.get("save_count", MISSING))
    named = parse_name(name)[1]
    if fields.save_count is not None and named is not None and named != fields.save_count:
        fields.warn(f"its name says save {named}, its content {fields.save_count}")
    fields.epoch = take_whole(fields, "epoch", top.get("epoch", MISSING))
    fields.epochs = take_whole(fields, "epochs", top.get("epochs", MISSING))
    if fields.epoch is not None and fields.epoch < 0:
        fields.warn(f"epoch is {words(fields.epoch)}, below 0")
    if fields.epoch is not None and fields.epochs is not None and fields.epoch > fields.epochs:
        fields.warn(f"epoch {words(fields.epoch)} is beyond the last one, {words(fields.epochs)}")
    fields.epoch_complete = take_flag(fields, "epoch_complete", top.get("epoch_complete", MISSING))
    step = top.get("global_step", top.get("step", MISSING))
    fields.step = take_whole(fields, "step", MISSING if step is None else step)


def _loss(fields: Fields, top: dict[Any, Any]) -> None:
    """`<stage>_loss` first, then `ce_loss`, then any `*_loss`, then `loss`."""
    others = [key for key in top if type(key) is str and key.endswith("_loss")]
    for key in (f"{fields.stage}_loss", "ce_loss", *others, "loss"):
        if key in top:
            take_loss(fields, key, top[key])
            return
