"""What stands inside a checkpoint, as far as it can be compared without the program that wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lavender_tui.checkpoints import read_tree
from lavender_tui.checkpoints.floats import FLOATS
from lavender_tui.checkpoints.named import MODEL, OPTIMIZER_KEYS, Named, named_tensors, sharded_names
from lavender_tui.checkpoints.objects import Tensor
from lavender_tui.errors import UnreadableFile
from lavender_tui.resume.schedules import Saved, Schedule, saved_schedules

_SCALER_KEYS = ("scaler", "scaler_state_dict", "grad_scaler", "grad_scaler_state_dict", "amp", "amp_scaler")
# Buffers that modules keep in their state dict though no optimizer has them.
_BUFFERS = (
    "running_mean", "running_var", "num_batches_tracked", "inv_freq", "freqs_cis", "freqs_cos", "freqs_sin",
    "cos_cached", "sin_cached", "cos", "sin", "mask", "causal_mask", "attn_mask", "masked_bias",
)  # fmt: skip
# Moments that have the shape of their parameter in every optimizer of torch.
_MOMENTS = ("exp_avg", "momentum_buffer", "square_avg", "exp_inf", "sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """`groups`: the parameters' indices or names of each group; `moments`: the shape of each one's state."""

    groups: tuple[tuple[Any, ...], ...]
    moments: dict[Any, tuple[int, ...]]
    states: frozenset[Any]
    had_scheduler: bool  # torch's schedulers leave `initial_lr` in the groups

    @property
    def count(self) -> int:
        return sum(map(len, self.groups))

    @property
    def is_by_name(self) -> bool:
        return any(type(one) is str for group in self.groups for one in group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """`parameters`: the model's tensors that an optimizer may train, a tied one once. `names`: of all its tensors.

    `sharded`: those of which the file holds only one rank's part.
    """

    names: tuple[str, ...]
    parameters: tuple[Named, ...]
    shapes: tuple[tuple[int, ...], ...]
    optimizer: Optimizer | None
    saved: Saved
    has_scaler: bool
    sharded: tuple[str, ...] = ()

    @property
    def schedule(self) -> Schedule | None:
        """The first that is over; else the first that has some way to go, else the first."""
        every = self.saved.schedules
        going = (one for one in every if one.length is None or one.counter < one.length[1])
        over = (one for one in every if one.is_over)
        return next(over, None) or next(going, None) or next(iter(every), None)


def read_contents(path: str) -> Contents | None:
    """None where the file can't be read (again), which other checks say."""
    try:
        tree = read_tree(path)
    except (UnreadableFile, OSError):
        return None
    model = [one for one in named_tensors(tree) if one.part == MODEL]
    once = list({_identity(one): one for one in model}.values())
    top = tree.value if type(tree.value) is dict else {}
    return Contents(
        names=tuple(one.name for one in model),
        parameters=tuple(one for one in once if _may_be_trained(one)),
        shapes=tuple(one.tensor.shape for one in once),
        optimizer=_optimizer(_first_dict(top, OPTIMIZER_KEYS)),
        saved=saved_schedules(top),
        has_scaler=any(top.get(key) for key in _SCALER_KEYS),
        sharded=tuple(sharded_names(tree)),
    )


def _identity(one: Named) -> tuple[Any, ...]:
    """The same for two names of one weight."""
    tensor = one.tensor
    return (tensor.storage.key if tensor.storage else id(tensor), tensor.offset, tensor.shape)


def _may_be_trained(one: Named) -> bool:
    last = one.name.rpartition(".")[2]
    is_old_mask = last == "bias" and len(one.tensor.shape) == 4  # a causal mask, registered as a buffer of attention
    return one.tensor.dtype in FLOATS and last not in _BUFFERS and not is_old_mask


def _first_dict(top: dict[Any, Any], keys: tuple[str, ...]) -> dict[Any, Any]:
    """The first of the keys that holds a dict, or a list that begins with one; {} where none does."""
    for key in keys:
        value = top.get(key)
        if type(value) in (list, tuple) and value:
            value = value[0]
        if type(value) is dict and value:
            return value
    return {}


def _optimizer(value: dict[Any, Any]) -> Optimizer | None:
    groups, states = value.get("param_groups"), value.get("state")
    if type(groups) not in (list, tuple) or not groups or not all(type(one) is dict for one in groups):
        return None
    members = [one.get("params") for one in groups]
    if not all(type(one) in (list, tuple) for one in members):
        return None
    states = states if type(states) is dict else {}
    return Optimizer(
        groups=tuple(tuple(one for one in group if type(one) in (int, str)) for group in members),
        moments={key: shape for key, state in states.items() if (shape := _moment(state)) is not None},
        states=frozenset(key for key in states if type(key) in (int, str)),
        had_scheduler=any("initial_lr" in one for one in groups),
    )


def _moment(state: Any) -> tuple[int, ...] | None:
    if type(state) is not dict:
        return None
    return next((state[key].shape for key in _MOMENTS if type(state.get(key)) is Tensor), None)
