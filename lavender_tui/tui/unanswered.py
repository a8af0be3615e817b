"""A key that does nothing now, or nothing here, says so in one line: silence reads as a program that hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

from lavender_tui.tui import keys

if TYPE_CHECKING:
    from textual.screen import Screen

READONLY = "read-only: nothing is started, ended or written here"
_MOST_PLACES = 3  # named in one line of 80 columns
_PLAIN = {
    keys.LIST: "in the list",
    keys.RUN: "on a run's page",
    keys.CURVE: "in a run's Loss",
    keys.DATA: "in a run's Data",
    keys.LOG: "in the log",
    keys.RESUME: "on the sheet",
    keys.TREE: "in a checkpoint",
    keys.COMPARE: "in the comparison",
    keys.DISK: "on the disk page",
}
_HERE = {
    ("enter", keys.LOG): "a line can't be opened; e goes to an error, / searches",
    ("l", keys.LOG): "this is the log",
}


def why_hidden(screen: Screen[object], action: str) -> str | None:
    """Why an action that the screen hides now can't be done; None where it isn't hidden, or nothing is to be said."""
    name = action.partition("(")[0]
    why_not = getattr(screen, "why_not", None)
    if why_not is None or "." in name or screen.check_action(name, ()) is not False:
        return None
    return why_not(name) or None


def why_not_here(screen: Screen[object], pressed: str) -> str | None:
    """Where a key of the table works that nothing on this page has answered, the nearest places first; None for any
    other key."""
    place = getattr(screen, "PLACE", None)
    if place is None or isinstance(screen.focused, Input):
        return None
    if (pressed, place) in _HERE:
        return _HERE[pressed, place]
    places = [_PLAIN[one] for one in keys.elsewhere(pressed, getattr(screen, "places", (place,)))]
    if not places:
        return None
    if getattr(screen.app, "is_readonly", False) and keys.only_changes(pressed):
        return READONLY  # there it could do nothing either
    more = ["…"] if len(places) > _MOST_PLACES else []
    return f"a key for elsewhere: {', '.join([*places[:_MOST_PLACES], *more])}"
