"""The command palette: every key's action in this place with its key, every theme, and every run by name."""

from __future__ import annotations

import re
from functools import partial

from rich.cells import cell_len
from rich.text import Text
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider

from lavender_tui.model.text import clean
from lavender_tui.tui import keys
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.widgets.hint import fitting
from lavender_tui.tui.widgets.inks import fit

PLACEHOLDER = "what to do, a run, a theme"
_MOST_RUNS = 50
_KEEPING_SECONDS = 8.0  # for a line to be read and remembered
_HIDDEN = ("palette", "move", "move.ends", "move.half", "log.aside", "log.place")
_GROUPS = {
    "run": "this run", "copy": "this run", "list": "the list", "log": "the log", "sheet": "the sheet",
    "curve": "the curve", "data": "the data", "tree": "the keys", "compare": "compared", "disk": "the disk",
}  # fmt: skip
_EVERYWHERE = "everywhere"
_GROUP_WIDTH, _KEY_WIDTH, _TITLE_WIDTH = 11, 6, 20
_WIDEST, _SHARE, _FRAME = 104, 0.96, 5  # as in lavender.tcss; the frame, its air and the scroll bar


class Palette(Orderly, CommandPalette):
    """Textual's, with this app's words and look (lavender.tcss)."""

    def __init__(self) -> None:
        super().__init__(placeholder=PLACEHOLDER, id="--command-palette")


class LavenderCommands(Provider):
    """Actions of the screen below the palette, then themes, then runs."""

    def _keys(self) -> list[keys.Key]:
        """Those that work here, group by group."""
        places = getattr(self.screen, "places", (getattr(self.screen, "PLACE", keys.EVERYWHERE),))
        may = getattr(self.app, "may", lambda action: True)
        found = [key for key in keys.of_places(places) if key.id not in _HIDDEN and may(key.action)]
        order = list(dict.fromkeys(_group(key) for key in found))
        return sorted(found, key=lambda key: order.index(_group(key)))

    def _actions(self) -> list[tuple[str, str, str]]:
        return [(name, f"{key.shown}   {key.help}", action) for key, name, action in self._entries()]

    def _entries(self) -> list[tuple[keys.Key, str, str]]:
        """Key, name and action; several of a key that means several things, none of one that only moves rows."""
        return [(key, name, action) for key in self._keys() for name, action in keys.commands(key)]

    def _themes(self) -> list[tuple[str, str]]:
        """Title and name of each theme; the title says whether it is light or dark."""
        themes = self.app.available_themes.values()
        return [(f"Theme: {one.name} ({'dark' if one.dark else 'light'})", one.name) for one in themes]

    def _run_names(self) -> list[tuple[str, str]]:
        return [(clean(run.name, 80), run.key) for run in getattr(self.app, "runs", ())]

    async def discover(self) -> Hits:
        before = ""
        for key, name, action in self._entries():
            group = _group(key)
            row = self._row(key, name, group if group != before else "")
            before = group
            yield DiscoveryHit(row, partial(self._press, action), text=name)
        for title, name in self._themes():
            if name.startswith(("lavender", "colour-blind", "ansi")):
                row = _row("colours" if before != "colours" else "", "", title, "")
                before = "colours"
                yield DiscoveryHit(row, partial(self._wear, name), text=title)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key, name, action in self._entries():
            score = matcher.match(f"{name} {key.shown} {key.help}")
            if score > 0:
                yield Hit(score, self._row(key, name, _group(key)), partial(self._press, action), text=name)
        for title, name in self._themes():
            score = matcher.match(title)
            if score > 0:
                score += 1 if name.startswith("lavender") else 0  # ours are made for these screens: they come first
                yield Hit(score, _row("colours", "", title, ""), partial(self._wear, name), text=title)
        found = 0
        for name, key_of_run in self._run_names():
            score = matcher.match(name)
            if score > 0 and found < _MOST_RUNS:
                found += 1
                yield Hit(score, _row("runs", "", f"Go to {name}", ""), partial(self._go_to, key_of_run), text=name)

    def _row(self, key: keys.Key, name: str, group: str) -> Text:
        is_ascii = getattr(self.app, "is_ascii", False)
        width = min(_WIDEST, int(self.app.size.width * _SHARE)) - _FRAME
        room = width - _GROUP_WIDTH - _KEY_WIDTH - _TITLE_WIDTH - 1
        row = _row(group, keys.in_words(key.shown) if is_ascii else key.shown, name, _brief(key.help, room))
        row.truncate(width, overflow="ellipsis")
        return row

    async def _press(self, action: str) -> None:
        await self.app.run_action(action, self.screen)

    def _wear(self, theme: str) -> None:
        """The app writes no settings: how a theme outlives it is said at the moment it is chosen."""
        from lavender_tui.config import config_path

        self.app.theme = theme
        words = f'until you quit; to keep it write theme = "{theme}" into {clean(config_path(), 200)}'
        self.app.notify(words, title=f"Theme {theme}", timeout=_KEEPING_SECONDS, markup=False)

    def _go_to(self, key: str) -> None:
        for screen in reversed(self.app.screen_stack):
            go_to = getattr(screen, "go_to_run", None)
            if go_to is not None:
                go_to(key)
                return


def _brief(help: str, room: int) -> str:
    """As much of a sentence as fits and says something whole: up to a colon or semicolon, else a comma or an "and"."""
    if cell_len(help) <= room:
        return help
    ends = [match.start() for match in re.finditer(r"[:;](?= )", help) if cell_len(help[: match.start()]) <= room]
    if ends:
        return help[: ends[-1]]
    whole = fitting(help, room)
    first = help.partition(" and ")[0]
    return whole if cell_len(whole) <= room or cell_len(first) > room else first


def _group(key: keys.Key) -> str:
    return _GROUPS.get(key.id.partition(".")[0], _EVERYWHERE)


def _row(group: str, shown: str, title: str, help: str) -> Text:
    """One line: what it is about, the key, its name, and what it does."""
    row = Text(no_wrap=True, end="")
    row.append(fit(group, _GROUP_WIDTH), "dim not bold")
    row.append(fit(shown, _KEY_WIDTH), "bold")
    row.append(f"{title:<{_TITLE_WIDTH}}" if help else title, "not bold")
    row.append(f" {help}" if help else "", "dim not bold")
    return row
