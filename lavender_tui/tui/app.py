"""The app: themes, the feed, signals. Screens hold the rest."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from textual import work
from textual.events import Event, Key, Paste
from textual.filter import LineFilter
from textual.reactive import var

from lavender_tui.model.run import Run
from lavender_tui.model.text import clean, utf8
from lavender_tui.tui import clipboard, keys, themes
from lavender_tui.tui.announcing import AnnouncingApp
from lavender_tui.tui.ascii_only import AsciiOnly, terminal_is_ascii
from lavender_tui.tui.colourless import forgiving
from lavender_tui.tui.ending import restore_on_signals
from lavender_tui.tui.feed import Feed, RunsChanged, WatchFailed
from lavender_tui.tui.hand import SETTLE_SECONDS, Hand
from lavender_tui.tui.in_turn import InTurn
from lavender_tui.tui.orderly import Orderly
from lavender_tui.tui.palette import LavenderCommands
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.start import DEFAULT_THEME, Look
from lavender_tui.tui.telling import Telling, talking
from lavender_tui.tui.unanswered import READONLY, why_hidden, why_not_here

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode
    from textual.driver import Driver
    from textual.screen import Screen

    from lavender_tui.tui.first_look import FirstLook
    from lavender_tui.tui.start import Hint, Leaving
    from lavender_tui.watch.observe import Snapshot

_MOST_THREADS = 64
_YOUNG = 10_000  # objects made until the collector looks: as many as a long list's rows, so not at each of its keys


_ANSWERS = ("answer", "press(")  # to a question whether something is to be done


class LavenderApp(Orderly, AnnouncingApp):
    """Watches the roots and shows the list of runs."""

    TITLE = "lavender"
    CSS_PATH = "lavender.tcss"
    COMMANDS = {LavenderCommands}  # noqa: RUF012
    ENABLE_COMMAND_PALETTE = True
    BINDINGS = keys.bindings(keys.EVERYWHERE)
    NOTIFICATION_TIMEOUT = 3

    runs: var[tuple[Run, ...]] = var(())

    def __init__(
        self,
        roots: Sequence[str],
        *,
        command: Sequence[str] = (),
        world_size: int | None = None,
        hint: Hint | None = None,
        leaving: Leaving | None = None,
        readonly: bool = False,
        look: Look | None = None,
        grace_seconds: float = 30.0,
    ) -> None:
        self.look = look or Look()
        self.telling = Telling(self, self.look.notify)
        self._hand = Hand()
        self._in_turn = InTurn(self, super().on_event)
        super().__init__()
        self._notices = self.look.notices
        self.grace_seconds = grace_seconds
        self.is_readonly = readonly
        self.roots = tuple(os.path.abspath(root) for root in roots)
        self.command = tuple(command)
        self.world_size = world_size
        self.hint, self._leaving = hint, leaving
        self.feed = Feed(self.roots)
        self.snapshot: Snapshot | FirstLook | None = None
        self._frozen = 0  # so many runs the collector of cycles passes by
        for theme in themes.THEMES:
            self.register_theme(theme)
        self.theme = self._wanted_theme()

    def _wanted_theme(self) -> str:
        """The one of the settings; where they say nothing, the one that TEXTUAL_THEME names for every such program."""
        if self.look.theme == DEFAULT_THEME:
            wanted = os.environ.get("TEXTUAL_THEME", "")
            return wanted if wanted in self.available_themes else DEFAULT_THEME
        if self.look.theme not in self.available_themes:
            self._notices += (f"there is no theme {self.look.theme!r}; ctrl+p lists them",)
            return DEFAULT_THEME
        return self.look.theme

    def may(self, action: str) -> bool:
        """False for what changes something, while nothing may be changed."""
        return not (self.is_readonly and keys.is_changing(action))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Keys, clicks and the palette all come through here: read-only, no screen can forget that it is."""
        name = action if isinstance(action, str) else action[1]
        if not self.may(name):
            self.remark(keys.shown_of(name), READONLY)
            return False
        if (why := why_hidden(self.screen, name)) is not None:
            self.remark(keys.shown_of(name), why)
            return True
        if isinstance(self.screen, RunsScreen) and self.screen.puts_off(name):
            return True
        if (keys.is_changing(name) or name.startswith(_ANSWERS)) and await self._is_pasted():
            return False
        return await super().run_action(action, default_namespace, namespaces)

    async def _is_pasted(self) -> bool:
        """Was the key one of many that came at once? Nothing is started or ended by such."""
        if self.is_headless:
            return False
        await asyncio.sleep(SETTLE_SECONDS)
        if self._hand.is_too_quick:
            words = "so many keys at once are taken for pasted text: press it again"
            self.notify(words, title="Nothing was changed", severity="warning", markup=False)
            return True
        return False

    @property
    def is_typed_to(self) -> bool:
        """Was a key read that nobody has got yet?"""
        return self._in_turn.is_waiting

    async def on_event(self, event: Event) -> None:
        if isinstance(event, (Key, Paste)) and not event.is_forwarded:
            await self._in_turn.take(event)
            return
        await super().on_event(event)
        if isinstance(event, (Key, Paste)):
            self._in_turn.heard(event)

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """What nothing has answered, and is a key of another place, says so."""
        if await super()._check_bindings(key, priority):
            return True
        why = None if priority else why_not_here(self.screen, key)
        if why is not None:
            self.remark(keys.name_of(key), why)
        return why is not None

    def get_default_screen(self) -> RunsScreen:
        return RunsScreen()

    def get_driver_class(self) -> type[Driver]:
        return talking(super().get_driver_class(), self.telling, self._hand)

    @property
    def is_ascii(self) -> bool:
        """Is the whole screen drawn in ASCII?"""
        return self.look.ascii or terminal_is_ascii()

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = forgiving(super().get_line_filters())
        if self.is_ascii:
            filters = [*filters, AsciiOnly()]
        return filters

    def on_mount(self) -> None:
        # As many as there may be stops, looks and pages waited for at once: the default, six on two cores, is soon
        # taken by what hangs, and then nothing else begins.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_MOST_THREADS, "lavender-work"))
        self._collects_at = gc.get_threshold()
        gc.set_threshold(_YOUNG, *self._collects_at[1:])
        self.feed.start()
        if not self.feed.attach(self.post_message):
            self.call_after_refresh(self.feed.go_on)
        restore_on_signals(self)
        for notice in self._notices:
            self.notify(clean(notice, 300), title="settings", severity="warning", timeout=10, markup=False)

    def on_unmount(self) -> None:
        gc.enable()
        gc.set_threshold(*self._collects_at)
        self.feed.close()

    def on_runs_changed(self, message: RunsChanged) -> None:
        """To every screen."""
        if self.snapshot is not None and message.snapshot.sequence <= self.snapshot.sequence:
            return
        if self.snapshot is None:
            self.call_after_refresh(self._painted)
        if not gc.isenabled() and not all(run.is_unread for run in message.snapshot.runs[:1]):
            self.call_after_refresh(self._all_seen)
        if len(message.snapshot.runs) > 2 * self._frozen or not message.snapshot.is_complete:
            # Thousands of runs stay; a collector that looks through them all takes a third of a second, at any key.
            self._frozen = len(message.snapshot.runs)
            gc.freeze()
        self.snapshot = message.snapshot
        self.runs = message.snapshot.runs
        if message.snapshot.is_complete:
            self.telling.look(message.snapshot.runs)
        for screen in self.screen_stack:
            show = getattr(screen, "show_snapshot", None)
            if show is not None and screen.is_mounted:
                show(message.snapshot)
            elif show is not None and not isinstance(screen, RunsScreen):  # which asks for it itself
                screen.call_later(self._show_newest, screen, show)

    def _show_newest(self, screen: Screen[object], show: Callable[[Snapshot | FirstLook | None], None]) -> None:
        """To a page that was just being made when it came: of a run at rest there may be no other for hours."""
        if isinstance(screen, Orderly) and not screen.is_in_pieces:
            show(self.snapshot)

    def _painted(self) -> None:
        """The first rows are on the screen."""
        self.feed.go_on()

    def _all_seen(self) -> None:
        """What is imported for the first looks is imported, and what they showed is on the screen."""
        gc.enable()  # off since the start: see tui/start.py

    def on_watch_failed(self, message: WatchFailed) -> None:
        self._all_seen()
        for screen in self.screen_stack:
            if isinstance(screen, RunsScreen):
                screen.show_trouble(message.reason)

    def show_run(self, run_dir: str) -> None:
        """Back to the list, the cursor on that run as soon as the watcher has seen it."""
        while not isinstance(self.screen, RunsScreen) and len(self.screen_stack) > 1:
            self.pop_screen()
        self.feed.rescan_soon()
        if isinstance(self.screen, RunsScreen):
            self.screen.go_to_run(run_dir)

    def copy(self, words: str, shown: str) -> None:
        """To the clipboard; says where it went, with `shown` for what was copied."""
        self._clipboard = utf8(words)
        if clipboard.is_in_tmux():
            self._copy_in_tmux(words, shown)
        else:
            self._copy_by_terminal(words, shown)

    @work(thread=True, group="copy", exit_on_error=False, description="copy")
    def _copy_in_tmux(self, words: str, shown: str) -> None:
        if clipboard.into_tmux(words):
            self.remark(clipboard.IN_TMUX, clean(shown, 300), cut="middle")
        else:
            self.call_from_thread(self._copy_by_terminal, words, shown)

    def _copy_by_terminal(self, words: str, shown: str) -> None:
        self.copy_to_clipboard(utf8(words))
        self.remark(clipboard.TO_TERMINAL, clean(shown, 300), cut="middle")

    async def action_quit(self) -> None:
        """At once, unless something ends with the app: then it asks."""
        from lavender_tui.tui.screens.ask import Leave

        ends = self._leaving(self.runs) if self._leaving is not None else None
        if ends is None:
            await super().action_quit()
        elif not isinstance(self.screen, Leave):
            words, run = ends
            self.push_screen(
                Leave("Leave?", detail=words, no="no, stay", yes="leave   (q)", while_alive=run), self._leave_answered
            )

    def _leave_answered(self, yes: bool | None) -> None:
        if yes:
            self.exit()

    def action_command_palette(self) -> None:
        from lavender_tui.tui.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette())

    def action_help(self) -> None:
        from lavender_tui.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(*getattr(self.screen, "places", (getattr(self.screen, "PLACE", keys.LIST),))))
