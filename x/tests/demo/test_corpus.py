from __future__ import annotations

import random

import lancedb

from lavender_tui.demo.corpus import TABLE_NAME, make_corpus, sentence
from lavender_tui.demo.order import global_batches


def test_the_same_rows_every_time_and_short_enough_for_the_model(tmp_path):
    make_corpus(str(tmp_path / "a"), rows=300)
    make_corpus(str(tmp_path / "b"), rows=300)
    tables = [lancedb.connect(str(tmp_path / name)).open_table(TABLE_NAME).to_arrow() for name in "ab"]
    assert tables[0].equals(tables[1])
    assert tables[0]["id"].to_pylist() == list(range(300))
    assert len(set(tables[0]["text"].to_pylist())) > 250
    assert all(text.isascii() and len(text) < 64 for text in tables[0]["text"].to_pylist())


def test_another_seed_makes_other_sentences():
    assert sentence(random.Random(1)) != sentence(random.Random(2))


def test_an_epoch_is_every_row_once_in_batches_that_differ_between_epochs(tmp_path):
    make_corpus(str(tmp_path), rows=200)
    first, second = (global_batches(str(tmp_path), epoch=n, num_splits=8, global_batch=32) for n in (1, 2))
    for batches in (first, second):
        assert sorted(row for ids in batches for row in ids) == list(range(200))
        assert [len(ids) for ids in batches] == [32] * 6 + [8]
    assert first != second
