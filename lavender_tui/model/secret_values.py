"""Where the value behind a secret name ends: a word of a shell, a text in quotes, a list or an object, a header's line.

No quote or bracket is looked at more than a few times, so that a word of any length costs what its length does: a
closing quote that is missing is missed once, since a quote behind `=` or a space would have been it.
"""

from __future__ import annotations

import re

_DOUBLE = r'"(?:[^"\\]|\\.)*+"'
_SINGLE = r"'(?:[^'\\]|\\.)*+'|'[^']*+'"
_QUOTED = f"{_DOUBLE}|{_SINGLE}"
_OPENING = r"(?=[\"'][^\s;&|,\]})])"  # a quote that isn't the end of something that was begun before
_UNQUOTED = r"(?:[^\s;&|'\"\\]|\\(?:.|\Z))++"
# A quote that nobody closes hides what stands right behind it: a text may have been cut there.
_FIRST = re.compile(rf"\\+[\"'][^\"'\\]*+\\+[\"']|{_QUOTED}|{_OPENING}\S++|{_UNQUOTED}", re.S)
# A shell sets "a"'b'c together; behind a value in JSON stands a comma or a bracket.
_FURTHER = re.compile(rf"{_OPENING}(?:{_QUOTED}|\S++)|(?![,\]}})]){_UNQUOTED}", re.S)
_NESTED = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)' r"|'(?:[^'\\]|\\.)*+(?:'|\Z)|[\[{(]|[\]})]", re.S)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|Api-?Key|Digest|Negotiate|NTLM|OAuth|AWS4-HMAC-SHA256)[ \t]++")
_ANY_SCHEME = re.compile(r"[A-Za-z][\w-]*+[ \t]++")
_TO_QUOTE = {'"': re.compile(r'(?:[^"\\\n]|\\.)*+'), "'": re.compile(r"[^'\n]*+"), "=": re.compile(r"[^'\"\n]*+")}
_TO_LINE_END = re.compile(r"[^\n]*+")
_HEADER = re.compile(r"(?:authorization|cookies?)\Z", re.I)


def value_end(text: str, start: int) -> int:
    """Behind the value that begins at `start`; `start` itself where none does."""
    if text[start : start + 1] in ("[", "{", "("):
        return _joined_end(text, _nested_end(text, start))
    return word_end(text, start)


def word_end(text: str, start: int) -> int:
    """As `value_end`, of a shell's word, to which a bracket is a character."""
    first = _FIRST.match(text, start)
    return start if first is None else _joined_end(text, first.end())


def assigned_end(text: str, name: str, begun: int, start: int) -> int:
    """As `value_end`, behind a name that begins at `begun`: with the scheme of a key, as of `Token abc`."""
    is_header = _HEADER.search(name) is not None and ":" in text[start - 2 : start]
    if is_header:
        before = text[begun - 1 : begun]
        is_quoted = text[begun + len(name) : begun + len(name) + 1] in ("'", '"', "\\")
        if not is_quoted and (to := _TO_LINE_END if before in ("", "\n") else _TO_QUOTE.get(before)):
            return _end(to.match(text, start), start)
    scheme = (_ANY_SCHEME if is_header else _SCHEME).match(text, start)
    if scheme is not None and (end := value_end(text, scheme.end())) > scheme.end():
        return end
    return value_end(text, start)


def _joined_end(text: str, place: int) -> int:
    """Behind what is set to it without a space."""
    while match := _FURTHER.match(text, place):
        place = match.end()
    return place


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return otherwise if match is None else match.end()


def _nested_end(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`; all the rest where none does."""
    depth = 0
    for match in _NESTED.finditer(text, start):
        depth += (match[0] in ("[", "{", "(")) - (match[0] in ("]", "}", ")"))
        if not depth:
            return match.end()
    return len(text)
