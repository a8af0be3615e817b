"""A file's tensors with their names and their part: the model's, the optimizer's, or something else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lavender_tui.checkpoints.container import Tree
from lavender_tui.checkpoints.formats import Content, read_fields
from lavender_tui.checkpoints.objects import ITEM_SIZE, Inert, Key, Storage, Tensor
from lavender_tui.checkpoints.words import words

MODEL, OPTIMIZER, OTHER = "model", "optimizer", "other"
OPTIMIZER_KEYS = (
    "optimizer_state_dict", "optimizer", "optimizer_states", "optim", "last_optimizer_state", "opt",
)  # fmt: skip
_MOST_NODES = 2_000_000
_SPREAD = ("ShardedTensor", "DTensor")


@dataclass(frozen=True, slots=True)
class Named:
    """`name` is the model's own ("0.weight") for its tensors, else the way to it ("optimizer.state.3.exp_avg")."""

    name: str
    part: str
    tensor: Tensor

    @property
    def width(self) -> int | None:
        """Bytes of one element; None for types that are packed in another way."""
        return ITEM_SIZE.get(self.tensor.dtype)

    @property
    def extent(self) -> int:
        """Elements from the tensor's first to its last in its storage, both included; 0 for an empty one."""
        shape, stride = self.tensor.shape, self.tensor.stride
        if 0 in shape:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=False))


def named_tensors(tree: Tree) -> list[Named]:
    """Every tensor that has bytes of its own in the file. A tied weight comes once for each of its names."""
    content = Content(value=tree.value, name=os.path.basename(tree.path), container=tree.container)
    model = read_fields(content).model
    found: list[Named] = []
    seen: set[int] = set()
    if model is not None:
        _walk(model, "", MODEL, found, seen)
    if type(tree.value) is dict and tree.value is not model:
        seen.add(id(tree.value))
        for key, value in tree.value.items():
            if value is not model:
                part = OPTIMIZER if type(key) is str and key in OPTIMIZER_KEYS else OTHER
                _walk(value, words(key, 80), part, found, seen)
    _walk(tree.value, "", OTHER, found, seen)  # what is no dict
    return [*found, *_unreached(tree, found)]


def sharded_names(tree: Tree) -> list[str]:
    """The model's tensors that are spread over ranks (ShardedTensor, DTensor): the file holds one rank's part of each.

    As they stand in a state dict, with the names that they have there.
    """
    model = read_fields(Content(value=tree.value, name=os.path.basename(tree.path), container=tree.container)).model
    items = model.items() if type(model) is dict else ()
    return [words(key, 80) for key, one in items if type(one) is Tensor and one.kind in _SPREAD]


def _walk(top: Any, name: str, part: str, found: list[Named], seen: set[int]) -> None:
    waiting: list[tuple[Any, str]] = [(top, name)]
    while waiting and len(seen) < _MOST_NODES:
        value, name = waiting.pop()
        if type(value) is Tensor:
            if value.storage is not None:
                found.append(Named(name, part, value))
            continue
        if type(value) not in (dict, list, tuple, Inert, Key) or id(value) in seen:
            continue
        seen.add(id(value))
        children = [(child, f"{name}.{step}" if name and step else name or step) for step, child in _children(value)]
        waiting.extend(reversed(children))


def _children(value: Any) -> list[tuple[str, Any]]:
    """What is inside, each with the step of its name; a pickled module's parts have the names of a state dict."""
    kind = type(value)
    if kind is dict:
        return [(key if type(key) is str else words(key, 80), child) for key, child in value.items()]
    if kind is Key:
        return [("", value.value)]
    if kind is not Inert:
        return [(str(at), child) for at, child in enumerate(value)]
    if type(value.state) is dict and "_parameters" in value.state:
        return [("", value.state.get(part)) for part in ("_parameters", "_buffers", "_modules")]
    pairs = [(words(key, 80), child) for key, child in value.pairs or ()]
    return [("", value.args), ("", value.state), *(("", one) for one in value.items or ()), *pairs]


def _unreached(tree: Tree, found: list[Named]) -> list[Named]:
    """Tensors inside of others (a quantised one's scales): without a name, but their bytes count too."""
    reached = {id(one.tensor) for one in found}
    return [Named("", OTHER, one) for one in tree.tensors if type(one.storage) is Storage and id(one) not in reached]
