"""What is decided when a run has ended, and on how many ranks it goes on: the rules alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.run import EndFacts, RunState
from lavender_tui.resume.keeping import (
    LONGEST_WAIT_SECONDS,
    Decision,
    Ending,
    Next,
    decide,
    in_vain,
    sizes,
    wait_seconds,
)

DIED = Ending(state=RunState.FAILED, reason="killed by SIGKILL", end=EndFacts(signal="SIGKILL"))


def decided(ending: Ending = DIED, *, used: int = 0, tries: int = 3, backoff: float = 10.0) -> Decision:
    return decide(ending, tries_used=used, tries=tries, backoff_seconds=backoff)


@pytest.mark.parametrize(
    ("end", "state", "expected"),
    [
        (EndFacts(stop_requested=True, signal="SIGKILL"), RunState.STOPPED, Next.STOPPED),
        (EndFacts(stop_requested=True, exit_code=0), RunState.STOPPED, Next.STOPPED),
        (EndFacts(exit_code=0), RunState.FINISHED, Next.FINISHED),
        (None, RunState.FINISHED, Next.FINISHED),
        (EndFacts(exit_code=0), RunState.IDLE, Next.FINISHED),
        (EndFacts(exit_code=1), RunState.FAILED, Next.RESUME),
        (EndFacts(signal="SIGKILL"), RunState.FAILED, Next.RESUME),
        (EndFacts(signal="SIGTERM"), RunState.STOPPED, Next.RESUME),  # preempted, not stopped by a person
        (None, RunState.FAILED, Next.RESUME),
        (None, RunState.IDLE, Next.RESUME),
    ],
)
def test_only_a_run_that_died_is_resumed(end: EndFacts | None, state: RunState, expected: Next) -> None:
    assert decided(Ending(state=state, reason="…", end=end)).next is expected


def test_tries_that_saved_nothing_are_counted_and_a_save_gives_them_back() -> None:
    assert decided(used=2).next is Next.RESUME
    given_up = decided(used=3)
    assert given_up.next is Next.GIVE_UP and "3 tries in a row saved nothing new" in given_up.why
    saved = Ending(state=RunState.FAILED, reason="…", end=EndFacts(exit_code=1), has_saved=True)
    assert decided(saved, used=3).next is Next.RESUME and decided(saved, used=3).tries_used == 0


def test_two_checkpoints_that_fail_before_a_step_are_not_to_blame() -> None:
    ending = Ending(state=RunState.FAILED, reason="ImportError", end=EndFacts(exit_code=1), stepless=2)
    assert decided(ending, used=2, tries=9).next is Next.GIVE_UP
    assert "ImportError" in decided(ending, used=2, tries=9).why


@given(used=st.integers(0, 10_000), lived=st.none() | st.floats(0, 1e9), backoff=st.floats(0.01, 1e5))
def test_the_wait_has_a_bound_and_grows_with_the_tries(used: int, lived: float | None, backoff: float) -> None:
    waits = [wait_seconds(number, lived, backoff) for number in (used, used + 1)]
    assert all(0 <= wait <= LONGEST_WAIT_SECONDS for wait in waits)
    assert waits[0] <= waits[1]
    assert wait_seconds(0, None, backoff) == 0


def test_the_wait_doubles() -> None:
    assert [wait_seconds(used, 1e6, 10) for used in range(5)] == [0, 10, 20, 40, 80]
    assert wait_seconds(0, 3.0, 10) == 10, "one that died as soon as it was started isn't started again at once"


def worlds(**more: object) -> list[int | None]:
    facts = {"before": 4, "most": 8, "devices": 0, "permitted": (), "num_splits": 8, "global_batch": 32}
    return sizes(**{**facts, **more})  # type: ignore[arg-type]


def test_without_devices_it_goes_on_as_before() -> None:
    assert worlds() == [None]
    assert worlds(permitted=(1, 2, 4, 8)) == [4, 2, 1, 8]
    assert worlds(permitted=(8,)) == [8]
    assert worlds(permitted=(1, 2), before=None) == [2, 1]


def test_with_devices_the_largest_that_they_allow() -> None:
    assert worlds(devices=8)[0] == 8, "back to as many as it ever had"
    assert worlds(devices=3) == [2, 1]
    assert worlds(devices=16)[0] == 8, "but never on more than it ever had, unless that is permitted"
    assert worlds(devices=16, permitted=(4, 16), num_splits=16) == [16, 4]
    assert worlds(devices=1, permitted=(2, 4)) == []
    assert worlds(devices=8, most=None, before=None, permitted=()) == [8, 4, 2, 1]


@given(
    before=st.none() | st.integers(1, 64), most=st.none() | st.integers(1, 64), devices=st.integers(0, 64),
    permitted=st.lists(st.integers(1, 64), max_size=5), num_splits=st.none() | st.integers(1, 64),
    global_batch=st.none() | st.integers(1, 512),
)  # fmt: skip
def test_no_size_breaks_a_rule(
    before: int | None, most: int | None, devices: int, permitted: list[int], num_splits: int | None,
    global_batch: int | None,
) -> None:  # fmt: skip
    found = worlds(
        before=before, most=most, devices=devices, permitted=tuple(permitted), num_splits=num_splits,
        global_batch=global_batch,
    )  # fmt: skip
    for size in found:
        if size is None:
            assert not devices and not permitted
            continue
        assert not permitted or size in permitted
        assert not devices or size <= devices
        assert not num_splits or num_splits % size == 0
        assert not global_batch or global_batch % size == 0


def test_one_try_is_no_row_of_tries() -> None:
    assert in_vain(1) == "1 try" and in_vain(3) == "3 tries in a row"
    given_up = decide(DIED, tries_used=1, tries=1, backoff_seconds=1.0)
    assert given_up.why.startswith("1 try saved nothing new")
