"""Which roots, which run: what people type becomes paths."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

from lavender_tui.checkpoints import is_checkpoint_name
from lavender_tui.config import Config, load
from lavender_tui.errors import NotFound, UsageError
from lavender_tui.model import command_line


def settings() -> Config:
    """The settings; what was not taken is said on stderr."""
    from lavender_tui.commands.printing import say

    config, notices = load()
    for notice in notices:
        say(notice)
    return config


def resolve_roots(roots: Sequence[str]) -> tuple[str, ...]:
    """Absolute roots, each once; the configured one where none is named. Raises NotFound for a named one that isn't."""
    named = tuple(roots) or (settings().root,)
    found = []
    for root in named:
        path = os.path.abspath(os.path.expanduser(root))
        if not os.path.exists(path):
            if roots and _is_meant_as_verb(root):
                raise UsageError(f"there is no command {root}, and no directory of that name", hint=_verbs_like(root))
            raise NotFound("there is no such directory", where=root, hint="Name the directory that holds the runs")
        if not os.path.isdir(path) and not is_checkpoint_name(os.path.basename(path)):
            raise NotFound(
                "it is a file, no directory of runs", where=root, hint="Name the directory that holds the runs"
            )
        if path not in found:
            found.append(path)
    return tuple(found)


def _is_meant_as_verb(word: str) -> bool:
    """Where a verb could stand too, a lone word that is no path is rather a mistyped one: wrong usage."""
    import click

    context = click.get_current_context(silent=True)
    return context is not None and context.info_name == "app" and word.replace("-", "").isalpha()


def _verbs_like(word: str) -> str:
    import click

    group = click.get_current_context().find_root().command
    near = difflib.get_close_matches(word, getattr(group, "commands", ()), n=1)
    return f"Did you mean {near[0]}?" if near else "`lavender-tui --help` lists the commands"


def resolve_run(run: str, root: str | None) -> str:
    """A run directory by path, by name in the root, or by the only name that begins so. Raises NotFound."""
    direct = os.path.abspath(os.path.expanduser(run))
    if os.path.isdir(direct):
        return direct
    base = _base(root)
    inside = os.path.join(base, run)
    if os.path.isdir(inside):
        return inside
    try:
        names = sorted(entry.name for entry in os.scandir(base) if entry.is_dir() and run in entry.name)
    except OSError:
        names = []
    if len(names) == 1:
        return os.path.join(base, names[0])
    ls = command_line.shown(["lavender-tui", "ls", base])
    hint = f"It could be any of {', '.join(names[:5])}" if names else f"`{ls}` shows the runs"
    raise NotFound("there is no such run", where=run, hint=hint)


def _base(root: str | None) -> str:
    """Where a run is looked for by its name; where nobody says where and the usual root isn't there, it is right here.
    Raises NotFound for a named root that isn't."""
    base = os.path.abspath(os.path.expanduser(root or settings().root))
    if os.path.isdir(base):
        return base
    if root is not None:
        raise NotFound("there is no such directory", where=root, hint="Name the directory that holds the runs")
    return os.getcwd()
