"""What stands in the list's place while there is nothing to list: what is there instead, and what to do next."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from textual import work
from textual.widget import Widget

from lavender_tui.model.text import clean
from lavender_tui.tui.widgets.inks import Span, shown_path, text_of
from lavender_tui.tui.widgets.lines import wrap_spans

if TYPE_CHECKING:
    from lavender_tui.tui.messages import RootsSeen
    from lavender_tui.watch.vacant import VacantRoot

_AGAIN_SECONDS = 5.0
_MOST_ROOTS = 6


class EmptyList(Widget):
    """Friendly, and concrete: the roots by name, why each has no runs, and the next command to type.

    What a root is is looked up in a thread, again every few seconds as long as this is on the screen.
    """

    def __init__(self, roots: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._roots = roots
        self._seen: tuple[VacantRoot, ...] = ()
        self._trouble = ""

    def on_mount(self) -> None:
        self.set_interval(_AGAIN_SECONDS, self.look)

    def look(self) -> None:
        """Find out what the roots are, once they were found without runs."""
        if self.screen.has_class("-empty") and getattr(self.app, "snapshot", None) is not None:
            self._look()

    @work(thread=True, exclusive=True, group="roots", exit_on_error=False, description="roots")
    def _look(self) -> None:
        from lavender_tui.tui.messages import RootsSeen
        from lavender_tui.watch.vacant import look_at_root

        self.post_message(RootsSeen(tuple(look_at_root(root) for root in self._roots[:_MOST_ROOTS])))

    def on_roots_seen(self, message: RootsSeen) -> None:
        if message.roots != self._seen:
            self._seen = message.roots
            self.refresh()

    def show_trouble(self, reason: str) -> None:
        self._trouble = reason
        self.refresh()

    def render(self) -> Text:
        text = Text(justify="left", end="")
        width = max(10, self.content_size.width)
        lines = [part for line in self._lines(width) for part in wrap_spans(line, width, 0)]
        for number, line in enumerate(lines):
            text.append("\n" if number else "")
            text.append_text(text_of(self, line))
        return text

    def _lines(self, width: int) -> list[list[Span]]:
        if self._trouble:
            return [[("Nothing can be watched", "bad")], [], [(clean(self._trouble, 400), "")]]
        if not self._seen:
            places = [[(f"  {_shown(root, width)}", "")] for root in self._roots[:_MOST_ROOTS]]
            return [[("Looking for runs …", "quiet")], [], *places]
        lines = [line for root in self._seen for line in _said_of(root, width)]
        near = [path for root in self._seen for path in root.near]
        lines += [[], [("It is watched: what a training saves there appears here by itself.", "quiet")]]
        lines += [[], *(_way("runs lie here", f"lavender-tui {_shown(path, width - 12)}") for path in near[:3])]
        lines += [
            _way("look elsewhere", "lavender-tui PATH"),
            _way("see one made", "lavender-tui demo"),
        ]
        return lines


def _way(what: str, command: str) -> list[Span]:
    return [(f"  {what:<16}", "quiet"), (command, "accent")]


def _shown(path: str, width: int) -> str:
    return shown_path(path, max(10, width - 20), home=os.path.expanduser("~"))


def _said_of(root: VacantRoot, width: int) -> list[list[Span]]:
    """What the root is, and what to do about that."""
    from lavender_tui.watch.vacant import Vacancy

    said = {
        Vacancy.MISSING: (" doesn't exist", "Is it spelled right? A training that saves there makes it."),
        Vacancy.FILE: (" is a file, no directory", "Name the directory that the runs lie in."),
        Vacancy.UNREADABLE: (
            f" can't be read: {clean(root.why, 80).lower()}",
            "Ask its owner.",
        ),
        Vacancy.EMPTY: (" is empty", "A run is a directory with checkpoints in it, such as a training makes."),
        Vacancy.OTHERS: (" holds no run", _others(root)),
    }[root.vacancy]
    return [[(_shown(root.path, width), "strong"), (said[0], "warn")], [(said[1], "quiet")]]


def _others(root: VacantRoot) -> str:
    names = ", ".join(clean(name, 30) for name in root.names)
    more = f" and {root.count - len(root.names):,} more" if root.count > len(root.names) else ""
    return f"There is {names}{more}, but no file that looks like a checkpoint (.pt, .pth, .ckpt, …)."
