"""`lavender-tui config`: where the settings come from and which are in force, as TOML that can be saved as it is."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from lavender_tui import config
from lavender_tui.commands.printing import put_json, say
from lavender_tui.model.text import strict_json


def run(*, as_json: bool = False) -> int:
    path = config.config_path()
    in_force, notices = config.load()
    origins = config.origins()
    for notice in notices:
        say(notice)
    if as_json:
        put_json({"path": path, "exists": os.path.exists(path), "settings": asdict(in_force), "origins": origins})
        return 0
    print(f"# {path}" + ("" if os.path.exists(path) else "   (not there: nothing is set by it)"))
    for line in _toml(in_force, origins):
        print(line)
    return 0


def _toml(settings: Any, origins: Mapping[str, str], table: str = "") -> Iterator[str]:
    """A line a setting, its meaning above it and where it comes from behind it; tables last, as TOML wants them."""
    meanings = _meanings(type(settings))
    tables = []
    for field in fields(settings):
        value, name = getattr(settings, field.name), f"{table}{field.name}"
        if is_dataclass(value):
            tables.append((name, value))
            continue
        yield ""
        yield f"# {meanings.get(field.name, '')}"
        yield f"{field.name} = {_value(value)}   # {origins[name]}"
    for name, value in tables:
        yield ""
        yield f"[{name}]"
        yield from _toml(value, origins, f"{name}.")


def _value(value: Any) -> str:
    """TOML's strings, numbers, truth values and lists are written as JSON writes them."""
    return strict_json(list(value) if isinstance(value, tuple) else value)


def _meanings(kind: type) -> dict[str, str]:
    """Field → the sentence that stands below it in the source."""
    body = ast.parse(inspect.getsource(kind).strip()).body[0]
    assert isinstance(body, ast.ClassDef)
    found, name = {}, None
    for one in body.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            name = one.target.id
        elif name and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            found[name] = " ".join(str(one.value.value).split())
    return found
