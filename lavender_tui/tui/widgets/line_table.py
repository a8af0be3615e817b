"""A table drawn by line: what it costs is the lines that changed on the screen, whatever its length.

A DataTable repaints everything for one changed cell and freezes while it measures thousands of rows; this one builds a
row when it is seen, keeps the finished line, and repaints a line only if one of its cells says something new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lavender_tui.tui.widgets.inks import fit, ground, ink
from lavender_tui.tui.widgets.lines import wrap_spans

GAP = 2  # cells between columns
HEAD = 1  # the line of titles
_BRANCH = 2  # cells
_TEXT_LEAST = 25  # cells that a text in a tree keeps, if it is so long: a run's name, and the number of a namesake


class Cell(NamedTuple):
    """Text of a cell, already harmless, and its ink; `elide` names the side that is cut.

    `lead` stands before the text and isn't cut for it; but where it is the branches of a tree, `depth` levels deep, so
    many levels as leave the text no room are left out, and the number of levels is said instead.
    """

    text: str
    ink: str = ""
    elide: str = "right"
    lead: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`keep` decides which columns stay when the width is small: the highest stay longest.

    `grows_to` is the most cells it takes of what is left over; 0 for a fixed width.
    """

    key: str
    title: str
    width: int
    right: bool = False
    keep: int = 0
    grows_to: int = 0


def _fitted(cell: Cell, room: int, *, right: bool) -> str:
    if not cell.lead:
        return fit(cell.text, room, right=right, elide=cell.elide)
    lead = _led(cell, room) if cell.depth else cell.lead
    inner = max(0, room - cell_len(lead))
    return fit(lead, room - inner) + fit(cell.text, inner, right=right, elide=cell.elide)


def _led(cell: Cell, room: int) -> str:
    """The branches, or as much of the last one as leaves room for the text: ` ⋯12└ ` for the twelfth level."""
    most = room - min(cell_len(cell.text), _TEXT_LEAST)
    if cell_len(cell.lead) <= most:
        return cell.lead
    return f"⋯{cell.depth}".rjust(most - _BRANCH) + cell.lead[-_BRANCH:]


def _joined(words: Sequence[str], styles: Sequence[Style]) -> list[Segment]:
    """Neighbours of the same style in one: each segment costs forty bytes for its colours, over ssh as well."""
    segments: list[Segment] = []
    for style, group in groupby(zip(words, styles, strict=True), key=itemgetter(1)):
        segments.append(Segment("".join(one for one, _ in group), style))
    return segments


def lay_out(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that fit, in their order, with their widths; at least the one that is kept longest."""
    kept: list[Column] = []
    left = width
    for column in sorted(columns, key=lambda one: -one.keep):
        needed = column.width + (GAP if kept else 0)
        if needed > left and kept:
            break
        kept.append(column)
        left -= needed
    placed = []
    for column in (one for one in columns if one in kept):
        extra = max(0, min(left, column.grows_to - column.width)) if column.grows_to else 0
        left -= extra
        placed.append((column, max(1, min(column.width + extra, width))))
    return placed


class LineTable(ScrollView, can_focus=True):
    """Rows by key with a cursor that stays on its row. Subclasses give `columns` and `cells`."""

    MARGIN = 1  # the cursor's mark on the left, air on the right
    virtual_size = Reactive(Size(0, 0))  # of the rows: as they are scrolled, their number moves nothing on the screen
    BINDINGS = [  # noqa: RUF012
        Binding("down,j", "cursor_by(1)", "Down", show=False),
        Binding("up,k", "cursor_by(-1)", "Up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("ctrl+d", "half_page(1)", "Half a page down", show=False),
        Binding("ctrl+u", "half_page(-1)", "Half a page up", show=False),
        Binding("home,g", "first", "First row", show=False),
        Binding("end,G", "last", "Last row", show=False),
    ]

    class Highlighted(Message):
        """The cursor is on another row (None: no rows)."""

        def __init__(self, table: LineTable, key: str | None) -> None:
            super().__init__()
            self.table, self.key = table, key

        @property
        def control(self) -> LineTable:
            return self.table

    class Opened(Message):
        """A row was opened by the mouse."""

        def __init__(self, table: LineTable, key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

        @property
        def control(self) -> LineTable:
            return self.table

    class HeadClicked(Message):
        """The title of a column was clicked."""

        def __init__(self, table: LineTable, column: str) -> None:
            super().__init__()
            self.table, self.column = table, column

        @property
        def control(self) -> LineTable:
            return self.table

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._keys: list[str] = []
        self._places: Mapping[str, int] = {}
        self._cursor = 0
        self._lines: dict[int, tuple[Mapping[str, Cell], bool, Strip]] = {}
        self._inks: dict[tuple[Style, str], Style] = {}
        self._layout: list[tuple[Column, int]] = []
        self._announced: str | None = None
        self._nothing = ""
        self.was_touched = False  # by a key or the mouse, be it without effect

    # What a subclass says

    def columns(self) -> Sequence[Column]:
        raise NotImplementedError

    def cells(self, index: int) -> Mapping[str, Cell]:
        """The cells of a row by column key; called only for rows on the screen."""
        raise NotImplementedError

    def title(self, column: Column) -> Cell:
        return Cell(column.title, "title")

    # Rows and cursor

    @property
    def cursor_key(self) -> str | None:
        """The key of the row under the cursor; None without rows."""
        return self._keys[self._cursor] if self._keys else None

    @property
    def cursor_index(self) -> int:
        return self._cursor

    @property
    def keys(self) -> Sequence[str]:
        return self._keys

    @property
    def rows_in_sight(self) -> int:
        """How many rows its height has room for."""
        return max(1, self.size.height - HEAD)

    @property
    def shown_columns(self) -> Sequence[Column]:
        """Those that fit."""
        return [column for column, _ in self._layout]

    def set_keys(self, keys: list[str], places: Mapping[str, int] | None = None, *, wanted: str | None = None) -> None:
        """New rows. The cursor stays on its row, lines that say the same aren't repainted.

        `places`: where each key stands; asked of the keys if it isn't known. `wanted`: the row that the cursor goes to
        if it is there.
        """
        stood = self.cursor_key
        offset = self._cursor - self.scroll_offset.y
        self._keys = keys
        self._places = {key: place for place, key in enumerate(keys)} if places is None else places
        nearest = max(0, min(self._cursor, len(keys) - 1))  # where its row is gone
        at = wanted if wanted in self._places else stood
        self._cursor = nearest if at is None else self._places.get(at, nearest)
        self._lay_out()
        self.virtual_size = Size(self.scrollable_content_region.width, len(keys) + HEAD)
        if at is not None and self.cursor_key == at and offset >= 0:
            self._show_cursor()
        self.recheck()
        self._announce()

    def say_nothing(self, words: str) -> None:
        """What stands below the titles while there are no rows, on as many lines as it takes."""
        if words != self._nothing:
            lines = max(len(self._laid_nothing()), 1)
            self._nothing = words
            self.refresh_lines(self.scroll_offset.y + HEAD, max(lines, len(self._laid_nothing())))

    def recheck(self) -> None:
        """Repaint the cells on the screen that say something else, and forget the lines that aren't on it."""
        visible = range(self.scroll_offset.y, self.scroll_offset.y + self.size.height - HEAD)
        kept: dict[int, tuple[Mapping[str, Cell], bool, Strip]] = {}
        for index in visible:
            known = self._lines.get(index)
            if index >= len(self._keys):
                if known is not None:
                    self.refresh_line(index + HEAD)
            elif known is None or known[1] != (index == self._cursor):
                self.refresh_line(index + HEAD)
            elif not self._refresh_cells(index, known[0], self.cells(index)):
                kept[index] = known
        self._lines = kept

    def _refresh_cells(self, index: int, before: Mapping[str, Cell], now: Mapping[str, Cell]) -> bool:
        """Repaint a line that stays where it is from the first to the last cell that differs; does any?

        Over ssh a cell is a part of what its line costs.
        """
        left, first, end = self.MARGIN, -1, 0
        for column, room in self._layout:
            if before.get(column.key) != now.get(column.key):
                first, end = left if first < 0 else first, left + room
            left += room + GAP
        if first >= 0:
            self.refresh(Region(first, index + HEAD - self.scroll_offset.y, end - first, 1))
        return first >= 0

    def go_to(self, key: str) -> bool:
        """Put the cursor on a row; False if there is no such row."""
        if (place := self._places.get(key)) is None:
            return False
        self._move(place)
        return True

    def _move(self, index: int) -> None:
        if not self._keys:
            return
        index = max(0, min(index, len(self._keys) - 1))
        before, self._cursor = self._cursor, index
        for row in {before, index}:
            self._lines.pop(row, None)
            self.refresh_line(row + HEAD)
        self._show_cursor()
        self._announce()

    def _show_cursor(self) -> None:
        rows = max(1, self.size.height - HEAD)
        top = self.scroll_offset.y
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False, force=True)
        elif self._cursor >= top + rows:
            self.scroll_to(y=self._cursor - rows + 1, animate=False, force=True)

    def _announce(self) -> None:
        if self.cursor_key != self._announced:
            self._announced = self.cursor_key
            self.post_message(self.Highlighted(self, self.cursor_key))

    # Drawing

    def _lay_out(self) -> None:
        width = max(1, self.scrollable_content_region.width - 2 * self.MARGIN)
        layout = lay_out(self.columns(), width)
        if layout != self._layout:
            self._layout = layout
            self._lines.clear()
            self.refresh()

    def refresh_head(self) -> None:
        """Repaint the titles."""
        self.refresh_line(self.scroll_offset.y)

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        base = ground(self)
        if y == 0:
            return self._draw_head(width, base)
        index = y - HEAD + self.scroll_offset.y
        if index >= len(self._keys):
            return self._draw_nothing(y - HEAD, width, base) if not self._keys else Strip.blank(width, base)
        known = self._lines.get(index)
        if known is None:
            cells = self.cells(index)
            known = (cells, index == self._cursor, self._draw_row(cells, index == self._cursor, width, base))
            self._lines[index] = known
        return known[2]

    def _draw_head(self, width: int, base: Style) -> Strip:
        segments = [Segment(" " * self.MARGIN, base)]
        for place, (column, room) in enumerate(self._layout):
            cell = self.title(column)
            segments.append(Segment(" " * GAP if place else "", base))
            segments.append(Segment(fit(cell.text, room, right=column.right), base + ink(self, cell.ink)))
        return Strip(segments).adjust_cell_length(width, base)

    def _laid_nothing(self) -> list[str]:
        """The lines of what is said where there are no rows."""
        lines = wrap_spans([(self._nothing, "")], max(1, self.scrollable_content_region.width - self.MARGIN), 0)
        return ["".join(words for words, _ in line) for line in lines]

    def _draw_nothing(self, line: int, width: int, base: Style) -> Strip:
        lines = self._laid_nothing()
        words = fit(lines[line] if line < len(lines) else "", max(1, width - self.MARGIN))
        return Strip([Segment(" " * self.MARGIN, base), Segment(words, base + ink(self, "quiet"))])

    def _draw_row(self, cells: Mapping[str, Cell], at_cursor: bool, width: int, base: Style) -> Strip:
        # 16 colours or none: one ink on the cursor, or nothing is legible
        plain = at_cursor and (self.app.current_theme.ansi or self.app.no_color)
        if at_cursor:
            base = ground(self, "cursor" if self.has_focus else "cursor-away")
            base += Style(reverse=plain and self.has_focus, bold=plain or None)
        mark = base + ink(self, "accent") if at_cursor and not plain else base
        words, styles = ["▌" if at_cursor else " "], [mark]
        for place, (column, room) in enumerate(self._layout):
            cell = cells.get(column.key, Cell(""))
            style = base if plain or not cell.ink else self._inked(base, cell.ink)
            if place:
                words.append(" " * GAP)
                styles.append(base)
            words.append(_fitted(cell, room, right=column.right))
            styles.append(style)
        return Strip(_joined(words, styles)).adjust_cell_length(width, base)

    def _inked(self, base: Style, name: str) -> Style:
        """Asking the stylesheet for each of 400 cells costs more than all else of drawing them."""
        known = self._inks.get((base, name))
        if known is None:
            known = self._inks[base, name] = base + ink(self, name)
        return known

    def forget(self) -> None:
        """Draw everything anew: theme, focus or width changed."""
        self._lines.clear()
        self._inks.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._lines.clear()
        self._inks.clear()

    def watch_virtual_size(self, size: Size) -> None:
        self._scroll_update(size)

    # Events

    def on_resize(self) -> None:
        self._lay_out()
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._keys) + HEAD)
        self._lines.clear()
        self._show_cursor()

    def on_focus(self) -> None:
        self.forget()

    def on_blur(self) -> None:
        self.forget()

    def on_key(self) -> None:
        self.was_touched = True

    def on_click(self, event: events.Click) -> None:
        self.was_touched = True
        at = event.get_content_offset(self)
        if at is None:
            return
        if at.y < HEAD:
            self._click_head(at.x)
            return
        index = at.y - HEAD + self.scroll_offset.y
        if index < len(self._keys):
            self._move(index)
            if event.chain >= 2:
                self.post_message(self.Opened(self, self._keys[index]))

    def _click_head(self, x: int) -> None:
        left = self.MARGIN
        for column, room in self._layout:
            if left <= x < left + room + GAP:
                self.post_message(self.HeadClicked(self, column.key))
                return
            left += room + GAP

    # Actions

    def action_cursor_by(self, rows: int) -> None:
        self._move(self._cursor + rows)

    def action_page(self, pages: int) -> None:
        self._move(self._cursor + pages * max(1, self.size.height - HEAD - 1))

    def action_half_page(self, halves: int) -> None:
        self._move(self._cursor + halves * max(1, (self.size.height - HEAD) // 2))

    def action_first(self) -> None:
        self._move(0)

    def action_last(self) -> None:
        self._move(len(self._keys) - 1)
