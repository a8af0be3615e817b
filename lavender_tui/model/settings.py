"""What a training was configured with, flat and as text: from its newest checkpoint and its command line. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lavender_tui.model import text
from lavender_tui.model.run import Run
from lavender_tui.model.secrets import HIDDEN, looks_secret, masked

# Where trainers keep their settings in a checkpoint: our own first, then Lightning, timm, nanoGPT and the like.
HOLDERS = ("model_cfg", "config", "cfg", "args", "hparams", "hyper_parameters", "model_args", "train_args")
MOST = 2_000  # settings of one run; a checkpoint may hold anything
_LONGEST = 200


def settings_of(run: Run) -> dict[str, str]:
    """Dotted name → value as text, in the order of the checkpoint, then of the command line.

    Names are without their holder (`model_cfg.d_model` is `d_model`) unless two holders have the same name; options of
    the command line keep their dashes (`--lr`). What looks like a secret has the value `***`.
    """
    found: dict[str, str] = {}
    tree = run.newest.keys if run.newest is not None else {}
    for holder in HOLDERS:
        inside = tree.get(holder)
        if isinstance(inside, Mapping):
            for name, value in _flat(inside):
                found.setdefault(name if name not in found else f"{holder}.{name}", value)
                if len(found) >= MOST:
                    return found
    for name, value in options_of(masked(run.launched_command)):
        found.setdefault(name, value)
    return found


def _flat(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            shown = text.value(value)[:_LONGEST]
            yield name, HIDDEN if looks_secret(name, shown) else shown


def options_of(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(`--name`, value) of each long option; a flag without a value has the value "true"."""
    words = list(command)
    for at, word in enumerate(words):
        if not word.startswith("--") or len(word) < 3:
            continue
        name, equals, value = word.partition("=")
        if equals:
            yield name, value[:_LONGEST]
        elif at + 1 < len(words) and not words[at + 1].startswith("--"):
            yield name, words[at + 1][:_LONGEST]
        else:
            yield name, "true"
