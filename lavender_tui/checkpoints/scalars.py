"""Numbers out of what pickles and tensors hold: Python's own, numpy's scalars and arrays, tensors of one element."""

from __future__ import annotations

import math
import struct
from typing import Any

from lavender_tui.checkpoints.objects import Global, Inert, Tensor

# numpy's type codes and torch's element types, as struct formats (byte order apart).
_NUMPY = {
    "f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u8": "Q", "u4": "I", "u2": "H",
    "u1": "B", "b1": "?",
}  # fmt: skip
_TORCH = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "?",
}  # fmt: skip
MOST_ELEMENTS = 65_536
_LARGEST_WHOLE = 1 << 64  # no counter gets there


def decode(dtype: str, raw: bytes, *, big_endian: bool = False) -> list[Any] | None:
    """The elements in `raw`, of a torch element type; None for types that we do not read."""
    order = ">" if big_endian else "<"
    if dtype == "bfloat16":
        wide = [
            raw[at : at + 2] + b"\0\0" if big_endian else b"\0\0" + raw[at : at + 2] for at in range(0, len(raw), 2)
        ]
        return [struct.unpack(order + "f", one)[0] for one in wide]
    code = _TORCH.get(dtype)
    if code is None:
        return None
    return list(struct.unpack(f"{order}{len(raw) // struct.calcsize(code)}{code}", raw))


def _numpy_type(dtype: Any) -> str | None:
    """The struct format of a pickled numpy dtype, e.g. "<d"."""
    if type(dtype) is not Inert or not dtype.args or type(dtype.args[0]) is not str:
        return None
    code = _NUMPY.get(dtype.args[0])
    order = dtype.state[1] if type(dtype.state) is tuple and len(dtype.state) > 1 else "<"
    return (">" if order == ">" else "<") + code if code else None


def _from_numpy(value: Inert) -> Any:
    """numpy.…multiarray.scalar(dtype, bytes), or _reconstruct + BUILD(version, shape, dtype, fortran, bytes)."""
    if type(value.maker) is not Global or not value.maker.module.startswith("numpy"):
        return None
    if value.maker.name == "scalar" and len(value.args) == 2:
        shape, dtype, raw = (), value.args[0], value.args[1]
    elif type(value.state) is tuple and len(value.state) == 5:
        _, shape, dtype, _, raw = value.state
    else:
        return None
    form = _numpy_type(dtype)
    if form is None or type(raw) is not bytes or type(shape) is not tuple or len(raw) > 8 * MOST_ELEMENTS:
        return None
    count = len(raw) // struct.calcsize(form)
    numbers = list(struct.unpack(f"{form[0]}{count}{form[1]}", raw[: count * struct.calcsize(form)]))
    return numbers[0] if shape == () and numbers else numbers


def plain(value: Any) -> Any:
    """The value as Python data where it is a number in disguise, else as it is."""
    if type(value) is Tensor:
        return value if value.value is None else value.value
    if type(value) is Inert:
        found = _from_numpy(value)
        if found is not None:
            return found
    return value


def single(value: Any) -> Any:
    """Like `plain`, and a list of one number is that number."""
    value = plain(value)
    if type(value) is list and len(value) == 1 and type(value[0]) in (int, float, bool):
        return value[0]
    return value


def whole(value: Any) -> int | None:
    """A real whole number: int, or float without fraction (also in a tensor or from numpy). Others are none."""
    if type(value) in (list, tuple):
        return None
    value = single(value)
    if type(value) is float and math.isfinite(value) and value.is_integer():
        value = int(value)
    return value if type(value) is int and abs(value) < _LARGEST_WHOLE else None


def real(value: Any) -> float | None:
    """A finite number as float. bool and text are none."""
    value = single(value)
    if type(value) is int and abs(value) < 1 << 1000:
        return float(value)
    return value if type(value) is float and math.isfinite(value) else None


def flag(value: Any) -> bool | None:
    """True or False from bool or number; None for everything else."""
    value = single(value)
    if type(value) is bool:
        return value
    if type(value) in (int, float) and value in (0, 1):
        return bool(value)
    return None
