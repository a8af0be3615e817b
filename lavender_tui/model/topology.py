"""What divides what: world_size, workers, splits and batches (docs.lancedb.com/training/distributed-training)."""

from __future__ import annotations

from functools import lru_cache

MOST_RANKS = 1_000_000  # what a file says beyond that is no number of ranks, and nobody counts up to it


@lru_cache(maxsize=256)  # asked for by every check of a plan, and as long as the number is large
def allowed_world_sizes(num_splits: int, limit: int = MOST_RANKS) -> tuple[int, ...]:
    """Every world_size that num_splits can be shared by, ascending; `limit` caps the list."""
    most = min(num_splits, limit, MOST_RANKS)
    return tuple(size for size in range(1, most + 1) if num_splits % size == 0)


def fitting_world_size(wanted: int, num_splits: int | None, global_size: int | None) -> int:
    """The largest up to `wanted` that splits and batch can be shared by, where they are known; at least 1."""
    most = max(1, min(wanted, MOST_RANKS))
    sizes = reversed(allowed_world_sizes(num_splits, most)) if num_splits else range(most, 0, -1)
    return next((size for size in sizes if not global_size or global_size % size == 0), 1)


def allowed_num_workers(num_splits: int, world_size: int) -> tuple[int, ...]:
    """0 and every count of loader workers per rank that the rank's own splits can be shared by."""
    if world_size < 1 or num_splits % world_size:
        return ()
    return (0, *allowed_world_sizes(num_splits // world_size))


def per_rank_batch(global_size: int | None, world_size: int) -> int | None:
    """Rows per rank and step; None where the global batch is unknown or can't be shared evenly."""
    if global_size is None or world_size < 1 or global_size % world_size:
        return None
    return global_size // world_size


def nearest_allowed(wanted: int, num_splits: int | None) -> int:
    """The largest allowed world_size that is no larger than `wanted` (at least 1)."""
    if num_splits is None:
        return max(1, wanted)
    fitting = [size for size in allowed_world_sizes(num_splits) if size <= max(1, wanted)]
    return fitting[-1] if fitting else 1


def same_batches_everywhere(global_size: int | None, num_splits: int | None) -> bool | None:
    """Are a step's rows the same on every topology? Only if the global batch is a multiple of num_splits."""
    if not global_size or not num_splits:
        return None
    return global_size % num_splits == 0
