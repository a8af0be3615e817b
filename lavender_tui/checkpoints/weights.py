"""How many elements a model has, from its tensors' descriptions."""

from __future__ import annotations

from typing import Any

from lavender_tui.checkpoints.objects import Inert, Key, Tensor

_MOST_NODES = 1_000_000


def tensors_in(top: Any) -> list[Tensor]:
    """The tensors below `top`: one for each entry of a dict, so a tied weight counts under each of its names."""
    found: list[Tensor] = []
    seen: set[int] = set()
    waiting = [top]
    while waiting and len(seen) < _MOST_NODES:
        value = waiting.pop()
        kind = type(value)
        if kind is Tensor:
            found.append(value)
            continue
        if kind not in (dict, list, tuple, Inert, Key) or id(value) in seen:
            continue
        seen.add(id(value))
        if kind is dict:
            waiting.extend(value.values())
        elif kind is Inert:
            waiting.extend(_inside(value))
        elif kind is Key:
            waiting.append(value.value)
        else:
            waiting.extend(value)
    return found


def _inside(value: Inert) -> list[Any]:
    """Of a pickled torch module what its state dict has (no buffer that isn't persistent), else everything."""
    if type(value.state) is dict and "_parameters" in value.state:
        state = value.state
        return [state.get("_modules"), *_persistent_buffers(state), state.get("_parameters")]
    return [value.state, *(value.items or ()), *(child for _, child in value.pairs or ())]


def _persistent_buffers(state: dict[Any, Any]) -> list[Any]:
    """A module's buffers without those that its state dict leaves out; their names are a pickled set."""
    buffers, left_out = state.get("_buffers"), state.get("_non_persistent_buffers_set")
    if type(buffers) is not dict:
        return []
    listed: Any = ()
    if type(left_out) is Inert:
        listed = left_out.items or (left_out.args[0] if type(left_out.args) is tuple and left_out.args else ())
    names = {name for name in listed if type(name) is str} if type(listed) in (list, tuple) else set()
    return [buffer for name, buffer in buffers.items() if name not in names]


def count_elements(tensors: list[Tensor]) -> tuple[int, int]:
    """(elements, tensors left out): left out are those that claim more than their storage holds."""
    elements = odd = 0
    for tensor in tensors:
        count = tensor.numel
        storage = tensor.storage
        if storage is not None and count > storage.numel and storage.dtype != "untyped" and 0 not in tensor.stride:
            odd += 1
        else:
            elements += count
    return elements, odd
