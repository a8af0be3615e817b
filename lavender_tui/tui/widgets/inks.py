"""The few inks everything is written in, and text fitted to cells. Colours come from the stylesheet alone."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from lavender_tui.model.text import clean

NAMES = ("accent", "good", "warn", "bad", "quiet", "faint", "strong", "title", "cursor", "cursor-away")
INKS = {f"ink--{name}" for name in NAMES}  # COMPONENT_CLASSES of a screen: once, not for each widget

_HEAD_OF_NAME = 4  # "run-"
Span = tuple[str, str]  # (text, ink name or "")


def ink(widget: Widget, name: str) -> Style:
    """Foreground and text style of an ink, blended with the screen's background."""
    full = _of_screen(widget, name)
    return Style(color=full.color, bold=full.bold, dim=full.dim, italic=full.italic, reverse=full.reverse)


def ground(widget: Widget, name: str = "") -> Style:
    """The widget's own style, or an ink's with its background."""
    return _of_screen(widget, name) if name else widget.get_visual_style().rich_style


def _of_screen(widget: Widget, name: str) -> Style:
    """An ink of the widget's screen; nothing on a screen that has none."""
    if not name:
        return Style.null()
    try:
        return widget.screen.get_visual_style(f"ink--{name}").rich_style
    except KeyError:
        return Style.null()


def fit(text: str, width: int, *, right: bool = False, elide: str = "right") -> str:
    """Exactly `width` cells: padded, or cut with an ellipsis at the end that is named by `elide`."""
    if width <= 0:
        return ""
    length = len(text) if text.isascii() else cell_len(text)
    if length <= width:
        pad = " " * (width - length)
        return pad + text if right else text + pad
    if width == 1:
        return "…"
    if elide == "left":
        return "…" + _last_cells(text, width - 1)
    if elide == "middle" and width >= 8:  # what tells runs of one day apart is the end of their names
        head = set_cell_size(text, min(_HEAD_OF_NAME, width // 4))
        return head + "…" + _last_cells(text, width - 1 - cell_len(head))
    kept = set_cell_size(text, width - 1).rstrip() + "…"
    return kept + " " * (width - cell_len(kept))


def _last_cells(text: str, width: int) -> str:
    kept = text[-width:]
    while cell_len(kept) > width:
        kept = kept[1:]
    return " " * (width - cell_len(kept)) + kept


def shown_path(path: str, width: int | None = None, *, home: str | None = None) -> str:
    """A path for people: home as ~, hostile characters escaped, cut on the left."""
    if home and (path == home or path.startswith(home.rstrip("/") + "/")):
        path = "~" + path[len(home.rstrip("/")) :]
    words = clean(path)
    if width is None or cell_len(words) <= width:
        return words
    return "…" + _last_cells(words, max(0, width - 1)).lstrip(" ")


def strip_of(widget: Widget, spans: Iterable[Span], width: int, base: Style) -> Strip:
    """One line of `width` cells from spans, on a base style."""
    segments = [Segment(text, base + ink(widget, name) if name else base) for text, name in spans if text]
    return Strip(segments).adjust_cell_length(width, base)


def text_of(widget: Widget, spans: Iterable[Span]) -> Text:
    """Spans as a Rich text: never parsed as markup."""
    text = Text(no_wrap=True, end="")
    for words, name in spans:
        text.append(words, ink(widget, name) if name else None)
    return text


def spans_length(spans: Iterable[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)
