"""`checkpoint_N.pt` as the documentation of LanceDB's streaming shows it: `{"model": …, "dataset": state or states}`.

Also one rank's own file, which may hold nothing but the state, or the state under `dataset`.
"""

from __future__ import annotations

import re
from typing import Any

from lavender_tui.checkpoints.formats.fields import (
    MISSING,
    Content,
    Fields,
    first,
    look,
    take_count,
    take_loss,
    take_optimizer,
    take_whole,
)
from lavender_tui.checkpoints.formats.torch import find_model
from lavender_tui.checkpoints.words import words

NAME = "lancedb"
_STEP_IN_NAME = re.compile(r"(?:checkpoint|ckpt|step)[_-]([0-9]{1,18})(?![0-9])")
_STATE_KEYS = ("num_splits", "samples_consumed_per_split")


def is_state(value: Any) -> bool:
    """Is this dict a rank state (whole or not is judged elsewhere)?"""
    return type(value) is dict and all(key in value for key in _STATE_KEYS)


def has_states(value: Any) -> bool:
    """One state, or a list with at least one."""
    return is_state(value) or (type(value) in (list, tuple) and any(is_state(one) for one in value[:4096]))


def recognises(content: Content) -> bool:
    return is_state(content.value) or has_states(content.top.get("dataset")) or has_states(content.value)


def read(content: Content) -> Fields:
    top = content.top
    fields = Fields(format=NAME)
    fields.dataset = top.get("dataset", content.value)
    fields.model = find_model(top, except_keys=("dataset",)) if "dataset" in top else None
    optimizer = first(top, ("optimizer",), ("optimizer_state_dict",))
    take_optimizer(fields, optimizer)
    fields.has_scheduler = any(top.get(key) is not None for key in ("scheduler", "lr_scheduler"))
    fields.has_rng = any(top.get(key) is not None for key in ("rng", "rng_state"))
    state = fields.dataset[0] if type(fields.dataset) in (list, tuple) and fields.dataset else fields.dataset
    epoch = first(top, ("epoch",)) if "dataset" in top and "epoch" in top else look(state, "epoch")
    fields.epoch = take_whole(fields, "epoch", epoch)
    step = first(top, ("step",), ("global_step",)) if "dataset" in top else MISSING
    fields.step = take_whole(fields, "step", step) if step is not MISSING else _step_of(content.name)
    fields.world_size = take_count(fields, "world_size", first(top, ("world_size",), ("old_world_size",)), least=1)
    if type(fields.dataset) in (list, tuple) and fields.world_size is None:
        fields.world_size = len(fields.dataset)
    for key in ("loss", *(key for key in top if type(key) is str and key.endswith("_loss"))):
        if key in top:
            take_loss(fields, words(key, 80), top[key])
            break
    fields.data, fields.versions = top.get("data"), top.get("versions")
    return fields


def _step_of(name: str) -> int | None:
    found = _STEP_IN_NAME.search(name)
    return int(found[1]) if found else None
