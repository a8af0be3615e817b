"""One tensor of a torch file is some thirty opcodes that hardly ever differ: they are read at a stroke.

torch writes for each tensor (protocol 2; `put` is q‥ for the first 256 entries of the memo, then r‥‥‥‥)

    h‥ (( h‥ h‥ X key put h‥ numel t put Q  offset shape put stride put flag h‥ ) R put t put R put
    ^ _rebuild_tensor_v2  ^ location                                         ^ OrderedDict
          ^ 'storage', storage class

The pattern below is made of whole opcodes, so what it matches is what the machine would have run; `make` does the same
to the memo and the tensors, and returns None (the machine then goes step by step) wherever anything is not exactly as
expected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lavender_tui.checkpoints.objects import STORAGE_DTYPE, Global, Storage, Tensor
from lavender_tui.checkpoints.rebuild import ORDERED_DICT

if TYPE_CHECKING:
    from lavender_tui.checkpoints.inert import Machine

OPS_PER_TENSOR = 8  # what one such tensor counts against Limits.max_ops, besides its own step

_GET = rb"(?:h.|j....)"
_PUT = rb"(?:q.|r....)"
_INT = rb"(?:K.|M..|J...[\0-\x7f])"  # never negative
_SIZES = rb"(\)|" + _INT + rb"\x85|" + _INT + rb"{2}\x86|" + _INT + rb"{3}\x87|\(" + _INT + rb"{4,8}t)"
_MAYBE_PUT = rb"(" + _PUT + rb"|)"  # the empty tuple is never put into the memo
_ONE_TENSOR = re.compile(
    rb"(\(\(" + _GET + _GET + rb"X.\0\0\0)([0-9]{1,9})(" + _PUT + rb")(" + _GET + _INT + rb")t(" + _PUT
    + rb")QK\0" + _SIZES + _MAYBE_PUT + _SIZES + _MAYBE_PUT
    + rb"([\x88\x89]" + _GET + rb")\)R(" + _PUT + rb"t" + _PUT + rb"R" + _PUT + rb")",
    re.DOTALL,
)  # fmt: skip
_EACH_INT = re.compile(_INT, re.DOTALL)


def _steps(put: bytes, count: int) -> tuple[int, tuple[int, int]]:
    """(length, (a, b)) of `count` PUTs in a row, the last three with TUPLE and REDUCE between them.

    Read as one little-endian number they are a·n + b where they name n, n+1, n+2, … One multiplication checks all.
    """
    puts = put * (count - 2) + b"t" + put + b"R" + put
    factor, constant, named = 0, int.from_bytes(puts, "little"), 0
    for at, code in enumerate(puts):
        if code == put[0]:
            factor |= 1 << 8 * (at + 1)
            constant += named << 8 * (at + 1)
            named += 1
    return len(puts), (factor, constant)


# By the length of all PUTs of a tensor: seven, or five where shape and stride are empty; of four bytes, or of one.
_STEPS = dict(_steps(put, count) for put in (b"r\0\0\0\0", b"q\0") for count in (7, 5))


def _ints(opcodes: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(one[1:], "little") for one in _EACH_INT.findall(opcodes))


def _gets(opcodes: bytes) -> list[int]:
    """The memo indices of the GETs that `opcodes` begins with."""
    indices, at = [], 0
    while opcodes[at : at + 1] in (b"h", b"j"):
        width = 1 if opcodes[at : at + 1] == b"h" else 4
        indices.append(int.from_bytes(opcodes[at + 1 : at + 1 + width], "little"))
        at += 1 + width
    return indices


class TensorRuns:
    """Reads whole tensors for one pickle of a machine. Caches are by opcode bytes, valid until the memo changes."""

    match = staticmethod(_ONE_TENSOR.match)

    def __init__(self, machine: Machine) -> None:
        self.made = 0
        self._machine = machine
        self._sizes: dict[bytes, tuple[int, ...]] = {b")": ()}
        self._heads: dict[bytes, tuple[str, Global, int]] = {}
        self._places: dict[bytes, tuple[str, int]] = {}
        self._flags: dict[bytes, bool] = {}

    def forget(self) -> None:
        """A memo entry was overwritten: what GETs stood for may have changed."""
        self._heads.clear()
        self._places.clear()
        self._flags.clear()

    def make(self, found: re.Match[bytes]) -> Tensor | None:
        """The tensor that `found` describes, put into the memo as the pickle says; None where it is unusual."""
        head, key, put1, place, put2, shape, put3, stride, put4, flag, tail = found.groups()
        try:
            dtype, kind, length = self._heads[head]
            location, count = self._places[place]
            dims, steps, gradient = self._sizes[shape], self._sizes[stride], self._flags[flag]
        except KeyError:
            return self.make(found) if self._learn(head, place, shape, stride, flag) else None
        if length != len(key):
            return None
        name, hooks = key.decode("ascii"), {}  # type: ignore[var-annotated]
        storage = Storage(dtype, name, location, count)
        tensor = Tensor(dtype, dims, storage, 0, steps)
        pid, args = ("storage", kind, name, location, count), (storage, 0, dims, steps, gradient, hooks)
        machine = self._machine
        memo = machine.memo
        puts = put1 + put2 + put3 + put4 + tail
        factor, constant = _STEPS.get(len(puts), (0, 0))
        if int.from_bytes(puts, "little") != len(memo) * factor + constant:
            return None
        memo += (name, pid, dims, steps, hooks, args, tensor) if put3 else (name, pid, hooks, args, tensor)
        machine.tensors.append(tensor)
        self.made += 1
        return tensor

    # ---- what the opcodes of one part stand for, learned once

    def _learn(self, head: bytes, place: bytes, shape: bytes, stride: bytes, flag: bytes) -> bool:
        """False where a GET stands for something that torch would not have written there."""
        for sizes in (shape, stride):
            if sizes not in self._sizes:
                self._sizes[sizes] = _ints(sizes.removeprefix(b"("))
        gets, gradient = _gets(head[2:-5]), flag[:1] == b"\x88"
        word, kind, location, hooks = map(self._machine.get, (*gets, *_gets(place)[:1], *_gets(flag[1:])))
        if word != "storage" or type(kind) is not Global or kind.name not in STORAGE_DTYPE:
            return False
        if type(location) is not str or hooks is not ORDERED_DICT:
            return False
        self._heads[head] = (STORAGE_DTYPE[kind.name], kind, head[-4])
        self._places[place] = (location, _ints(place[2 if place[:1] == b"h" else 5 :])[0])
        self._flags[flag] = gradient
        return True
