"""The same words and drawings in ASCII, each sign in as many cells as before: for terminals that have no more. Pure."""

from __future__ import annotations

import unicodedata

_SIGNS = {
    "…": "~", "→": ">", "←": "<", "↑": "^", "↓": "v", "✗": "x", "✓": "+", "·": "-", "×": "x", "●": "*", "◆": "@",
    "◐": "!", "○": "o", "■": "#", "⏎": "\\", "–": "-", "—": "-", "−": "-", "▸": ">", "▾": "v", "▌": "|", "▏": "|",
    "▪": "#", "▴": "^", "▶": ">", "┊": ":", "┆": ":", "▔": "-", "▕": "|", "▎": "|", "▍": "|", "▋": "|", "▊": "|",
    "▉": "|", "⋯": "+", "🔎": "> ", "°": "o", "µ": "u",
    "│": "|", "┃": "|", "─": "-", "━": "=", "├": "|", "└": "`", "┤": "+", "┴": "+", "┬": "+", "┼": "+", "┌": "+",
    "┐": "+", "┘": "'", "╭": "+", "╮": "+", "╰": "+", "╯": "+", "║": "|", "═": "=", "≠": "!", "≤": "<", "≥": ">",
    "›": ">", "‹": "<", "‥": ":", "′": "'", "’": "'", "‘": "'", "“": '"', "”": '"', "•": "*", "␣": "_",
    "█": "#", "▓": "#", "▒": "+", "░": ".", "▀": '"', "▐": "|",
}  # fmt: skip
# A trend: low to high.
_SIGNS.update(zip("▁▂▃▄▅▆▇", "_.,-=+*", strict=True))
_BRAILLE = 0x2800
# Bits of a Braille cell by its four rows, from above: where the dots are says which sign comes nearest.
_ROWS = (0x01 | 0x08, 0x02 | 0x10, 0x04 | 0x20, 0x40 | 0x80)
_BY_ROWS = {
    "0000": " ", "1000": "'", "1100": "'", "0100": "-", "0110": "-", "0010": "-", "0001": ".", "0011": ".",
    "1110": "|", "0111": "|", "1111": "|",
}  # fmt: skip


def to_ascii(words: str) -> str:
    """ASCII only, cell for cell: a wide sign becomes two, one without width none. ASCII passes as it is."""
    return words if words.isascii() else "".join(_sign(one) for one in words)


def _sign(one: str) -> str:
    if one.isascii():
        return one
    known = _SIGNS.get(one)
    if known is not None:
        return known
    if _BRAILLE <= ord(one) < _BRAILLE + 256:
        bits = ord(one) - _BRAILLE
        return _BY_ROWS.get("".join("01"[bool(bits & row)] for row in _ROWS), ":")
    if 0x2500 <= ord(one) < 0x2580:
        return "+"
    width = _width(one)
    return (_letter(one) or "?").ljust(width, "?")[:width]


def _letter(one: str) -> str:
    """The letter below an accent: é is e."""
    base = unicodedata.normalize("NFKD", one)[:1]
    return base if base.isascii() else ""


def _width(one: str) -> int:
    if unicodedata.combining(one) or unicodedata.category(one) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(one) in "WF" else 1
