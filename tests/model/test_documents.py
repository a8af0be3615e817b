"""Series, plans and exported documents."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.errors import BadState
from lavender_tui.model import export, series, text
from lavender_tui.model.plan import Batch, Check, Launch, Policy, Proposal, ResumePlan, Source, Start, Verdict
from lavender_tui.model.run import Lineage
from tests.model.build import checkpoint, run

numbers = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


@given(st.lists(numbers, max_size=200), st.integers(0, 30))
def test_a_trend_is_drawn_from_anything(values: list[float | None], width: int) -> None:
    assert len(series.trend(values, width)) <= max(0, width)


def test_a_trend_falls_and_says_when_it_diverged() -> None:
    assert series.trend([8, 7, 6, 5, 4, 3, 2, 1], 8) == "█▇▆▅▄▃▂▁"
    assert series.trend([2.0, math.nan], 4) == "▄×"
    assert series.trend([math.nan]) == ""
    assert series.trend([]) == ""


@given(st.lists(st.tuples(st.integers(0, 10**6), numbers), max_size=400), st.integers(1, 50))
def test_decimation_keeps_the_extremes_and_the_order(points: list[tuple[float, float | None]], width: int) -> None:
    points.sort(key=lambda point: point[0])
    kept = series.decimate(points, width)
    assert len(kept) <= max(2 * width, 0) or len(kept) == len(series.finite(points)) <= 2 * width
    assert [x for x, _ in kept] == sorted(x for x, _ in kept)
    limits = series.bounds(points)
    if limits is not None:
        assert min(y for _, y in kept) == limits[2]
        assert max(y for _, y in kept) == limits[3]


def plan() -> ResumePlan:
    source = Source(
        run="/r/a",
        checkpoint="/r/a/x.pt",
        size=5,
        mtime_ns=6,
        stage="pretrain",
        save_count=60,
        epoch=1,
        epochs=3,
        epoch_complete=False,
        loss=2.4,
    )
    return ResumePlan(
        source=source,
        world_size_previous=4,
        world_size=2,
        start=Start(policy=Policy.EXACT, epoch=1, scheduler_steps=None, samples_replayed=0),
        dataset={"num_splits": 8, "samples_consumed_per_split": [3] * 8},
        data={"uri": "/t", "version": 7},
        batch=Batch(global_size=48, per_rank=24, num_workers=0),
        run_dir="/r/b",
        launch=Launch(backend="torchrun", argv=("python", "train.py"), cwd="/w", env={"LAVENDER_RUN_DIR": "/r/b"}),
        warnings=("said",),
    )


def test_a_plan_survives_json() -> None:
    document = json.loads(json.dumps(plan().to_json()))
    assert document["format"] == "lavender-resume-plan"
    assert document["world_size"] == {"previous": 4, "next": 2}
    assert document["batch"] == {"global": 48, "per_rank": 24, "num_workers": 0}
    assert ResumePlan.from_json(document) == plan()


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"format": "lavender-resume-plan", "version": 2},
        {"format": "x", "version": 1},
        {**plan().to_json(), "start": 3},
        {**plan().to_json(), "start": {**plan().to_json()["start"], "policy": "guess"}},
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(broken: object) -> None:
    with pytest.raises(BadState, match="/there"):
        ResumePlan.from_json(broken, where="/there")


def test_an_exported_run_has_every_field_of_the_contract_and_is_strict() -> None:
    last = checkpoint(60, loss=None, loss_text="nan", remaining_hours=31.0)
    one = run("run-2026-04-24_18-53-41", last, resumed_from=Lineage(run="/r/old", checkpoint=None), world_size=4)
    document = export.export_document([one], host="gpu", roots=["/r"], now=0.0)
    read = json.loads(text.strict_json(document), parse_constant=pytest.fail)
    assert (read["format"], read["version"], read["generated_at"]) == ("lavender-export", 1, "1970-01-01T00:00:00.000Z")
    exported = read["runs"][0]
    assert set(export.RUN_COLUMNS) <= set(exported)
    assert exported["loss"] is None and exported["loss_text"] == "nan"
    assert exported["resumed_from"] == {"run": "/r/old", "checkpoint": None}
    assert exported["checkpoints"][0]["resume"] == {
        "policy": "replay-epoch",
        "epoch": 1,
        "why": "the epoch is not complete and its rank states are not all there",
    }


def test_a_path_that_is_no_utf8_is_exported_with_its_bytes() -> None:
    fields = export.path_fields("/r/run-\udcff")
    assert fields == {"path": "/r/run-\ufffd", "path_bytes": "/r/run-%FF"}


def test_a_refused_proposal_still_prints_its_checks() -> None:
    check = Check(
        id="topology.world-size", verdict=Verdict.REFUSE, what="8 splits can't be shared by 3", remedy="1 2 4 8"
    )
    document = export.proposal_document(Proposal(plan=None, checks=(check,), passed_over=(("/r/x", "cut"),)))
    assert document["refused"] is True
    assert document["checks"][0]["verdict"] == "refuse"
    assert document["passed_over"] == [{"path": "/r/x", "reason": "cut"}]


def test_an_axis_holds_no_number_that_overflows_it() -> None:
    odd = [(1, 1e308), (10**18, 2.0), (2, -1e308), (3, float("nan")), (4, None), (-(10**18), 1.0)]
    assert series.drawable([*odd, (5, 1.5), (-1, 1e299)]) == [(5, 1.5), (-1, 1e299)]
