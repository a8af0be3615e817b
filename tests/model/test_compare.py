"""Runs side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.compare import Section, common_steps, compare, metric_names, value_at
from lavender_tui.model.run import LossPoint, Run
from tests.model.build import checkpoint, run


def curve(*pairs: tuple[int, float | None]) -> tuple[LossPoint, ...]:
    return tuple(LossPoint(step=step, loss=loss) for step, loss in pairs)


ONE = run(
    "one",
    checkpoint(2, loss=1.5, keys={"model_cfg": {"d_model": "512", "heads": "8"}}, versions={"torch": "2.13.0"}),
    losses=curve((0, 4.0), (100, 2.0), (200, 1.5)),
    launched_command=("python", "train.py", "--lr", "3e-4"),
)
OTHER = run(
    "other",
    checkpoint(9, loss=1.9, keys={"model_cfg": {"d_model": "256", "heads": "8"}}, versions={"torch": "2.12.0"}),
    losses=curve((50, 3.5), (150, 2.5), (400, 1.9)),
    launched_command=("python", "train.py", "--lr", "1e-4"),
)


def section(runs: tuple[Run, ...], title: str) -> Section:
    return next(one for one in compare(runs) if one.title == title)


def test_only_what_differs_is_listed_and_the_rest_is_counted() -> None:
    settings = section((ONE, OTHER), "settings")
    assert {line.name: line.values for line in settings.lines} == {"d_model": ("512", "256"), "--lr": ("3e-4", "1e-4")}
    assert settings.same == 1
    assert section((ONE, OTHER), "versions").lines[0].values == ("2.13.0", "2.12.0")


def test_losses_are_compared_where_both_have_trained() -> None:
    losses = section((ONE, OTHER), "loss at the same step")
    assert losses.lines[0].name == "step 50" and losses.lines[0].values == ("4.0000", "3.5000")
    assert losses.lines[-1].name == "step 200" and losses.lines[-1].values == ("1.5000", "2.5000")


def test_all_that_was_logged_is_compared_at_the_last_step_that_both_reached() -> None:
    logged = (
        {"loss": [(0.0, 4.0), (200.0, 1.5)], "lr": [(0.0, 3e-4), (150.0, 2e-4), (200.0, 1e-4)], "mfu": [(200.0, 0.4)]},
        {"loss": [(50.0, 3.5), (400.0, 1.9)], "lr": [(50.0, 1e-4)], "val/loss": [(300.0, 2.0)]},
    )
    assert metric_names(logged) == ["loss", "lr", "mfu", "val/loss"]
    found = {one.title: one for one in compare((ONE, OTHER), logged)}
    assert {line.name: line.values for line in found["metrics at step 200"].lines} == {
        "lr": ("0.0001", "0.0001"), "mfu": ("0.4", ""),
    }  # fmt: skip
    alone = ({"loss": [(0.0, 4.0)]}, {"loss": [(0.0, 3.0)]})
    assert not [one for one in compare((ONE, OTHER), alone) if one.title.startswith("metrics")], "it is told above"
    chosen = {one.title: one for one in compare((ONE, OTHER), logged, "lr")}["lr at the same step"]
    assert (chosen.lines[0].name, chosen.lines[0].values) == ("step 50", ("0.0003", "0.0001"))
    assert not [one for one in compare((ONE, OTHER), logged, "mfu") if one.title.startswith("mfu")]
    assert not [one for one in compare((ONE, OTHER), ({}, {})) if one.title.startswith("metrics")]


def test_a_run_that_logged_nothing_takes_nothing_from_the_others() -> None:
    logged = ({"lr": [(0.0, 3e-4), (200.0, 1e-4)]}, {}, {"lr": [(0.0, 5e-4), (400.0, 2e-4)]})
    found = {one.title: one for one in compare((ONE, run("empty"), OTHER), logged, "lr")}
    assert {line.name: line.values for line in found["metrics at step 200"].lines} == {"lr": ("0.0001", "", "0.0005")}
    assert found["lr at the same step"].lines[-1].values == ("0.0001", "", "0.0005")
    losses = {one.title: one for one in compare((ONE, run("empty"), OTHER))}["loss at the same step"]
    assert losses.lines[0].values == ("4.0000", "", "3.5000")


def test_curves_without_a_common_step_or_in_other_units_are_not_compared() -> None:
    early, late = run("a", losses=curve((0, 1.0), (5, 1.0))), run("b", losses=curve((6, 1.0)))
    by_save = run("c", losses=curve((0, 1.0)), losses_by="save")
    assert not [one for one in (*compare((early, late)), *compare((early, by_save))) if one.title.startswith("loss")]


def test_runs_without_anything_are_compared_too() -> None:
    assert compare((run("a"), run("b")))[0].title == "runs"


@given(st.lists(st.lists(st.integers(0, 500), min_size=1, unique=True), min_size=1, max_size=4))
def test_common_steps_are_covered_by_every_curve(steps: list[list[int]]) -> None:
    curves = [[(float(step), float(step)) for step in sorted(one)] for one in steps]
    found = common_steps(curves)
    assert found == sorted(set(found)) and len(found) <= 8
    for step in found:
        for one in curves:
            assert value_at(one, step) == max(at for at, _ in one if at <= step)
