"""How many epochs a command asks for: `--epochs 12`, `--max-epochs=12`, `trainer.max_epochs=12`."""

from __future__ import annotations

_NAMES = ("epochs", "num_epochs", "max_epochs", "n_epochs", "num_train_epochs", "total_epochs")
# Before a dot: the training itself. Others have epochs of their own: `warmup.epochs`, `swa.epochs`.
_TRAINING = ("trainer", "training", "train")


def epochs_in(words: tuple[str, ...]) -> int | None:
    """None where nothing says it. Of several the last counts, as argparse and Hydra have it; a plain name before one
    with the training's prefix."""
    found: dict[bool, str] = {}
    for at, word in enumerate(words):
        name, is_given, value = word.partition("=")
        prefix, dot, last = name.lstrip("-+").replace("-", "_").rpartition(".")
        if last not in _NAMES or (dot and prefix not in _TRAINING):
            continue
        if not is_given:
            if not name.startswith("-"):
                continue
            value = words[at + 1] if at + 1 < len(words) else ""
        found[not dot] = value
    value = found.get(True, found.get(False, ""))
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
