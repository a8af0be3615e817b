"""Every way in which a table, or the way it is read, differs from when the position was saved.

Each case is first measured on the library alone, so that the trap is known to be one; then the plan, the deep look and
the training's own side are held against it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import pyarrow
import pytest
from lancedb.index import BTree
from lancedb.streaming import StreamingDataset

from lavender_tui.errors import BadState, NotFound
from lavender_tui.model.plan import Check, Policy, Proposal, Verdict
from lavender_tui.resume import look_at_table, verified
from lavender_tui.resume.child import Child
from lavender_tui.training import Beginning, beginning
from lavender_tui.training.provenance import describe
from tests.resume.real_states import RANKS, ROWS, SPLITS, dataset, make_table, read_on, repeated_and_lost, train
from tests.resume.saves import check, proposed, refusals, save, warnings

Change = Callable[[Any], Any]


@pytest.fixture(scope="module")
def child() -> Any:
    with Child() as made:
        yield made


class Saved:
    """A table of 1,000 rows, read to a fifth by 4 ranks, with the checkpoint of that moment."""

    def __init__(self, tmp_path: Path, **reading: Any) -> None:
        self.uri = str(tmp_path / "db")
        self.reading = reading
        self.table = make_table(self.uri)
        states, self.seen = train(self.table, rows=48, **reading)
        self.merged = StreamingDataset.merge_state_dicts(states)
        self.data = describe(dataset(self.table, 0, RANKS, **reading), self.table)
        run = str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")
        self.path = save(run, 1, states, world_size=RANKS, data=self.data)

    def newest(self) -> Any:
        return lancedb.connect(self.uri).open_table("rows")

    def bare(self, **reading: Any) -> tuple[int, int]:
        """(rows twice, rows never) where the library alone reads on, from the newest version."""
        return repeated_and_lost(self.seen, read_on(self.newest(), self.merged, 2, **{**self.reading, **reading}))

    def begin(self, **options: Any) -> Beginning:
        return beginning(self.path, **options)

    def ours(self) -> tuple[int, int]:
        begin = self.begin()
        return repeated_and_lost(self.seen, read_on(begin.open_table(), begin.dataset or {}, 2, **self.reading))

    def plan(self, *command: str, **options: Any) -> Proposal:
        return proposed(self.path, command or ("torchrun", "-m", "train"), world_size=2, **options)

    def look(self, count: int, state: dict[str, Any], child: Child, **data: Any) -> dict[str, Check]:
        """The deep look at a checkpoint whose record says something else."""
        run = os.path.dirname(self.path)
        path = save(run, count, [state] * RANKS, world_size=RANKS, data={**self.data, **data})
        return {one.id: one for one in look_at_table(proposed(path, world_size=2), child)}

    def clean_up(self) -> None:
        self.newest().optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    return Saved(tmp_path)


def rows(first: int, count: int) -> Any:
    return pyarrow.table({"id": list(range(first, first + count)), "tokens": [[1]] * count})


def recreate(table: Any, ids: list[int]) -> None:
    content = pyarrow.table({"id": ids, "tokens": [list(range(one % 7 + 1)) for one in ids]})
    lancedb.connect(os.path.dirname(table.uri)).create_table("rows", content, mode="overwrite")


def upsert(table: Any) -> None:
    change = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    change.execute(pyarrow.table({"id": list(range(10)), "tokens": [[7]] * 10}))


def restore(table: Any) -> None:
    before = table.version
    table.add(rows(1000, 1))
    table.restore(before)


def came_and_went(table: Any) -> None:
    table.add(rows(1000, 8))
    table.delete("id >= 1000")
    table.optimize()


# What was done to the table; the least rows that come twice, or None where it is no trap; what is said.
MOVED: dict[str, tuple[Change, int | None, str]] = {
    "3 rows appended": (lambda t: t.add(rows(1000, 3)), 0, "+3 −0 rows since"),
    "8 rows appended": (lambda t: t.add(rows(1000, 8)), 20, "+8 −0 rows since"),
    "100 rows appended": (lambda t: t.add(rows(1000, 100)), 100, "+100 −0 rows since"),
    "1 row deleted": (lambda t: t.delete("id = 5"), 28, "+0 −1 rows since"),
    "1 row updated": (lambda t: t.update(where="id = 5", values={"tokens": [7]}), 100, "+1 −1 rows since"),
    "10 rows upserted": (upsert, 100, "+10 −10 rows since"),
    "overwritten in another order": (lambda t: recreate(t, list(range(999, -1, -1))), 100, "rows since"),
    "a column added": (lambda t: t.add_columns({"twice": "id * 2"}), None, "no row came or went"),
    "an index created": (lambda t: t.create_index("id", config=BTree()), None, "no row came or went"),
    "an older version restored": (restore, None, "no row came or went"),
    "rows came, went, compacted": (came_and_went, None, "no row came or went"),
}


@pytest.mark.parametrize("name", MOVED)
def test_a_table_that_moved_on_is_read_at_the_version_of_the_position(saved: Saved, child: Child, name: str) -> None:
    change, least, said = MOVED[name]
    change(saved.newest())
    twice, never = saved.bare()
    assert ((twice, never) != (0, 0)) is (least is not None) and twice >= (least or 0)
    shallow = saved.plan()
    assert check(shallow, "data.version").verdict is Verdict.PASS and "pinned" in check(shallow, "data.version").what
    deep = verified(shallow, child)
    looked = check(deep, "data.version")
    assert not [one for one in refusals(deep) if one.startswith("data.")]
    assert looked.verdict is Verdict.PASS and said in looked.what and "pinned" in looked.what
    assert check(deep, "data.rows").verdict is check(deep, "data.same").verdict is Verdict.PASS
    assert "data.tag" in warnings(deep)
    assert saved.ours() == (0, 0)


CLEANED = ("100 rows appended", "1 row deleted", "1 row updated", "rows came, went, compacted")


@pytest.mark.parametrize("name", CLEANED)
def test_a_version_that_was_cleaned_up_is_refused_with_what_changed(saved: Saved, child: Child, name: str) -> None:
    before = saved.plan()
    MOVED[name][0](saved.newest())
    saved.clean_up()
    after = saved.plan()
    assert "data.version" in refusals(after) and "reshuffled" in check(after, "data.version").what
    assert "replay-epoch" in check(after, "data.version").remedy
    looked = {one.id: one for one in look_at_table(before, child)}["data.version"]  # cleaned up since it was planned
    assert looked.verdict is Verdict.REFUSE and "28 to 160 of 1,000" in looked.evidence
    count = saved.newest().count_rows()
    assert (f"{count - ROWS:+,} rows" if count != ROWS else "1,000 rows as before") in looked.what
    with pytest.raises(NotFound, match="version 1"):
        saved.begin().open_table()


def test_an_epoch_from_its_start_reads_the_newest_version_where_its_own_is_gone(
    saved: Saved, child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    saved.newest().delete("id = 5")
    saved.clean_up()
    replay = verified(saved.plan(policy=Policy.REPLAY_EPOCH), child)
    assert not [one for one in refusals(replay) if one.startswith("data.")]
    assert check(replay, "data.version").verdict is Verdict.WARN
    assert saved.begin(policy="replay-epoch").open_table().count_rows() == ROWS - 1
    assert "version 1 is gone" in caplog.text


def test_a_tag_keeps_the_version_and_is_named(saved: Saved, child: Child) -> None:
    table = saved.newest()
    table.tags.create("lavender-run", 1)
    table.add(rows(1000, 100))
    with pytest.raises(RuntimeError, match="tagged"):
        saved.clean_up()
    kept = check(verified(saved.plan(), child), "data.tag")
    assert kept.verdict is Verdict.PASS and "lavender-run" in kept.what


@pytest.mark.parametrize("ids", [list(range(999, -1, -1)), list(range(1000, 2000))])
def test_another_table_under_the_same_name_version_and_row_count_is_refused(
    saved: Saved, child: Child, ids: list[int]
) -> None:
    lancedb.connect(saved.uri).drop_table("rows")
    lancedb.connect(saved.uri).create_table("rows", pyarrow.table({"id": ids, "tokens": [[1]] * ROWS}))
    assert saved.newest().version == saved.data["version"] and saved.newest().count_rows() == ROWS
    assert saved.bare() != (0, 0)
    assert "data.version" not in refusals(saved.plan())  # a name and a number look the same
    looked = {one.id: one for one in look_at_table(saved.plan(), child)}
    assert looked["data.rows"].verdict is Verdict.PASS and looked["data.same"].verdict is Verdict.REFUSE
    with pytest.raises(BadState, match="other rows"):
        saved.begin().open_table()


def test_another_place_with_as_many_rows_is_told_from_the_moved_table(saved: Saved, tmp_path: Path) -> None:
    moved, other = str(tmp_path / "moved"), str(tmp_path / "other")
    shutil.copytree(saved.uri, moved)
    assert saved.begin().open_table(moved).count_rows() == ROWS
    content = pyarrow.table({"id": list(range(999, -1, -1)), "tokens": [[1]] * ROWS})
    lancedb.connect(other).create_table("rows", content)
    with pytest.raises(BadState, match="other rows"):
        saved.begin().open_table(other)


def test_a_row_count_that_does_not_fit_is_refused(saved: Saved, child: Child) -> None:
    looked = saved.look(2, saved.merged, child, num_rows=900)
    assert looked["data.rows"].verdict is Verdict.REFUSE and "900" in looked["data.rows"].what
    keys = ("samples_consumed_per_split", "positions_consumed_per_split")
    late = {**saved.merged, **{key: [500] * SPLITS for key in keys}}
    looked = saved.look(3, late, child, num_rows=None)
    assert looked["data.rows"].verdict is Verdict.REFUSE and "500" in looked["data.rows"].what


def test_a_table_that_is_gone_is_refused_and_not_made(saved: Saved, child: Child, tmp_path: Path) -> None:
    planned = saved.plan()
    os.rename(saved.uri, str(tmp_path / "elsewhere"))
    assert "data.version" in refusals(saved.plan())
    assert [one.verdict for one in look_at_table(planned, child)] == [Verdict.REFUSE]
    with pytest.raises(NotFound):
        saved.begin().open_table()
    assert not os.path.exists(saved.uri)
    lancedb.connect(saved.uri)  # what the library does when it is only asked
    assert os.path.isdir(saved.uri)


def test_a_column_that_is_gone_is_said_before_the_first_row(tmp_path: Path, child: Child) -> None:
    saved = Saved(tmp_path, columns=["id"])
    bare = dataset(saved.table, 0, 2, columns=["id", "nope"])  # made without a word
    with pytest.raises(ValueError, match="nope"):
        next(iter(bare))
    looked = saved.look(2, saved.merged, child, columns=["id", "nope"])
    assert looked["data.columns"].verdict is Verdict.REFUSE and "nope" in looked["data.columns"].what


READ_OTHERWISE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "not shuffled": ({"shuffle": False}, ("--no-shuffle",)),
    "in clumps": ({"shuffle_clump_size": 16}, ("--shuffle-clump-size", "16")),
    "filtered": ({"filter": "id < 900"}, ("--filter=id < 900",)),
}


@pytest.mark.parametrize("name", READ_OTHERWISE)
def test_another_way_of_reading_is_refused_by_the_training_and_said_before(saved: Saved, name: str) -> None:
    reading, flags = READ_OTHERWISE[name]
    assert min(saved.bare(**reading)) >= 100
    told = saved.plan("torchrun", "-m", "train", *flags)
    assert "data.command" in warnings(told) and next(iter(reading)) in check(told, "data.command").what
    with pytest.raises(BadState, match=next(iter(reading))):
        saved.begin().streaming_dataset(saved.begin().open_table(), 1, **reading)


def test_what_was_read_in_clumps_or_filtered_goes_on_so_by_itself(tmp_path: Path) -> None:
    saved = Saved(tmp_path, shuffle_clump_size=16, filter="id < 900")
    assert min(saved.bare(shuffle_clump_size=32)) > 50 and saved.bare(filter=None)[0] > 50
    begin = saved.begin()
    made = begin.streaming_dataset(begin.open_table(), 1)
    after = [row["id"] for row in made]
    assert repeated_and_lost(saved.seen, after)[0] == 0
    assert len(saved.seen) + len(after) == 900 // SPLITS * SPLITS


def test_another_epoch_of_the_same_table_is_refused(saved: Saved) -> None:
    assert min(saved.bare(epoch=1)) >= 100
    with pytest.raises(BadState, match="dataset epoch 0"):
        saved.begin().load_into(dataset(saved.table, 0, 1, epoch=1), 1)


@pytest.mark.parametrize("reading", [{"columns": ["id"]}, {"read_batch_size": 7}, {"shuffle_clump_size": 1}])
def test_what_changes_no_order_is_a_free_choice(saved: Saved, reading: dict[str, Any]) -> None:
    assert saved.bare(**reading) == (0, 0)
    begin = saved.begin()
    assert begin.streaming_dataset(begin.open_table(), 1, **reading).state_dict() == begin.dataset


def test_the_token_column_of_packed_blocks_is_no_free_choice(tmp_path: Path) -> None:
    packing = {"columns": ["tokens"], "pack_sequences": 16, "eos_id": 99, "pad_id": 98, "blocks_per_epoch": 280}
    table = make_table(str(tmp_path / "db"))
    table.add_columns({"others": "tokens"})
    states, _ = train(table, rows=20, **packing)
    data = describe(dataset(table, 0, RANKS, **packing), table)
    path = save(str(tmp_path / "run-2026-04-24_18-53-41"), 1, states, world_size=RANKS, data=data)
    bare = dataset(table, 0, 1, **{**packing, "columns": ["others"]})
    bare.load_state_dict(StreamingDataset.merge_state_dicts(states))  # taken without a word
    begin = beginning(path)
    with pytest.raises(BadState, match="columns"):
        begin.streaming_dataset(begin.open_table(), 1, columns=["others"])
    assert begin.streaming_dataset(begin.open_table(), 1, columns=["tokens"]).state_dict() == begin.dataset
    assert "data.packing" not in [one.id for one in proposed(path, world_size=2).checks]
    forged = save(os.path.dirname(path), 2, states, world_size=RANKS, data={**data, "eos_id": 1})
    assert "data.packing" in refusals(proposed(forged, world_size=2))


def test_an_earlier_save_of_the_epoch_that_says_otherwise_is_named(saved: Saved) -> None:
    run = os.path.dirname(saved.path)
    save(run, 2, [saved.merged] * RANKS, world_size=RANKS, data={**saved.data, "shuffle_clump_size": 8})
    named = check(proposed(run, world_size=2), "data.before")
    assert named.verdict is Verdict.WARN and "shuffle_clump_size" in named.what and "8" in named.what
