"""The language that filters runs: `state:stalled loss<2 stage=sft !tag`. Pure: text and runs in, a test out.

Terms stand between blanks and must all hold; `|` between two of them means either, before a comparison also without
blanks (`loss<2|loss>4`; in a word alone it is part of the pattern); `!` before one turns it round.
`field:text` has the text in it, `field=text` is it, `field!=text` is not, and `<`, `<=`, `>`, `>=` compare numbers,
ages (`saved<2h`) and sizes (`size>10GB`). A number with a decimal point is that of a column where it rounds to it, for
columns show rounded ones. A word alone is a pattern anywhere in name, stage, state or reason. Fields
are the columns and every setting of the run (`lr=3e-4`, `--batch-size>16`). What can't be understood, for it is still
being typed, is looked for as plain text.
"""

from __future__ import annotations

import math
import operator as operators
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lavender_tui.model.run import Run
from lavender_tui.model.secrets import masked
from lavender_tui.model.settings import settings_of

Value = str | float | None
Test = Callable[[Run], bool]

NAME, SIGN = r"-{0,2}[A-Za-z_][\w.\-]*", "<=|>=|!=|:|=|<|>"
_EITHER = rf"\|(?=\s|$|!?{NAME}(?:{SIGN}))"  # between two terms, of which the second one is a comparison
_TERM = re.compile(
    rf"""(?P<not>!?)(?:(?P<field>{NAME})(?P<op>{SIGN})(?P<value>"[^"]*"?|(?:(?!{_EITHER})\S)*)
        |(?P<word>{_EITHER}|"[^"]*"?|\S+))""",
    re.VERBOSE,
)
_UNITS = {
    "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0,
    "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "k": 1e3,
}  # fmt: skip
_COMPARE = {"<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge}
_NUMBER = re.compile(r"([-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([a-z%]*)", re.IGNORECASE)
_LONGEST_TEXT, _LONGEST_EXPONENT = 1_000, 6


@dataclass(frozen=True, slots=True)
class Field:
    """A column that can be asked for. `read` gets the run and the time now (unix seconds)."""

    name: str
    read: Callable[[Run, float], Value]
    help: str
    is_number: bool = False
    is_age: bool = False  # another one at each instant
    names: tuple[str, ...] = ()  # other words for it
    kind: str = "a number"  # what it is compared with
    examples: tuple[str, ...] = ("2",)


def _newest(name: str) -> Callable[[Run, float], Value]:
    return lambda run, now: getattr(run.newest, name) if run.newest is not None else None


def _age(moment: float | None, now: float) -> float | None:
    return None if moment is None else max(0.0, now - moment)


def _ago(name: str, moment: Callable[[Run], float | None], help: str) -> Field:
    return Field(name, lambda run, now: _age(moment(run), now), help, True, True, kind="an age", examples=("1h", "30m"))


def _save_count(run: Run, now: float) -> Value:
    newest = run.newest
    if newest is None:
        return None
    return newest.save_count if newest.save_count is not None else newest.name_save_count


def _loss(run: Run, now: float) -> Value:
    newest = run.newest
    if newest is None or newest.loss is None:
        return newest.loss_text if newest is not None else None
    return newest.loss


def _left(run: Run, now: float) -> Value:
    return None if run.hours_left is None else run.hours_left * 3600.0


def _size(run: Run, now: float) -> Value:
    return float(sum(one.facts.size_bytes for one in run.checkpoints))


FIELDS: tuple[Field, ...] = (
    Field("name", lambda run, now: run.title, "the run's name", names=("run",)),
    Field("state", lambda run, now: run.state.value, "running, stalled, failed, …"),
    Field("why", lambda run, now: run.state_reason, "the reason of its state", names=("reason",)),
    Field("stage", _newest("stage"), "pretrain, sft, dpo, …"),
    Field("epoch", _newest("epoch"), "the epoch of the newest checkpoint", True),
    Field("epochs", _newest("epochs"), "how many epochs it is to train", True),
    Field("step", _newest("step"), "optimizer steps", True),
    Field("saves", _save_count, "the save_count", True, names=("save_count",)),
    Field("loss", _loss, "the newest checkpoint's loss", True),
    Field("lr", _newest("lr"), "the learning rate", True),
    _ago("saved", lambda run: run.last_save_at, "how long ago it saved: saved<2h"),
    _ago("started", lambda run: run.started_at, "how long ago it started"),
    _ago("active", lambda run: run.last_activity_at, "how long ago it gave a sign"),
    Field("left", _left, "the time that it says is left: left<3h", True, kind="a time", examples=("3h", "30m")),
    Field("world", lambda run, now: run.world_size, "ranks", True, names=("world_size",)),
    Field("pid", lambda run, now: run.pid, "the process", True),
    Field("host", lambda run, now: run.host, "where it runs or ran"),
    Field("format", lambda run, now: run.format, "whose checkpoints they are"),
    Field("path", lambda run, now: run.path, "the run's directory"),
    Field("root", lambda run, now: run.root, "the directory that it lies in"),
    Field("from", lambda run, now: run.resumed_from.run if run.resumed_from else None, "the run it was resumed from"),
    Field("command", lambda run, now: " ".join(masked(run.launched_command)), "what was launched"),
    Field("checkpoints", lambda run, now: len(run.checkpoints), "how many there are", True),
    Field("size", _size, "what its checkpoints take: size>10GB", True, kind="a size", examples=("10GB",)),
    Field("warnings", lambda run, now: " ".join(run.warnings), "what is odd about it"),
)  # fmt: skip
_LITERAL = re.compile(r"[A-Za-z0-9_-]+")  # a word that stands for nothing but itself
_BY_NAME = {name: field for field in FIELDS for name in (field.name, *field.names)}


@lru_cache(maxsize=256)
def terms(query: str) -> tuple[tuple[re.Match[str], ...], ...]:
    """Groups that must all hold; in a group one term is enough."""
    groups: list[list[re.Match[str]]] = []
    is_either = False
    for match in _TERM.finditer(query):
        if match.group() == "|":
            is_either = bool(groups)
        elif is_either:
            groups[-1].append(match)
            is_either = False
        else:
            groups.append([match])
    return tuple(tuple(group) for group in groups)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the tests that must all hold. `words` is how it was typed; `is_timeless`: it asks for no age."""

    words: tuple[str, ...]
    holds: Test
    is_timeless: bool

    def narrows(self, other: Part) -> bool:
        """Does every run that this holds for pass the other one too? Said of plain words that became longer."""
        if not (len(self.words) == len(other.words) == 1):
            return False
        (mine,), (others,) = self.words, other.words
        return all(map(_LITERAL.fullmatch, (mine, others))) and others.lower() in mine.lower()


def parts(query: str, *, now: float) -> list[Part]:
    """The tests that the query makes. Never raises: what isn't understood is plain text.

    `now` (unix seconds) is what ages are counted from.
    """
    return [_part(group, now) for group in terms(query)]


def field_named(name: str) -> Field | None:
    """The column with that name, or another word for it."""
    return _BY_NAME.get(name.lower())


def _part(group: Sequence[re.Match[str]], now: float) -> Part:
    tests = [_test(term, now) for term in group]
    fields = [_BY_NAME.get((term["field"] or "").lower()) for term in group]
    is_timeless = not any(field is not None and field.is_age for field in fields)
    holds = tests[0] if len(tests) == 1 else lambda run: any(test(run) for test in tests)
    return Part(tuple(term.group() for term in group), holds, is_timeless)


def compile_query(query: str, *, now: float) -> Test:
    """The one test of all its parts; `now` as there."""
    tests = [part.holds for part in parts(query, now=now)]
    return lambda run: all(test(run) for test in tests)


def _test(term: re.Match[str], now: float) -> Test:
    inner = _field_test(term, now) if term["field"] and _unquoted(term["value"]) else _word_test(_plain(term))
    return (lambda run: not inner(run)) if term["not"] else inner


def _plain(term: re.Match[str]) -> str:
    """The term as a word; a field whose value is still to come counts as nothing yet."""
    if term["field"]:
        return "" if term["field"] in _BY_NAME else term["field"]
    return _unquoted(term["word"])


def _unquoted(words: str | None) -> str:
    return (words or "").strip('"')


def _word_test(word: str) -> Test:
    if not word:
        return lambda run: True
    pattern = _pattern(word)

    def holds(run: Run) -> bool:
        stage = (run.newest.stage if run.newest else None) or ""
        parts = (run.title, stage, run.state.value, run.state_reason)
        return any(pattern.search(part[:_LONGEST_TEXT]) for part in parts)

    return holds


@lru_cache(maxsize=256)
def _pattern(wanted: str) -> re.Pattern[str]:
    try:
        return re.compile(wanted, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(wanted), re.IGNORECASE)


def _field_test(term: re.Match[str], now: float) -> Test:
    name, operator, wanted = term["field"], term["op"], _unquoted(term["value"])
    field = _BY_NAME.get(name.lower())

    def value(run: Run) -> Value:
        return field.read(run, now) if field is not None else _setting(run, name)

    is_rounded = field is not None and field.is_number
    if operator == "!=":
        return lambda run: not _equals(value(run), wanted, is_rounded)
    if operator == "=":
        return lambda run: _equals(value(run), wanted, is_rounded)
    if operator == ":":
        return lambda run: _contains(value(run), wanted)
    return lambda run: _compares(value(run), operator, wanted)


def _setting(run: Run, name: str) -> Value:
    settings = settings_of(run)
    if name in settings:
        return settings[name]
    folded = name.lower()
    return next((value for key, value in settings.items() if key.lower() in (folded, f"--{folded}")), None)


def number_of(text: str) -> float | None:
    """ "3e-4", "1,000", "2h" (seconds), "10GB" (bytes); None for what is no number."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    unit = match[2].lower()
    if unit and unit not in _UNITS:
        return None
    try:
        return float(match[1].replace(",", "").replace("_", "")) * _UNITS.get(unit, 1.0)
    except ValueError:
        return None


def _as_number(value: Value) -> float | None:
    if isinstance(value, str):
        return number_of(value)
    return None if value is None else float(value)


def _equals(value: Value, wanted: str, is_rounded: bool = False) -> bool:
    """`is_rounded`: the value is shown with fewer digits than it has, and as many as were typed after the point are
    to be the same."""
    if value is None:
        return wanted.lower() in ("none", "–", "-")
    number, other = _as_number(value), number_of(wanted)
    if number is not None and other is not None:
        return math.isclose(_as_shown(number, wanted) if is_rounded else number, other, rel_tol=1e-9)
    return str(value).lower() == wanted.lower()


def _as_shown(number: float, wanted: str) -> float:
    """The number with as many digits after the point as `wanted` has; one without a point is meant exactly."""
    match = _NUMBER.fullmatch(wanted.strip())
    mantissa, _, exponent = match[1].lower().partition("e") if match is not None else ("", "", "")
    _, point, digits = mantissa.partition(".")
    if match is None or not point or not math.isfinite(number) or len(exponent) > _LONGEST_EXPONENT:
        return number
    unit = _UNITS.get(match[2].lower(), 1.0)
    try:
        return round(number / unit, len(digits) - int(exponent or 0)) * unit
    except OverflowError:  # rounded up it would be no number any more
        return number


def _contains(value: Value, wanted: str) -> bool:
    if value is None:
        return False
    if not isinstance(value, str):
        return _equals(value, wanted) or f"{value:g}".startswith(wanted)
    return wanted.lower() in value.lower()


def _compares(value: Value, operator: str, wanted: str) -> bool:
    """Unknown values, and what is no number, are on neither side."""
    number, other = _as_number(value), number_of(wanted)
    if number is None or other is None:
        return False
    return bool(_COMPARE[operator](number, other))


# Completion, while it is being typed


class Completion:
    """What a query could become among these runs. The values that they have in a field are looked up once."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = runs
        self._known: dict[str, list[str]] = {}

    def of(self, query: str, *, most: int = 12) -> list[str]:
        """What the last word could become, the whole query each time: names of fields, then values."""
        head, word = _last_word(query)
        bang = "!" if word.startswith("!") else ""
        word = word[len(bang) :]
        match = re.fullmatch(r"(-{0,2}[A-Za-z_][\w.\-]*)(<=|>=|!=|:|=|<|>)(.*)", word)
        if match is None:
            words = _names(word, self.runs)
        else:
            words = [f"{match[1]}{match[2]}{_quoted(value)}" for value in self._values(match[1], match[3])]
        return [f"{head}{bang}{one}" for one in words if one != word][:most]

    def _values(self, name: str, begun: str) -> list[str]:
        if name not in self._known:
            self._known[name] = _values(name, self.runs)
        folded = _unquoted(begun).lower()
        return [text for text in self._known[name] if text.lower().startswith(folded)]


def _last_word(query: str) -> tuple[str, str]:
    if query.count('"') % 2:  # inside quotes blanks end nothing
        at = query.rindex('"')
        at = max(query.rfind(" ", 0, at) + 1, 0)
    else:
        at = query.rfind(" ") + 1
    return query[:at], query[at:]


def _names(word: str, runs: Sequence[Run]) -> list[str]:
    if not word:
        return [field.name + _operator(field) for field in FIELDS[:8]]
    folded = word.lower()
    names = [field.name + _operator(field) for field in FIELDS if field.name.startswith(folded)]
    seen = {field.name for field in FIELDS}
    for run in runs[:50]:
        for name in settings_of(run):
            if name.lower().lstrip("-").startswith(folded.lstrip("-")) and name not in seen and _is_askable(name):
                seen.add(name)
                names.append(f"{name}=")
    return names


def _operator(field: Field) -> str:
    return "<" if field.is_number else ":"


def _is_askable(name: str) -> bool:
    return re.fullmatch(r"-{0,2}[A-Za-z_][\w.\-]*", name) is not None


def _values(name: str, runs: Sequence[Run]) -> list[str]:
    """The values that the runs have there, the most common first; none for numbers that hardly repeat."""
    field = _BY_NAME.get(name.lower())
    counts: dict[str, int] = {}
    for run in runs[:2_000]:
        value = field.read(run, 0.0) if field is not None else _setting(run, name)
        if isinstance(value, float) or value is None or (field is not None and field.is_number and name != "world"):
            continue
        text = str(value)
        if len(text) <= 60 and text.isprintable():
            counts[text] = counts.get(text, 0) + 1
    return sorted(counts, key=lambda text: (-counts[text], text))


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value
