"""Settings: one declaration. Order: flag > environment > file > default. Reading writes nothing.

The file is `$XDG_CONFIG_HOME/lavender-tui/config.toml` (or what LAVENDER_TUI_CONFIG names); the variable of a setting
is LAVENDER_TUI_<NAME>. A bad value falls back to the default and is said once; it never stops the start.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

PREFIX = "LAVENDER_TUI_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    root: str = "checkpoints"
    """The directory that holds runs, where none is named."""

    poll_seconds: float = 2.0
    """How often directories without file events are looked at."""

    grace_seconds: float = 30.0
    """How long a stopped training may take to save before it is killed."""

    verify_gb: float = 2.0
    """Up to this size a checkpoint is read to its last byte before it is resumed; larger ones with --verify."""

    theme: str = "lavender"
    """The app's colours: any of Textual's themes; `ansi-dark` and `ansi-light` use the terminal's own."""

    mouse: bool = True
    """Let the app have the mouse; with false the terminal keeps it for selecting text."""

    readonly: bool = False
    """Only look: nothing can be started, stopped or changed, neither in the app nor by a command."""


def config_path(environ: Mapping[str, str] = os.environ) -> str:
    """Where the file is looked for."""
    named = environ.get(PREFIX + "CONFIG")
    if named:
        return named
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "lavender-tui", "config.toml")


def load(environ: Mapping[str, str] = os.environ) -> tuple[Config, tuple[str, ...]]:
    """The settings and a sentence for each value that was not taken."""
    path = config_path(environ)
    config, notices = _apply(Config(), _read_file(path), where=path)
    from_environment = {
        field.name: environ[key] for field in fields(Config) if (key := PREFIX + field.name.upper()) in environ
    }
    config, more = _apply(config, from_environment, where="the environment")
    return config, (*notices, *more)


def _read_file(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return {"": str(error)}


def _apply(config: Config, values: Mapping[str, Any], *, where: str) -> tuple[Config, tuple[str, ...]]:
    notices = []
    defaults = Config()
    for name, value in values.items():
        if not name:
            notices.append(f"{where}: not read ({value}); the defaults are used")
        elif not hasattr(defaults, name):
            notices.append(f"{where}: there is no setting {name!r}")
        else:
            try:
                config = replace(config, **{name: _as(type(getattr(defaults, name)), value)})
            except ValueError:
                notices.append(f"{where}: {name} can't be {value!r}; {getattr(config, name)!r} is used")
    return config, tuple(notices)


def _as(kind: type, value: Any) -> Any:
    """`value` as the setting's type. Raises ValueError."""
    if kind is bool:
        words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if isinstance(value, bool):
            return value
        if str(value).lower() not in words:
            raise ValueError(value)
        return words[str(value).lower()]
    if kind is float:
        number = float(value)
        if not 0 < number < 1e6:
            raise ValueError(value)
        return number
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value
