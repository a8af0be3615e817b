"""One row of the resume sheet: a value out of a few, changed with ← and →, or typed where it is a number."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from lavender_tui.tui.sheet import RowView
from lavender_tui.tui.widgets.inks import Span, spans_length, text_of
from lavender_tui.tui.widgets.lines import wrap_spans

LABEL = 14
_MOST_DIGITS = 4


class ChoiceRow(Widget, can_focus=True):
    """Draws a RowView; says what the person wants and decides nothing."""

    BINDINGS = [  # noqa: RUF012
        Binding("right", "step(1)", "Next value", show=False),
        Binding("left", "step(-1)", "Previous value", show=False),
        Binding("down", "app.focus_next", "Next row", show=False),
        Binding("up", "app.focus_previous", "Previous row", show=False),
    ]

    class Stepped(Message):
        """Another value, `by` places away."""

        def __init__(self, row: str, by: int) -> None:
            super().__init__()
            self.row, self.by = row, by

    class Typed(Message):
        """A number was typed."""

        def __init__(self, row: str, number: int) -> None:
            super().__init__()
            self.row, self.number = row, number

    def __init__(self, row: str, *, is_number: bool = False, is_roll: bool = False) -> None:
        super().__init__(id=f"row-{row}")
        self.row = row
        self._is_number, self._is_roll = is_number, is_roll
        self._view: RowView | None = None
        self._digits = ""

    def show(self, view: RowView) -> None:
        if view != self._view:
            self._view = view
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(width))

    def render(self) -> Text:
        out = Text(no_wrap=True, end="")
        for number, line in enumerate(self._lines(self.content_size.width)):
            out.append("\n" if number else "")
            out.append_text(text_of(self, line))
        return out

    def _lines(self, width: int) -> list[list[Span]]:
        view = self._view
        if view is None:
            return [[]]
        mark: Span = ("▌" if self.has_focus else " ", "accent")
        label = self.row if len(self.row) < LABEL else self.row[: LABEL - 1]
        head: list[Span] = [mark, (f"{label:<{LABEL - 1}}", "strong" if self.has_focus else "quiet")]
        head += self._roll(view) if self._is_roll else self._menu(view, width - LABEL)
        if view.note and spans_length(head) + cell_len(view.note) + 3 <= width:
            head.append((f"   {view.note}", "quiet"))
        remark = wrap_spans([(view.remark, "bad" if view.is_wrong else "quiet")], max(1, width - LABEL), 2)
        below = [[(" " * LABEL, ""), *line] for line in remark] if view.remark else []
        return [head, *below]

    def _roll(self, view: RowView) -> list[Span]:
        """‹ one value ›, the arrows only where there is another one."""
        left = "‹ " if view.selected > 0 else "  "
        right = " ›" if view.selected < len(view.options) - 1 else "  "
        ink = "bad" if view.is_wrong else "accent"
        return [(left, "quiet"), (view.options[view.selected], ink), (right, "quiet")]

    def _menu(self, view: RowView, room: int) -> list[Span]:
        """All values, the chosen one in brackets; those around it where there is no room for all."""
        first, last = view.selected, view.selected + 1
        used = cell_len(view.options[view.selected]) + 2
        while True:
            grown = False
            for index in (last, first - 1):
                if 0 <= index < len(view.options) and used + cell_len(view.options[index]) + 2 <= room - 4:
                    used += cell_len(view.options[index]) + 2
                    first, last, grown = min(first, index), max(last, index + 1), True
            if not grown:
                break
        spans: list[Span] = [("… ", "faint")] if first > 0 else []
        for index in range(first, last):
            chosen = index == view.selected
            ink = ("bad" if view.is_wrong else "accent") if chosen else ""
            spans.append((f"[{view.options[index]}]" if chosen else f" {view.options[index]} ", ink))
        return spans + ([(" …", "faint")] if last < len(view.options) else [])

    # What the person does

    def action_step(self, by: int) -> None:
        self._digits = ""
        self.post_message(self.Stepped(self.row, by))

    def on_key(self, event: events.Key) -> None:
        if not self._is_number:
            return
        if event.character is not None and event.character in "0123456789":
            self._digits = (self._digits + event.character)[-_MOST_DIGITS:]
        elif event.key == "backspace" and self._digits:
            self._digits = self._digits[:-1]
        else:
            return
        event.stop()
        if self._digits:
            self.post_message(self.Typed(self.row, int(self._digits)))

    def on_focus(self) -> None:
        self._digits = ""
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        self.focus()
        view = self._view
        if view is None or event.y != 0 or self._is_roll:
            return
        left = LABEL
        for words, _ in self._menu(view, self.content_size.width - LABEL):
            inner = words.strip(" []")
            if left <= event.x < left + cell_len(words) and inner in view.options:
                self.post_message(self.Stepped(self.row, view.options.index(inner) - view.selected))
            left += cell_len(words)
