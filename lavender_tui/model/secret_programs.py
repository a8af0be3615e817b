"""Options that carry a secret though their name says nothing: known by their program, as of `curl -u name:password`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from lavender_tui.model.secret_values import word_end

# The option with what stands before its value in the same word; where nothing follows it, the next word is the value.
_NAME_AND_PASSWORD = r"-[#0-9aBfgGiIjJklLMnNOpqRsSvVZ]*+[uU]=?+|--(?:proxy-)?user=?+"
_OPTIONS = {
    "curl": re.compile(_NAME_AND_PASSWORD),
    **dict.fromkeys(("http", "https", "xh"), re.compile("-a")),
    "sshpass": re.compile("-p"),
    "redis-cli": re.compile("-a"),
    **dict.fromkeys(("mysql", "mysqldump", "mariadb"), re.compile(r"-p(?=\S)")),
}
_WITH_COLON = frozenset(("curl", "http", "https", "xh"))  # a name without a password is none
_WRAPS = frozenset(("sshpass",))  # behind its own options stands another program with its own
_CALL = re.compile(
    rf"(?<![\w.:-])(?P<program>{'|'.join(_OPTIONS)})(?=\s)"
    r"(?P<words>(?:[^;|&\n'\"\\]|\\.|'[^']*+'|\"(?:[^\"\\]|\\.)*+\")*+)",
    re.S,
)
_WORD = re.compile(r"(?<!\S)-\S*+")
_SPACE = re.compile(r"(?:\s|\\\n)++")


def told_by_words(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """(which word, from where in it) of each secret among a command's words."""
    program = ""
    for at, word in enumerate(words):
        program = name if (name := os.path.basename(word)) in _OPTIONS else program
        if program in _WRAPS and name != program and word[:1] != "-":
            program = ""
        if not program or (match := _OPTIONS[program].match(word)) is None:
            continue
        place, start = (at, match.end()) if match.end() < len(word) else (at + 1, 0)
        if place < len(words) and _tells(program, words[place][start:]):
            yield place, start


def without_told(text: str, hidden: str, is_to_hide: Callable[[str], bool]) -> str:
    """The text of a script, such secrets in it replaced."""

    def _call(match: re.Match[str]) -> str:
        told = _told_within(match["program"], match["words"], hidden, is_to_hide)
        return match["program"] + told

    return _CALL.sub(_call, text)


def _told_within(program: str, text: str, hidden: str, is_to_hide: Callable[[str], bool]) -> str:
    kept: list[str] = []
    start = 0
    for word in _WORD.finditer(text):
        if word.start() < start or (option := _OPTIONS[program].match(text, word.start())) is None:
            continue
        if program in _WRAPS and text[start : word.start()].strip():
            break
        place = option.end()
        if place == word.end() and (space := _SPACE.match(text, place)):
            place = space.end()
        end = word_end(text, place)
        if _tells(program, text[place:end]) and is_to_hide(text[place:end]):
            kept += (text[start:place], hidden)
            start = end
    return "".join((*kept, text[start:]))


def _tells(program: str, value: str) -> bool:
    return ":" in value if program in _WITH_COLON else value != ""
