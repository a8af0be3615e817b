"""What is never written to disk or shown: passwords, keys and tokens, known by the name that carries them or by sight.

The rules err towards hiding: a hidden value costs a look elsewhere, a shown one a new password. A word of any length
costs what its length does: each pattern begins only where a word does, and never takes back what it has taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from lavender_tui.model.secret_names import is_secret_name
from lavender_tui.model.secret_programs import told_by_words, without_told
from lavender_tui.model.secret_values import assigned_end, value_end

NOT_RECORDED = "not recorded"  # stands in a record for the value of a variable
HIDDEN = "***"  # stands on a screen for a word, or for a part of one

_OURS = ("LAVENDER_RUN_ID", "LAVENDER_RUN_DIR", "LAVENDER_RESUME_PLAN")  # a run may be called `lr=1,key=2`
# A value that is no secret whatever its name: `auth=debug` of a log filter, `"token": null`.
_NO_SECRETS = frozenset((
    "true", "false", "none", "null", "yes", "no", "on", "off", "trace", "debug", "info", "warn", "error",
))  # fmt: skip
_BY_SIGHT = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{35}|nvapi-[\w-]{20,}|wandb_v1_\w{20,}"
    r"|(?i:bearer)\s++[\w.~+/=-]{6,}|(?i:basic)\s++(?=\S*[0-9=])[A-Za-z0-9+/]{12,}=*)"
    r"|-----BEGIN [^-]++-----[\s\S]*?(?:-----END [^-]++-----|\Z)"
)
# What has begun as one and is none is taken, too, and kept: else each `eyJ` in it would be tried to its end.
_WEB_TOKEN = re.compile(r"\beyJ(?:(?P<rest>[\w-]{8,}+(?:\.[\w-]*+){2,4}+)|[\w-]*+)")
# A password may hold `/`, `#`, `?` and `@`; a port behind the colon is none, and behind a path `@` names a version.
_CREDENTIALS_IN_URL = re.compile(
    r"(?<=://)(?:[^\s/?#]+(?=@)|(?!\[)[^\s/?#@:]*+:(?!\d*+(?:[/?#]|\Z))(?:[^\s\"':]|:(?!//))*(?=@))"
)
_QUERIED = re.compile(r"(?<=[?&])(?P<name>[\w.-]++)=[^\s&#'\"*]++")
_SIGNS = frozenset(("sig", "signature", "session", "sessionid", "sid", "ticket", "pw"))
_ASSIGNED = re.compile(r"(?<![\w.\-/])(?P<name>[\w.\-/]++)(?:(?:\\*+[\"'])?(?:=|:\s*+)|\s++=\s++)")
_SPACE = r"(?:\s|\\\n)"
_OPTION_INSIDE = re.compile(
    rf"(?<!\S)(?P<name>--?[A-Za-z][\w-]*+){_SPACE}++"
    rf"|(?<![\w-])(?P<quote>[\"'])(?P<quoted>--?[A-Za-z][\w-]*+)(?P=quote)(?:\s*+,\s*+|{_SPACE}++)"
)
_OPTION_ALONE = re.compile(r"-[^\s=*]+")
_LONG_OPTION = re.compile(r"--[\w.-]+")
_OPTION = re.compile(r"-[A-Za-z]|--[A-Za-z][\w.-]+(?:=.*)?|--", re.S)


def looks_secret(name: str, value: str) -> bool:
    """Is the value of that variable or option to be kept to oneself: by its name, by how it looks, or as it holds a
    secret among other things (a header, an address with `?token=`, `password=…`)?"""
    return name not in _OURS and (is_secret_name(name) or masked_text(value) != value)


def without_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """The variables as they may be recorded: a secret one by its name only, for its value `not recorded`."""
    return {name: NOT_RECORDED if looks_secret(name, value) else value for name, value in values.items()}


def masked(words: Sequence[str]) -> tuple[str, ...]:
    """A command's words as they may be shown: `--token=***`, `--wandb-key ***`, `https://***@host`."""
    shown: list[str] = []
    is_next_secret = False
    told = dict(told_by_words(words))
    for at, word in enumerate(words):
        if at in told:
            shown.append(word[: told[at]] + HIDDEN)
            is_next_secret = False
            continue
        if is_next_secret and not _is_option(word):
            shown.append(HIDDEN)
            is_next_secret = False
            continue
        shown.append(_masked_word(word))
        is_next_secret = _OPTION_ALONE.fullmatch(word) is not None and is_secret_name(word.lstrip("-"))
    return tuple(shown)


def _masked_word(word: str) -> str:
    """Behind `--name=` all is the value; any other word may be a script."""
    name, _, value = word.partition("=")
    if value and _LONG_OPTION.fullmatch(name) and is_secret_name(name) and _is_to_hide(value):
        return f"{name}={HIDDEN}"
    return masked_text(word)


def _is_option(word: str) -> bool:
    """Is it one, and so no value of the option before it? A password may begin with dashes."""
    return word.startswith("--") and _OPTION.fullmatch(word) is not None


def masked_text(text: str) -> str:
    """Text that may hold a command, an assignment or an address: what is secret in it replaced."""
    text = _CREDENTIALS_IN_URL.sub(HIDDEN, text)
    text = _masked_assignments(text)
    text = _QUERIED.sub(_masked_query, text)
    if any(char.isspace() or char == "," for char in text):
        text = _masked_options(text)
        text = without_told(text, HIDDEN, _is_to_hide)
    text = _WEB_TOKEN.sub(lambda match: HIDDEN if match["rest"] else match[0], text)
    return _BY_SIGHT.sub(HIDDEN, text)


def _masked_assignments(text: str) -> str:
    """A value may hold assignments itself, `--env=WANDB_API_KEY=…`: what isn't hidden is looked through further."""
    kept: list[str] = []
    start = place = 0
    while match := _ASSIGNED.search(text, place):
        place = match.end()
        if text.startswith(HIDDEN, place) or not _assigns_secret(match["name"]):
            continue
        end = assigned_end(text, match["name"], match.start(), place)
        if end > place and _is_to_hide(text[place:end]):
            kept += (text[start:place], HIDDEN)
            start = place = end
    return "".join((*kept, text[start:]))


def _assigns_secret(name: str) -> bool:
    """Also `-Dtoken=…`, a letter that takes an assignment, and the assignment right behind it."""
    return is_secret_name(name) or (name[:1] == "-" and name[1:2].isalpha() and is_secret_name(name[2:]))


def _masked_query(match: re.Match[str]) -> str:
    is_signed = re.split("[-_]", match["name"])[-1].lower() in _SIGNS
    return f"{match['name']}={HIDDEN}" if is_signed else match[0]


def _masked_options(text: str) -> str:
    """A script holds its options as a shell's words, or in quotes, as a list of a program's."""
    kept: list[str] = []
    start = place = 0
    while match := _OPTION_INSIDE.search(text, place):
        place = match.end()
        if text.startswith(HIDDEN, place) or not is_secret_name(match["name"] or match["quoted"]):
            continue
        end = value_end(text, place)
        value = text[place:end]
        if value and _is_to_hide(value) and not _OPTION.fullmatch(value.strip("'\",])")):
            kept += (text[start:place], HIDDEN)
            start = place = end
    return "".join((*kept, text[start:]))


def _is_to_hide(value: str) -> bool:
    return not value.startswith(HIDDEN) and value.strip("'\",}])").lower() not in _NO_SECRETS


def holds_secrets(words: Iterable[str]) -> bool:
    """Is there anything in these words that is not to be shown?"""
    as_given = tuple(words)
    return masked(as_given) != as_given
