"""Every number that a training logged."""

from __future__ import annotations

import json
from pathlib import Path

from lavender_tui.watch.all_metrics import MOST_METRICS, MOST_POINTS, Reader, read_metrics
from lavender_tui.watch.metrics import MetricsTail


def test_every_number_is_a_metric_loss_first(tmp_path: Path) -> None:
    lines = [
        {"step": 1, "lr": 0.1, "loss": 2.0, "grad_norm": 1.5, "note": "warm-up", "ok": True, "time": 5},
        {"step": 2, "lr": 0.2, "loss": float("nan"), "grad_norm": float("inf")},
        {"step": 3, "val_loss": 1.0},
        {"step": 2, "lr": 0.25},  # trained again after a restart
        {"loss": 9.0},
        [1],
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + '\n{"step": 4, "loss":')
    found = read_metrics(str(tmp_path))
    assert list(found) == ["loss", "val_loss", "lr", "grad_norm"]
    assert found["lr"] == [(1.0, 0.1), (2.0, 0.25)] and found["loss"] == [(1.0, 2.0)]


def test_what_is_no_metrics_file_has_none(tmp_path: Path) -> None:
    assert read_metrics(str(tmp_path)) == {}
    (tmp_path / "metrics.jsonl").write_bytes(b"\xff\x00" * 100 + b"\n{" + b"[" * 10_000 + b'\n{"step": 1e999}\n')
    assert read_metrics(str(tmp_path)) == {}


def test_memory_is_bounded_and_extremes_stay(tmp_path: Path) -> None:
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in range(30_000):
            file.write(json.dumps({"step": step, "loss": 99.0 if step == 12_345 else 1.0, f"m{step}": 1}) + "\n")
    reader = Reader(str(tmp_path))
    found = reader.read()
    assert len(found) <= MOST_METRICS and len(found["loss"]) <= MOST_POINTS
    assert reader.left_out == "10,000 metrics or more left out"
    assert max(value for _, value in found["loss"]) == 99.0


def test_the_beginning_of_a_long_curve_is_as_dense_as_its_end(tmp_path: Path) -> None:
    with (tmp_path / "metrics.jsonl").open("w") as file:
        file.writelines(f'{{"step": {step}, "gain": {step % 7}, "far": {step % 7}}}\n' for step in range(100_000))
        file.write('{"step": 1e14, "far": 1}\n')
    found = read_metrics(str(tmp_path))
    for name in ("gain", "far"):
        assert len(found[name]) <= MOST_POINTS
        early = [value for step, value in found[name] if step < 50_000]
        assert len(early) > (MOST_POINTS // 4 if name == "gain" else 10) and {0, 6} <= set(early)


def test_what_was_read_is_not_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "lo')
    reader = Reader(str(tmp_path))
    assert reader.read() == {"loss": [(1.0, 3.0)]}
    with path.open("r+") as file:
        file.write('{"step": 9, "loss": 9.0}\n{"step": 2, "loss": 2.0}\n')
    assert reader.read() == {"loss": [(1.0, 3.0), (2.0, 2.0)]}, "only what came after the last whole line"
    path.write_text('{"step": 5, "loss": 1.0}\n')
    assert reader.read() == {"loss": [(5.0, 1.0)]}, "a shorter file is another one"
    assert reader.read(lambda: True) == {"loss": [(5.0, 1.0)]}


def test_what_workers_that_began_again_forgot_is_no_metric(tmp_path: Path) -> None:
    def log(*records: dict[str, object]) -> None:
        with (tmp_path / "metrics.jsonl").open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    log({"step": 1, "gain": 1.0, "val_loss": 1.0}, {"event": "begin", "at_step": 0, "logged": 1})
    log(*({"step": step, "gain": 1.0, "val_loss": 1.0} for step in range(2, 101)))
    reader, tail = Reader(str(tmp_path)), MetricsTail(str(tmp_path / "metrics.jsonl"))
    assert len(reader.read()["gain"]) == 100, "the first begin forgets nothing"
    log({"step": 51, "gain": 2.0}, {"event": "begin", "at_step": 50, "logged": 1})
    log(*({"step": step, "gain": 2.0} for step in range(52, 61)))
    tail.read()
    for found in (reader.read(), read_metrics(str(tmp_path))):
        assert found["gain"] == [(float(step), 1.0 if step <= 50 else 2.0) for step in range(1, 61)]
        assert [step for step, _ in found["gain"]] == [point.step for point in tail.points]
        assert found["val_loss"][-1][0] == 50, "its own lines tell none yet"


def test_metrics_that_are_left_out_are_counted(tmp_path: Path) -> None:
    reader, path = Reader(str(tmp_path)), tmp_path / "metrics.jsonl"
    many = {f"m{at}": 1.0 for at in range(MOST_METRICS)}
    path.write_text(json.dumps({"step": 1, **many}) + "\n")
    assert len(reader.read()) == MOST_METRICS and reader.left_out == ""
    with path.open("a") as file:
        for step in (2, 3):
            file.write(json.dumps({"step": step, **many, "one": 1, "two": 2}) + "\n")
    assert len(reader.read()) == MOST_METRICS and reader.left_out == "2 metrics left out"
    path.write_text(json.dumps({"step": 1, "loss": 1}) + "\n")  # another, shorter one
    assert list(reader.read()) == ["loss"] and reader.left_out == ""
