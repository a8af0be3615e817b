"""The language that filters runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.query import FIELDS, Completion, compile_query, number_of, parts
from lavender_tui.model.run import Lineage, Run, RunState
from lavender_tui.model.settings import settings_of
from tests.model.build import checkpoint, run

NOW = 1_800_000_000.0
FAILED = run(
    "run-2026-04-24_18-53-41",
    checkpoint(60, loss=2.4127, step=4000, lr=3e-4, keys={"model_cfg": {"d_model": "512", "moe": {"experts": "8"}}}),
    state=RunState.FAILED,
    state_reason="rank 2 killed by SIGKILL",
    world_size=4,
    last_save_at=NOW - 3 * 3600,
    launched_command=("python", "train.py", "--lr", "3e-4", "--batch-size=48", "--compile"),
)
STALLED = run(
    "run-2026-04-23_10-00-01",
    checkpoint(19, stage="sft", loss=1.1042, remaining_hours=3.0),
    state=RunState.STALLED,
    state_reason="silent for 12 min",
    world_size=8,
    last_save_at=NOW - 600,
    resumed_from=Lineage(run="/runs/run-2026-04-20_22-41-55"),
)
NAN = run("odd name", checkpoint(3, loss=None, loss_text="nan"), state=RunState.RUNNING, state_reason="2 processes")
EMPTY = run("run-2026-04-25_00-00-00")
RUNS = (FAILED, STALLED, NAN, EMPTY)


def found(query: str) -> list[str]:
    test = compile_query(query, now=NOW)
    return [one.name for one in RUNS if test(one)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", RUNS),
        ("state:stalled", (STALLED,)),
        ("state:stal", (STALLED,)),
        ("state=stal", ()),
        ("stage=sft", (STALLED,)),
        ("loss<2", (STALLED,)),
        ("loss<2 stage=sft", (STALLED,)),
        ("loss>=1.1042", (FAILED, STALLED)),
        ("loss=nan", (NAN,)),
        ("!loss=nan", (FAILED, STALLED, EMPTY)),
        ("loss=none", (EMPTY,)),
        ("saved<1h", (STALLED,)),
        ("saved>2h", (FAILED,)),
        ("left<=3h", (STALLED,)),
        ("saves>50", (FAILED,)),
        ("save_count=0060", (FAILED,)),
        ("world=8", (STALLED,)),
        ("from:2026-04-20", (STALLED,)),
        ("d_model=512", (FAILED,)),
        ("moe.experts>4", (FAILED,)),
        ("--lr=0.0003", (FAILED,)),
        ("lr=3e-4", (FAILED,)),
        ("batch-size>16", (FAILED,)),
        ("--compile=true", (FAILED,)),
        ("size>=1kB", (FAILED, STALLED, NAN)),
        ("sft | failed", (FAILED, STALLED)),
        ("state:failed | state:stalled loss<2", (STALLED,)),
        ("loss<2|loss>2", (FAILED, STALLED)),
        ("loss<2|!state:running", (FAILED, STALLED, EMPTY)),
        ("loss<2| state:failed", (FAILED, STALLED)),
        ("loss<2 |state:failed", (FAILED, STALLED)),
        ("sft|04-25", (STALLED, EMPTY)),  # a pattern in a word
        ("loss<2|", (STALLED,)),  # still being typed
        ("loss=2.41", (FAILED,)),  # as it is shown, in as many digits
        ("loss=2.4127", (FAILED,)),
        ("loss=2.4", (FAILED,)),
        ("loss=2.42", ()),
        ("loss=2", ()),
        ("loss!=2.41", (STALLED, NAN, EMPTY)),
        ("loss=2.4127e0", (FAILED,)),
        ("loss=24.1e-1", (FAILED,)),
        ("lr=3.0e-4", (FAILED,)),
        ("lr=3.1e-4", ()),
        ("saved=3.0h", (FAILED,)),
        ("--lr=0.000", ()),  # a setting is shown with all its digits
        ("loss=2.4e999999", ()),
        ("loss=2.4e-999999", ()),
        ("loss=2.4e-" + "9" * 5_000, ()),
        ("loss=" + "1." + "0" * 5_000, ()),
        ("!failed", (STALLED, NAN, EMPTY)),
        ("SIGKILL", (FAILED,)),
        ('name="odd name"', (NAN,)),
        ('why:"killed by"', (FAILED,)),
        ("04-2[34]", (FAILED, STALLED)),
        ("state:", RUNS),  # still being typed
        ("loss<", RUNS),
        ("(", ()),  # no pattern: looked for as it stands
        ("no_such_setting=3", ()),
        ("no_such_setting!=3", RUNS),
    ],
)
def test_a_query_finds(query: str, expected: tuple[Run, ...]) -> None:
    assert found(query) == [one.name for one in expected]


@given(st.text(alphabet=st.sampled_from('abst:=<>!|"() .[]*+\\{}0129%\x00é'), max_size=40) | st.text(max_size=40))
def test_no_text_is_too_odd_for_a_query(query: str) -> None:
    found(query)
    for words in Completion(RUNS).of(query):
        assert words != query
        found(words)


@given(st.sampled_from([field.name for field in FIELDS]), st.sampled_from(["<", "<=", ">", ">="]), st.floats(0, 1e12))
def test_a_comparison_and_its_opposite_never_both_hold(field: str, operator: str, number: float) -> None:
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[operator]
    one, other = found(f"{field}{operator}{number!r}"), found(f"{field}{opposite}{number!r}")
    assert not set(one) & set(other)


@given(st.floats(-1e15, 1e15), st.integers(0, 12), st.sampled_from("fe"))
def test_a_number_as_it_is_shown_finds_its_run(loss: float, digits: int, style: str) -> None:
    shown = f"{loss:.{digits}{style}}"
    if "." in shown:
        one = run("one", checkpoint(1, loss=loss))
        assert compile_query(f"loss={shown}", now=NOW)(one)


def test_numbers_ages_and_sizes() -> None:
    assert number_of("3e-4") == 3e-4 and number_of("1,000") == 1000
    assert number_of("2h") == 7200 and number_of("90 min") == 5400 and number_of("10GB") == 1e10
    assert number_of("nan") is None and number_of("two") is None and number_of("") is None


def test_completion_offers_fields_then_the_values_that_are_there() -> None:
    assert "state:" in Completion(RUNS).of("st") and "stage:" in Completion(RUNS).of("st")
    assert Completion(RUNS).of("loss<2 sta")[0].startswith("loss<2 sta")
    assert Completion(RUNS).of("state:") == ["state:failed", "state:idle", "state:running", "state:stalled"]
    assert Completion(RUNS).of("!stage=s") == ["!stage=sft"]
    assert Completion(RUNS).of("d_mo") == ["d_model="] and Completion(RUNS).of("d_model=") == ["d_model=512"]
    assert Completion(RUNS).of('name:"o') == ['name:"odd name"']
    assert Completion(RUNS).of("--ba") == ["--batch-size="]


def test_settings_come_from_the_checkpoint_and_from_the_command() -> None:
    assert settings_of(FAILED) == {
        "d_model": "512", "moe.experts": "8", "--lr": "3e-4", "--batch-size": "48", "--compile": "true",
    }  # fmt: skip
    assert settings_of(EMPTY) == {}


def test_only_ages_depend_on_the_time() -> None:
    """What is said to depend on nothing but the run may be remembered."""
    one = run("run-2026-01-01_00-00-00", started_at=5.0, last_save_at=6.0, last_activity_at=7.0)
    for field in FIELDS:
        assert (field.read(one, NOW) != field.read(one, NOW + 100)) == field.is_age, field.name


@pytest.mark.parametrize(
    ("longer", "shorter", "narrows"),
    [
        ("run", "ru", True), ("RUN", "ru", True), ("xrun", "run", True), ("ru", "run", False), ("r.n", "r.", False),
        ("state:fa", "state:f", False), ("!run", "!ru", False), ("a|b", "a", False), ("saved<20", "saved<2", False),
    ],
)  # fmt: skip
def test_which_words_narrow_those_before(longer: str, shorter: str, narrows: bool) -> None:
    assert parts(longer, now=NOW)[0].narrows(parts(shorter, now=NOW)[0]) is narrows
