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
    """Of a pickled torch module its parameters, buffers and sub-modules (its state dict), else everything."""
    if type(value.state) is dict and "_parameters" in value.state:
        return [value.state.get(part) for part in ("_modules", "_buffers", "_parameters")]
    return [value.state, *(value.items or ()), *(child for _, child in value.pairs or ())]


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
