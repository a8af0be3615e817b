"""`lavender-tui inspect CHECKPOINT`: what it holds, read without executing a byte of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from lavender_tui.commands.printing import put_json
from lavender_tui.errors import NotFound
from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.export import checkpoint_document, resume_document, unusable_reason


def run(checkpoint: str, *, as_json: bool = False) -> int:
    from lavender_tui.checkpoints import read_checkpoint

    path = os.path.abspath(os.path.expanduser(checkpoint))
    if not os.path.lexists(path):
        raise NotFound("there is no such checkpoint", where=checkpoint)
    found = read_checkpoint(path)
    if as_json:
        put_json(checkpoint_document(found, with_keys=True))
    else:
        for name, value in facts(found):
            print(f"{name:<14}{value}")
        print()
        for line in tree(found.keys):
            print(line)
    return 0 if found.is_usable else 1


def facts(found: Checkpoint) -> Iterator[tuple[str, str]]:
    """Name and value of what is worth a line."""
    ranks = found.rank_states
    yield "checkpoint", text.clean(found.path)
    yield "format", found.format
    yield "usable", "yes" if found.is_usable else f"no: {text.clean(unusable_reason(found))}"
    yield "stage", text.clean(found.stage) if found.stage else text.NONE
    if found.name_disagrees:
        yield "", f"but its name says {text.clean(found.name_stage)}"
    complete = {True: ", complete", False: ", not complete", None: ""}[found.epoch_complete]
    yield "epoch", text.of(found.epoch, found.epochs) + complete
    yield "save_count", text.save_count(found.save_count)
    yield "step", text.count(found.step)
    yield "loss", text.loss(found.loss, found.loss_text)
    yield "lr", text.NONE if found.lr is None else f"{found.lr:g}"
    yield "world_size", text.count(found.world_size)
    yield "tensors", f"{found.tensors:,} ({found.parameters:,} model elements)"
    yield "size", text.size(found.facts.size_bytes)
    if ranks.found:
        whole = "complete" if ranks.complete else "NOT complete"
        yield "rank states", f"{ranks.found} of {ranks.expected or '?'}, {whole}"
    start = resume_document(found)
    if start:
        yield "resume", f"{start['policy']} at epoch {start['epoch']}: {start['why']}"
    if found.refused_globals:
        yield "needs", ", ".join(text.clean(name) for name in found.refused_globals) + " (not imported)"
    for warning in (*found.warnings, *ranks.problems):
        yield "warning", text.clean(warning)


def tree(keys: dict[str, Any], depth: int = 0) -> Iterator[str]:
    for key, value in keys.items():
        indent = "  " * depth
        if isinstance(value, dict):
            yield f"{indent}{text.clean(key)}"
            yield from tree(value, depth + 1)
        else:
            yield f"{indent}{text.clean(key)}  {text.clean(value)}"
