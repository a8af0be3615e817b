"""Numbers, ages, sizes and foreign words as text: the one place. Nothing here raises on odd input."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from urllib.parse import quote_from_bytes

NONE = "–"
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_SURROGATES = re.compile("[\ud800-\udfff]")
_MOST_PARTS = 100  # of a list that is put in words
_MAX_MARKS = 2  # combining marks kept after one letter; more only smear over the neighbouring cells


def clean(text: object, limit: int | None = None) -> str:
    """Foreign text as one harmless line: control, bidi, zero-width and lone surrogate characters are escaped.

    `limit` is the most characters returned; what is longer ends in "…".
    """
    raw = text if isinstance(text, str) else str(text)
    if limit is not None and len(raw) > 4 * limit + 16:
        raw = raw[: 4 * limit + 16]
    if raw.isascii() and raw.isprintable():
        shown = raw
    else:
        shown = _escape(raw)
    if limit is not None and len(shown) > limit:
        return shown[: max(0, limit - 1)] + "…"
    return shown


def one_line(told: str, limit: int | None = None) -> str:
    """What a program said on several lines, as one: "no such host / no configuration"; blank ones left out."""
    return clean(" / ".join(line.strip() for line in told.splitlines() if line.strip()), limit)


def _escape(raw: str) -> str:
    out: list[str] = []
    marks = 0
    for char in raw:
        category = unicodedata.category(char)
        if category in ("Mn", "Me"):
            marks += 1
            if marks > _MAX_MARKS:
                continue
        else:
            marks = 0
        out.append(_escaped(char) if category in _HIDDEN else char)
    return "".join(out)


def _escaped(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def is_utf8(path: str) -> bool:
    """False for a path with bytes that are no UTF-8 (surrogateescape)."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def utf8(path: str) -> str:
    """A path, or any text from a file, as valid UTF-8; bytes and surrogates that aren't become U+FFFD."""
    return _SURROGATES.sub("\ufffd", path)


def percent_encoded(path: str) -> str:
    """The path's bytes, exactly, as percent-encoding."""
    return quote_from_bytes(os.fsencode(path))


def iso(unix_seconds: float | None) -> str | None:
    """ISO-8601 in UTC with a Z; None for None and for times no calendar has."""
    if unix_seconds is None or not math.isfinite(unix_seconds):
        return None
    try:
        moment = datetime.fromtimestamp(unix_seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(seconds: float | None) -> str:
    """ "4 s", "4 min", "3 h", "5 d" ago; never negative: a time to come reads "in the future"."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    if seconds < -1:
        return "in the future"
    return "now" if seconds < 1 else f"{_growing(seconds)} ago"


_MOST = 1_000_000  # days and hours that are written out: beyond, nobody reads the digits


def duration(seconds: float | None) -> str:
    """A length of time with its two-letter unit, as coarse as one reads it."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    for unit, length, until in (("s", 1, 100), ("min", 60, 6000), ("h", 3600, 172_800)):
        if seconds < until:
            return f"{int(seconds // length)} {unit}"
    days = seconds // 86_400
    return f"{days:.0f} d" if days < _MOST else f"{days:.0e} d"


def coarse(seconds: float) -> str:
    """A length of time that grows, in steps that don't change at every look: "7 s", "40 s", "12 min"."""
    return _growing(seconds if seconds < 10 or seconds >= 60 else seconds // 10 * 10)


def _growing(seconds: float) -> str:
    """One that never seems to shrink while it grows: no "99 s" before "1 min", no "99 min" before "1 h"."""
    if 60 <= seconds < 100:
        return "1 min"
    return "2 h" if 6000 <= seconds < 7200 else duration(seconds)


def coarse_age(seconds: float) -> str:
    """As `coarse`, ago: "less than 10 s ago", "40 s ago", "3 min ago"."""
    return "less than 10 s ago" if seconds < 10 else f"{coarse(seconds)} ago"


def interval(seconds: float) -> str:
    """How long from one to the next: "0.8 s", "12 s", "1.7 min", "30 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds:.2g} s"
    return f"{seconds / 60:.1f} min" if 100 <= seconds < 600 else duration(seconds)


def clock(unix_seconds: float, now: float) -> str:
    """The local time of day, "14:02", with the date where it isn't that of `now`."""
    try:
        moment, today = datetime.fromtimestamp(unix_seconds), datetime.fromtimestamp(now)
    except (OverflowError, OSError, ValueError):
        return NONE
    return f"{moment:%H:%M}" if moment.date() == today.date() else f"{moment:%Y-%m-%d %H:%M}"


def hours(value: float | None) -> str:
    """Remaining hours: "31 h", "1.5 h", "12 min"."""
    if value is None or not math.isfinite(value) or value < 0:
        return NONE
    if value >= 10:
        return f"{value:.0f} h" if value < _MOST else f"{value:.0e} h"
    return f"{value:.1f} h" if value >= 1 else f"{value * 60:.0f} min"


def size(count: int | None) -> str:
    """Bytes as text, decimal units as disks are sold: "96 MB"."""
    if count is None:
        return NONE
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 999.5 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 99.5 else f"{value:.1f} {unit}"
        value /= 1000
    return NONE


def loss(value: float | None, instead: str | None = None) -> str:
    """A loss to five figures; `instead` (loss_text) where it was no finite number."""
    if value is None or not math.isfinite(value):
        return clean(instead, 8) if instead else NONE
    magnitude = abs(value)
    if magnitude and (magnitude < 1e-3 or magnitude >= 1e5):
        return f"{value:.3e}"
    return f"{value:.4f}" if magnitude < 100 else f"{value:.2f}"


def count(value: int | None) -> str:
    """A whole number with thin groups: "48,800"."""
    return NONE if value is None else f"{value:,}"


def save_count(value: int | None) -> str:
    """At least four digits, as in the file names."""
    return NONE if value is None else f"{value:04d}"


def of(part: int | None, whole: int | None) -> str:
    """ "1/3"; the unknown half reads "?"."""
    if part is None and whole is None:
        return NONE
    return f"{'?' if part is None else part}/{'?' if whole is None else whole}"


def plural(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def value(foreign: object, limit: int | None = None) -> str:
    """A value for people, never as a programming language writes it: `none`, `true`, `0.9, 0.95`, `lr 0.1, bias false`.

    Texts are shown letter for letter. Whatever it holds, no more than the first hundred parts are looked at.
    """
    return clean(_in_words(foreign, 0), limit)


def _in_words(foreign: object, depth: int) -> str:
    if foreign is None or isinstance(foreign, bool):
        return str(foreign).lower()
    if isinstance(foreign, int) and foreign.bit_length() > 2_000:  # Python prints no more than 4,300 digits
        return f"a whole number of {foreign.bit_length():,} bits"
    if isinstance(foreign, float):
        return f"{foreign:g}" if foreign.is_integer() and abs(foreign) < 1e16 else str(foreign)
    if depth > 3 or not isinstance(foreign, (list, tuple, Mapping)):
        return "…" if isinstance(foreign, (list, tuple, Mapping)) else str(foreign)
    if isinstance(foreign, Mapping):
        parts = [f"{_in_words(name, depth + 1)} {_in_words(one, depth + 1)}" for name, one in _first(foreign.items())]
    else:
        parts = [_in_words(one, depth + 1) for one in _first(foreign)]
    return ", ".join([*parts, *(["…"] if len(foreign) > len(parts) else [])]) or "nothing"


def _first(parts: Iterable[Any]) -> Iterable[Any]:
    return islice(parts, _MOST_PARTS)


def strict_json(document: Any, *, indent: int | None = None) -> str:
    """Strict JSON: NaN and Infinity become null, lone surrogates U+FFFD."""
    import json  # the first frame of the app has no use for it

    return json.dumps(_strict(document), indent=indent, ensure_ascii=False, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, dict):
        return {utf8(str(key)): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
