"""How the list is looked at: filter, named views, order, tree or flat, folds and marks. The screen draws it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on, work
from textual.reactive import var

from lavender_tui.model.run import Run
from lavender_tui.model.text import clean
from lavender_tui.tui.deeds import deed
from lavender_tui.tui.listing import SORTINGS, View
from lavender_tui.tui.screens.run_actions import RunActions
from lavender_tui.tui.widgets.line_table import LineTable
from lavender_tui.tui.widgets.run_table import RunTable

if TYPE_CHECKING:
    from lavender_tui.tui.messages import FilterTyped, ViewsRead

_LOOKS = ("filter", "sort", "reverse", "flat", "mark", "next_view")


class ListView(RunActions):
    """The actions on `view` and `marked`; whoever shows them watches both."""

    view: var[View] = var(View())
    marked: var[frozenset[str]] = var(frozenset[str]())

    def __init__(self) -> None:
        super().__init__()
        self._runs: tuple[Run, ...] = ()
        self._views: dict[str, str] = {}

    @property
    def marked_runs(self) -> list[Run]:
        """The runs that are marked and still there, in the order of the list."""
        by_key = {run.key: run for run in self._runs if run.key in self.marked}
        order = {key: place for place, key in enumerate(self.query_one(RunTable).keys)}
        return sorted(by_key.values(), key=lambda run: order.get(run.key, len(order)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "flat" and self._runs:
            return self.is_mounted and self.query_one(RunTable).has_tree
        if action in _LOOKS:
            return bool(self._runs)
        if action == "fold":
            row = self.query_one(RunTable).cursor_row if self.is_mounted else None
            return row is not None and bool(row.descendants)
        if action == "compare":
            return len(self.marked) >= 2
        if action == "save_view":
            return bool(self.view.query.strip())
        return super().check_action(action, parameters)

    def why_not(self, action: str) -> str:
        if action == "fold" and self.cursor_run is not None:
            return "no run was resumed from this one"
        if action == "compare":
            return "mark one more run with ␣ first" if self.marked else "mark two runs with ␣ first"
        if action == "save_view":
            return "type a filter with / first"
        if action == "flat" and self._runs:
            return "no run here goes on from another one, so there is no tree"
        return "no run is here yet" if action in _LOOKS else super().why_not(action)

    # Order and shape

    @on(LineTable.HeadClicked)
    def _sort_by(self, event: LineTable.HeadClicked) -> None:
        chosen = next((one for one in SORTINGS if one.column == event.column), None)
        if chosen is self.view.sorting:
            self.action_reverse()
        elif chosen is not None:
            self.view = replace(self.view, sorting=chosen, is_reversed=False)

    def action_sort(self) -> None:
        """By the next column that is shown, from the left; then by age again."""
        shown = {column.key for column in self.query_one(RunTable).shown_columns}
        usable = [one for one in SORTINGS if one.column in shown or one is self.view.sorting]
        order = ["name", *self.query_one(RunTable).wanted]
        usable.sort(key=lambda one: order.index(one.column) if one.column in order else len(order))
        after = usable[(usable.index(self.view.sorting) + 1) % len(usable)]
        self.view = replace(self.view, sorting=after, is_reversed=False)

    def action_reverse(self) -> None:
        self.view = replace(self.view, is_reversed=not self.view.is_reversed)

    def action_flat(self) -> None:
        self.view = replace(self.view, is_flat=not self.view.is_flat)

    def action_fold(self) -> None:
        row = self.query_one(RunTable).cursor_row
        if row is not None and row.descendants:
            self.view = replace(self.view, folded=self.view.folded ^ {row.run.key})

    # Marks

    def action_mark(self) -> None:
        """Mark or unmark, and one row down, so that several in a row are quickly marked."""
        table = self.query_one(RunTable)
        if table.cursor_run is not None:
            self.marked = self.marked ^ {table.cursor_run.key}
            table.action_cursor_by(1)

    def action_compare(self) -> None:
        from lavender_tui.tui.screens.compare import CompareScreen

        runs = self.marked_runs
        if len(runs) >= 2:
            self.app.push_screen(CompareScreen(runs))

    # Filter

    async def action_filter(self) -> None:
        """The line to type in is made when it is first wanted."""
        if not self.query("#filter"):
            from lavender_tui.tui.widgets.filter_line import FilterLine

            await self.mount(FilterLine(lambda: self._runs, id="filter"), before="#keys")
        self.add_class("-filtering")
        line = self.query_one("#filter")
        line.value = self.view.query  # type: ignore[attr-defined]
        line.focus()

    def on_filter_typed(self, message: FilterTyped) -> None:
        self.view = replace(self.view, query=message.query)

    def on_filter_ended(self) -> None:
        self.set_class(bool(self.view.query), "-filtering")
        self.query_one(RunTable).focus()

    async def action_clear_filter(self) -> None:
        """First the filter, then the marks."""
        if not self.view.query and not self.has_class("-filtering"):
            self.marked = frozenset()
        await self.query("#filter").remove()
        self.view = replace(self.view, query="")
        self.remove_class("-filtering")
        self.query_one(RunTable).focus()

    # Named views

    @work(thread=True, exclusive=True, group="views", exit_on_error=False, description="views")
    def read_views(self) -> None:
        """Those of the settings, then the saved ones."""
        from lavender_tui.tui import views
        from lavender_tui.tui.messages import ViewsRead

        self.post_message(ViewsRead({**views.parse(self.lavender.look.views), **views.load()}))

    def on_views_read(self, message: ViewsRead) -> None:
        self._views = message.views

    async def action_next_view(self) -> None:
        """The next named filter; after the last one all runs again."""
        if not self._views:
            words = "type a filter with /, then V saves it under a name"
            self.notify(words, title="No views yet", markup=False)
            return
        names = list(self._views)
        current = next((at for at, name in enumerate(names) if self._views[name] == self.view.query), -1)
        if current + 1 == len(names):
            await self.action_clear_filter()
            self.notify("all runs", title="View", markup=False)
            return
        name = names[current + 1]
        await self.action_filter()
        self.query_one("#filter").value = self._views[name]  # type: ignore[attr-defined]
        self.view = replace(self.view, query=self._views[name])
        self.on_filter_ended()
        self.notify(clean(self._views[name], 200), title=f"View {clean(name, 60)}", markup=False)

    def action_save_view(self) -> None:
        from lavender_tui.tui.screens.ask import AskName

        query = self.view.query  # a run that was launched may clear it meanwhile

        def named(name: str | None) -> None:
            if name:
                self._save_view(name, query)

        self.app.push_screen(AskName("Save this filter as a view?", detail=query), named)

    @deed("save-view")
    def _save_view(self, name: str, query: str) -> None:
        from lavender_tui.tui import views
        from lavender_tui.tui.messages import ViewsRead

        try:
            views.save(name, query)
        except OSError as error:
            words, title = f"{clean(views.path())}: {error.strerror or error}", "Not saved"
        else:
            words, title = "v goes through the views", f"Saved {clean(name, 60)}"
            self.post_message(ViewsRead({**views.parse(self.lavender.look.views), **views.load()}))
        self.lavender.notify(words, title=title)
