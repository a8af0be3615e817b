"""One tensor of a torch file is some thirty opcodes that hardly ever differ: they are read at a stroke.

torch writes for each tensor (protocol 2, once the memo holds 256 entries)

    h‥  (( h‥ h‥ X key r‥‥‥‥ h‥ numel t r‥‥‥‥ Q  offset shape r‥‥‥‥ stride r‥‥‥‥ flag h‥ ) R r‥‥‥‥ t r‥‥‥‥ R r‥‥‥‥
    ^ _rebuild_tensor_v2  ^ 'storage', storage class      ^ location                          ^ OrderedDict

The pattern below is made of whole opcodes, so what it matches is what the machine would have run; `make` does the same
to the memo, to the tensors and to the storages, and returns None (the machine then goes step by step) wherever
anything is not exactly as expected.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lavender_tui.checkpoints.objects import STORAGE_DTYPE, Global, Storage, Tensor
from lavender_tui.checkpoints.rebuild import ORDERED_DICT

if TYPE_CHECKING:
    from lavender_tui.checkpoints.inert import Machine

OPS_PER_TENSOR = 8  # what one such tensor counts against Limits.max_ops, besides its own step

_GET = rb"(?:h.|j.{4})"
_PUT = rb"r.{4}"
_INT = rb"(?:K.|M..|J...[\0-\x7f])"  # never negative
_SIZES = rb"(\)|" + _INT + rb"\x85|" + _INT + rb"{2}\x86|" + _INT + rb"{3}\x87|\(" + _INT + rb"{4,8}t)"
_MAYBE_PUT = rb"(" + _PUT + rb"|)"  # the empty tuple is never put into the memo
_ONE_TENSOR = re.compile(
    rb"\(\((" + _GET + _GET + rb")X(.)\0\0\0([0-9]{1,9})(" + _PUT + rb")(" + _GET + rb")(" + _INT + rb")t(" + _PUT
    + rb")QK\0" + _SIZES + _MAYBE_PUT + _SIZES + _MAYBE_PUT
    + rb"([\x88\x89]" + _GET + rb")\)R(" + _PUT + rb"t" + _PUT + rb"R" + _PUT + rb")",
    re.DOTALL,
)  # fmt: skip
_EACH_INT = re.compile(_INT, re.DOTALL)


def _steps(puts: bytes) -> tuple[int, int]:
    """(a, b): `puts`, read as one little-endian number, is a·n + b where its PUTs name n, n+1, n+2, …"""
    factor = constant = count = at = 0
    while at < len(puts):
        constant |= puts[at] << 8 * at
        if puts[at] == 0x72:
            factor |= 1 << 8 * (at + 1)
            constant += count << 8 * (at + 1)
            count, at = count + 1, at + 4
        at += 1
    return factor, constant


_PUT_BYTES = b"r\0\0\0\0"
_TAIL_BYTES = _PUT_BYTES + b"t" + _PUT_BYTES + b"R" + _PUT_BYTES
_A7, _B7 = _steps(4 * _PUT_BYTES + _TAIL_BYTES)
_A5, _B5 = _steps(2 * _PUT_BYTES + _TAIL_BYTES)


def _ints(opcodes: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(one[1:], "little") for one in _EACH_INT.findall(opcodes))


class TensorRuns:
    """Reads whole tensors for one pickle of a machine. Caches are by opcode bytes, valid until the memo changes."""

    match = staticmethod(_ONE_TENSOR.match)

    def __init__(self, machine: Machine) -> None:
        self.made = 0
        self._machine = machine
        self._sizes: dict[bytes, tuple[int, ...]] = {b")": ()}
        self._numbers: dict[bytes, int] = {}
        self.forget()

    def forget(self) -> None:
        """A memo entry was overwritten: what GETs stood for may have changed."""
        self._heads: dict[bytes, tuple[str, Global]] = {}
        self._locations: dict[bytes, Any] = {}
        self._flags: dict[bytes, bool] = {}

    def make(self, found: re.Match[bytes]) -> Tensor | None:
        """The tensor that `found` describes, put into the memo as the pickle says; None where it is unusual."""
        head, length, key, put1, location, numel, put2, shape, put3, stride, put4, flag, tail = found.groups()
        if length[0] != len(key):
            return None
        try:
            dtype, kind = self._heads.get(head) or self._learn_head(head)
            place = self._locations[location] if location in self._locations else self._learn_location(location)
            gradient = self._flags[flag] if flag in self._flags else self._learn_flag(flag)
        except (IndexError, LookupError, TypeError):
            return None
        dims, steps = self._sizes.get(shape), self._sizes.get(stride)
        if dims is None:
            dims = self._sizes[shape] = _ints(shape.removeprefix(b"("))
        if steps is None:
            steps = self._sizes[stride] = _ints(stride.removeprefix(b"("))
        count, name = int.from_bytes(numel[1:], "little"), key.decode("ascii")
        storage = Storage(dtype, name, place, count)
        tensor = Tensor(dtype, dims, storage, 0, steps)
        hooks: dict[Any, Any] = {}
        pid, args = ("storage", kind, name, place, count), (storage, 0, dims, steps, gradient, hooks)
        memo, first = self._machine.memo, len(self._machine.memo)
        puts = int.from_bytes(put1 + put2 + put3 + put4 + tail, "little")
        if put3 and put4 and dims and steps and puts == first * _A7 + _B7:
            memo += (name, pid, dims, steps, hooks, args, tensor)
        elif not (put3 or put4 or dims or steps) and puts == first * _A5 + _B5:
            memo += (name, pid, hooks, args, tensor)
        else:
            return None
        self._machine.tensors.append(tensor)
        self._machine.storages.append(storage)
        self.made += 1
        return tensor

    def _got(self, opcodes: bytes) -> Any:
        return self._machine.get(int.from_bytes(opcodes[1:], "little"))

    def _learn_head(self, head: bytes) -> tuple[str, Global]:
        """Two GETs: the word 'storage' and the storage class."""
        split = 2 if head[:1] == b"h" else 5
        word, kind = self._got(head[:split]), self._got(head[split:])
        if word != "storage" or type(kind) is not Global:
            raise LookupError
        learned = self._heads[head] = (STORAGE_DTYPE[kind.name], kind)
        return learned

    def _learn_location(self, location: bytes) -> Any:
        place = self._got(location)
        if type(place) is not str:
            raise LookupError
        self._locations[location] = place
        return place

    def _learn_flag(self, flag: bytes) -> bool:
        """NEWTRUE or NEWFALSE (requires_grad), then GET of OrderedDict (no hooks)."""
        if self._got(flag[1:]) is not ORDERED_DICT:
            raise LookupError
        learned = self._flags[flag] = flag[:1] == b"\x88"
        return learned
