"""Every number that a training logged, from `metrics.jsonl`: read when a person asks for it, in bounded memory."""

from __future__ import annotations

import json
import math
from typing import Any, TypeGuard

from lavender_tui.model.series import decimate
from lavender_tui.watch.metrics import MAX_LINE_BYTES, METRICS_NAME

MOST_METRICS = 200
MOST_POINTS = 4_000  # of each; above that they are thinned, extremes stay
MOST_BYTES = 256 << 20  # from the end of the file
_NO_METRICS = frozenset({"step", "global_step", "time", "at", "timestamp"})


def read_metrics(run_dir: str) -> dict[str, list[tuple[float, float]]]:
    """Metric → its (step, value) points in order of steps, loss and learning rate first. Never raises.

    Values that are no finite number, and lines that are no JSON object with a step, are left out. Where a step was
    logged twice, after a restart, the later one counts.
    """
    found: dict[str, dict[float, float]] = {}
    try:
        with open(f"{run_dir}/{METRICS_NAME}", "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST_BYTES))
            while line := file.readline(MAX_LINE_BYTES):
                _take(line, found)
    except OSError:
        return {}
    order = sorted(found, key=lambda name: (name != "loss", not name.endswith("loss"), name != "lr", name))
    return {name: _thinned(found[name]) for name in order if found[name]}


def _take(line: bytes, found: dict[str, dict[float, float]]) -> None:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError):
        return
    if not isinstance(record, dict):
        return
    step = record.get("step", record.get("global_step"))
    if not _is_number(step):
        return
    for name, value in record.items():
        if name in _NO_METRICS or not _is_number(value):
            continue
        if name not in found and len(found) >= MOST_METRICS:
            continue
        points = found.setdefault(name, {})
        points[float(step)] = float(value)
        if len(points) > 4 * MOST_POINTS:
            found[name] = dict(_thinned(points))


def _is_number(value: Any) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _thinned(points: dict[float, float]) -> list[tuple[float, float]]:
    return decimate(sorted(points.items()), MOST_POINTS // 2)
