"""Every other file of torch.save: which program wrote it, by its top-level keys, and where that keeps its progress.

Epochs and steps are shown as the program counts them (Lightning, timm, torchvision: from 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lavender_tui.checkpoints.formats.fields import (
    MISSING,
    Content,
    Fields,
    first,
    look,
    short,
    take_count,
    take_loss,
    take_optimizer,
    take_whole,
)
from lavender_tui.checkpoints.objects import Global, Inert, Tensor
from lavender_tui.checkpoints.words import words

Path = tuple[Any, ...]

MODEL_KEYS = ("model_state_dict", "state_dict", "model", "module", "net", "model_state", "weights", "ema", "params")
_OPTIMIZER_KEYS = ("optimizer_state_dict", "optimizer", "optimizer_states", "optim", "last_optimizer_state", "opt")
_SCHEDULER_KEYS = (
    "scheduler_state_dict", "lr_scheduler", "lr_schedulers", "scheduler", "opt_param_scheduler", "param_schedulers",
)  # fmt: skip
_RNG_KEYS = ("rng_state", "rng", "random_state", "rng_states")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where one program keeps what. `marks`: top-level keys that all must be there."""

    name: str
    marks: tuple[str, ...]
    epoch: tuple[Path, ...] = ()
    epochs: tuple[Path, ...] = ()
    step: tuple[Path, ...] = ()
    world_size: tuple[Path, ...] = ()
    loss: tuple[Path, ...] = ()
    model: tuple[Path, ...] = ()
    fits: Callable[[dict[Any, Any]], bool] | None = None
    remark: str | None = None


LAYOUTS = (
    Layout(name="lightning", marks=("pytorch-lightning_version",), epoch=(("epoch",),), step=(("global_step",),)),
    Layout(
        name="nanogpt",
        marks=("model", "optimizer", "model_args", "iter_num", "best_val_loss"),
        step=(("iter_num",),),
        loss=(("best_val_loss",),),
        remark="the loss is the best one so far, not the one at this save",
    ),
    Layout(
        name="timm",
        marks=("epoch", "arch", "state_dict", "version"),
        epoch=(("epoch",),),
        epochs=(("args", "epochs"),),
        world_size=(("args", "world_size"),),
    ),
    Layout(
        name="ultralytics",
        marks=("train_args", "best_fitness", "date", "version"),
        epoch=(("epoch",),),
        epochs=(("train_args", "epochs"),),
        model=(("ema",), ("model",)),
    ),
    Layout(
        name="megatron",
        marks=("iteration", "args", "checkpoint_version"),
        step=(("iteration",),),
        world_size=(("args", "world_size"),),
    ),
    Layout(
        name="mmengine",
        marks=("meta", "message_hub"),
        epoch=(("meta", "epoch"),),
        epochs=(("message_hub", "runtime_info", "max_epochs"),),
        step=(("meta", "iter"),),
    ),
    Layout(name="detectron2", marks=("model", "iteration", "scheduler"), step=(("iteration",),)),
    Layout(
        name="fairseq",
        marks=("extra_state", "optimizer_history"),
        epoch=(("extra_state", "train_iterator", "epoch"),),
        epochs=(("cfg", "optimization", "max_epoch"), ("args", "max_epoch")),
        step=(("optimizer_history", -1, "num_updates"),),
        world_size=(("cfg", "distributed_training", "distributed_world_size"), ("args", "distributed_world_size")),
        loss=(("extra_state", "val_loss"),),
    ),
    Layout(
        name="torchtune",
        marks=("epochs_run", "total_epochs"),
        epoch=(("epochs_run",),),
        epochs=(("total_epochs",),),
        step=(("steps_run",),),
    ),
    Layout(
        name="composer",
        marks=("state",),
        fits=lambda top: look(top, "state", "timestamp") is not MISSING,
        epoch=(("state", "timestamp", "Timestamp", "epoch"), ("state", "timestamp", "epoch")),
        step=(("state", "timestamp", "Timestamp", "batch"), ("state", "timestamp", "batch")),
        model=(("state", "model"),),
    ),
    Layout(
        name="litgpt",
        marks=("model", "iter_num", "step_count"),
        step=(("step_count",),),
    ),
    Layout(
        name="torchvision-ref",
        marks=("model", "optimizer", "lr_scheduler", "epoch", "args"),
        epoch=(("epoch",),),
        epochs=(("args", "epochs"),),
        world_size=(("args", "world_size"),),
    ),
)

_PLAIN = Layout(
    name="torch-dict",
    marks=(),
    epoch=(("epoch",), ("ep",), ("current_epoch",)),
    epochs=(("epochs",), ("num_epochs",), ("max_epochs",), ("args", "epochs")),
    step=(
        ("step",),
        ("global_step",),
        ("global_steps",),
        ("iteration",),
        ("iter_num",),
        ("it",),
        ("iter",),
        ("steps",),
    ),
    world_size=(("world_size",), ("args", "world_size")),
)


def recognises(content: Content) -> bool:
    """Everything that got so far."""
    return True


def read(content: Content) -> Fields:
    top = content.top
    if not top:
        return _read_other(content)
    if all(type(one) is Tensor for one in top.values()):
        return Fields(format="state-dict", model=top)
    layout = next((one for one in LAYOUTS if _fits(one, top)), _PLAIN)
    name = layout.name if content.container != "pickle" or layout is not _PLAIN else "pickle"
    fields = Fields(format=name)
    fields.model = _held(first(top, *layout.model)) if layout.model else find_model(top)
    fields.epoch = take_whole(fields, "epoch", first(top, *layout.epoch))
    fields.epochs = _quiet_whole(first(top, *layout.epochs))
    fields.step = take_whole(fields, "step", first(top, *layout.step))
    fields.world_size = take_count(Fields(format=""), "", first(top, *layout.world_size), least=1)
    if layout is _PLAIN and type(top.get("stage")) is str:
        fields.stage = short(top["stage"])
    _loss(fields, top, layout)
    _rest(fields, top)
    if layout.remark:
        fields.warn(layout.remark)
    return fields


def _fits(layout: Layout, top: dict[Any, Any]) -> bool:
    return all(mark in top for mark in layout.marks) and (layout.fits is None or layout.fits(top))


def _quiet_whole(value: Any) -> int | None:
    return take_whole(Fields(format=""), "", value)


def _held(value: Any) -> Any:
    return None if value is MISSING else value


def _loss(fields: Fields, top: dict[Any, Any], layout: Layout) -> None:
    if layout.loss:
        path = layout.loss[0]
        found = look(top, *path)
        if found is not MISSING:
            take_loss(fields, ".".join(path), found)
    elif layout is _PLAIN:
        losses = [key for key in top if type(key) is str and key.endswith("_loss")]
        training = [key for key in losses if key.startswith("train")]
        for key in ("loss", *training, *losses):
            if key in top:
                take_loss(fields, key, top[key])
                return


def _rest(fields: Fields, top: dict[Any, Any]) -> None:
    optimizer = first(top, *((key,) for key in _OPTIMIZER_KEYS))
    if type(optimizer) is list and optimizer:
        optimizer = optimizer[0]
    take_optimizer(fields, optimizer)
    fields.has_scheduler = any(top.get(key) is not None for key in _SCHEDULER_KEYS)
    fields.has_rng = any(top.get(key) is not None for key in _RNG_KEYS)
    fields.dataset = top.get("dataset", MISSING)


def find_model(top: dict[Any, Any], except_keys: tuple[str, ...] = ()) -> Any:
    """What holds the model's tensors: under a usual key, else the first dict of tensors; None where there is none."""
    for key in MODEL_KEYS:
        value = top.get(key)
        if key not in except_keys and (type(value) is dict or _is_module(value)):
            return value
    for key, value in top.items():
        if key not in except_keys and type(value) is dict and any(type(one) is Tensor for one in value.values()):
            return value
    return None


def _is_module(value: Any) -> bool:
    return type(value) is Inert and type(value.state) is dict and "_parameters" in value.state


def _read_other(content: Content) -> Fields:
    value = content.value
    if _is_module(value):
        fields = Fields(format="pickled-module", model=value)
        fields.warn(f"it holds a whole {words(value.maker, 80)} object; only its own program can load it")
        return fields
    if type(value) is Tensor:
        return Fields(format="tensor")
    if type(value) is dict and content.container != "pickle":
        return Fields(format="torch-dict")
    fields = Fields(format="other" if content.container != "pickle" else "pickle")
    if type(value) is Global or type(value) is Inert:
        fields.warn(f"it holds {words(value, 80)}, not a dict")
    return fields
