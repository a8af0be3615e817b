from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lavender_tui.errors import LavenderError
from lavender_tui.launch import slurm_end
from lavender_tui.launch.followers import steps_of
from lavender_tui.logs.follow import Follower
from lavender_tui.model.run import LossPoint
from lavender_tui.resume import merging
from lavender_tui.watch.all_metrics import read_metrics
from lavender_tui.watch.metrics import MAX_LINE_BYTES, MetricsTail, parse_line, thin


def lines(*records: object) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_appended_lines_arrive_once(path: Path):
    tail = MetricsTail(str(path))
    path.write_bytes(lines({"step": 1, "loss": 2.5, "lr": 0.1}))
    assert tail.read()
    assert not tail.read()
    with path.open("ab") as file:
        file.write(lines({"step": 2, "loss": 2.25}))
    assert tail.read()
    assert tail.points == (LossPoint(step=1, loss=2.5, lr=0.1), LossPoint(step=2, loss=2.25))


def test_cut_at_every_byte_it_reads_as_a_prefix(path: Path):
    whole = lines({"step": 1, "loss": 2.5}, {"step": 2, "loss": float("nan")}, {"step": 3, "loss": 1.5, "note": "é"})
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        tail = MetricsTail(str(path))
        tail.read()
        assert len(tail.points) == whole[:cut].count(b"\n"), cut
        assert tail.bad_lines == 0
        with path.open("ab") as file:
            file.write(whole[cut:])
        tail.read()
        assert [point.step for point in tail.points] == [1, 2, 3]
        assert tail.bad_lines == 0
        path.unlink()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"step": 3, "loss": NaN}', LossPoint(step=3, loss=None)),
        (b'{"step": 3, "loss": 1e999}', LossPoint(step=3, loss=None)),
        (b'{"step": 3, "loss": "2.0"}', LossPoint(step=3, loss=None)),
        (b'{"step": 3, "loss": true}', LossPoint(step=3, loss=None)),
        (b'{"step": 3}', LossPoint(step=3, loss=None)),
        (b'{"global_step": 3, "ce_loss": 2}', LossPoint(step=3, loss=2.0)),
        (b'{"step": 3, "stage": "sft", "ce_loss": 2, "sft_loss": 1.5}', LossPoint(step=3, loss=1.5)),
        (b'{"step": 3, "val_loss": 4, "lr": -Infinity}', LossPoint(step=3, loss=4.0)),
        (b'{"step": 3.0, "loss": 1}', LossPoint(step=3, loss=1.0)),
        (b'{"step": 3e18, "loss": 1}', LossPoint(step=3 * 10**18, loss=1.0)),
        (b'{"step": 3e300, "loss": 1}', None),
        (b'{"step": Infinity, "loss": 1}', None),
        (b'{"step": NaN, "loss": 1}', None),
        (b'{"step": 3.5, "loss": 1}', None),
        (b'{"step": true, "loss": 1}', None),
        (b'{"step": 99999999999999999999, "loss": 1}', None),
        (b"[1, 2]", None),
        (b"\xff\xfe", None),
        (b"step=3 loss=1", None),
        (b"[" * 200_000, None),
        (b'{"step": ' + b"1" * 5000 + b"}", None),
    ],
)
def test_a_line_is_a_point_or_nothing(line: bytes, expected: LossPoint | None):
    assert parse_line(line) == expected


def test_bad_lines_are_counted_and_passed_over(path: Path):
    path.write_bytes(b"\x00\x00\n" + lines({"step": 1, "loss": 1.0}) + b"what\n\n" + lines({"step": 2, "loss": 0.5}))
    tail = MetricsTail(str(path))
    tail.read()
    assert [point.step for point in tail.points] == [1, 2]
    assert tail.bad_lines == 2


def test_a_record_about_something_else_than_a_step_is_no_bad_line(path: Path):
    path.write_bytes(lines({"step": 1, "loss": 1.0}, {"event": "end", "at_step": 1}) + b"[1]\n")
    tail = MetricsTail(str(path))
    tail.read()
    assert [point.step for point in tail.points] == [1]
    assert tail.bad_lines == 1  # the list


def test_a_truncated_file_starts_anew(path: Path):
    path.write_bytes(lines(*({"step": step, "loss": 1.0} for step in range(50))))
    tail = MetricsTail(str(path))
    tail.read()
    path.write_bytes(lines({"step": 7, "loss": 3.0}))
    assert tail.read()
    assert tail.points == (LossPoint(step=7, loss=3.0),)


def test_a_replaced_file_of_the_same_length_starts_anew(path: Path):
    path.write_bytes(lines({"step": 1, "loss": 1.0}))
    tail = MetricsTail(str(path))
    tail.read()
    other = path.with_name("new")
    other.write_bytes(lines({"step": 2, "loss": 2.0}))
    os.replace(other, path)
    assert tail.read()
    assert tail.points == (LossPoint(step=2, loss=2.0),)


def test_a_vanished_file_leaves_nothing(path: Path):
    path.write_bytes(lines({"step": 1, "loss": 1.0}))
    tail = MetricsTail(str(path))
    tail.read()
    path.unlink()
    assert tail.read()
    assert not tail.read()
    assert tail.points == ()
    assert not tail.is_behind


READERS: dict[str, Callable[[str], object]] = {
    "the loss": lambda path: MetricsTail(path).read(),
    "every metric": lambda path: read_metrics(os.path.dirname(path)),
    "the steps of a follower": steps_of,
    "the end as it was said": lambda path: slurm_end._last_words(os.path.dirname(path)),
    "a log's new lines": lambda path: Follower(path, _is_first=False).read(),
    "a state to be merged": lambda path: value_of(path + ".json"),
}


def value_of(path: str) -> object:
    with contextlib.suppress(LavenderError):
        return merging._value(path)
    return None


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", READERS)
def test_a_fifo_in_the_place_of_a_file_hangs_nobody(path: Path, reader: str) -> None:
    for one in (path, path.with_name(path.name + ".json")):
        os.mkfifo(one)
    assert not READERS[reader](str(path))


def test_a_budget_is_kept_and_the_rest_comes_later(path: Path):
    path.write_bytes(lines(*({"step": step, "loss": 1.0} for step in range(1000))))
    tail = MetricsTail(str(path), max_points=5000)
    tail.read(budget_bytes=100)
    assert tail.is_behind
    assert len(tail.points) < 20
    while tail.is_behind:
        tail.read(budget_bytes=5000)
    assert [point.step for point in tail.points] == list(range(1000))


def test_an_endless_line_is_one_bad_line_and_no_memory(path: Path):
    path.write_bytes(b"x" * (3 * MAX_LINE_BYTES) + b"\n" + lines({"step": 1, "loss": 1.0}))
    tail = MetricsTail(str(path))
    tail.read()
    assert tail.bad_lines == 1
    assert tail.points == (LossPoint(step=1, loss=1.0),)


def test_many_points_stay_few_and_keep_their_extremes(path: Path):
    losses = [2.0 + (step % 7) / 100 for step in range(30_000)]
    losses[1234], losses[20_000] = 99.0, -5.0
    path.write_bytes(lines(*({"step": step, "loss": loss} for step, loss in enumerate(losses))))
    tail = MetricsTail(str(path), max_points=500)
    tail.read(budget_bytes=1 << 30)
    kept = tail.points
    assert len(kept) < 1000
    assert {99.0, -5.0} <= {point.loss for point in kept}
    assert [point.step for point in kept] == sorted(point.step for point in kept)
    assert kept[-1].step == 29_999


def test_progress_is_a_moving_step_not_a_growing_file(path: Path):
    path.write_bytes(lines({"step": 5, "loss": 1.0}))
    os.utime(path, (1_000_000_000, 1_000_000_000))
    tail = MetricsTail(str(path))
    tail.read()
    with path.open("ab") as file:
        file.write(lines({"step": 5, "loss": 1.0}))
    tail.read()
    assert tail.clock.progressed_at == 1e9


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), min_size=40, max_size=400),
    st.integers(8, 40),
)
def test_thinning_keeps_order_extremes_and_the_newest(losses: list[float | None], target: int):
    points = [LossPoint(step=step, loss=loss) for step, loss in enumerate(losses)]
    kept = thin(points, target)
    finite = [loss for loss in losses if loss is not None]
    assert len(kept) <= target + 3
    assert [point.step for point in kept] == sorted({point.step for point in kept})
    assert kept[-1] == points[-1]
    if finite:
        shown = [point.loss for point in kept if point.loss is not None]
        assert (min(shown), max(shown)) == (min(finite), max(finite))


BEGIN = {"event": "begin", "at_step": 4, "epoch": 1, "logged": 1}


def test_the_beginning_and_the_first_losses_are_kept(path: Path):
    tail = MetricsTail(str(path), max_points=20)
    later = [{"step": step, "loss": step} for step in range(7, 200)]
    path.write_bytes(lines({"step": 5, "loss": 1.0}, BEGIN, {"step": 6}, *later))
    tail.read()
    assert tail.begin is not None
    assert (tail.begin.at_step, tail.bad_lines) == (4, 0)
    assert [point.step for point in tail.first] == [5, 7, 8, 9, 10]  # a line without a loss tells none


def test_workers_that_were_started_again_begin_again(path: Path):
    tail = MetricsTail(str(path))
    path.write_bytes(lines(*[{"step": n, "loss": 1.0} for n in (5, 6, 7, 8)], BEGIN))
    tail.read()
    with path.open("ab") as file:
        file.write(lines({"step": 5, "loss": 2.0}, {**BEGIN, "epoch": 2}, {"step": 6, "loss": 3.0}))
    tail.read()
    assert tail.begin is not None
    assert tail.begin.epoch == 2
    assert [point.loss for point in tail.first] == [2.0, 3.0]
    path.write_bytes(b"")
    tail.read()
    assert (tail.begin, tail.first) == (None, ())


def test_workers_that_went_on_from_a_save_of_their_own_run_forget_what_came_after_it(tmp_path: Path) -> None:
    run = tmp_path / "run-2026-04-25_10-00-00"
    run.mkdir()
    lines = [{"event": "begin", "at_step": 4, "checkpoint": "/old/run-2026-04-24_10-00-00/pretrain-10-00-00-0001.pt"}]
    lines += [{"step": step, "loss": 2.0} for step in range(5, 12)]
    lines += [{"step": 9, "loss": 3.0}]
    lines += [{"event": "begin", "at_step": 8, "logged": 1, "checkpoint": f"{run}/pretrain-10-10-00-0001.pt"}]
    lines += [{"step": 10, "loss": 3.0}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    tail = MetricsTail(str(run / "metrics.jsonl"))
    tail.read()
    assert [(point.step, point.loss) for point in tail.points] == [
        *((step, 2.0) for step in range(5, 9)),
        (9, 3.0),
        (10, 3.0),
    ]
    assert tail.begin is not None and tail.begin.at_step == 4, "that is what carried the old run on"
    assert tail.first[0].step == 5
