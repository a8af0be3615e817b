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
    "apikey", "pat", "auth", "authorization", "oauth", "bearer", "jwt", "cookie", "cookies", "passcode", "cred",
    "creds", "userpass", "userpwd", "authtoken", "accesstoken", "accesskey", "secretkey", "privatekey",
))  # fmt: skip
# What stands before `token` or `key` where it means a word of the vocabulary, or a column.
_HARMLESS = frozenset((
    "pad", "padding", "eos", "bos", "unk", "mask", "sep", "cls", "special", "per", "sort", "order", "group", "index",
    "text", "label", "image", "audio", "video", "input", "output", "target", "prompt", "response", "chosen", "rejected",
    "data", "dataset", "batch", "loss", "metric", "column", "primary", "foreign", "partition", "cache", "public",
))  # fmt: skip
_RUN_TOGETHER = re.compile(".*(password|passwd|passphrase|apikey|credentials)")  # DBPASSWORD
_DIRECTORIES = ("PWD", "OLDPWD")
_OURS = ("LAVENDER_RUN_ID", "LAVENDER_RUN_DIR", "LAVENDER_RESUME_PLAN")  # a run may be called `lr=1,key=2`
# A value that is no secret whatever its name: `auth=debug` of a log filter, `"token": null`.
_NO_SECRETS = frozenset((
    "true", "false", "none", "null", "yes", "no", "on", "off", "trace", "debug", "info", "warn", "error",
))  # fmt: skip
_BY_SIGHT = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{35}|nvapi-[\w-]{20,}|wandb_v1_\w{20,}"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){2,4}|(?i:bearer)\s+[\w.~+/=-]{6,}|(?i:basic)\s+(?=\S*[0-9=])[A-Za-z0-9+/]{12,}=*)"
    r"|-----BEGIN [^-]+-----[\s\S]*?(?:-----END [^-]+-----|\Z)"
)
_CREDENTIALS_IN_URL = re.compile(r"(?<=://)[^\s/@?#]+(?=@)")
_SIGNED_QUERY = re.compile(
    r"([?&](?:[\w.-]*[-_])?(?:sig|signature|session|sessionid|sid|ticket|pw)=)[^\s&#'\"*]+", re.I
)
_ASSIGNED = re.compile(r"(?<![A-Za-z_])(?P<name>[A-Za-z_][\w.\-/]*)(?:[\"']?(?:=|:\s*)|\s+=\s+)")
_VALUE = re.compile(r"(?:Bearer |Basic )?(?:'[^']*'|\"[^\"]*\"|[^\s;&|'\"]+)")
_OPTION_INSIDE = re.compile(r"(?<!\S)(?P<name>--?[A-Za-z][\w-]*)(?P<between>\s+)(?P<value>[^\s;&|'\"-][^\s;&|]*)")


def is_secret_name(name: str) -> bool:
    """Does a variable or option of that name carry a secret? `WANDB_API_KEY`, `--hf-token`, `trainer.apiKey`."""
    if name in _DIRECTORIES:
        return False
    parts = [_RUN_TOGETHER.sub(r"\1", part.lower()) for part in _PARTS.findall(name)]
    if not any(part in _SECRET for part in parts):
        return False
    last = parts[-1]
    if last not in ("token", "key", "pass"):
        # `key` in the middle names something about keys (num_key_value_heads); a secret's file or id is one, too.
        return any(part in _SECRET - {"key", "token", "pass", "pat"} for part in parts) or last in _SECRET
    return not (len(parts) > 1 and parts[-2] in _HARMLESS)


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
    text = _masked_assignments(text)
    text = _SIGNED_QUERY.sub(rf"\1{HIDDEN}", text)
    if any(char.isspace() for char in text):
        text = _OPTION_INSIDE.sub(_masked_option, text)
    return _BY_SIGHT.sub(HIDDEN, text)


def _masked_assignments(text: str) -> str:
    """A value may hold assignments itself, `--env=WANDB_API_KEY=…`: what isn't hidden is looked through further."""
    kept: list[str] = []
    start = place = 0
    while match := _ASSIGNED.search(text, place):
        place = match.end()
        value = _VALUE.match(text, place) if is_secret_name(match["name"]) else None
        if value is not None and _is_to_hide(value[0]):
            kept += (text[start:place], HIDDEN)
            start = place = value.end()
    return "".join((*kept, text[start:]))


def _masked_option(match: re.Match[str]) -> str:
    is_secret = is_secret_name(match["name"].lstrip("-")) and _is_to_hide(match["value"])
    return f"{match['name']}{match['between']}{HIDDEN}" if is_secret else match[0]


def _is_to_hide(value: str) -> bool:
    return not value.startswith(HIDDEN) and value.strip("'\",}])").lower() not in _NO_SECRETS


def holds_secrets(words: Iterable[str]) -> bool:
    """Is there anything in these words that is not to be shown?"""
    as_given = tuple(words)
    return masked(as_given) != as_given
