"""A command as one line of shell text: pasted into bash, zsh or ksh it gives the same words, byte for byte."""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Sequence

from lavender_tui.model import text
from lavender_tui.model.secrets import masked

_LONGEST_SECRET = 8_000  # characters
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_MARKS = ("Mn", "Me")  # combining marks smear over the neighbouring cells of a terminal
# As the first word they would be the shell's own.
_RESERVED = frozenset((
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "function", "time",
    "select", "coproc",
))  # fmt: skip


def exact(words: Sequence[str]) -> str:
    """The command whole, secrets too: for the clipboard of whoever starts it. One line, no control character."""
    return " ".join(_quoted(word, is_first=not at) for at, word in enumerate(words))


def shown(words: Sequence[str]) -> str:
    """The command for a screen, a log, a document: as `exact`, with `***` for each secret."""
    return exact(masked(words))


def beginning(words: Sequence[str], most: int) -> str:
    """As `shown`, of a command of any length, for a line of at most `most` characters; what is longer ends in "…".

    No more is looked at than that takes, and no more shown than surely holds no half of a secret that is cut off.
    """
    looked_at, room = [], most + 2 * _LONGEST_SECRET
    for word in words:
        if room <= 0:
            break
        looked_at.append(word[:room])
        room -= len(word) + 1
    if len(looked_at) == len(words) and room >= -1:
        return text.clean(shown(words), most)
    hidden = list(masked(looked_at))
    if len(words[len(hidden) - 1]) > len(looked_at[-1]):
        hidden[-1] = hidden[-1][:-_LONGEST_SECRET]
    return text.clean(exact(hidden) + "…", most)


def stop_over_ssh(host: str, run_dir: str, *options: str) -> str | None:
    """The command that stops a run on the host where it was started, to be pasted into a shell.

    None for a name that is no host's: it stands in a file that anybody may have written, and ssh takes a word that
    begins with a dash for an option. ssh joins its words and the shell there splits them again, so what needs quotes
    is quoted twice.
    """
    if not _HOST.fullmatch(host):
        return None
    words = ["lavender-tui", "stop", run_dir, *options]
    inner = exact(words)
    return f"ssh {host} {inner}" if inner == " ".join(words) else exact(["ssh", host, inner])


def _quoted(word: str, *, is_first: bool) -> str:
    """As `shlex.quote`; with control or invisible characters, or bytes that are no text, as `$'…'`."""
    if not all(map(_is_plain, word)):
        return "$'" + "".join(map(_escaped, word)) + "'"
    # Unquoted, `A=b` in front is an assignment, and zsh looks for the program after a leading `=`.
    is_special = word.startswith("=") or (is_first and ("=" in word or word in _RESERVED))
    return f"'{word}'" if is_special and shlex.quote(word) == word else shlex.quote(word)


def _is_plain(char: str) -> bool:
    return char.isprintable() and (char.isascii() or unicodedata.category(char) not in _MARKS)


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if _is_plain(char):
        return char
    try:
        data = os.fsencode(char)
    except UnicodeEncodeError:  # half a character, which no word of a real command holds
        data = char.encode("utf-8", "surrogatepass")
    # Octal ends after three digits; a hexadecimal escape would swallow the digits after it.
    return "".join(f"\\{byte:03o}" for byte in data)
