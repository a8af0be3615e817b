"""metrics.jsonl: one JSON line a logged step, appended whole, readable while it grows."""

from __future__ import annotations

import errno
import json
import math
import os
import time
from typing import Any

from lavender_tui.training.loading import LOG
from lavender_tui.training.plain import as_plain

NAME = "metrics.jsonl"


def line(values: dict[str, Any], *, now: float | None = None) -> bytes:
    """One line of strict JSON with `time` (unix seconds) first: a NaN is null, and `<key>_text` says what it was."""
    record: dict[str, Any] = {"time": round(time.time() if now is None else now, 3)}
    for key, value in values.items():
        plain = _as_json(value)
        record[key] = plain
        if plain is None and value is not None:
            record[f"{key}_text"] = str(as_plain(value))
    return json.dumps(record, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def append(run_dir: str, values: dict[str, Any]) -> None:
    """Append one line with a single write(): a reader sees all of it or nothing. Raises OSError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(os.path.join(run_dir, NAME), flags, 0o644)
    try:
        data, before = line(values), os.lseek(descriptor, 0, os.SEEK_END)
        if os.write(descriptor, data) < len(data):
            os.ftruncate(descriptor, before)  # a full disk: no half line, the next one would run into it
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), NAME)
    finally:
        os.close(descriptor)


def try_append(run_dir: str, values: dict[str, Any]) -> None:
    """As `append`; what the disk refuses is a warning, and the training goes on."""
    try:
        append(run_dir, values)
    except OSError as error:
        LOG.warning("%s: a line could not be written (%s)", NAME, error)


def _as_json(value: Any) -> Any:
    plain = as_plain(value)
    if isinstance(plain, float):
        return plain if math.isfinite(plain) else None
    if isinstance(plain, dict):
        return {str(key): _as_json(one) for key, one in plain.items()}
    if isinstance(plain, list | tuple):
        return [_as_json(one) for one in plain]
    if hasattr(plain, "tolist"):  # a tensor
        return _as_json(plain.tolist())
    if isinstance(plain, bytes):
        return plain.decode("utf-8", "backslashreplace")
    return plain
