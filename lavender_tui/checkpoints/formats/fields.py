"""What a format finds in a file, and how single values are taken out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lavender_tui.checkpoints.objects import Inert
from lavender_tui.checkpoints.scalars import flag, real, single, whole
from lavender_tui.checkpoints.words import attributes, words
from lavender_tui.model.topology import MOST_RANKS

MISSING: Any = object()
_LONGEST_STAGE = 60


@dataclass(slots=True, kw_only=True)
class Content:
    """One file's content, for the formats to look at."""

    value: Any
    name: str  # the file's name, without its directory
    container: str

    @property
    def top(self) -> dict[Any, Any]:
        """The top-level dict; empty where the file holds something else."""
        return self.value if type(self.value) is dict else {}


@dataclass(slots=True, kw_only=True)
class Fields:
    """The simple fields of a checkpoint, as far as a format knows them (meanings: model.checkpoint.Checkpoint)."""

    format: str
    stage: str | None = None
    save_count: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    epoch_complete: bool | None = None
    step: int | None = None
    loss: float | None = None
    loss_text: str | None = None
    loss_key: str | None = None
    lr: float | None = None
    remaining_hours: float | None = None
    world_size: int | None = None
    global_batch: int | None = None
    num_workers: int | None = None
    model: Any = None  # what holds the model's tensors
    has_optimizer: bool = False
    has_scheduler: bool = False
    has_rng: bool = False
    dataset: Any = MISSING  # rank state or states, inert
    data: Any = None
    versions: Any = None
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def look(value: Any, *path: Any) -> Any:
    """The value at `path` of keys, attributes of inert objects and list places; MISSING where there is none."""
    for step in path:
        if type(value) is dict:
            value = value.get(step, MISSING)
        elif type(value) is Inert:
            value = _inner(value).get(step, MISSING)
        elif type(value) in (list, tuple) and type(step) is int and -len(value) <= step < len(value):
            value = value[step]
        else:
            return MISSING
    return attributes(value).get("_val", value) if type(value) is Inert else value


def _inner(value: Inert) -> dict[Any, Any]:
    """An inert object's attributes; of omegaconf's containers, what they contain."""
    inside = attributes(value)
    content = inside.get("_content")
    return content if type(content) is dict else inside


def first(value: Any, *paths: tuple[Any, ...]) -> Any:
    """The first of several paths that leads to something; MISSING where none does."""
    for path in paths:
        found = look(value, *path)
        if found is not MISSING and found is not None:
            return found
    return MISSING


def take_whole(fields: Fields, name: str, value: Any) -> int | None:
    """A whole number, or None and a warning that names what stands there instead. MISSING says nothing."""
    if value is MISSING:
        return None
    number = whole(value)
    if number is None:
        fields.warn(f"{name} is {_odd(value)}, not a whole number")
    return number


def take_count(fields: Fields, name: str, value: Any, *, least: int) -> int | None:
    """How many ranks or workers there were; None and a warning where that can't be: nothing is started with it."""
    number = take_whole(fields, name, value)
    if number is None or least <= number <= MOST_RANKS:
        return number
    fields.warn(f"{name} is {number:,}, which can't be: it is from {least} to {MOST_RANKS:,}")
    return None


def take_real(fields: Fields, name: str, value: Any) -> float | None:
    """A finite number, or None and a warning. MISSING and None say nothing."""
    if value is MISSING or value is None:
        return None
    number = real(value)
    if number is None:
        fields.warn(f"{name} is {_odd(value)}, not a finite number")
    return number


def take_flag(fields: Fields, name: str, value: Any) -> bool | None:
    if value is MISSING or value is None:
        return None
    truth = flag(value)
    if truth is None:
        fields.warn(f"{name} is {_odd(value)}, neither true nor false")
    return truth


def take_loss(fields: Fields, key: str, value: Any) -> None:
    """Sets loss, or loss_text where it is no finite number."""
    fields.loss_key = words(key, 80)
    fields.loss = real(value)
    if fields.loss is None:
        shown = single(value)
        fields.loss_text = "none" if shown is None else words(shown, 40)


def short(text: str) -> str:
    """A stage, as it is, but no longer than a screen can show."""
    return text if len(text) <= _LONGEST_STAGE else text[: _LONGEST_STAGE - 1] + "…"


def learning_rate(optimizer: Any) -> float | None:
    """The first parameter group's lr."""
    found = look(optimizer, "param_groups", 0, "lr")
    return None if found is MISSING else real(found)


def take_optimizer(fields: Fields, optimizer: Any) -> None:
    """Sets has_optimizer and lr; a state of no parameter at all restores nothing."""
    fields.lr = learning_rate(optimizer)
    fields.has_optimizer = type(optimizer) is dict and bool(optimizer)
    if fields.has_optimizer and not any(optimizer.get(key, True) for key in ("state", "param_groups")):
        fields.has_optimizer = False
        fields.warn("its optimizer's state is empty: it is of no parameter")


def _odd(value: Any) -> str:
    shown = single(value)
    if type(shown) is str:
        return f"the text {words(shown, 40)!r}"
    return words(shown, 60)
