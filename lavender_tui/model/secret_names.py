"""Which names carry a secret: those of variables, options, settings and headers.

Names of the trade that only sound alike (`--pad-token`, `--max-tokens`, `--tokenizer`, `--label-key`) do not.
"""

from __future__ import annotations

import re

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
_ALSO_WITHIN = _SECRET - {"key", "token", "pass", "pat"}
_RUN_TOGETHER = ("password", "passwd", "passphrase", "apikey", "credentials")  # DBPASSWORD
_DIRECTORIES = ("PWD", "OLDPWD")


def is_secret_name(name: str) -> bool:
    """Does a variable or option of that name carry a secret? `WANDB_API_KEY`, `--hf-token`, `trainer.apiKey`."""
    if name in _DIRECTORIES:
        return False
    parts = [_word_of(part.lower()) for part in _PARTS.findall(name)]
    if not any(part in _SECRET for part in parts):
        return False
    last = parts[-1]
    if last not in ("token", "key", "pass"):
        # `key` in the middle names something about keys (num_key_value_heads); a secret's file or id is one, too.
        return any(part in _ALSO_WITHIN for part in parts) or last in _SECRET
    return not (len(parts) > 1 and parts[-2] in _HARMLESS)


def _word_of(part: str) -> str:
    """What a part written together ends with: `dbpassword` is a password."""
    return next((ending for ending in _RUN_TOGETHER if part.endswith(ending)), part)
