"""The fields of a record that somebody else wrote: what can't be one is refused, with a reason to show."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeGuard

from lavender_tui.model.topology import MOST_RANKS


class Foreign(ValueError):
    """A value that such a record can't hold; its text is the reason shown."""


def text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    if not is_system_text(value):
        raise Foreign(f"`{key}` is no text")
    return value


def is_system_text(value: Any) -> TypeGuard[str]:
    """Could the system have had it as a path, an argument or a variable? JSON can also name half a character."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def texts(document: dict[str, Any], key: str) -> tuple[str, ...]:
    value = document.get(key)
    if not isinstance(value, list) or not all(map(is_system_text, value)):
        raise Foreign(f"`{key}` is no list of texts")
    return tuple(value)


def number(document: dict[str, Any], key: str) -> float:
    value = document.get(key)
    # The bounds also keep NaN and infinity out: every comparison with NaN is false.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e15 < value < 1e15:
        raise Foreign(f"`{key}` is no number")
    return float(value)


def whole(document: dict[str, Any], key: str) -> int:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) < value < 1 << 31:
        raise Foreign(f"`{key}` is no whole number")
    return value


def ranks(document: dict[str, Any], key: str) -> int:
    value = whole(document, key)
    if not 0 < value <= MOST_RANKS:
        raise Foreign(f"`{key}` is no number of ranks")
    return value


def optional(document: dict[str, Any], key: str, kind: Callable[[dict[str, Any], str], Any]) -> Any:
    return None if document.get(key) is None else kind(document, key)


def table(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(map(is_system_text, (*value, *value.values()))):
        raise Foreign("`env` is no table of texts")
    return value
