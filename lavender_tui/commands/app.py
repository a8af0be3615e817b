"""`lavender-tui [ROOT…]`: the app; without a terminal the list is printed instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lavender_tui.commands import places
from lavender_tui.config import load


def run(
    roots: Sequence[str],
    *,
    command: tuple[str, ...] = (),
    readonly: bool = False,
    theme: str | None = None,
    mouse: bool | None = None,
    ascii_only: bool | None = None,
) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        from lavender_tui.commands import ls

        return ls.run(roots)
    from lavender_tui.tui.start import Look, run_app

    settings, notices = load()  # what was not taken is said in the app: nobody sees what stands behind it
    look = Look(
        theme=theme or settings.theme,
        mouse=settings.mouse if mouse is None else mouse,
        ascii=settings.ascii if ascii_only is None else ascii_only,
        notices=notices,
        notify=settings.notify,
        columns=settings.columns,
        views=settings.views,
        keep_last=settings.prune.keep_last,
        keep_best=settings.prune.keep_best,
    )
    named = app_roots(roots, settings.root)
    return run_app(named, command=command, readonly=readonly, look=look, grace_seconds=settings.grace_seconds)


def app_roots(roots: Sequence[str], default: str) -> tuple[str, ...]:
    """As `resolve_roots`, but the default root may be missing: the app waits for it to appear."""
    return places.resolve_roots(roots) if roots else (os.path.abspath(os.path.expanduser(default)),)
