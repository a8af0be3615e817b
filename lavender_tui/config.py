"""Settings: one declaration. Order: flag > environment > file > default. Reading writes nothing.

The file is `$XDG_CONFIG_HOME/lavender-tui/config.toml` (or what LAVENDER_TUI_CONFIG names); the variable of a setting
is LAVENDER_TUI_<NAME>, that of one in a table LAVENDER_TUI_<TABLE>_<NAME>. A bad value falls back to the default and
is said once; it never stops the start.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from lavender_tui.model import hook_words

PREFIX = "LAVENDER_TUI_"
_TIME = re.compile(r"[0-9]+(-[0-9]+)?(:[0-9]+){0,2}|UNLIMITED|INFINITE", re.IGNORECASE)  # as sbatch's --time takes it
_Settings = TypeVar("_Settings")


class Unfit(ValueError):
    """A value that can't be, with the reason in words for whoever wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """What a job asks Slurm for; what is empty is left to the cluster's defaults.

    Also the `[slurm]` table of a project's `lavender.toml`, whose values win. Raises ValueError for what can't be.
    """

    partition: str = ""
    """As sbatch's --partition; several with commas."""

    account: str = ""
    """What the time is counted on."""

    time: str = ""
    """The time limit: minutes, or `hours:minutes:seconds`, or `days-hours`."""

    gres: str = ""
    """For each node, such as `gpu:4`; `{ranks_per_node}` is the number of ranks there."""

    nodes: int = 1
    """At most so many nodes; the ranks are shared out evenly."""

    options: tuple[str, ...] = ()
    """More words for sbatch, such as `--mem=0`."""

    signal_seconds: int = 120
    """So long before the time limit the training is told to save."""

    def __post_init__(self) -> None:
        for name in ("partition", "account", "gres"):
            if not getattr(self, name).isprintable() or " " in getattr(self, name):
                raise ValueError(name)
        if self.time and not _TIME.fullmatch(self.time):
            raise ValueError("time")
        if not 1 <= self.nodes <= 65_533 or not 1 <= self.signal_seconds <= 65_535:
            raise ValueError("nodes or signal_seconds")  # the bounds are Slurm's own
        if any("\0" in word or not word.startswith("-") for word in self.options):
            raise ValueError("options")  # another first word would be taken for the script


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchrunSettings:
    """What torchrun is told beyond the number of processes. Raises ValueError for what can't be."""

    nodes: int = 1
    """How many hosts share the ranks evenly; each further one joins with `lavender-tui join RUN`."""

    rdzv_endpoint: str = ""
    """HOST:PORT where the hosts meet; a free port of this host where it is empty."""

    max_restarts: int = 0
    """So often the ranks are started again after a failure."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 65_536 or not 0 <= self.max_restarts <= 1000:
            raise ValueError("nodes or max_restarts")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifySettings:
    """What tells of a run that failed, stalled, …, beside the line in the app. Commands are read by no shell; they may
    use {run}, {path}, {reason} and {event}, but not where a part of those could be run. Raises ValueError for that and
    for an open quote."""

    bell: bool = False
    """Ring the terminal's bell."""

    terminal: bool = False
    """Ask the terminal for a desktop notice (OSC 9: iTerm2, kitty, WezTerm, Windows Terminal, …)."""

    failed: str = ""
    """A command to run when a run failed, such as `notify-send {run} {reason}`."""

    stalled: str = ""
    """When a living run gives no sign for longer than it used to."""

    finished: str = ""
    """When a training is over and all is trained."""

    stopped: str = ""
    """When a run was stopped on request."""

    nan: str = ""
    """When the loss is no number any more."""

    jumped: str = ""
    """When a resumed run doesn't carry on where it was to."""

    def __post_init__(self) -> None:
        for name in ("failed", "stalled", "finished", "stopped", "nan", "jumped"):
            if why := hook_words.objection(shlex.split(getattr(self, name))):
                raise Unfit(f"{why[0]}. {why[1]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneSettings:
    """What is kept of each run and stage, beside what some run was resumed from. Raises ValueError."""

    keep_last: int = 3
    """So many of the newest whole checkpoints, at least one."""

    keep_best: int = 1
    """So many of the lowest loss."""

    def __post_init__(self) -> None:
        if self.keep_last < 1 or self.keep_best < 0:
            raise ValueError("keep_last or keep_best")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperviseSettings:
    """How `lavender-tui supervise` keeps a run alive. Raises ValueError for what can't be."""

    tries: int = 5
    """Resumes in a row that save nothing new, until the run is given up."""

    backoff_seconds: float = 10.0
    """Wait before the second of them; it doubles with each further one, up to an hour."""

    world_sizes: str = ""
    """The permitted numbers of ranks, such as `1,2,4`; empty: any, up to as many as the run ever had."""

    def __post_init__(self) -> None:
        if not 1 <= self.tries <= 1_000_000:
            raise ValueError("tries")
        parse_world_sizes(self.world_sizes)


def parse_world_sizes(words: str) -> tuple[int, ...]:
    """ "1,2,4" as numbers, each once, ascending; () for no words. Raises ValueError."""
    sizes = {int(word) for word in words.split(",")} if words.strip() else set()
    if any(not 1 <= size <= 1_000_000 for size in sizes):
        raise ValueError(words)
    return tuple(sorted(sizes))


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

    log_mb: float = 256.0
    """How large a training's log may become before its older part goes to `train.log.1`, that to `.2`; 0: never."""

    theme: str = "lavender"
    """The app's colours: any of Textual's themes; `ansi-dark` and `ansi-light` use the terminal's own."""

    mouse: bool = True
    """Let the app have the mouse; with false the terminal keeps it for selecting text."""

    ascii: bool = False
    """Draw with ASCII alone, for terminals without Braille; where TERM says so it is done anyway."""

    readonly: bool = False
    """Only look: nothing can be started, stopped or changed, neither in the app nor by a command."""

    columns: tuple[str, ...] = ()
    """The list's columns beside the name, in order, such as `["state", "loss", "host"]`; empty: the usual."""

    views: tuple[str, ...] = ()
    """Named filters for the list, such as `["broken: state:failed | state:stalled"]`."""

    notify: NotifySettings = NotifySettings()
    """How news of a run are told."""

    prune: PruneSettings = PruneSettings()
    """Which checkpoints could be deleted."""

    slurm: SlurmSettings = SlurmSettings()
    """What jobs ask for where Slurm starts the training."""

    torchrun: TorchrunSettings = TorchrunSettings()
    """Several hosts, and what happens when a rank fails, where torchrun starts the training."""

    supervise: SuperviseSettings = SuperviseSettings()
    """How `lavender-tui supervise` keeps runs alive."""

    def __post_init__(self) -> None:
        if min(self.poll_seconds, self.grace_seconds, self.verify_gb) <= 0:
            raise ValueError("seconds and sizes are more than 0")


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
    config, notices = overlay(Config(), _read_file(path), where=path)
    config, more = overlay(config, _from_environment(Config(), PREFIX, environ), where="the environment")
    return config, (*notices, *more)


def origins(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Of each setting, by its dotted name: "default", the file's path or the variable that it was taken from."""
    path = config_path(environ)
    found = dict.fromkeys(_names(Config()), "default")
    for name in _taken(Config(), _read_file(path)):
        found[name] = path
    for name in _taken(Config(), _from_environment(Config(), PREFIX, environ)):
        found[name] = PREFIX + name.replace(".", "_").upper()
    return found


def _names(settings: Any, before: str = "") -> list[str]:
    names: list[str] = []
    for field in fields(settings):
        value = getattr(settings, field.name)
        names += _names(value, f"{before}{field.name}.") if is_dataclass(value) else [before + field.name]
    return names


def _taken(settings: Any, values: Mapping[str, Any], before: str = "") -> list[str]:
    """The dotted names of the values that are good ones."""
    names: list[str] = []
    for name, value in values.items():
        inner = getattr(settings, name, None) if name else None
        if is_dataclass(inner) and isinstance(value, Mapping):
            names += _taken(inner, value, f"{before}{name}.")
        elif not overlay(settings, {name: value}, where="")[1]:
            names.append(before + name)
    return names


def _read_file(path: str) -> dict[str, Any]:
    try:
        # A pipe would hold the program up for ever.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if path != os.devnull and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return {"": "it is no regular file"}
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return {"": str(error)}


def _from_environment(settings: Any, prefix: str, environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(settings):
        key, default = prefix + field.name.upper(), getattr(settings, field.name)
        if is_dataclass(default):
            found[field.name] = _from_environment(default, key + "_", environ)
        elif key in environ:
            found[field.name] = environ[key]
    return found


def overlay(settings: _Settings, values: Mapping[str, Any], *, where: str) -> tuple[_Settings, tuple[str, ...]]:
    """(the settings with the values in place, a sentence for each that can't be one); tables go into tables."""
    notices: list[str] = []
    for name, value in values.items():
        if not name:
            notices.append(f"{where}: not read ({value}); the defaults are used")
        elif not hasattr(settings, name):
            notices.append(f"{where}: there is no setting {name!r}")
        elif is_dataclass(before := getattr(settings, name)) and isinstance(value, Mapping):
            inside, more = overlay(before, value, where=f"{where}, [{name}]")
            settings = replace(settings, **{name: inside})  # type: ignore[type-var]
            notices += more
        else:
            try:
                settings = replace(settings, **{name: _as(getattr(type(settings)(), name), value)})  # type: ignore[type-var]
            except Unfit as error:
                notices.append(f"{where}: {name} can't be {value!r}: {error}")
            except ValueError:
                if name == "readonly":  # who asked for protection, in whatever words, has it
                    settings, before = replace(settings, **{name: True}), True  # type: ignore[type-var]
                notices.append(f"{where}: {name} can't be {value!r}; {_as_written(before)} is used")
    return settings, tuple(notices)


def _as_written(value: Any) -> str:
    """As it stands in the file of settings."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _as(default: Any, value: Any) -> Any:
    """`value` as the default's type; a text may be empty where the default is. Raises ValueError."""
    kind = type(default)
    if kind is bool:
        words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if isinstance(value, bool):
            return value
        if str(value).lower() not in words:
            raise ValueError(value)
        return words[str(value).lower()]
    if kind is float:
        number = float(value)
        if not 0 <= number < 1e6:
            raise ValueError(value)
        return number
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise ValueError(value)
        return int(value)
    if kind is tuple:
        words_of = shlex.split(value) if isinstance(value, str) else value
        if not isinstance(words_of, list) or not all(isinstance(word, str) for word in words_of):
            raise ValueError(value)
        return tuple(words_of)
    if not isinstance(value, str) or not (value or value == default):
        raise ValueError(value)
    return value
