"""Which rank failed first, as it was seen: what the others' errors make of it, and what of it is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from lavender_tui.launch.record import ProcessId, read_launch
from lavender_tui.launch.seen import GoneRank, Memory
from lavender_tui.model.failure import Failure
from lavender_tui.model.run import EndFacts
from lavender_tui.watch.first_gone import with_first_gone
from tests.tui.runs import launched

LOST = Failure(words="", rank=0, exception="RuntimeError: [gloo/pair.cc:553] Connection closed by peer [::1]:5")
TIMED_OUT = Failure(
    words="", rank=0, exception="RuntimeError: [gloo/pair.cc:3] Application timeout caused pair closure"
)
OWN = Failure(words="", rank=0, exception="ValueError: no such row")
FAILED, KILLED, TERMINATED = 1 << 8, 9, 15
BY_NINE = "was killed by signal 9 that nobody here sent (an administrator, or the memory killer of a container)"


def gone(*ends: tuple[int, int | None], apart: float = 0.1) -> tuple[GoneRank, ...]:
    return tuple(GoneRank(rank=rank, at=1e9 + at * apart, status=status) for at, (rank, status) in enumerate(ends))


@pytest.mark.parametrize(
    ("failure", "seen", "words"),
    [
        (LOST, gone((1, KILLED), (0, FAILED)), f"rank 1 {BY_NINE}"),
        (LOST, gone((0, FAILED), (1, KILLED)), f"rank 1 {BY_NINE}"),  # a GPU's memory takes long to be given back
        (
            LOST,
            gone((1, FAILED), (0, FAILED)),
            "rank 1 ended first, with exit code 1; then rank 0 lost it (Connection closed by peer)",
        ),
        (LOST, gone((2, None)), "rank 2 vanished first; then rank 0 lost it (Connection closed by peer)"),
        (TIMED_OUT, gone((0, FAILED), (1, TERMINATED)), None),  # torchrun ended the one that hung
        (TIMED_OUT, gone((0, FAILED), (1, KILLED), apart=30.0), None),
        (LOST, (), None),
        (OWN, gone((1, KILLED), (0, FAILED)), None),
        (None, gone((0, KILLED), (1, TERMINATED)), f"rank 0 {BY_NINE}"),  # then nobody wrote an error
    ],
)
def test_the_rank_that_went_first_is_the_reason(
    failure: Failure | None, seen: tuple[GoneRank, ...], words: str | None
) -> None:
    end = EndFacts(exit_code=1, error="its own words" if failure else None, failure=failure, ended_at=1e9)
    named = with_first_gone(end, seen)
    assert named is not None
    assert named.error == (end.error if words is None else words)
    if words is not None:
        assert named.failure is not None and f"rank {named.failure.rank} " in words


@pytest.mark.parametrize(
    "end", [None, EndFacts(exit_code=0), EndFacts(signal="SIGKILL"), EndFacts(exit_code=1, stop_requested=True)]
)
def test_an_end_that_is_no_failure_of_a_rank_stays_as_it_is(end: EndFacts | None) -> None:
    assert with_first_gone(end, gone((1, KILLED))) is end


def test_ranks_that_failed_are_remembered_for_this_attempt_of_this_start(tmp_path: Path) -> None:
    run_dir = tmp_path / "runs" / "run-2026-04-24_18-53-41"
    launched(run_dir, ["true"], ago=5.0)
    record, path = read_launch(str(run_dir)), str(run_dir)
    assert record is not None
    first, second = gone((1, KILLED), (0, FAILED), apart=1.0)
    for one in (first, second):
        Memory().rank_ended(path, record, one, started_at=first.at - 100.0)
    Memory().leader_ended(path, record, second.at, FAILED)
    assert Memory().gone_of(path, record) == (first, second)
    again = GoneRank(rank=2, at=second.at + 50.0)
    Memory().rank_ended(path, record, again, started_at=second.at + 1.0)
    assert Memory().gone_of(path, record) == (again,)
    (run_dir / "launch.json").unlink()
    launched(run_dir, ["true"], leader=ProcessId(pid=2**22 - 9, start_ticks=1), ago=5.0)
    assert Memory().gone_of(path, read_launch(path)) == ()
