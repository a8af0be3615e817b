"""Every number that a training logged, from `metrics.jsonl`: read when a person asks for it, in bounded memory."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any, BinaryIO, TypeGuard

from lavender_tui.launch.files import open_regular
from lavender_tui.model.proof import Begin, read_begin
from lavender_tui.model.series import decimate
from lavender_tui.model.text import plural
from lavender_tui.watch.metrics import MAX_LINE_BYTES, METRICS_NAME, outlasts, parse_record

MOST_METRICS = 200
MOST_LEFT_OUT = 10_000  # beyond, those that are left out aren't told apart any more
MOST_POINTS = 4_000  # of each; above that they are thinned, extremes stay
MOST_BYTES = 64 << 20  # from the end of the file: 10 s of reading
_LINES_AT_ONCE = 200
_MOST_OWN = 4_096  # lines that workers may have logged before they tell where they began
_NO_METRICS = frozenset({"step", "global_step", "time", "at", "timestamp"})


def read_metrics(run_dir: str) -> dict[str, list[tuple[float, float]]]:
    """Metric → its (step, value) points in order of steps, loss and learning rate first. Never raises.

    Values that are no finite number, and lines that are no JSON object with a step, are left out. Where a step was
    logged twice, after a restart, the later one counts; what workers that began again forgot is none of it.
    """
    return Reader(run_dir).read()


class Reader:
    """As `read_metrics`, again and again: what was read before is not read anew. For one thread at a time.

    `first_step`: where a file is so long that its beginning isn't read, the first step that is; else None. `left_out`:
    how many metrics there are beyond the most that are kept, in words; "" where there are none.
    """

    def __init__(self, run_dir: str) -> None:
        self.run_dir = run_dir
        self.first_step: float | None = None
        self._found: dict[str, dict[float, float]] = {}
        self._left_out: set[int] = set()  # hashes: the names may be long
        self._recent: deque[tuple[float, tuple[str, ...]]] = deque(maxlen=_MOST_OWN)  # the last lines: step, metrics
        self._is_cut = self._has_begun = False
        self._inode, self._at = 0, 0

    @property
    def left_out(self) -> str:
        count = len(self._left_out)
        more = " or more" if count == MOST_LEFT_OUT else ""
        return f"{plural(count, 'metric')}{more} left out" if count else ""

    def read(self, is_cancelled: Callable[[], bool] = lambda: False) -> dict[str, list[tuple[float, float]]]:
        """Every metric as it stands now; where `is_cancelled` comes true, what was read until then."""
        try:
            with open(open_regular(f"{self.run_dir}/{METRICS_NAME}"), "rb") as file:
                self._begin(os.fstat(file.fileno()))
                file.seek(self._at)
                self._read_on(file, is_cancelled)
        except OSError:
            return {}
        order = sorted(self._found, key=lambda name: (name != "loss", not name.endswith("loss"), name != "lr", name))
        return {name: _thinned(self._found[name]) for name in order if self._found[name]}

    def _begin(self, facts: os.stat_result) -> None:
        """Another file, or a shorter one, is read from its own beginning."""
        if facts.st_ino != self._inode or facts.st_size < self._at:
            self._inode, self._at = facts.st_ino, max(0, facts.st_size - MOST_BYTES)
            self._found.clear()
            self._left_out.clear()
            self._recent.clear()
            self._is_cut = self._has_begun = self._at > 0  # it began further up than anybody reads
            self.first_step = None

    def _read_on(self, file: BinaryIO, is_cancelled: Callable[[], bool]) -> None:
        """Line by line. A last line without its end counts as far as it can be read, and is read again."""
        for number in itertools.count(1):
            line = file.readline(MAX_LINE_BYTES)
            if not line or (number % _LINES_AT_ONCE == 0 and is_cancelled()):
                break
            is_torn = not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES
            self._take(line, is_torn)
            if is_torn:
                break
            self._at += len(line)
            if number % _LINES_AT_ONCE == 0:
                time.sleep(0)  # whoever handles keys comes first

    def _take(self, line: bytes, is_torn: bool) -> None:
        record = parse_record(line)
        if record is None:
            return
        step = record.get("step", record.get("global_step"))
        if not _is_number(step):
            if not is_torn and step is None and (begin := read_begin(record)) is not None:
                self._begin_again(begin)
            return
        if self._is_cut and self.first_step is None:
            self.first_step = float(step)
        told = tuple(name for name, value in record.items() if name not in _NO_METRICS and _is_number(value))
        for name in told:
            if name not in self._found and len(self._found) >= MOST_METRICS:
                if len(self._left_out) < MOST_LEFT_OUT:
                    self._left_out.add(hash(name))
                continue
            points = self._found.setdefault(name, {})
            points[float(step)] = float(record[name])
            if len(points) > 4 * MOST_POINTS:
                self._found[name] = dict(_thinned(points))
        if not is_torn:
            self._recent.append((float(step), told))

    def _begin_again(self, begin: Begin) -> None:
        """As `MetricsTail`: all but the last `logged` lines are of workers before these."""
        has_begun, self._has_begun = self._has_begun, True
        if not has_begun or begin.logged > len(self._recent):
            return
        lines = list(self._recent)[len(self._recent) - begin.logged :]
        own = {(name, step) for step, told in lines for name in told}
        for name, points in self._found.items():
            self._found[name] = {
                step: value for step, value in points.items() if outlasts(step, begin) or (name, step) in own
            }


def _is_number(value: Any) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _thinned(points: dict[float, float]) -> list[tuple[float, float]]:
    """The least and the greatest of each stretch of steps: by their number, what was thinned before would be thinned
    more each time. Where most steps lie close together, one far away must not take their points."""
    ordered, buckets = sorted(points.items()), MOST_POINTS // 2
    if len(ordered) <= MOST_POINTS:
        return ordered
    first, span = ordered[0][0], ordered[-1][0] - ordered[0][0]
    kept: list[tuple[float, float]] = []
    if math.isfinite(span):
        for _, part in itertools.groupby(ordered, lambda point: int((point[0] - first) / span * (buckets - 1))):
            bucket = list(part)
            kept += {min(bucket, key=_value), max(bucket, key=_value)}
    return sorted(kept) if len(kept) > buckets // 2 else decimate(ordered, buckets)


_value = itemgetter(1)
