"""Which roots, which run: what people type becomes paths."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

from lavender_tui.checkpoints import is_checkpoint_name
from lavender_tui.config import Config, load
from lavender_tui.errors import NotFound


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
            hint = _did_you_mean(root) if roots else "Name the directory that holds the runs"
            raise NotFound("there is no such directory", where=root, hint=hint)
        if not os.path.isdir(path) and not is_checkpoint_name(os.path.basename(path)):
            raise NotFound(
                "it is a file, no directory of runs", where=root, hint="Name the directory that holds the runs"
            )
        if path not in found:
            found.append(path)
    return tuple(found)


def _did_you_mean(word: str) -> str | None:
    """A mistyped verb is read as a root: say so."""
    if os.sep in word or not word.isalpha():
        return None
    import click

    group = click.get_current_context().find_root().command
    near = difflib.get_close_matches(word, getattr(group, "commands", ()), n=1)
    return f"There is no command {word} either" + (f": did you mean {near[0]}?" if near else "")


def resolve_run(run: str, root: str | None) -> str:
    """A run directory by path, by name in the root, or by the only name that begins so. Raises NotFound."""
    direct = os.path.abspath(os.path.expanduser(run))
    if os.path.isdir(direct):
        return direct
    base = os.path.abspath(os.path.expanduser(root or settings().root))
    inside = os.path.join(base, run)
    if os.path.isdir(inside):
        return inside
    try:
        names = sorted(entry.name for entry in os.scandir(base) if entry.is_dir() and run in entry.name)
    except OSError:
        names = []
    if len(names) == 1:
        return os.path.join(base, names[0])
    hint = f"It could be any of {', '.join(names[:5])}" if names else f"`lavender-tui ls {base}` shows the runs"
    raise NotFound("there is no such run", where=run, hint=hint)
