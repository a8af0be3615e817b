"""`lavender-tui [ROOT…]`: the app; without a terminal the list is printed instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lavender_tui.commands import places


def run(roots: Sequence[str], *, command: tuple[str, ...] = (), readonly: bool = False) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        from lavender_tui.commands import ls

        return ls.run(roots)
    from lavender_tui.tui.start import run_app

    return run_app(app_roots(roots), command=command, readonly=readonly)


def app_roots(roots: Sequence[str]) -> tuple[str, ...]:
    """As `resolve_roots`, but the default root may be missing: the app waits for it to appear."""
    if roots:
        return places.resolve_roots(roots)
    return (os.path.abspath(os.path.expanduser(places.settings().root)),)
