"""The live loss: an incremental reader of a run's `metrics.jsonl`, in bounded memory."""

from __future__ import annotations

import json
import math
import os
import threading
from typing import TYPE_CHECKING, Any

from lavender_tui.launch.files import open_regular
from lavender_tui.model.continuity import FEW
from lavender_tui.model.run import LossPoint
from lavender_tui.watch.step_clock import StepClock

if TYPE_CHECKING:
    from lavender_tui.model.proof import Begin

METRICS_NAME = "metrics.jsonl"
CHUNK_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 20  # a longer "line" is no line of ours: it is counted as bad and left out
MAX_POINTS = 1500  # above this the older points are thinned; extremes stay
_STEP_KEYS = ("step", "global_step")


class MetricsTail:
    """Reads what was appended since the last call; one per file.

    A last line without its newline is not yet there. A file that was replaced or became shorter is read anew from its
    start. `bad_lines` counts lines that are no JSON object with a step; they are passed over.
    `begin` is what the training wrote when it began (the newest one, where workers were started again from the same
    place), and `first` the first few points with a loss since then. Workers that went on from a save of this very run
    carry nothing on from another one: the first begin stays. What the run forgot by that is no point any more.
    """

    def __init__(self, path: str, *, max_points: int = MAX_POINTS) -> None:
        self.path = path
        self.bad_lines = 0
        self.clock = StepClock()  # when the step last moved, and how often it does
        self.is_behind = True  # more lies there than was read so far
        self.begin: Begin | None = None
        self.first: tuple[LossPoint, ...] = ()
        self._max_points = max_points
        self._points: list[LossPoint] = []
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._torn = b""
        self._skipping = False
        self._lock = threading.Lock()

    @property
    def points(self) -> tuple[LossPoint, ...]:
        """What was read so far, oldest first; thinned where there are many."""
        return tuple(self._points)

    def read(self, budget_bytes: int = 8 << 20) -> bool:
        """Read at most about `budget_bytes` more; True if a point came or the file started anew. Never raises."""
        try:
            with self._lock, open(open_regular(self.path), "rb") as file:
                return self._read_open(file, budget_bytes)
        except OSError:
            self.is_behind = False
            return self._forget()  # gone or unreadable: nothing is known of it

    def _read_open(self, file: Any, budget_bytes: int) -> bool:
        stat = os.fstat(file.fileno())
        restarted = False
        if self._identity != (stat.st_dev, stat.st_ino) or stat.st_size < self._offset:
            restarted = self._forget()
            self._identity = (stat.st_dev, stat.st_ino)
        before = self._points[-1] if self._points else None
        count = len(self._points)
        file.seek(self._offset)
        while budget_bytes > 0 and (chunk := file.read(min(CHUNK_BYTES, budget_bytes))):
            budget_bytes -= len(chunk)
            self._offset += len(chunk)
            self._take(chunk)
        self.is_behind = self._offset < stat.st_size
        moved = len(self._points) != count or (bool(self._points) and self._points[-1] is not before)
        self.clock.have_read(stat.st_mtime)
        return moved or restarted

    def _take(self, chunk: bytes) -> None:
        *lines, self._torn = (self._torn + chunk).split(b"\n")
        for line in lines:
            if self._skipping:  # the end of a line that was too long
                self._skipping = False
            elif line.strip():
                self._take_line(line)
        if len(self._torn) > MAX_LINE_BYTES:
            self.bad_lines += not self._skipping
            self._torn, self._skipping = b"", True

    def _take_line(self, line: bytes) -> None:
        record = parse_record(line)
        point = point_of(record) if record is not None else None
        if record is None or point is None:
            self._take_other(record)
            return
        self.clock.take(point.step, record)
        self._points.append(point)
        if len(self.first) < FEW and _tells_loss(point):
            self.first += (point,)
        if len(self._points) >= 2 * self._max_points:
            self._points = thin(self._points, self._max_points)

    def _take_other(self, record: dict[str, Any] | None) -> None:
        """A record about something else than a step, such as how the training began or ended; anything else is bad."""
        from lavender_tui.model.proof import read_begin  # the first rows on the screen don't wait for it

        if record is None or any(key in record for key in _STEP_KEYS):
            self.bad_lines += 1
            return
        begin = read_begin(record)
        if begin is None:
            return
        self.clock.begin()
        if self.begin is not None:  # started again: its own points are the last `logged` ones
            own = self._points[-begin.logged :] if begin.logged else []
            kept = self._points[: len(self._points) - len(own)]
            self._points = [point for point in kept if outlasts(point.step, begin)] + own
            if self._is_own(begin.checkpoint):
                return
            self.first = tuple(point for point in own if _tells_loss(point))[:FEW]
        self.begin = begin

    def _is_own(self, checkpoint: str | None) -> bool:
        """By the run's name: the root may have been moved since."""
        place = os.path.dirname(checkpoint) if checkpoint else ""
        return bool(place) and os.path.basename(place) == os.path.basename(os.path.dirname(self.path))

    def _forget(self) -> bool:
        had = bool(self._points)
        self.begin, self.first = None, ()
        self._points, self._identity, self._torn = [], None, b""
        self._offset = self.bad_lines = 0
        self._skipping, self.clock = False, StepClock()
        return had


def outlasts(step: float, begin: Begin) -> bool:
    """Workers that began again forget what came after the place that they began at."""
    return begin.at_step is None or step <= begin.at_step


def parse_line(line: bytes) -> LossPoint | None:
    """The point of one line; None where it is no JSON object with a whole step."""
    record = parse_record(line)
    return point_of(record) if record is not None else None


def parse_record(line: bytes) -> dict[str, Any] | None:
    """One line; None where it is no JSON object."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # ValueError: also bad UTF-8 and integers of thousands of digits
        return None
    return record if isinstance(record, dict) else None


def point_of(record: dict[str, Any]) -> LossPoint | None:
    """None where it has no whole step, which may be written as 5.0. NaN and infinity become loss None."""
    step = next((record[key] for key in _STEP_KEYS if key in record), None)
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    if isinstance(step, bool) or not isinstance(step, int) or not -(2**63) <= step < 2**63:
        return None
    name = _loss_name(record)
    loss = None if name is None else _finite(record[name])
    return LossPoint(step=step, loss=loss, lr=_finite(record.get("lr")), is_no_number=name is not None and loss is None)


def _tells_loss(point: LossPoint) -> bool:
    return point.loss is not None or point.is_no_number


def _loss_name(record: dict[str, Any]) -> str | None:
    """`loss`, else `<stage>_loss`, else `ce_loss`, else any other key that ends in `_loss`."""
    stage = record.get("stage")
    names = ["loss", f"{stage}_loss", "ce_loss", *(key for key in record if key.endswith("_loss"))]
    return next((name for name in names if name in record), None)


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def thin(points: list[LossPoint], target: int) -> list[LossPoint]:
    """At most about `target` points: of each bucket the least and the greatest; a gap in a bucket stays one gap.

    The newest quarter stays as it is: that is what a person looks at while it grows.
    """
    recent = target // 4
    old, new = points[:-recent], points[-recent:]
    buckets = max(1, (target - recent) // 3)
    kept: list[LossPoint] = []
    for bucket in range(buckets):
        kept += _extremes(old[bucket * len(old) // buckets : (bucket + 1) * len(old) // buckets])
    return kept + new


def _extremes(part: list[LossPoint]) -> list[LossPoint]:
    finite = [(index, point) for index, point in enumerate(part) if point.loss is not None]
    gaps = [(index, point) for index, point in enumerate(part) if point.loss is None][:1]
    if finite:
        low = min(finite, key=lambda pair: pair[1].loss or 0.0)
        high = max(finite, key=lambda pair: pair[1].loss or 0.0)
        gaps += [low] if low[0] == high[0] else [low, high]
    return [point for _, point in sorted(gaps, key=lambda pair: pair[0])]
