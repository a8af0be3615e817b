"""Why a job's script ended, and whether the job is to be queued again: every case from what Slurm and the run say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lavender_tui.launch import slurm_end
from lavender_tui.launch.record import end_facts
from lavender_tui.launch.slurm_end import Ending, JobLine, decide, job_line

DATA = Path(__file__).parents[1] / "data" / "slurm"
NOW = 10_000.0
RUNS = JobLine(state="RUNNING", ends_at=NOW + 5000, restarts=0)
NEAR = JobLine(state="RUNNING", ends_at=NOW + 60, restarts=0)


def decided(run_dir: Path, job: JobLine, code: int = 1, attempt: int = 1) -> Ending:
    return decide(str(run_dir), code, job, attempt=attempt, signal_seconds=120, now=NOW)


def saved(run_dir: Path) -> None:
    (run_dir / "pretrain-10-00-00-0001.pt").write_bytes(b"x")


def said(run_dir: Path, **words: str) -> None:
    (run_dir / "metrics.jsonl").write_text(
        json.dumps({"step": 1}) + "\n" + json.dumps({"event": "end", **words}) + "\n"
    )


def test_what_scontrol_says() -> None:
    job = job_line((DATA / "scontrol-job-22.05.txt").read_text())
    assert job == JobLine(
        state="FAILED", reason="NonZeroExitCode", ends_at=1795985872.0, preempted_at=None, restarts=1, may_requeue=True
    )
    job = job_line((DATA / "scontrol-job-24.11.txt").read_text())
    assert job == JobLine(
        state="PREEMPTED", reason="None", ends_at=1795995742.0, preempted_at=1795995742.0, restarts=0, may_requeue=False
    )
    assert job_line("") == JobLine()
    assert job_line("JobId=1 Requeue=0 PreemptTime=5 StdOut=/a EndTime=7 b").may_requeue is False


@pytest.mark.parametrize("code", [0, 1, 137])
def test_it_ended_by_itself(tmp_path: Path, code: int) -> None:
    ending = decided(tmp_path, RUNS, code)
    assert ending.stop is None and not ending.asks_again


def test_what_failed_in_it_is_recorded_with_rank_and_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("Traceback (most recent call last):", '  File "t.py", line 3, in main', "ValueError: odd")
    (tmp_path / "train.log").write_text("\n".join(lines))
    monkeypatch.setattr(slurm_end, "_scontrol", lambda *words: "")
    assert slurm_end.main([str(tmp_path), "1", "1", "120", "5"]) == 1
    end = end_facts(str(tmp_path))
    assert end is not None and end.error == "ValueError: odd" and end.failure is not None
    assert (end.failure.exception, end.failure.place) == ("ValueError: odd", "t.py:3 in main")


def test_a_stop_is_a_stop_whatever_else_is_true(tmp_path: Path) -> None:
    (tmp_path / "stop.json").write_text(json.dumps({"schema": 1, "who": "ann", "how": "graceful", "asked_at": 1}))
    saved(tmp_path)
    ending = decided(tmp_path, NEAR)
    assert ending.stop is not None and ending.stop["who"] == "ann" and not ending.asks_again


def test_preempted_it_asks_for_its_place_again(tmp_path: Path) -> None:
    job = JobLine(state="RUNNING", ends_at=NOW + 10, preempted_at=NOW - 5, restarts=0)
    for code in (0, 1):
        ending = decided(tmp_path, job, code)
        assert ending.asks_again and ending.stop is not None and ending.stop["how"] == "requeue"
    assert not decided(tmp_path, JobLine(state="RUNNING", preempted_at=1.0, may_requeue=False)).asks_again


def test_before_its_time_limit_it_goes_on_only_from_a_save(tmp_path: Path) -> None:
    ending = decided(tmp_path, NEAR)
    assert not ending.asks_again and ending.error is not None and "before its first save" in ending.error
    assert decided(tmp_path, NEAR, 0) == Ending()
    saved(tmp_path)
    ending = decided(tmp_path, NEAR, 0)
    assert ending.asks_again and ending.stop is not None and "time limit" in ending.stop["why"]
    assert not decided(tmp_path, JobLine(state="RUNNING", ends_at=NOW + 60, may_requeue=False)).asks_again


def test_a_training_that_is_through_is_not_queued_again(tmp_path: Path) -> None:
    saved(tmp_path)
    said(tmp_path, status="finished")
    assert decided(tmp_path, NEAR, 0) == Ending()


def test_a_signal_from_elsewhere_is_a_stop(tmp_path: Path) -> None:
    said(tmp_path, status="stopped", by="SIGTERM")
    ending = decided(tmp_path, RUNS)
    assert ending.stop is not None and ending.stop["who"] == "SIGTERM" and not ending.asks_again


def test_what_slurm_does_itself_is_not_asked_for(tmp_path: Path) -> None:
    saved(tmp_path)
    again = decided(tmp_path, JobLine(state="COMPLETING", restarts=1))
    assert again.stop is not None and again.stop["how"] == "requeue" and not again.asks_again
    cancelled = decided(tmp_path, JobLine(state="COMPLETING", restarts=0, ends_at=NOW))
    assert cancelled.stop is not None and cancelled.stop["how"] == "cancelled" and not cancelled.asks_again
    over = decided(tmp_path, JobLine(state="COMPLETING", reason="TimeLimit", restarts=0))
    assert over.stop is not None and over.stop["how"] == "time limit" and not over.asks_again
    third = JobLine(state="RUNNING", ends_at=NOW + 60, restarts=2)
    assert decided(tmp_path, third, attempt=3).asks_again


@pytest.mark.parametrize("line", ["", "[1]", "{", '"x"', "\xff", "[" * 5000])
def test_odd_metrics_say_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(line.encode("latin-1"))
    assert decided(tmp_path, RUNS, 0) == Ending()
