"""A pickle machine that imports nothing, calls nothing and hashes nothing foreign, within `Limits`.

It knows every opcode of protocols 0 to 5. Where a pickle asks for a global, a call or an object, it leaves an inert
one (objects.py); where torch writes the call for a tensor, our own function reads the arguments (rebuild.py).
Three rooms share the work: `Machine.run` holds the opcodes that fill real files, opcodes.py a small function for each
of the others, and tensor_runs.py reads the 30 opcodes that torch writes for one tensor at a stroke.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

from lavender_tui.checkpoints.limits import CutShort, Damaged, Limits, OverLimit
from lavender_tui.checkpoints.objects import Global, Inert, Key, Tensor
from lavender_tui.checkpoints.opcodes import LONGEST_LINE, RARE
from lavender_tui.checkpoints.rebuild import TENSOR_V2, inner_tensors, new_global
from lavender_tui.checkpoints.tensor_runs import OPS_PER_TENSOR, TensorRuns

_OPS_BETWEEN_LOOKS = 8192  # some 3 ms of work between two looks at the limits
_LARGEST_KEY = 1 << 31

_U2 = struct.Struct("<H").unpack_from
_I4 = struct.Struct("<i").unpack_from
_U4 = struct.Struct("<I").unpack_from
_F8 = struct.Struct(">d").unpack_from


def safe_key(key: Any) -> Any:
    """The key itself where hashing it is harmless, else a `Key` around it."""
    kind = type(key)
    if kind is str or kind is bool or key is None:
        return key
    if kind is int and -_LARGEST_KEY <= key < _LARGEST_KEY:
        return key
    return Key(key)


class Machine:
    """Runs pickles one after another; `tensors` and `globals` collect over all of them."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.tensors: list[Tensor] = []
        self.globals: dict[tuple[str, str], Global] = {}
        self.storages: list[Any] = []
        self._wide_bytes = 0
        self._ops = 0

    def run(self, data: bytes, start: int = 0) -> tuple[Any, int]:
        """Read one pickle from `data[start:]`: its value, and the position after STOP.

        Raises CutShort where `data` ends before STOP, Damaged for bytes that are no pickle, OverLimit past a limit.
        """
        self._begin(data, start)
        try:
            return self._run()
        except struct.error:
            raise CutShort("its data ends in the middle of a value") from None
        except IndexError:
            if self.pos >= len(data):
                raise CutShort("its data ends before the pickle does") from None
            raise Damaged(f"its pickle makes no sense near byte {self.pos}") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise Damaged(f"its pickle makes no sense near byte {self.pos} ({type(error).__name__})") from None

    def _begin(self, data: bytes, start: int) -> None:
        self.data, self.pos = data, start
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.far_memo: dict[int, Any] = {}
        self._runs = TensorRuns(self)
        self._deadline = time.monotonic() + self.limits.deadline_seconds

    # One long function on purpose: a call for each opcode would double the time, and these branches are ordered by
    # how often torch writes them. `self.pos` is kept up for the rare opcodes and for error messages.
    def _run(self) -> tuple[Any, int]:
        data, stack, memo, marks, rare = self.data, self.stack, self.memo, self.marks, RARE
        push, pop, remember = stack.append, stack.pop, memo.append
        match_tensor, make_tensor = self._runs.match, self._runs.make
        since_mark, size, pos = self.since_mark, len(data), self.pos
        try:
            while True:
                for _ in repeat(None, _OPS_BETWEEN_LOOKS):
                    code = data[pos]
                    pos += 1
                    if code == 0x72:  # LONG_BINPUT
                        index = _U4(data, pos)[0]
                        pos += 4
                        if index == len(memo):
                            remember(stack[-1])
                        else:
                            self.put(index, stack[-1])
                    elif code == 0x68 or code == 0x6A:  # BINGET, LONG_BINGET
                        if code == 0x68:
                            index = data[pos]
                            pos += 1
                        else:
                            index = _U4(data, pos)[0]
                            pos += 4
                        try:
                            value = memo[index]
                        except IndexError:
                            value = self.get(index)
                        if value is TENSOR_V2 and (found := match_tensor(data, pos)):
                            tensor = make_tensor(found)
                            if tensor is not None:
                                push(tensor)
                                pos = found.end()
                                continue
                        push(value)
                    elif code == 0x58:  # BINUNICODE
                        length = _U4(data, pos)[0]
                        pos += 4
                        end = pos + length
                        if end > size or length > 4096:
                            self.check_blob(pos, length)
                        push(str(data[pos:end], "utf-8", "surrogatepass"))
                        pos = end
                    elif code == 0x4B:  # BININT1
                        push(data[pos])
                        pos += 1
                    elif code == 0x71:  # BINPUT
                        index = data[pos]
                        pos += 1
                        if index == len(memo):
                            remember(stack[-1])
                        else:
                            self.put(index, stack[-1])
                    elif code == 0x28:  # MARK
                        marks.append(len(stack))
                    elif code == 0x7D:  # EMPTY_DICT
                        push({})
                    elif code == 0x75:  # SETITEMS
                        flat = since_mark()
                        target = stack[-1]
                        if type(target) is dict:
                            for index in range(0, len(flat), 2):
                                value = flat[index]
                                target[value if type(value) is str else safe_key(value)] = flat[index + 1]
                        else:
                            self.set_items(target, flat)
                    elif code == 0x4D:  # BININT2
                        push(_U2(data, pos)[0])
                        pos += 2
                    elif code == 0x8C:  # SHORT_BINUNICODE
                        end = pos + 1 + data[pos]
                        if end > size:
                            raise CutShort("its data ends in the middle of a text")
                        push(str(data[pos + 1 : end], "utf-8", "surrogatepass"))
                        pos = end
                    elif code == 0x94:  # MEMOIZE
                        self.put(len(memo) + len(self.far_memo), stack[-1]) if self.far_memo else remember(stack[-1])
                    elif code == 0x4A:  # BININT
                        push(_I4(data, pos)[0])
                        pos += 4
                    elif code == 0x85:  # TUPLE1
                        stack[-1] = (stack[-1],)
                    elif code == 0x86:  # TUPLE2
                        value = pop()
                        stack[-1] = (stack[-1], value)
                    elif code == 0x47:  # BINFLOAT
                        push(_F8(data, pos)[0])
                        pos += 8
                    elif code == 0x2E:  # STOP
                        self.pos = pos
                        return pop(), pos
                    else:
                        self.pos = pos
                        rare[code](self)
                        pos = self.pos
                self.check_limits(_OPS_BETWEEN_LOOKS)
        finally:
            self.pos = max(pos, self.pos)

    # ---- limits

    def check_limits(self, more_ops: int) -> None:
        """Called every few thousand opcodes. Raises OverLimit."""
        limits = self.limits
        self._ops += more_ops
        if self._ops + OPS_PER_TENSOR * self._runs.made > limits.max_ops:
            raise OverLimit(f"its pickle has more than {limits.max_ops:,} steps")
        if len(self.marks) > limits.max_marks:
            raise OverLimit(f"its pickle opens more than {limits.max_marks:,} groups within each other")
        if len(self.tensors) > limits.max_tensors:
            raise OverLimit(f"it holds more than {limits.max_tensors:,} tensors")
        if time.monotonic() > self._deadline:
            raise OverLimit(f"its pickle takes longer than {limits.deadline_seconds:g} s to read")

    def check_blob(self, start: int, length: int) -> None:
        """May `length` bytes from `start` be taken? Raises OverLimit or CutShort."""
        limits = self.limits
        if not 0 <= length <= limits.max_blob_bytes:
            raise OverLimit(f"one value of it takes {length:,} bytes (at most {limits.max_blob_bytes:,})")
        if start + length > len(self.data):
            raise CutShort("its data ends in the middle of a value")
        if length > 4096 and not self.data[start : start + length].isascii():
            self._wide_bytes += length
            if self._wide_bytes > limits.max_wide_text_bytes:
                raise OverLimit(f"its texts take more than {limits.max_wide_text_bytes:,} bytes")

    # ---- memo, marks, operands

    def put(self, index: int, value: Any) -> None:
        """Memo entry out of turn: an overwrite, or a gap (old picklers count from 1; a bomb names a far index)."""
        if index < len(self.memo):
            self.memo[index] = value
            self._runs.forget()
        elif not 0 <= index <= self.limits.max_memo_index:
            raise OverLimit(f"its pickle uses memo index {index:,} (at most {self.limits.max_memo_index:,})")
        else:
            self.far_memo[index] = value
            if len(self.far_memo) > self.limits.max_sparse_memo:
                raise OverLimit(f"its pickle has more than {self.limits.max_sparse_memo:,} memo entries out of order")

    def get(self, index: int) -> Any:
        """Memo entry. Raises Damaged where it was never set."""
        if 0 <= index < len(self.memo):
            return self.memo[index]
        try:
            return self.far_memo[index]
        except KeyError:
            raise Damaged(f"its pickle reads memo entry {index}, which was never written") from None

    def since_mark(self) -> list[Any]:
        """Take everything above the last MARK off the stack."""
        if not self.marks:
            raise Damaged("its pickle closes a group that it never opened")
        start = self.marks.pop()
        if start > len(self.stack):
            raise Damaged("its pickle takes more from its stack than it put there")
        taken = self.stack[start:]
        del self.stack[start:]
        return taken

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        self.check_blob(self.pos, length)
        start, self.pos = self.pos, self.pos + length
        return self.data[start : self.pos]

    def number(self, unpack: Callable[..., tuple[Any, ...]], width: int) -> Any:
        value = unpack(self.data, self.pos)[0]
        self.pos += width
        return value

    def line(self) -> bytes:
        """The bytes up to the next newline, which is taken too."""
        end = self.data.find(b"\n", self.pos, self.pos + LONGEST_LINE + 1)
        if end < 0:
            if len(self.data) - self.pos <= LONGEST_LINE:
                self.pos = len(self.data)
                raise CutShort("its data ends in the middle of a name")
            raise OverLimit(f"its pickle has a line of more than {LONGEST_LINE:,} bytes")
        start, self.pos = self.pos, end + 1
        return self.data[start:end]

    # ---- inert counterparts of what an unpickler would do

    def global_(self, module: Any, name: Any) -> Global:
        if type(module) is not str or type(name) is not str:
            return Global("unnamed", "object")
        known = self.globals.get((module, name))
        if known is None:
            if len(self.globals) >= self.limits.max_globals:
                raise OverLimit(f"it names more than {self.limits.max_globals:,} different classes and functions")
            known = self.globals[module, name] = new_global(module, name)
        return known

    def call(self, maker: Any, args: Any) -> Any:
        """What REDUCE leaves: a tensor or plain data where we can read the arguments, else an inert object."""
        if type(maker) is Global and maker.rebuild is not None and type(args) is tuple:
            try:
                made = maker.rebuild(args)
            except (IndexError, TypeError, ValueError, AttributeError):
                return Inert(maker, args)
            if type(made) is Tensor and not _is_held(made, args):
                if made.kind:
                    self._leave_out(inner_tensors(maker, args))
                self.tensors.append(made)
            return made
        return Inert(maker, args)

    def _leave_out(self, inner: list[Tensor]) -> None:
        """What a tensor is made of is none of its own. Its parts were read just before it, so they are the last."""
        if inner:
            ids = {id(one) for one in inner}
            self.tensors[-len(inner) :] = [one for one in self.tensors[-len(inner) :] if id(one) not in ids]

    def set_items(self, target: Any, flat: list[Any]) -> None:
        """`flat` is key, value, key, value … An odd length raises IndexError."""
        if type(target) is dict:
            for index in range(0, len(flat), 2):
                key = flat[index]
                target[key if type(key) is str else safe_key(key)] = flat[index + 1]
        elif type(target) is Inert:
            target.pairs = target.pairs or []
            target.pairs.extend((flat[index], flat[index + 1]) for index in range(0, len(flat), 2))
        else:
            raise Damaged("its pickle sets an item on something that has none")

    def extend(self, target: Any, values: list[Any]) -> None:
        if type(target) is list:
            target.extend(values)
        elif type(target) is Inert:
            target.items = target.items or []
            target.items.extend(values)
        else:
            raise Damaged("its pickle appends to something that is no list")


def _is_held(tensor: Tensor, args: tuple[Any, ...]) -> bool:
    """A Parameter's arguments hold the tensor itself; `_rebuild_from_type_v2` holds them as its third argument."""
    inner = args[2] if len(args) > 2 and type(args[2]) is tuple else ()
    return tensor is args[0] or (len(inner) > 0 and tensor is inner[0])
