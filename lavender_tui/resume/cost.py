"""What reading costs before the first row comes: seconds, threads, memory. Each may look like a hang, or end as one.

The numbers were measured with lancedb 0.40 on local disks, a process by itself; they are orders of magnitude.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lavender_tui.model import text
from lavender_tui.model.data_rows import table_rows
from lavender_tui.model.plan import Check, Policy, ResumePlan
from lavender_tui.model.state_rules import passed, warn
from lavender_tui.resume.situation import Situation
from lavender_tui.watch.machine import cpu_count, memory_bytes

# Every split that a rank owns copies the whole order of rows: once for its transform, once more for chosen columns,
# once more to skip to a position. 1 M rows: 64 splits 30 s fresh, 49 s resumed; 512 splits 227 s; 8 splits 5.5 s.
COPY_SECONDS_PER_ROW = (0.35e-6, 0.7e-6)
GLOO_TIMEOUT_SECONDS, NCCL_TIMEOUT_SECONDS = 30 * 60, 10 * 60  # torch's defaults for a process group
NEAR = 0.25  # of the timeout: from here on it is said
# One pool a rank of splits × io_queue_depth threads. 1,024 splits on a rank: 2,592 threads, 1 GiB, 29 s for 20 k rows.
IO_QUEUE_DEPTH, MOST_THREADS = 4, 256
# Shuffling sorts the order of rows within a limit of 100 MiB: 2.75 M rows fit, 2.95 M don't. 200 MB do for 5 M rows,
# 1 GB for 20 M: 50 bytes a row; a fifth more is room to spare.
SORT_VARIABLE = "LANCEDB_PERM_BUILDER_MEMORY_LIMIT"
SORT_BYTES_PER_ROW, MOST_ROWS_BY_DEFAULT = 60, 2_700_000
RSS_BYTES_PER_ROW = 60  # at its peak, 20 M rows: 1.1 GiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What decides the cost. `rows` that one epoch reads; `owned`: splits a rank."""

    rows: int
    owned: int
    copies: int

    def seconds(self, ranks: int, workers: int, cores: int) -> tuple[float, float]:
        """(least, most) to the first row: workers share the splits of a rank, all processes the cores."""
        together = max(1, workers)
        crowd = max(1.0, ranks * together / max(1, cores))
        copied = self.rows * math.ceil(self.owned / together) * self.copies * crowd
        return copied * COPY_SECONDS_PER_ROW[0], copied * COPY_SECONDS_PER_ROW[1]


def cost_checks(it: Situation) -> list[Check]:
    """Only where rows are read by splits; what isn't recorded isn't guessed."""
    splits, size = it.num_splits, it.world_size
    if splits is None or size < 1 or splits % size:
        return []
    owned = splits // size
    rows = table_rows(it.checkpoint.data)
    checks = _threads(owned, it)
    if rows is not None:
        copies = 1 + (bool((it.checkpoint.data or {}).get("columns"))) + (it.policy is Policy.EXACT)
        checks = [*_first_row(Reading(rows=rows, owned=owned, copies=copies), it), *checks, *_sorting(rows, it)]
    return checks


def _first_row(reading: Reading, it: Situation) -> list[Check]:
    least, most = reading.seconds(it.world_size, it.num_workers, cpu_count())
    what = f"the first row comes after about {_span(least, most)}"
    evidence = f"{reading.rows:,} rows, {reading.owned} splits a rank, each copies the order {reading.copies} times"
    timeout, group = (NCCL_TIMEOUT_SECONDS, "NCCL") if it.devices else (GLOO_TIMEOUT_SECONDS, "gloo")
    if most < NEAR * timeout or it.world_size == 1:
        if most < 60:
            return [passed("cost.first-row", what, evidence)]
        return [passed("cost.first-row", f"{what}: silent until then, no hang", evidence)]
    what += f"; a {group} process group gives up after {timeout // 60} min unless told otherwise"
    remedy = f"init_process_group(timeout=timedelta(minutes={_minutes(2 * most)})), or more ranks, or fewer splits"
    return [warn("cost.first-row", what, evidence, remedy)]


def _span(least: float, most: float) -> str:
    if most < 1:
        return "a second or less"
    if most < 120:
        return f"{least:.0f} to {most:.0f} s"
    return f"{least / 60:.0f} to {most / 60:.0f} min"


def _minutes(seconds: float) -> int:
    return max(10, math.ceil(seconds / 600) * 10)


def queue_depth(owned: int) -> int | None:
    """The `io_queue_depth` to read with, where the default would start too many threads; else None."""
    return None if owned * IO_QUEUE_DEPTH <= MOST_THREADS else max(1, MOST_THREADS // owned)


def _threads(owned: int, it: Situation) -> list[Check]:
    depth = queue_depth(owned)
    if depth is None:
        return []
    what = f"{owned:,} splits a rank would read with {owned * IO_QUEUE_DEPTH:,} threads"
    evidence = f"planned: io_queue_depth {depth} instead of {IO_QUEUE_DEPTH}, {owned * depth:,} threads a rank"
    remedy = f"a script that builds the dataset itself should give it io_queue_depth={depth}"
    return [warn("cost.threads", what, evidence, remedy)]


def planned_data(data: dict[str, Any] | None, num_splits: int | None, world_size: int) -> dict[str, Any] | None:
    """The plan's `data`: the checkpoint's, with `io_queue_depth` where the dataset has to be told to read with less."""
    if num_splits is None or world_size < 1 or num_splits % world_size:
        return data
    depth = queue_depth(num_splits // world_size)
    return data if depth is None else {**(data or {}), "io_queue_depth": depth}


def sort_limit(data: Mapping[str, Any] | None) -> int | None:
    """Bytes that shuffling these rows needs allowed; None where the default will do, or nobody counted them."""
    rows = table_rows(data)
    if rows is None or rows <= MOST_ROWS_BY_DEFAULT or (data or {}).get("shuffle") is False:
        return None
    return math.ceil(rows * SORT_BYTES_PER_ROW / (1 << 20)) << 20


def environment(plan: ResumePlan, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables that the training needs for the size of its table; one that is set high enough already stays."""
    limit = sort_limit(plan.data)
    if limit is None:
        return {}
    told = {**os.environ, **(given or {})}.get(SORT_VARIABLE, "")
    return {} if told.isascii() and told.isdigit() and int(told) >= limit else {SORT_VARIABLE: str(limit)}


def _sorting(rows: int, it: Situation) -> list[Check]:
    limit = sort_limit(it.checkpoint.data)
    if limit is None:
        return []
    what = f"{rows:,} rows are too many to shuffle within the library's limit: it is raised to {text.size(limit)}"
    peak, room = rows * RSS_BYTES_PER_ROW * it.world_size, memory_bytes()
    evidence = f"{SORT_VARIABLE}={limit}; up to {text.size(peak)} over {text.plural(it.world_size, 'rank')}"
    if peak < room:
        return [passed("cost.sort-memory", what, evidence)]
    remedy = "fewer ranks on this machine, or a filter that leaves fewer rows"
    return [warn("cost.sort-memory", what, f"{evidence}, and {text.size(room)} may be used here", remedy)]
