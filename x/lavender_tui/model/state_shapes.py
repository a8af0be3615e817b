"""One rank state as it was found, brought into one shape, or refused with the reason.

The shapes: lancedb 0.36 and 0.37 write one number for all splits (or that number repeated) and no positions; 0.38 and
later write a count and a position for each split in row mode, and blocks, counts and token buffers in packed mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lavender_tui.errors import BadState
from lavender_tui.model.text import clean

MAX_SPLITS = 1_000_000  # a forged num_splits must not make us allocate memory for it
MAX_COUNT = 2**63 - 1
SAMPLES = "samples_consumed_per_split"
POSITIONS = "positions_consumed_per_split"
BLOCKS = "blocks_emitted_per_split"
BUFFERS = "pack_buffers"
ROW_CONFIG = ("num_splits", "shuffle_seed", "epoch")
PACK_CONFIG = ("pack_sequences", "eos_id", "pad_id", "blocks_per_epoch")

_FOREIGN = {
    "sample_in_epoch": "MosaicML's StreamingDataset",
    "num_canonical_nodes": "MosaicML's StreamingDataset",
    "_snapshot": "torchdata's StatefulDataLoader",
    "_num_yielded": "torchdata's StatefulDataLoader",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """One rank's state, normalised: every count is a list of `num_splits` ints.

    `state` is what goes to `merge_state_dicts`; `origin` names where it came from, for messages
    ("pretrain-…-0060.pt dataset[3]" or "…-0060.rank3.pt"). `has_positions` is False where the state was written
    without positions (lancedb before 0.38) and they were filled in from the samples.
    """

    rank: int
    origin: str
    state: dict[str, Any]
    has_positions: bool = True

    @property
    def num_splits(self) -> int:
        return int(self.state["num_splits"])

    @property
    def samples(self) -> list[int]:
        """Samples consumed per split, length num_splits."""
        return list(self.state[SAMPLES])

    @property
    def positions(self) -> list[int]:
        """Positions consumed per split, length num_splits; above samples only where rows were skipped."""
        return list(self.state.get(POSITIONS, self.state[SAMPLES]))

    @property
    def work(self) -> list[int]:
        """What a training step takes from each split: samples in row mode, blocks in packed mode."""
        return list(self.state[BLOCKS] if self.mode == "packed" else self.state[SAMPLES])

    @property
    def mode(self) -> str:
        return "packed" if is_packed(self.state) else "row"


def owned_splits(rank: int, world_size: int, num_splits: int) -> range:
    """The splits that `rank` of `world_size` owns: [r*k, (r+1)*k), k = num_splits // world_size.

    Source of the rule: lancedb/streaming.py 0.40.0, lines 592-597.
    """
    each = num_splits // world_size
    return range(rank * each, (rank + 1) * each)


def normalise(obj: Any) -> dict[str, Any]:
    """The state with a full list for every count, as `merge_state_dicts` wants it; unknown extra keys are kept.

    Raises BadState with one reason for everything that is no rank state of lancedb. The input is never changed.
    """
    if not isinstance(obj, Mapping):
        raise BadState(f"{_kind(obj)} is no rank state")
    if not obj:
        raise BadState("an empty dict is no rank state")
    _refuse_foreign(obj)
    state = dict(obj)
    splits = _whole(obj, "num_splits", least=1, most=MAX_SPLITS)
    _whole(obj, "shuffle_seed", least=0)
    _whole(obj, "epoch", least=0)
    state[SAMPLES] = _counts(obj, SAMPLES, splits)
    if is_packed(obj):
        _normalise_packed(obj, state, splits)
        return state
    state[POSITIONS] = _counts(obj, POSITIONS, splits) if obj.get(POSITIONS) is not None else list(state[SAMPLES])
    _refuse_lagging(state[SAMPLES], state[POSITIONS])
    return state


def is_packed(state: Mapping[str, Any]) -> bool:
    """Packed mode, by any of its keys: a packed state that lost its buffers is still no row state."""
    return any(key in state for key in (BUFFERS, BLOCKS, "pack_sequences"))


def has_positions(obj: Any) -> bool:
    """False for row states of lancedb before 0.38: rows skipped after a failed transform are not in them."""
    return isinstance(obj, Mapping) and (obj.get(POSITIONS) is not None or is_packed(obj))


def _refuse_foreign(obj: Mapping[Any, Any]) -> None:
    for key, library in _FOREIGN.items():
        if key in obj:
            raise BadState(f"this looks like a state of {library} (it has {key!r}), not of lancedb")
    for key in (*ROW_CONFIG, SAMPLES):
        if key not in obj:
            found = ", ".join(clean(name, 30) for name in list(obj)[:6])
            raise BadState(f"{key} is missing; the keys are {found}")


def _normalise_packed(obj: Mapping[str, Any], state: dict[str, Any], splits: int) -> None:
    for key in (*PACK_CONFIG, BLOCKS, BUFFERS):
        if key not in obj:
            raise BadState(f"{key} is missing from a packed state")
    _whole(obj, "pack_sequences", least=1)
    _whole(obj, "eos_id", least=-MAX_COUNT)
    _whole(obj, "pad_id", least=-MAX_COUNT)
    _whole(obj, "blocks_per_epoch", least=1)
    state[BLOCKS] = _counts(obj, BLOCKS, splits)
    state[BUFFERS] = _buffers(obj[BUFFERS], splits)


def _buffers(obj: Any, splits: int) -> dict[int, dict[str, list[int]]]:
    """Keys become ints again: JSON turned them into text."""
    if not isinstance(obj, Mapping):
        raise BadState(f"{BUFFERS} is {_kind(obj)}, not a dict of buffers")
    buffers: dict[int, dict[str, list[int]]] = {}
    for key, buffer in obj.items():
        split = _split_number(key, splits)
        if split in buffers:
            raise BadState(f"{BUFFERS} has split {split} twice")
        if not isinstance(buffer, Mapping) or not {"tokens", "starts"} <= set(buffer):
            raise BadState(f"{BUFFERS}[{split}] is not a dict of tokens and starts")
        where = f"{BUFFERS}[{split}]"
        buffers[split] = {
            **buffer,
            "tokens": _ints(buffer["tokens"], f"{where}.tokens", least=-MAX_COUNT),
            "starts": _ints(buffer["starts"], f"{where}.starts"),
        }
    return buffers


def _split_number(key: Any, splits: int) -> int:
    is_text = isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 19
    if not is_text and type(key) is not int:
        raise BadState(f"{BUFFERS} has the key {clean(repr(key), 40)}, which is no split")
    split = int(key)
    if not 0 <= split < splits:
        raise BadState(f"{BUFFERS} has split {split}; there are only {splits}")
    return split


def _counts(obj: Mapping[str, Any], key: str, splits: int) -> list[int]:
    value = obj[key]
    if type(value) is int:  # the first releases: one number, true of every split
        return [_within(value, key, 0, MAX_COUNT)] * splits
    counts = _ints(value, key)
    if len(counts) != splits:
        raise BadState(f"{key} has {len(counts)} entries, but num_splits is {splits}")
    return counts


def _ints(value: Any, key: str, least: int = 0) -> list[int]:
    if not isinstance(value, list | tuple):
        raise BadState(f"{key} is {_kind(value)}, not a list of whole numbers")
    if any(type(entry) is not int for entry in value):
        index, entry = next((i, e) for i, e in enumerate(value) if type(e) is not int)
        raise BadState(f"{key}[{index}] is {_kind(entry)}, not a whole number")
    if value and (min(value) < least or max(value) > MAX_COUNT):
        index, entry = next((i, e) for i, e in enumerate(value) if not least <= e <= MAX_COUNT)
        raise BadState(f"{key}[{index}] is {_number(entry)}, which no count can be")
    return list(value)


def _whole(obj: Mapping[str, Any], key: str, *, least: int, most: int = MAX_COUNT) -> int:
    value = obj[key]
    if type(value) is not int:
        raise BadState(f"{key} is {_kind(value)}, not a whole number")
    return _within(value, key, least, most)


def _within(value: int, key: str, least: int, most: int) -> int:
    if not least <= value <= most:
        raise BadState(f"{key} is {_number(value)}; it must be from {least} to {most}")
    return value


def _refuse_lagging(samples: list[int], positions: list[int]) -> None:
    for split, (sample, position) in enumerate(zip(samples, positions, strict=True)):
        if position < sample:
            raise BadState(f"split {split} is at position {position}, behind its {sample} samples")


def _kind(value: Any) -> str:
    """A value as a message names it: its type, and the value itself where that is short."""
    if value is None:
        return "None"
    name = clean(type(value).__name__, 40)
    if type(value) is int:
        return _number(value)
    if isinstance(value, bool | float | str):
        return f"{clean(repr(value), 40)} ({name})"
    return f"a {name}"


def _number(value: int) -> str:
    """Python refuses to print an int of more than 4,300 digits."""
    return str(value) if value.bit_length() <= 64 else f"a number of {value.bit_length()} bits"
