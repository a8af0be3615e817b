"""The opcodes that are rare in real files, one small function each. The others are in `Machine._run` (inert.py).

`RARE[code](machine)` runs one; `machine.pos` stands behind the opcode's own byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from lavender_tui.checkpoints.limits import Damaged, OverLimit
from lavender_tui.checkpoints.objects import Inert, number
from lavender_tui.checkpoints.rebuild import storage_of

if TYPE_CHECKING:
    from lavender_tui.checkpoints.inert import Machine

LONGEST_LINE = 4096  # names, and numbers written as text
_MOST_DIGITS = 4000  # int() itself refuses more than 4,300

_BYTE = struct.Struct("<B").unpack_from
_I4 = struct.Struct("<i").unpack_from
_U4 = struct.Struct("<I").unpack_from
_U8 = struct.Struct("<Q").unpack_from

RARE: list[Callable[[Machine], None]] = []


def _unknown(machine: Machine) -> None:
    code = machine.data[machine.pos - 1]
    raise Damaged(f"byte {machine.pos - 1} of its pickle ({code:#04x}) is no opcode")


RARE.extend(repeat(_unknown, 256))


def _opcode(*codes: int) -> Callable[[Callable[[Machine], None]], Callable[[Machine], None]]:
    def register(handler: Callable[[Machine], None]) -> Callable[[Machine], None]:
        for code in codes:
            RARE[code] = handler
        return handler

    return register


@_opcode(0x80)
def _proto(machine: Machine) -> None:
    version = machine.data[machine.pos]
    machine.pos += 1
    if version > 5:
        raise Damaged(f"its pickle is of protocol {version}; protocols 0 to 5 are known")


@_opcode(0x95)
def _frame(machine: Machine) -> None:
    machine.number(_U8, 8)  # only a hint of how much to read


@_opcode(0x74)
def _tuple(machine: Machine) -> None:
    machine.stack.append(tuple(machine.since_mark()))


@_opcode(0x52, 0x81)
def _reduce(machine: Machine) -> None:
    args = machine.stack.pop()
    machine.stack[-1] = machine.call(machine.stack[-1], args)


@_opcode(0x51)
def _binpersid(machine: Machine) -> None:
    storage = storage_of(machine.stack[-1])
    machine.storages.append(storage)
    machine.stack[-1] = storage


@_opcode(0x50)
def _persid(machine: Machine) -> None:
    machine.stack.append(storage_of(machine.line().decode("latin1")))


@_opcode(0x87)
def _tuple3(machine: Machine) -> None:
    third, second = machine.stack.pop(), machine.stack.pop()
    machine.stack[-1] = (machine.stack[-1], second, third)


@_opcode(0x29)
def _empty_tuple(machine: Machine) -> None:
    machine.stack.append(())


@_opcode(0x5D)
def _empty_list(machine: Machine) -> None:
    machine.stack.append([])


@_opcode(0x8F)
def _empty_set(machine: Machine) -> None:
    machine.stack.append(Inert(machine.global_("builtins", "set")))


@_opcode(0x91)
def _frozenset(machine: Machine) -> None:
    made = Inert(machine.global_("builtins", "frozenset"))
    made.items = machine.since_mark()
    machine.stack.append(made)


@_opcode(0x89)
def _false(machine: Machine) -> None:
    machine.stack.append(False)


@_opcode(0x88)
def _true(machine: Machine) -> None:
    machine.stack.append(True)


@_opcode(0x4E)
def _none(machine: Machine) -> None:
    machine.stack.append(None)


@_opcode(0x73)
def _set_item(machine: Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.set_items(machine.stack[-1], [key, value])


@_opcode(0x65, 0x90)
def _extend(machine: Machine) -> None:
    values = machine.since_mark()
    machine.extend(machine.stack[-1], values)


@_opcode(0x61)
def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    machine.extend(machine.stack[-1], [value])


@_opcode(0x6C)
def _list(machine: Machine) -> None:
    machine.stack.append(machine.since_mark())


@_opcode(0x64)
def _dict(machine: Machine) -> None:
    made: dict[Any, Any] = {}
    machine.set_items(made, machine.since_mark())
    machine.stack.append(made)


@_opcode(0x63)
def _global(machine: Machine) -> None:
    module, name = machine.line().decode("utf-8"), machine.line().decode("utf-8")
    found = machine.global_(module, name)
    machine.stack.append(found)


@_opcode(0x93)
def _stack_global(machine: Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(machine.global_(module, name))


@_opcode(0x69)
def _inst(machine: Machine) -> None:
    module, name = machine.line().decode("utf-8"), machine.line().decode("utf-8")
    machine.stack.append(Inert(machine.global_(module, name), tuple(machine.since_mark())))


@_opcode(0x6F)
def _obj(machine: Machine) -> None:
    taken = machine.since_mark()
    machine.stack.append(Inert(taken[0], tuple(taken[1:])))


@_opcode(0x92)
def _newobj_ex(machine: Machine) -> None:
    kwargs, args = machine.stack.pop(), machine.stack.pop()
    machine.stack[-1] = Inert(machine.stack[-1], args, kwargs)


@_opcode(0x62)
def _build(machine: Machine) -> None:
    state = machine.stack.pop()
    target = machine.stack[-1]
    if type(target) is Inert:  # attributes of tensors and of plain data say nothing that we need
        target.state = state if target.state is None else (target.state, state)


@_opcode(0x82, 0x83, 0x84)
def _extension(machine: Machine) -> None:
    width = {0x82: 1, 0x83: 2, 0x84: 4}[machine.data[machine.pos - 1]]
    code = int.from_bytes(machine.take(width), "little")
    machine.stack.append(Inert(machine.global_("copyreg", "extension"), (code,)))


@_opcode(0x97)
def _next_buffer(machine: Machine) -> None:
    machine.stack.append(Inert(machine.global_("pickle", "out_of_band_buffer")))


@_opcode(0x98)
def _readonly_buffer(machine: Machine) -> None:
    machine.stack[-1] = machine.stack[-1]  # as it is; the stack must not be empty


@_opcode(0x30)
def _pop(machine: Machine) -> None:
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        machine.stack.pop()


@_opcode(0x31)
def _pop_mark(machine: Machine) -> None:
    machine.since_mark()


@_opcode(0x32)
def _dup(machine: Machine) -> None:
    machine.stack.append(machine.stack[-1])


@_opcode(0x8A)
def _long1(machine: Machine) -> None:
    machine.stack.append(number(int.from_bytes(machine.take(machine.number(_BYTE, 1)), "little", signed=True)))


@_opcode(0x8B)
def _long4(machine: Machine) -> None:
    length = machine.number(_I4, 4)
    if not 0 <= length <= LONGEST_LINE:
        raise OverLimit(f"one whole number of it takes {length:,} bytes")
    machine.stack.append(number(int.from_bytes(machine.take(length), "little", signed=True)))


def _counted(code: int, unpack: Callable[..., tuple[Any, ...]], width: int, decode: Callable[[bytes], Any]) -> None:
    """An opcode that is a length and that many bytes."""

    def handler(machine: Machine) -> None:
        machine.stack.append(decode(machine.take(machine.number(unpack, width))))

    RARE[code] = handler


def _text(raw: bytes) -> str:
    return str(raw, "utf-8", "surrogatepass")


def _latin(raw: bytes) -> str:
    return str(raw, "latin1")


_counted(0x43, _BYTE, 1, bytes)  # SHORT_BINBYTES
_counted(0x42, _U4, 4, bytes)  # BINBYTES
_counted(0x8E, _U8, 8, bytes)  # BINBYTES8
_counted(0x96, _U8, 8, bytes)  # BYTEARRAY8
_counted(0x8D, _U8, 8, _text)  # BINUNICODE8
_counted(0x55, _BYTE, 1, _latin)  # SHORT_BINSTRING
_counted(0x54, _I4, 4, _latin)  # BINSTRING


def _whole_number(raw: bytes) -> int:
    if len(raw) > _MOST_DIGITS:
        raise OverLimit(f"one whole number of it has {len(raw):,} digits")
    return int(raw)


@_opcode(0x49)
def _int_text(machine: Machine) -> None:
    raw = machine.line()
    machine.stack.append({b"00": False, b"01": True}[raw] if raw in (b"00", b"01") else number(_whole_number(raw)))


@_opcode(0x4C)
def _long_text(machine: Machine) -> None:
    machine.stack.append(number(_whole_number(machine.line().removesuffix(b"L"))))


@_opcode(0x46)
def _float_text(machine: Machine) -> None:
    machine.stack.append(float(machine.line()))


@_opcode(0x53)
def _string_text(machine: Machine) -> None:
    machine.stack.append(_latin(machine.line()[1:-1]))


@_opcode(0x56)
def _unicode_text(machine: Machine) -> None:
    machine.stack.append(machine.line().decode("raw-unicode-escape"))


@_opcode(0x70)
def _put_text(machine: Machine) -> None:
    index = _whole_number(machine.line())
    if index == len(machine.memo):
        machine.memo.append(machine.stack[-1])
    else:
        machine.put(index, machine.stack[-1])


@_opcode(0x67)
def _get_text(machine: Machine) -> None:
    machine.stack.append(machine.get(_whole_number(machine.line())))
