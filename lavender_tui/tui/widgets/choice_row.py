"""One row of the resume sheet: a value out of a few, changed with ← and →, or typed where it is a number."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from lavender_tui.tui.sheet_rows import RowView
from lavender_tui.tui.widgets.inks import Span, spans_length, text_of
from lavender_tui.tui.widgets.lines import cut_spans, wrap_spans

LABEL = 14
_MOST_DIGITS = 4
_PAUSE_SECONDS = 1.0


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
        """A number was typed; None: all of it was taken back."""

        def __init__(self, row: str, number: int | None) -> None:
            super().__init__()
            self.row, self.number = row, number

    def __init__(self, row: str, *, is_number: bool = False, is_roll: bool = False) -> None:
        super().__init__(id=f"row-{row}")
        self.row = row
        self._is_number, self._is_roll = is_number, is_roll
        self._view: RowView | None = None
        self._digits: str | None = None  # what is being typed; None: nothing is
        self._pause: Timer | None = None

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
        remark = wrap_spans(
            [(view.remark, "bad" if view.is_wrong else "warn" if view.is_doubtful else "quiet")],
            max(1, width - LABEL),
            2,
        )
        below = [[(" " * LABEL, ""), *line] for line in remark] if view.remark else []
        return [cut_spans(head, width), *below]

    def _roll(self, view: RowView) -> list[Span]:
        """‹ one value ›, the arrows only where there is another one."""
        left = "‹ " if view.selected > 0 else "  "
        right = " ›" if view.selected < len(view.options) - 1 else "  "
        ink = "bad" if view.is_wrong else "accent"
        return [(left, "quiet"), (view.options[view.selected], ink), (right, "quiet")]

    def _menu(self, view: RowView, room: int) -> list[Span]:
        """All values, the chosen one in brackets; those around it where there is no room for all.

        While a number is typed it stands alone, with a cursor: the rest would move beside it.
        """
        if self._digits is not None:
            return [
                ("[", "accent"),
                (self._digits, "bad" if view.is_wrong else "accent"),
                ("▏", "strong"),
                ("]", "accent"),
            ]
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
        self._end_number()
        self._come_into_view()
        self.post_message(self.Stepped(self.row, by))

    def on_key(self, event: events.Key) -> None:
        is_digit = event.character is not None and event.character in "0123456789"
        if not self._is_number or not (is_digit or event.key == "backspace"):
            self._end_number()
            return
        event.stop()
        self._come_into_view()
        before = self._digits
        if is_digit:
            self._type(((before or "") + (event.character or ""))[-_MOST_DIGITS:])
        else:
            self._type((self._chosen if before is None else before)[:-1])

    def _type(self, digits: str) -> None:
        """One more key of the number; a pause ends it, so that the next digit begins another one."""
        self._digits = digits
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(_PAUSE_SECONDS, self._end_number)
        self.post_message(self.Typed(self.row, int(digits) if digits else None))
        self.refresh(layout=True)

    @property
    def _chosen(self) -> str:
        """The chosen number as it is shown."""
        return self._view.options[self._view.selected] if self._view is not None else ""

    def _end_number(self) -> None:
        if self._digits is not None:
            self._digits = None
            self.refresh(layout=True)

    def _come_into_view(self) -> None:
        """A row that was scrolled away is shown as the key changes it: what a key does has to be seen."""
        body = self.scrollable_body
        if body is not None and not body.region.contains_region(self.region):
            self.scroll_visible(animate=False)

    @property
    def scrollable_body(self) -> Widget | None:
        """What scrolls this row, if anything does."""
        return next((one for one in self.ancestors if isinstance(one, Widget) and one.max_scroll_y > 0), None)

    def on_focus(self) -> None:
        self._end_number()
        self.refresh()

    def on_blur(self) -> None:
        self._end_number()
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
