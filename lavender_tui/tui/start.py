"""The way into the app. Light: what is heavy is imported when it is called."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lavender_tui.config import NotifySettings
    from lavender_tui.model.run import Run

    Hint = Callable[[Sequence[Run], Run | None], str]  # the newest run first, as they are now; that under the cursor
    Leaving = Callable[[Sequence[Run]], tuple[str, str | None] | None]

DEFAULT_THEME = "lavender"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How the app looks, what of the terminal it takes, and how it tells of news. `notices` are said once, at the
    start."""

    theme: str = DEFAULT_THEME
    mouse: bool = True
    ascii: bool = False
    notices: tuple[str, ...] = ()
    notify: NotifySettings | None = None
    columns: tuple[str, ...] = ()
    """Keys of the list's columns beside the name, in order; empty for the usual ones."""
    views: tuple[str, ...] = ()
    """`NAME: QUERY`, named filters."""
    keep_last: int = 3
    keep_best: int = 1
    """What the page of the disk proposes to keep of each run and stage."""


def run_app(
    roots: Sequence[str],
    *,
    command: Sequence[str] = (),
    world_size: int | None = None,
    hint: Hint | None = None,
    leaving: Leaving | None = None,
    readonly: bool = False,
    look: Look | None = None,
    grace_seconds: float = 30.0,
) -> int:
    """Run the app on the terminal until the person quits; returns the exit code.

    `command` and `world_size` are the defaults of a resume; `hint` gives a line of what to press next, `leaving` what
    ends when the app is left, which is asked then; `readonly` takes every key away that changes something.
    `grace_seconds`: how long a run that is asked to end may take.
    """
    # Looking for cycles among what is only being imported is a tenth of the time to the first frame. The app turns
    # the collector on again with its first rows.
    gc.disable()
    from lavender_tui.tui.app import LavenderApp

    look = look or Look()
    app = LavenderApp(
        roots,
        command=command,
        world_size=world_size,
        hint=hint,
        leaving=leaving,
        readonly=readonly,
        look=look,
        grace_seconds=grace_seconds,
    )
    app.feed.start()  # looks at the disk while the terminal is being prepared
    result = app.run(mouse=look.mouse)
    return result if isinstance(result, int) else (app.return_code or 0)
