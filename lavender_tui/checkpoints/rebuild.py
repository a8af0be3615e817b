"""Our own reading of the calls that torch, numpy and the standard library write: arguments in, plain data out.

Each function takes the argument tuple of a REDUCE and returns a Tensor or plain data. Arguments that make no sense
raise (IndexError, TypeError, ValueError, AttributeError); the machine then keeps the call as an Inert object, so that
one odd tensor never costs the rest of the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lavender_tui.checkpoints.objects import STORAGE_DTYPE, Global, Inert, Storage, Tensor

MAX_DIMENSIONS = 64
MAX_SIZE = 1 << 62


def sizes(value: Any) -> tuple[int, ...]:
    """A shape or stride as a tuple of ints in [0, 2^62). Raises ValueError for anything else."""
    if type(value) is Inert and value.args:
        value = value.args[0]
    if type(value) not in (tuple, list) or len(value) > MAX_DIMENSIONS:
        raise ValueError("not a shape")
    for size in value:
        if type(size) is not int or not 0 <= size < MAX_SIZE:
            raise ValueError("not a shape")
    return tuple(value)


def _dtype(value: Any) -> str:
    if type(value) is Global:
        return value.name
    if type(value) is Inert and value.args and type(value.args[0]) is str:
        return value.args[0].rsplit(".", 1)[-1]  # _get_layout('torch.sparse_coo')
    raise ValueError("not a dtype")


def _on_storage(storage: Any, offset: Any, shape: Any, stride: Any, dtype: str | None = None, kind: str = "") -> Tensor:
    if type(storage) is not Storage or type(offset) is not int or offset < 0:
        raise ValueError("not a storage")
    return Tensor(dtype or storage.dtype, sizes(shape), storage, offset, sizes(stride), kind)


def _tensor_v2(args: tuple[Any, ...]) -> Tensor:
    return _on_storage(args[0], args[1], args[2], args[3])


def _tensor_v3(args: tuple[Any, ...]) -> Tensor:
    return _on_storage(args[0], args[1], args[2], args[3], _dtype(args[6]))


def _quantised(args: tuple[Any, ...]) -> Tensor:
    return _on_storage(args[0], args[1], args[2], args[3], kind="quantised")


def _same(args: tuple[Any, ...]) -> Tensor:
    """A Parameter around a tensor, a tensor moved to a device: the tensor itself."""
    if type(args[0]) is not Tensor:
        raise ValueError("not a tensor")
    return args[0]


def _meta(args: tuple[Any, ...]) -> Tensor:
    return Tensor(_dtype(args[0]), sizes(args[1]), kind="meta")


def _subclass(args: tuple[Any, ...]) -> Tensor:
    return Tensor(_dtype(args[1]), sizes(args[2]), kind=args[0].name)


def _from_type(args: tuple[Any, ...]) -> Any:
    """`_rebuild_from_type_v2(function, type, arguments, state)`: a subclass, or a tensor with attributes."""
    function, inner = args[0], args[2]
    if type(function) is not Global or function.rebuild is None or function.rebuild is _from_type:
        raise ValueError("not a tensor function")
    return function.rebuild(inner)


def _sparse(args: tuple[Any, ...]) -> Tensor:
    layout, parts = _dtype(args[0]), args[1]
    values, shape = (parts[1], parts[2]) if layout == "sparse_coo" else (parts[2], parts[3])
    return Tensor(values.dtype if type(values) is Tensor else "unknown", sizes(shape), kind=layout)


def inner_tensors(maker: Global, args: tuple[Any, ...]) -> list[Tensor]:
    """What one tensor is made of: the scales and zero points of a quantised one, indices and values of a sparse one."""
    place = 4 if maker.rebuild is _quantised else 1 if maker.rebuild is _sparse else len(args)
    inside = args[place] if place < len(args) else ()
    return [one for one in inside if type(one) is Tensor] if type(inside) in (tuple, list) else []


def _from_numpy(args: tuple[Any, ...]) -> Tensor:
    return Tensor(_dtype(args[1]), sizes(args[0].state[1]))


def _encode(args: tuple[Any, ...]) -> bytes:
    """Protocol 2 writes bytes as `_codecs.encode(text, 'latin1')`."""
    text, codec = args
    if type(text) is not str or codec != "latin1":
        raise ValueError("not bytes")
    return text.encode("latin1")


def _empty_dict(args: tuple[Any, ...]) -> dict[Any, Any]:
    """OrderedDict() and the like come empty and are filled by SETITEMS; Counter brings its dict."""
    if args and type(args[0]) is dict:
        return args[0]
    if args and type(args[0]) is list:  # OrderedDict([[key, value], …]), as old pickles have it
        pairs = {}
        for pair in args[0]:
            if type(pair) not in (list, tuple) or len(pair) != 2 or type(pair[0]) is not str:
                raise ValueError("not pairs")
            pairs[pair[0]] = pair[1]
        return pairs
    return {}


def _default_dict(args: tuple[Any, ...]) -> dict[Any, Any]:
    return {}


def _bytes(args: tuple[Any, ...]) -> bytes:
    if not args:
        return b""
    if type(args[0]) is not bytes:
        raise ValueError("not bytes")
    return args[0]


def _torch_size(args: tuple[Any, ...]) -> tuple[int, ...]:
    return sizes(args[0])


Rebuild = Callable[[tuple[Any, ...]], Any]

REBUILDERS: dict[tuple[str, str], Rebuild] = {
    ("torch._utils", "_rebuild_tensor"): _tensor_v2,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
    ("torch._utils", "_rebuild_parameter"): _same,
    ("torch._utils", "_rebuild_parameter_with_state"): _same,
    ("torch._utils", "_rebuild_qtensor"): _quantised,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _meta,
    ("torch._utils", "_rebuild_sparse_tensor"): _sparse,
    ("torch._utils", "_rebuild_wrapper_subclass"): _subclass,
    ("torch._utils", "_rebuild_device_tensor_from_numpy"): _from_numpy,
    ("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"): _same,
    ("torch._tensor", "_rebuild_from_type_v2"): _from_type,
    ("torch._tensor", "_rebuild_from_type"): _from_type,
    ("torch", "Size"): _torch_size,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): _empty_dict,
    ("collections", "Counter"): _empty_dict,
    ("collections", "defaultdict"): _default_dict,
    ("builtins", "bytes"): _bytes,
    ("__builtin__", "bytes"): _bytes,
    ("builtins", "bytearray"): _bytes,
    ("__builtin__", "bytearray"): _bytes,
}

# Shared by all machines, so that the hot loop can compare by identity.
TENSOR_V2 = Global("torch._utils", "_rebuild_tensor_v2", _tensor_v2)
ORDERED_DICT = Global("collections", "OrderedDict", _empty_dict)


def new_global(module: str, name: str) -> Global:
    """The inert global `module.name`, with our rebuild function where we have one."""
    if name == "_rebuild_tensor_v2" and module == "torch._utils":
        return TENSOR_V2
    if name == "OrderedDict" and module == "collections":
        return ORDERED_DICT
    return Global(module, name, REBUILDERS.get((module, name)))


def storage_of(pid: Any) -> Any:
    """What a persistent id stands for: a Storage, or an Inert object where it is none that torch writes."""
    if type(pid) is tuple and len(pid) >= 5 and pid[0] == "storage":
        _, kind, key, location, numel = pid[:5]
        name = kind.name if type(kind) is Global else ""
        if type(key) is str and type(numel) is int and 0 <= numel < MAX_SIZE and name in STORAGE_DTYPE:
            return Storage(STORAGE_DTYPE[name], key, location, numel)
    if type(pid) is tuple and len(pid) >= 2 and pid[0] == "module":
        return pid[1]  # very old files: ('module', class, source file, source text)
    return Inert(Global("persistent", "id"), (pid,))
