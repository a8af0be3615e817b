"""Inert trees for people and for JSON: one value in a few words, the keys as a bounded tree, a state as plain data."""

from __future__ import annotations

import math
from typing import Any

from lavender_tui.checkpoints.limits import Limits, OverLimit
from lavender_tui.checkpoints.objects import Global, Huge, Inert, Key, Storage, Tensor, number
from lavender_tui.checkpoints.scalars import plain
from lavender_tui.model.text import clean

LONGEST_TEXT = 200
_TREE_NODES = 1000
_TREE_WIDTH = 100  # entries shown of one dict or list
_TREE_DEPTH = 6
_SHORT_LIST = 8


def words(value: Any, limit: int = LONGEST_TEXT) -> str:
    """One value in a few words, never more than `limit` characters and never raising."""
    value = plain(value)
    kind = type(value)
    if kind is str:
        return clean(value, limit)
    if kind is int:
        return clean(str(number(value)), limit)
    if kind is float:
        return f"{value:g}" if math.isfinite(value) and abs(value) < 1e16 and value.is_integer() else repr(value)
    if kind in (bool, type(None)):
        return str(value).lower()
    if kind is Huge:
        return str(value)
    if kind is bytes:
        return f"{len(value):,} bytes"
    if kind is Tensor:
        return tensor_words(value)
    if kind is Storage:
        return f"storage of {value.numel:,} {value.dtype}"
    if kind is Global:
        return clean(str(value), limit)
    if kind is Inert:
        return _inert_words(value, limit)
    return _container_words(value, limit)


def tensor_words(tensor: Tensor) -> str:
    """ "float32 [32, 16]", "float32 scalar", with what is special about it behind."""
    special = f" ({clean(tensor.kind, 40)})" if tensor.kind else ""
    return f"{clean(tensor.dtype, 40)} {list(tensor.shape) or 'scalar'}{special}"


def _container_words(value: Any, limit: int) -> str:
    kind = type(value)
    if kind in (list, tuple):
        if len(value) <= _SHORT_LIST and all(type(one) in (int, float, bool, str, type(None)) for one in value):
            inside = ", ".join(words(one, 40) for one in value)
            return clean(inside if len(value) > 1 else f"{kind.__name__} of {len(value)}: {inside}".rstrip(": "), limit)
        return f"{kind.__name__} of {len(value):,}"
    if kind is dict:
        return f"dict of {len(value):,}" if value else "empty dict"
    if kind is Key:
        return words(value.value, limit)
    return kind.__name__


def _inert_words(value: Inert, limit: int) -> str:
    """`Name(arguments)`: what would have been made; only plain arguments are shown."""
    if type(value.maker) is not Global:
        return "an object of an unnamed kind"
    name = value.maker.name.rpartition(".")[2]
    if name in ("_rebuild_tensor_v2", "_rebuild_tensor", "_rebuild_tensor_v3", "_rebuild_parameter"):
        return "unknown tensor"
    if name == "getattr" and len(value.args) == 2 and type(value.args[1]) is str:
        return clean(f"getattr(…, {value.args[1]!r})", limit)
    shown = value.args if type(value.args) is tuple else ()
    if value.items is not None:
        shown = (value.items,)
    inside = ", ".join(
        repr(one) if type(one) is str and len(one) <= 100 else words(one, 80)
        for one in shown[:_SHORT_LIST]
        if type(one) in (str, int, float, bool, list, tuple)
    )
    return clean(f"{name}({inside})", limit)


# ---- the tree of keys


class _Budget:
    def __init__(self, nodes: int) -> None:
        self.left = nodes

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def key_tree(top: Any) -> dict[str, Any]:
    """key -> words or sub-tree, breadth first, at most 1,000 nodes and 6 levels deep. Cycles end in words."""
    root: dict[str, Any] = {}
    budget = _Budget(_TREE_NODES)
    open_ids = {id(top)}
    waiting: list[tuple[Any, dict[str, Any], int]] = [(top, root, 1)]
    for value, node, depth in waiting:  # grows while it is walked: breadth first, so that the top is never starved
        entries, total = _entries(value)
        for name, child in entries:
            if not budget.take():
                break
            if depth < _TREE_DEPTH and id(child) not in open_ids and _has_entries(child):
                open_ids.add(id(child))
                below: dict[str, Any] = {}
                node[_free_name(name, node)] = below
                waiting.append((child, below, depth + 1))
            else:
                node[_free_name(name, node)] = words(child)
        if len(node) < total:
            node["…"] = f"{total - len(node):,} more"
    return root


def _free_name(name: str, node: dict[str, Any]) -> str:
    while name in node:
        name += "′"
    return name


def _has_entries(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return bool(value)
    if kind in (list, tuple):
        return any(type(one) in (dict, Inert, Tensor) for one in value[:16])
    return kind is Inert and plain(value) is value and bool(_entries(value)[0])


def _entries(value: Any) -> tuple[list[tuple[str, Any]], int]:
    """The first entries, with names for people, and how many there are."""
    if type(value) is dict:
        first = zip(value.items(), range(_TREE_WIDTH), strict=False)
        return [(words(key, 80), child) for (key, child), _ in first], len(value)
    if type(value) in (list, tuple):
        return [(f"[{index}]", child) for index, child in enumerate(value[:_TREE_WIDTH])], len(value)
    if type(value) is Inert:
        entries = [*attributes(value).items()]
        entries += [(words(key, 80), child) for key, child in (value.pairs or [])[:_TREE_WIDTH]]
        if value.items is not None:
            entries += [(f"[{index}]", child) for index, child in enumerate(value.items[:_TREE_WIDTH])]
        if not entries:
            return [], 0
        return [("class", value.maker), *((words(name, 80), child) for name, child in entries[:_TREE_WIDTH])], len(
            entries
        ) + 1
    return [], 0


def attributes(value: Any) -> dict[Any, Any]:
    """The attributes that an inert object would have (Namespace, dataclass, Module): the dicts of its state."""
    if type(value) is not Inert:
        return {}
    parts = value.state if type(value.state) is tuple else (value.state,)
    found: dict[Any, Any] = {}
    for part in parts:
        if type(part) is dict:
            found.update(part)
    return found


# ---- plain data


def to_plain(top: Any, limits: Limits | None = None) -> Any:
    """The tree as dicts, lists, numbers, text and None; what is none of these as words. Keys become text or int.

    Lists of whole numbers are not copied. Raises OverLimit past `max_nodes` or `max_numbers`; what contains itself
    ends in words.
    """
    limits = limits or Limits()
    left, numbers_left = limits.max_nodes, limits.max_numbers
    holder: list[Any] = [None]
    waiting: list[tuple[Any, Any, Any, tuple[int, ...]]] = [(top, holder, 0, ())]
    numbers = _NumberLists()
    while waiting:
        value, target, place, above = waiting.pop()
        value = plain(value)
        kind = type(value)
        if kind is list and numbers.holds(value):
            target[place] = value
            numbers_left -= len(value)
        elif kind in (dict, list, tuple) and len(above) < 32 and id(value) not in above:
            left -= len(value) + 1
            target[place], children = _opened(value) if left >= 0 else (None, [])
            inner = (*above, id(value))
            waiting.extend((child, target[place], key, inner) for key, child in children)
        else:
            is_plain = kind in (str, float, bool, type(None)) or (kind is int and type(number(value)) is int)
            target[place] = value if is_plain else words(value)
        if left < 0 or numbers_left < 0:
            raise OverLimit("it holds too many values for a state")
    return holder[0]


def _opened(value: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """An empty container for the plain form of `value`, and (place in it, child) of each child."""
    if type(value) is dict:
        children = [(key if type(key) in (str, int) else words(key), child) for key, child in value.items()]
        return {key: None for key, _ in children}, children
    return [None] * len(value), list(enumerate(value))


class _NumberLists:
    """Which lists hold whole numbers only. Each is looked through once, however often it is referred to."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def holds(self, value: list[Any]) -> bool:
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = set(map(type, value)) <= {int}
        return known
