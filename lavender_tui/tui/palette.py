"""The command palette: every key's action in this place, every theme, and every run by name."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider

from lavender_tui.model.text import clean
from lavender_tui.tui import keys

_MOST_RUNS = 50


class LavenderCommands(Provider):
    """Actions of the screen below the palette, then runs."""

    def _actions(self) -> list[tuple[str, str, str]]:
        """Name, sentence and action of each key that works now; keys that need a place under them have none."""
        screen = self.screen
        places = getattr(screen, "places", (getattr(screen, "PLACE", keys.EVERYWHERE),))
        worded = keys.in_words if getattr(self.app, "is_ascii", False) else str
        found = [
            (title, worded(f"{key.shown}   {key.help}"), action)
            for key in keys.of_places(places)
            for title, action in keys.commands(key)
            if key.id != "palette" and self._may(action)
        ]
        return list({action: (title, words, action) for title, words, action in found}.values())

    def _may(self, action: str) -> bool:
        may = getattr(self.app, "may", lambda action: True)
        name = action.partition("(")[0]
        return may(name) and (action.startswith("app.") or self.screen.check_action(name, ()) is not False)

    def _themes(self) -> list[tuple[str, str]]:
        """Title and name of each theme; the title says whether it is light or dark."""
        themes = self.app.available_themes.values()
        return [(f"Theme: {one.name} ({'dark' if one.dark else 'light'})", one.name) for one in themes]

    def _run_names(self) -> list[tuple[str, str]]:
        return [(clean(run.title, 80), run.key) for run in getattr(self.app, "runs", ())]

    async def discover(self) -> Hits:
        for title, help_text, action in self._actions():
            yield DiscoveryHit(title, partial(self._press, action), help=help_text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for title, help_text, action in self._actions():
            score = matcher.match(f"{title} {help_text}")
            if score > 0:
                yield Hit(score, Text(title), partial(self._press, action), help=help_text)
        for title, name in self._themes():
            score = matcher.match(title)
            if score > 0:
                score += 1 if name.startswith("lavender") else 0  # ours are made for these screens: they come first
                yield Hit(score, Text(title), partial(self._wear, name), help="The colours of every screen")
        found = 0
        for name, key in self._run_names():
            score = matcher.match(name)
            if score > 0 and found < _MOST_RUNS:
                found += 1
                yield Hit(score, Text(f"Go to {name}"), partial(self._go_to, key), text=name)

    async def _press(self, action: str) -> None:
        await self.app.run_action(action, self.screen)

    def _wear(self, theme: str) -> None:
        self.app.theme = theme

    def _go_to(self, key: str) -> None:
        for screen in reversed(self.app.screen_stack):
            go_to = getattr(screen, "go_to_run", None)
            if go_to is not None:
                go_to(key)
                return
