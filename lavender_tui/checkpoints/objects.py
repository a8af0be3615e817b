"""What stands in a pickle, as dead things: names that are never looked up, calls that are never made.

Nothing here hashes, compares or calls what came from a file. `Key` lets any object be a dict key by identity.
"""

from __future__ import annotations

from typing import Any


class Global:
    """A name that the pickle asks for (`module.name`). It is never imported."""

    __slots__ = ("module", "name", "rebuild")

    def __init__(self, module: str, name: str, rebuild: Any = None) -> None:
        self.module, self.name = module, name
        self.rebuild = rebuild  # OUR function that makes plain data or a Tensor from the arguments, or None

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def __repr__(self) -> str:
        return f"<global {self.module}.{self.name}>"


class Inert:
    """An object that unpickling would have made by calling `maker`. Nothing was called."""

    __slots__ = ("args", "items", "kwargs", "maker", "pairs", "state")

    def __init__(self, maker: Any, args: Any = (), kwargs: Any = None) -> None:
        self.maker, self.args, self.kwargs = maker, args, kwargs
        self.state: Any = None  # argument of BUILD: attributes, mostly
        self.items: list[Any] | None = None  # what APPENDS or ADDITEMS would have added
        self.pairs: list[tuple[Any, Any]] | None = None  # what SETITEMS would have set

    @property
    def type_name(self) -> str:
        """`module.name` of what would have been called; "object" where that is no plain name."""
        return str(self.maker) if type(self.maker) is Global else "object"

    def __repr__(self) -> str:
        return f"<inert {self.type_name}>"


LONGEST_BITS = 256  # the states of random generators take 128


class Huge:
    """A whole number that counts nothing, and that Python may refuse to print: no reader ever meets its value."""

    __slots__ = ("bits",)

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def __repr__(self) -> str:
        return f"a number of {self.bits:,} bits"


def number(value: int) -> int | Huge:
    """The number itself, where it is one of a size that anything is counted or seeded with."""
    bits = value.bit_length()
    return value if bits <= LONGEST_BITS else Huge(bits)


class Storage:
    """The place of a tensor's bytes: member `data/<key>` of the archive. `numel` counts elements of `dtype`."""

    __slots__ = ("dtype", "key", "location", "numel")

    def __init__(self, dtype: str, key: str, location: Any, numel: int) -> None:
        self.dtype, self.key, self.location, self.numel = dtype, key, location, numel


class Tensor:
    """A tensor's description. `value` is set only for small scalars that were read on purpose."""

    __slots__ = ("dtype", "kind", "offset", "shape", "storage", "stride", "value")

    def __init__(
        self,
        dtype: str,
        shape: tuple[int, ...],
        storage: Storage | None = None,
        offset: int = 0,
        stride: tuple[int, ...] = (),
        kind: str = "",
    ) -> None:
        self.dtype, self.shape, self.storage = dtype, shape, storage
        self.offset, self.stride, self.kind = offset, stride, kind
        self.value: Any = None

    @property
    def numel(self) -> int:
        """Number of elements, as the shape claims."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"<tensor {self.dtype} {list(self.shape)}>"


class Key:
    """Any object as a dict key, by identity: hashing foreign values can be made slow or can crash."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<key {self.value!r}>"


# Bytes of one element. What is missing here (sub-byte and quantised types) is never read as a scalar.
ITEM_SIZE = {
    "float64": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "uint32": 4,
    "qint32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1, "qint8": 1,
    "quint8": 1, "quint4x2": 1, "quint2x4": 1, "untyped": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1, "complex32": 4,
}  # fmt: skip

# torch's storage classes and the element type that each stands for.
STORAGE_DTYPE = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "ByteStorage": "uint8", "CharStorage": "int8", "ShortStorage": "int16", "IntStorage": "int32",
    "LongStorage": "int64", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128", "QUInt8Storage": "quint8", "QInt8Storage": "qint8",
    "QInt32Storage": "qint32", "QUInt4x2Storage": "quint4x2", "QUInt2x4Storage": "quint2x4",
    "UntypedStorage": "untyped", "TypedStorage": "untyped",
}  # fmt: skip
