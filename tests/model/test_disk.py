"""What checkpoints cost, and which could go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from lavender_tui.model.disk import KeepRules, account, costs, fates, seconds_until_full
from lavender_tui.model.run import Lineage, LiveProcess, Run, RunState
from tests.model.build import checkpoint, run


def save(count: int, name: str = "run-2026-04-24_18-53-41", **fields: object) -> Checkpoint:
    stage = fields.get("stage", "pretrain") or "some"
    fields.setdefault("name_stage", stage)
    return checkpoint(count, path=f"/runs/{name}/{stage}-10-00-00-{count:04d}.pt", **fields)


def gone(runs: list[Run], rules: KeepRules) -> set[int | None]:
    return {fate.checkpoint.save_count for fate in fates(runs, rules) if fate.may_go}


def test_the_newest_whole_one_of_each_stage_stays() -> None:
    saved = [save(1), save(2), save(3, stage="sft"), save(4, stage="sft"), save(5, wholeness=Wholeness.CUT)]
    assert gone([run("a", *saved)], KeepRules()) == {1, 3}
    assert gone([run("a", *saved)], KeepRules(last=2)) == set()


def test_what_is_cut_is_never_the_newest_and_never_goes() -> None:
    saved = [save(1), save(2), save(3, wholeness=Wholeness.CUT), save(4, wholeness=Wholeness.UNREAD)]
    assert gone([run("a", *saved)], KeepRules()) == {1}
    told = [(fate.why, fate.wants_a_look) for fate in fates([run("a", *saved)], KeepRules())]
    assert told == [
        ("", False),
        ("newest whole of pretrain", False),
        ("not a whole checkpoint (cut off): look at it yourself", True),
        ("not read yet", False),
    ]


def test_what_looks_wrong_takes_no_sound_ones_place() -> None:
    wrong = {"loss": None, "loss_text": "nan"}, {"name_stage": "sft"}, {"has_model": False}
    for fields in wrong:
        assert gone([run("a", save(1), save(2), save(3, **fields))], KeepRules()) == {1}
    suspect = save(3)
    assert gone([run("a", save(1), save(2), suspect, known_bad=((suspect.path, "broke"),))], KeepRules()) == {1}
    assert gone([run("a", save(1, loss=None, loss_text="nan"), save(2, name_stage="sft"))], KeepRules()) == set()


def test_the_best_stay() -> None:
    saved = [save(1, loss=1.0), save(2, loss=3.0), save(3, loss=None, loss_text="nan"), save(4, loss=2.0)]
    assert gone([run("a", *saved)], KeepRules(best=1)) == {2, 3}
    whys = {fate.checkpoint.save_count: fate.why for fate in fates([run("a", *saved)], KeepRules(best=1))}
    assert whys[1] == "best 1 of pretrain" and whys[4] == "newest whole of pretrain"


def test_what_was_resumed_from_stays_also_after_a_move() -> None:
    old = run("run-2026-04-24_18-53-41", save(1), save(2), save(3))
    here = Lineage(run=old.path, checkpoint=old.checkpoints[0].path)
    elsewhere = Lineage(run="/before/" + old.name, checkpoint=f"/before/{old.name}/pretrain-10-00-00-0002.pt")
    assert gone([old, run("run-2026-04-25_00-00-00", resumed_from=here)], KeepRules()) == {2}
    assert gone([old, run("run-2026-04-25_00-00-00", resumed_from=elsewhere)], KeepRules()) == {1}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["pretrain", "sft", None]),
            st.sampled_from([Wholeness.WHOLE, Wholeness.WHOLE, Wholeness.CUT, Wholeness.WRITING]),
            st.none() | st.floats(0, 10),
        ),
        max_size=12,
    ),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 11),
)
def test_whatever_the_rules_a_resume_of_each_stage_stays_possible(
    saves: list[tuple[str | None, Wholeness, float | None]], last: int, best: int, source: int
) -> None:
    saved = [save(at + 1, stage=stage, wholeness=how, loss=loss) for at, (stage, how, loss) in enumerate(saves)]
    runs = [run("run-2026-04-24_18-53-41", *saved)]
    if source < len(saved):
        runs.append(run("child", resumed_from=Lineage(run=runs[0].path, checkpoint=saved[source].path)))
    found = {fate.checkpoint.path: fate for fate in fates(runs, KeepRules(last=last, best=best))}
    assert len(found) == len(saved)
    assert source >= len(saved) or not found[saved[source].path].may_go
    for stage in {one.stage for one in saved}:
        whole = [one for one in saved if one.stage == stage and one.is_usable]
        assert all(not found[one.path].may_go for one in whole[-last:])
    assert all(found[one.path].checkpoint.is_usable for one in saved if found[one.path].may_go)


def test_rules_that_keep_nothing_are_none() -> None:
    with pytest.raises(ValueError, match="newest"):
        KeepRules(last=0)


def test_how_long_the_disk_lasts() -> None:
    alive = (LiveProcess(pid=1, start_ticks=1, role="worker"),)
    living = run("a", save(1), save(2), processes=alive, save_interval_seconds=10.0, state=RunState.RUNNING)
    dead = run("b", save(3), save_interval_seconds=10.0)
    found = costs([dead, living], KeepRules())
    assert [(cost.run.name, cost.size_bytes, cost.could_free_bytes) for cost in found] == [
        ("a", 2000, 1000),
        ("b", 1000, 0),
    ]
    assert seconds_until_full(50_000, found) == 500.0
    assert seconds_until_full(50_000, [found[1]]) is None


def test_an_account_of_all_runs() -> None:
    rules, runs = KeepRules(), [run("a", save(1), save(2)), run("b", save(3))]
    found = account(runs, rules, fates(runs, rules), 50_000)
    assert (found.size_bytes, found.doomed_bytes, found.free_bytes, found.seconds_left) == (3000, 1000, 50_000, None)
    assert [fate.checkpoint.save_count for fate in found.doomed] == [1]
    assert found.doomed_of(runs[0].key) == found.doomed and found.doomed_of(runs[1].key) == found.doomed_of(None) == []
    assert [fate.checkpoint.save_count for fate in found.fates[runs[0].key]] == [1, 2]
