"""The rhythm of logged steps, from real metrics files with and without times of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.watch.metrics import MetricsTail
from lavender_tui.watch.step_clock import StepClock

START = 1.7e9


def write(path: Path, steps: list[tuple[int, float | None]], mtime: float, **more: object) -> None:
    """Append a line for each (step, own time), and give the file that time."""
    with path.open("a") as file:
        for step, time in steps:
            own = {} if time is None else {"time": time}
            file.write(json.dumps({"step": step, "loss": 1.0, **own, **more}) + "\n")
    os.utime(path, (mtime, mtime))


def test_the_lines_own_times_tell_the_rhythm_of_all_the_past_at_once(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    times = [START + step for step in range(40)]
    times[20:] = [time + 300 for time in times[20:]]  # an evaluation of five minutes
    write(path, list(enumerate(times)), times[-1])
    tail = MetricsTail(str(path))
    tail.read()
    rhythm = tail.clock.rhythm(None)
    assert rhythm is not None
    assert (rhythm.usual_seconds, rhythm.longest_seconds) == (1.0, 301.0)
    assert rhythm.patience_seconds == pytest.approx(451.5)
    assert tail.clock.progressed_at == pytest.approx(times[-1])


def test_a_step_that_is_repeated_is_a_heartbeat_and_no_progress(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    write(path, [(step, START + step) for step in range(20)], START + 19)
    write(path, [(19, START + 19 + beat) for beat in range(1, 600)], START + 618)
    fresh = MetricsTail(str(path))
    fresh.read()  # read at once, or as it grew: the last progress is the same
    assert fresh.clock.progressed_at == pytest.approx(START + 19)
    write(path, [(19, START + 700)], START + 700)
    fresh.read()
    assert fresh.clock.progressed_at == pytest.approx(START + 19)
    write(path, [(20, START + 710)], START + 710)
    fresh.read()
    assert fresh.clock.progressed_at == pytest.approx(START + 710)


def test_a_writer_whose_clock_is_wrong_still_has_its_progress_on_the_file_servers_clock(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    write(path, [(step, START - 3600 + step) for step in range(20)], START + 19)
    tail = MetricsTail(str(path))
    tail.read()
    assert tail.clock.progressed_at == pytest.approx(START + 19)


def test_without_times_the_gaps_between_reads_count_and_patience_is_longer(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(str(path))
    for step in range(20):
        write(path, [(step, None)], START + 2 * step)
        tail.read()
    rhythm = tail.clock.rhythm(None)
    assert rhythm is not None
    assert rhythm.usual_seconds == pytest.approx(2.0)
    assert rhythm.patience_seconds == 300.0


def test_without_times_and_without_having_watched_the_mean_since_the_start_must_do(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    write(path, [(step, None) for step in range(100)], START + 1000)
    tail = MetricsTail(str(path))
    tail.read()
    assert tail.clock.rhythm(None) is None
    rhythm = tail.clock.rhythm(START)
    assert rhythm is not None
    assert rhythm.usual_seconds == pytest.approx(10.0)


def test_a_training_that_begins_again_in_the_same_file_did_not_pause_over_night(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    write(path, [(step, START + step) for step in range(20)], START + 19)
    with path.open("a") as file:
        file.write(json.dumps({"time": START + 40_000, "event": "begin", "at_step": 10, "logged": 0}) + "\n")
    write(path, [(step, START + 40_000 + step) for step in range(10, 30)], START + 40_029)
    tail = MetricsTail(str(path))
    tail.read()
    rhythm = tail.clock.rhythm(None)
    assert rhythm is not None
    assert rhythm.longest_seconds == 1.0


@pytest.mark.parametrize("key", ["time", "timestamp", "ts", "_timestamp", "wall_time"])
@pytest.mark.parametrize(
    ("unit", "of"),
    [("seconds", float), ("milliseconds", lambda s: s * 1000), ("iso", None)],
    ids=["seconds", "milliseconds", "iso"],
)
def test_times_are_read_as_other_programs_write_them(key: str, unit: str, of: object):
    from datetime import UTC, datetime

    clock = StepClock()
    for step in range(12):
        at = START + 3 * step
        value = datetime.fromtimestamp(at, UTC).isoformat() if unit == "iso" else of(at)  # type: ignore[operator]
        clock.take(step, {key: value})
    clock.have_read(START + 33)
    rhythm = clock.rhythm(None)
    assert rhythm is not None
    assert rhythm.usual_seconds == pytest.approx(3.0)


@pytest.mark.parametrize("value", [True, -1, 0, 12, 1e300, float("nan"), "noon", "", None, [1.7e9], {"a": 1}])
def test_what_is_no_time_is_no_time(value: object):
    clock = StepClock()
    for step in range(12):
        clock.take(step, {"time": value})
    clock.have_read(START)
    assert clock.rhythm(None) is None
    assert clock.progressed_at == START


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(START, START + 1e6)), max_size=80), st.data())
def test_whatever_the_times_are_the_rhythm_is_sound_and_progress_is_never_after_the_file(
    lines: list[tuple[int, float]], data: st.DataObject
):
    clock, mtime = StepClock(), START
    for step, own in lines:
        clock.take(step, {"time": own})
        if data.draw(st.booleans()):
            mtime += data.draw(st.floats(0.0, 1e5))
            clock.have_read(mtime)
    clock.have_read(mtime)
    assert clock.progressed_at is None or clock.progressed_at <= mtime
    rhythm = clock.rhythm(START)
    assert rhythm is None or 0 < rhythm.usual_seconds <= rhythm.longest_seconds <= 1e7


@pytest.mark.parametrize("time", [10**400, -(10**400), 1e308, 10**14], ids=["10^400", "-10^400", "1e308", "10^14"])
def test_what_is_no_time_tells_no_rhythm_and_harms_none(tmp_path: Path, time: float):
    path = tmp_path / "metrics.jsonl"
    write(path, [*((step, START + step) for step in range(20)), (20, time), (21, START + 21)], START + 21)
    tail = MetricsTail(str(path))
    tail.read()
    rhythm = tail.clock.rhythm(None)
    assert rhythm is not None and rhythm.usual_seconds == 1.0 and tail.clock.progressed_at == pytest.approx(START + 21)
