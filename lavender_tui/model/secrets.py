"""What is never written to disk or shown: passwords, keys and tokens, known by the name that carries them or by sight.

The rules err towards hiding: a hidden value costs a look elsewhere, a shown one a new password. Names of the trade that
only sound alike (`--pad-token`, `--max-tokens`, `--tokenizer`, `--label-key`) are no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

NOT_RECORDED = "not recorded"  # stands in a record for the value of a variable
HIDDEN = "***"  # stands on a screen for a word, or for a part of one

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Za-z][a-z]*|[0-9]+")
_SECRET = frozenset((
    "token", "key", "secret", "secrets", "password", "passwd", "passphrase", "pwd", "pass", "credential", "credentials",
    "apikey", "pat", "auth", "authorization",
))  # fmt: skip
# What stands before `token` or `key` where it means a word of the vocabulary, or a column.
_HARMLESS = frozenset((
    "pad", "padding", "eos", "bos", "unk", "mask", "sep", "cls", "special", "per", "sort", "order", "group", "index",
    "text", "label", "image", "audio", "video", "input", "output", "target", "prompt", "response", "chosen", "rejected",
    "data", "dataset", "batch", "loss", "metric", "column", "primary", "foreign", "partition", "cache", "public",
))  # fmt: skip
_DIRECTORIES = ("PWD", "OLDPWD")
_BY_SIGHT = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|wandb_v1_\w{20,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*)"
)
_CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^\s/@?#]+(?=@)")
_ASSIGNED = re.compile(
    r"(?P<name>[A-Za-z_][\w.\-/]*)(?P<between>[\"']?(?:=|:\s*))"
    r"(?P<value>(?:Bearer |Basic )?(?:'[^']*'|\"[^\"]*\"|[^\s;&|'\"]+))"
)
_OPTION_INSIDE = re.compile(r"(?<!\S)(?P<name>--?[A-Za-z][\w-]*)(?P<between>\s+)(?P<value>[^\s;&|'\"-][^\s;&|]*)")


def is_secret_name(name: str) -> bool:
    """Does a variable or option of that name carry a secret? `WANDB_API_KEY`, `--hf-token`, `trainer.apiKey`."""
    if name in _DIRECTORIES:
        return False
    parts = [part.lower() for part in _PARTS.findall(name)]
    if not any(part in _SECRET for part in parts):
        return False
    last = parts[-1]
    if last not in ("token", "key", "pass"):
        # `key` in the middle names something about keys (num_key_value_heads); a secret's file or id is one, too.
        return any(part in _SECRET - {"key", "token", "pass", "pat"} for part in parts) or last in _SECRET
    return not (len(parts) > 1 and parts[-2] in _HARMLESS)


def looks_secret(name: str, value: str) -> bool:
    """Is the value of that variable or option to be kept to oneself: by its name, or by how it looks?"""
    return is_secret_name(name) or _BY_SIGHT.search(value) is not None or _CREDENTIALS_IN_URL.search(value) is not None


def without_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """The variables as they may be recorded: a secret one by its name only, for its value `not recorded`."""
    return {name: NOT_RECORDED if looks_secret(name, value) else value for name, value in values.items()}


def masked(words: Sequence[str]) -> tuple[str, ...]:
    """A command's words as they may be shown: `--token=***`, `--wandb-key ***`, `https://***@host`."""
    shown: list[str] = []
    is_next_secret = False
    for word in words:
        if is_next_secret and not word.startswith("--"):
            shown.append(HIDDEN)
            is_next_secret = False
            continue
        shown.append(masked_text(word))
        is_next_secret = word.startswith("-") and "=" not in word and is_secret_name(word.lstrip("-"))
    return tuple(shown)


def masked_text(text: str) -> str:
    """Text that may hold a command, an assignment or an address: what is secret in it replaced."""
    text = _CREDENTIALS_IN_URL.sub(HIDDEN, text)
    text = _ASSIGNED.sub(_mask_value, text)
    if any(char.isspace() for char in text):
        text = _OPTION_INSIDE.sub(_mask_value, text)
    return _BY_SIGHT.sub(HIDDEN, text)


def _mask_value(match: re.Match[str]) -> str:
    if match["value"].startswith(HIDDEN):
        return match[0]
    is_secret = is_secret_name(match["name"].lstrip("-"))
    # A value may be an assignment itself: `--env=WANDB_API_KEY=…`.
    value = HIDDEN if is_secret else _ASSIGNED.sub(_mask_value, match["value"])
    return f"{match['name']}{match['between']}{value}"


def holds_secrets(words: Iterable[str]) -> bool:
    """Is there anything in these words that is not to be shown?"""
    as_given = tuple(words)
    return masked(as_given) != as_given
