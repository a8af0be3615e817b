"""The family of runs, and the one curve through it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model import export
from lavender_tui.model.lineage import Family, Link, Stitched
from lavender_tui.model.proof import Begin, Finding, Outcome, Proof
from lavender_tui.model.run import Lineage, LossPoint, Run
from tests.model.build import checkpoint, run


def points(*steps: int, loss: float = 2.0) -> tuple[LossPoint, ...]:
    return tuple(LossPoint(step=step, loss=loss) for step in steps)


def saved(at: Run | str, count: int, step: int | None) -> Any:
    path = at if isinstance(at, str) else at.path
    return checkpoint(count, path=f"{path}/pretrain-10-00-00-{count:04d}.pt", step=step)


def trained(
    name: str, first: int, last: int, *saves: int, parent: Run | None = None, save: int = 1, **more: Any
) -> Run:
    """Steps first … last with a point each, saved at these steps; `save` is which of the parent's it comes from."""
    own = [saved(f"/runs/{name}", count, step) for count, step in enumerate(saves, 1)]
    told = Lineage(run=parent.path, checkpoint=parent.checkpoints[save - 1].path) if parent else None
    return run(name, *own, losses=points(*range(first, last + 1)), resumed_from=told, **more)


FIRST = trained("run-2026-04-24_10-00-00", 1, 10, 4, 8)
SECOND = trained("run-2026-04-24_11-00-00", 9, 15, 12, parent=FIRST, save=2)
THIRD = trained("run-2026-04-24_12-00-00", 13, 20, 16, parent=SECOND)
ALL = (THIRD, FIRST, SECOND)


def steps(stitched: Stitched) -> list[int]:
    return [point.step for point in stitched.points]


def test_one_curve_from_the_first_start_to_now() -> None:
    stitched = Family(ALL).stitched(THIRD)
    assert steps(stitched) == list(range(1, 21))
    assert stitched.is_whole
    assert [(mark.kind, mark.step, mark.run) for mark in stitched.marks] == [
        ("checkpoint", 4, FIRST.path),
        ("checkpoint", 8, FIRST.path),
        ("resume", 8, SECOND.path),
        ("checkpoint", 12, SECOND.path),
        ("resume", 12, THIRD.path),
        ("checkpoint", 16, THIRD.path),
    ]


def test_what_was_trained_after_the_checkpoint_is_left_out() -> None:
    again = trained("run-2026-04-24_13-00-00", 5, 6, parent=FIRST, save=1)
    again_points = tuple(LossPoint(step=point.step, loss=9.0) for point in again.losses)
    young = run(again.name, losses=again_points, resumed_from=again.resumed_from)
    stitched = Family([FIRST, young]).stitched(young)
    assert [(point.step, point.loss) for point in stitched.points] == [(1, 2), (2, 2), (3, 2), (4, 2), (5, 9), (6, 9)]
    assert [mark.step for mark in stitched.marks] == [4, 4]  # the save and the resume; the save at 8 is in no weights


def test_the_tree() -> None:
    branch = trained("run-2026-04-24_11-30-00", 5, 7, parent=FIRST)
    lone = trained("run-2026-04-23_09-00-00", 1, 3)
    family = Family([*ALL, branch, lone])
    assert family.heads == (FIRST, lone) or family.heads == (lone, FIRST)
    assert family.children(FIRST) == (SECOND, branch)
    assert family.children(THIRD) == ()
    assert [link.path for link in family.ancestry(THIRD)] == [FIRST.path, SECOND.path, THIRD.path]
    assert [link.from_step for link in family.ancestry(THIRD)] == [None, 8, 12]


def test_an_ancestor_that_is_gone_leaves_its_path_and_the_rest_of_the_curve() -> None:
    family = Family([THIRD, SECOND])
    chain = family.ancestry(THIRD)
    assert [(link.path, link.run is None) for link in chain] == [
        (FIRST.path, True), (SECOND.path, False), (THIRD.path, False),
    ]  # fmt: skip
    stitched = family.stitched(THIRD)
    assert steps(stitched) == list(range(9, 21))
    assert not stitched.is_whole
    assert family.heads == (SECOND,)


def test_a_root_that_was_moved_keeps_its_family() -> None:
    moved = run(FIRST.name, *FIRST.checkpoints, losses=FIRST.losses, path=f"/elsewhere/{FIRST.name}")
    family = Family([moved, SECOND])
    assert family.parent(SECOND) is moved
    assert steps(family.stitched(SECOND)) == list(range(1, 16))
    twice = Family([moved, run(FIRST.name, path=f"/third/{FIRST.name}"), SECOND])
    assert twice.parent(SECOND) is None  # two of that name: neither is taken for it


def test_circles_end() -> None:
    own = Lineage(run="/runs/a", checkpoint=None)
    a, b = run("a", resumed_from=Lineage(run="/runs/b")), run("b", resumed_from=own)
    itself = run("c", resumed_from=Lineage(run="/runs/c/"))
    family = Family([a, b, itself])
    assert [link.path for link in family.ancestry(a)] == ["/runs/b", "/runs/a"]
    assert [link.path for link in family.ancestry(itself)] == ["/runs/c"]
    assert set(family.heads) == {a, itself}
    assert family.stitched(a).points == ()


def test_where_the_checkpoint_is_gone_its_begin_tells_the_step() -> None:
    bare = run(FIRST.name, losses=FIRST.losses)
    young = run(
        "run-2026-04-24_11-00-00", losses=points(9, 10), resumed_from=SECOND.resumed_from, begin=Begin(at_step=8)
    )
    family = Family([bare, young])
    assert family.ancestry(young)[-1].from_step == 8
    assert steps(family.stitched(young)) == list(range(1, 11))
    unknown = run("run-2026-04-24_11-00-00", losses=points(7, 8), resumed_from=SECOND.resumed_from)
    assert steps(Family([bare, unknown]).stitched(unknown)) == list(range(1, 9))  # where it begins


def test_a_run_that_counts_anew_is_moved_on() -> None:
    young = trained("run-2026-04-24_11-00-00", 1, 5, 3, parent=FIRST, save=2)
    stitched = Family([FIRST, young]).stitched(young)
    assert steps(stitched) == list(range(1, 14))
    assert [mark.step for mark in stitched.marks] == [4, 8, 8, 11]


def test_curves_of_saves_go_by_their_counts() -> None:
    old = run(
        FIRST.name,
        saved(FIRST, 1, None),
        saved(FIRST, 2, None),
        saved(FIRST, 3, None),
        losses=points(1, 2, 3),
        losses_by="save",
    )
    told = Lineage(run=old.path, checkpoint=old.checkpoints[1].path)
    young = run(SECOND.name, saved(SECOND, 1, None), losses=points(1, 2), losses_by="save", resumed_from=told)
    stitched = Family([old, young]).stitched(young)
    assert steps(stitched) == [1, 2, 3, 4]
    assert [(mark.kind, mark.step) for mark in stitched.marks] == [
        ("checkpoint", 1), ("checkpoint", 2), ("resume", 2), ("checkpoint", 3),
    ]  # fmt: skip
    by_step = run(THIRD.name, losses=points(30), resumed_from=Lineage(run=young.path))
    assert not Family([old, young, by_step]).stitched(by_step).is_whole  # two axes make no curve
    assert steps(Family([old, young, by_step]).stitched(by_step)) == [30]


def test_a_run_whose_workers_were_started_again_shows_the_later_pass() -> None:
    losses = (*points(1, 2, 3, 4), *points(3, 4, 5, loss=7.0))
    stitched = Family([one := run("a", losses=losses)]).stitched(one)
    assert [(point.step, point.loss) for point in stitched.points] == [(1, 2), (2, 2), (3, 7), (4, 7), (5, 7)]


def test_a_run_below_a_circle_is_reached_through_it_and_only_once() -> None:
    below, one, other = (run(f"run-2026-04-24_10-00-0{number}") for number in range(3))
    below = replace(below, resumed_from=Lineage(run=one.path))
    one, other = replace(one, resumed_from=Lineage(run=other.path)), replace(other, resumed_from=Lineage(run=one.path))
    family = Family([below, one, other])
    assert family.heads == (one,)
    assert set(family.children(one)) == {below, other}


@st.composite
def families(draw: st.DrawFn) -> list[Run]:
    """Runs that come from any other, with any saves and any steps; some parents aren't there."""
    count = draw(st.integers(1, 6))
    runs = []
    for number in range(count):
        name = f"run-2026-04-24_10-00-{number:02d}"
        marked = draw(st.lists(st.none() | st.integers(0, 30), max_size=3))
        own = [saved(f"/runs/{name}", at, step) for at, step in enumerate(marked, 1)]
        parent = draw(st.none() | st.integers(0, count))
        told = None
        if parent is not None:
            path = f"/runs/run-2026-04-24_10-00-{parent:02d}"
            told = Lineage(run=path, checkpoint=draw(st.sampled_from([None, f"{path}/pretrain-10-00-00-0001.pt"])))
        losses = points(*draw(st.lists(st.integers(0, 30), max_size=6)), loss=float(number))
        by = draw(st.sampled_from(["step", "step", "save"]))
        runs.append(run(name, *own, losses=losses, losses_by=by, resumed_from=told))
    return runs


@given(families())
def test_laws_of_any_family(runs: list[Run]) -> None:
    family = Family(runs)
    reached = [one for head in family.heads for one in _below(family, head, set())]
    assert sorted(one.path for one in reached) == sorted(one.path for one in runs)  # each once
    for one in runs:
        chain = family.ancestry(one)
        assert chain[-1].run is one
        assert len({link.path for link in chain}) == len(chain)
        assert all(link.run is not None for link in chain[1:])
        stitched = family.stitched(one)
        assert all(a.step < b.step for a, b in itertools.pairwise(stitched.points))
        assert all(a.step <= b.step for a, b in itertools.pairwise(stitched.marks))
        _older_come_first(stitched, chain)
        export.run_document(one, family)


def _below(family: Family, head: Run, seen: set[str]) -> list[Run]:
    if head.path in seen:
        return []
    seen.add(head.path)
    return [head, *(one for child in family.children(head) for one in _below(family, child, seen))]


def _older_come_first(stitched: Stitched, chain: tuple[Link, ...]) -> None:
    """The losses name their run here: along the curve one only ever passes on to a younger run of the chain."""
    order = [float(link.run.name[-2:]) for link in chain if link.run is not None]
    passed = [order.index(point.loss) for point in stitched.points if point.loss is not None]
    assert passed == sorted(passed)


def test_the_export_has_proof_and_lineage() -> None:
    finding = Finding(id="loss", agrees=False, what="jumped: loss 2.1 → 5.7")
    proof = Proof(verdict=Outcome.JUMPED, words="jumped: loss 2.1 → 5.7", evidence=(finding,))
    one = run(SECOND.name, losses=SECOND.losses, resumed_from=SECOND.resumed_from, proof=proof)
    documents = export.run_documents([one, FIRST])
    assert documents[0]["lineage"] == [{"run": FIRST.path, "from_step": None}, {"run": one.path, "from_step": 8}]
    assert documents[0]["proof"] == {
        "verdict": "jumped",
        "words": "jumped: loss 2.1 → 5.7",
        "evidence": [{"id": "loss", "agrees": False, "what": "jumped: loss 2.1 → 5.7"}],
    }
    assert (documents[1]["proof"], documents[1]["lineage"]) == (None, [{"run": FIRST.path, "from_step": None}])
    assert export.run_document(one)["lineage"][0] == {"run": FIRST.path, "from_step": None}  # by its record alone


def test_the_exported_curve_is_cut_at_each_resume() -> None:
    documents = export.run_documents(ALL, with_curve=True)
    curve = next(one["curve"] for one in documents if one["path"] == THIRD.path)
    segments = [(one["run"], [step for step, _ in one["points"]]) for one in curve["segments"]]
    assert segments == [
        (FIRST.path, list(range(1, 9))),
        (SECOND.path, list(range(9, 13))),
        (THIRD.path, list(range(13, 21))),
    ]
    assert (curve["by"], curve["whole"]) == ("step", True)
    assert [(mark["kind"], mark["step"], mark["save_count"]) for mark in curve["marks"]][-1] == ("checkpoint", 16, 1)
    assert "curve" not in export.run_documents(ALL)[0]
