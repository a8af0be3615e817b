"""What a person has said yes to: it is done, and told, though the page on which it was asked for is left meanwhile.

Textual's own workers end with their page: of one that no thread has begun yet nothing would be done, and one that has
would not find its app any more, for a part that was taken away knows none.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from textual.screen import Screen

from lavender_tui.model.text import one_line

_Page = TypeVar("_Page", bound=Screen[Any])
_Args = ParamSpec("_Args")


def deed(name: str) -> Callable[[Callable[Concatenate[_Page, _Args], None]], Callable[Concatenate[_Page, _Args], None]]:
    """A page's method that is carried out in a thread, to its end. What nobody foresaw comes back as `DeedBroke`."""

    def decorate(
        method: Callable[Concatenate[_Page, _Args], None],
    ) -> Callable[Concatenate[_Page, _Args], None]:
        @wraps(method)
        def begin(page: _Page, *args: _Args.args, **options: _Args.kwargs) -> None:
            work = partial(_to_its_end, name, page, partial(method, page, *args, **options))
            context = contextvars.copy_context()  # which app it is
            page.app.run_worker(
                partial(context.run, work), group=name, description=name, thread=True, exit_on_error=False
            )

        return begin

    return decorate


def _to_its_end(name: str, page: Screen[Any], work: Callable[[], None]) -> None:
    app = page.app
    try:
        work()
    except Exception as error:  # whatever it is, one sentence is owed
        from lavender_tui.tui.messages import DeedBroke

        words = one_line(f"{type(error).__name__}: {error}", 300)
        if not (page.is_attached and page.post_message(DeedBroke(name, words))):
            app.notify(words, title="That did not work", severity="error", markup=False)
