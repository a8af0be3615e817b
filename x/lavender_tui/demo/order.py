"""The order of rows that an uninterrupted run has, read from the table alone: python -m lavender_tui.demo.order URI."""

from __future__ import annotations

import argparse
import json

from lavender_tui.demo.corpus import TABLE_NAME


def global_batches(uri: str, *, epoch: int, num_splits: int, global_batch: int) -> list[list[int]]:
    """The row ids of every global batch of one epoch (1-based), in order, as one rank alone would read them.

    With `global_batch` a multiple of `num_splits`, every world_size trains the same set of rows in the same step.
    """
    import lancedb
    from lancedb.streaming import StreamingDataset

    table = lancedb.connect(uri).open_table(TABLE_NAME)
    # The dataset counts its epochs from 0.
    dataset = StreamingDataset(table, num_splits=num_splits, epoch=epoch - 1, columns=["id"], transform_parallelism=1)
    ids = [row["id"] for row in dataset]
    return [ids[start : start + global_batch] for start in range(0, len(ids), global_batch)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Print one global batch a line, as a JSON list of row ids.")
    parser.add_argument("uri", help="the directory of the database")
    parser.add_argument("--epoch", type=int, default=1)
    parser.add_argument("--num-splits", type=int, default=8)
    parser.add_argument("--global-batch", type=int, default=32)
    options = vars(parser.parse_args())
    for ids in global_batches(options.pop("uri"), **options):
        print(json.dumps(ids))


if __name__ == "__main__":
    main()
