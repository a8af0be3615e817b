"""The parts without a screen: what is listed in which order, curves, wrapped lines, the table of keys."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lavender_tui.model.run import EndFacts, Lineage, LiveProcess, RunState
from lavender_tui.tui import keys
from lavender_tui.tui.ages import next_save
from lavender_tui.tui.hand import SECONDS, Hand
from lavender_tui.tui.lineup import arrange
from lavender_tui.tui.listing import SORTINGS, View
from lavender_tui.tui.screens.help import HelpScreen
from lavender_tui.tui.screens.log import LogScreen
from lavender_tui.tui.screens.resume import ResumeScreen
from lavender_tui.tui.screens.run import RunScreen
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.usage_words import machine_gpus
from lavender_tui.tui.widgets.curve import draw, roomy
from lavender_tui.tui.widgets.inks import fit, shown_path
from lavender_tui.tui.widgets.line_table import GAP, Column, lay_out
from lavender_tui.tui.widgets.lines import wrap_spans
from lavender_tui.watch.devices import DeviceUse
from tests.model.build import checkpoint, run

WORDS = st.text(st.characters(blacklist_categories=("Cc", "Cs", "Cf", "Mn", "Me", "Zl", "Zp")), max_size=60)
SCREENS = {keys.LIST: RunsScreen, keys.RUN: RunScreen, keys.RESUME: ResumeScreen, keys.LOG: LogScreen}


def _names(rows) -> list[str]:
    return [("  " * row.depth) + row.run.name for row in rows]


def test_resumed_runs_stand_under_their_source() -> None:
    old, again, third, other = (f"run-2026-0{month}-01_00-00-00" for month in (1, 3, 4, 2))
    runs = [
        run(old),
        run(other),
        run(third, resumed_from=Lineage(run=f"/runs/{again}")),
        run(again, resumed_from=Lineage(run=f"/runs/{old}")),
    ]
    assert _names(arrange(runs, View())) == [old, f"  {again}", f"    {third}", other], (
        "a lineage is as new as its newest"
    )
    folded = View(folded=frozenset({f"/runs/{old}"}))
    assert _names(arrange(runs, folded)) == [old, other]
    assert arrange(runs, folded)[0].descendants == 2


def test_a_circle_of_lineage_loses_no_run() -> None:
    one = run("a", resumed_from=Lineage(run="/runs/b"))
    two = run("b", resumed_from=Lineage(run="/runs/a"))
    self_made = run("c", resumed_from=Lineage(run="/runs/c"))
    assert sorted(row.run.name for row in arrange([one, two, self_made], View())) == ["a", "b", "c"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12), st.sampled_from(SORTINGS), st.booleans())
def test_every_run_is_listed_exactly_once(edges, sorting, is_reversed) -> None:
    sources = dict(edges)
    runs = [
        run(f"r{number}", resumed_from=Lineage(run=f"/runs/r{sources[number]}") if number in sources else None)
        for number in range(10)
    ]
    rows = arrange(runs, View(sorting=sorting, is_reversed=is_reversed))
    assert sorted(row.run.name for row in rows) == sorted(one.name for one in runs)


def test_unknown_losses_are_last_in_both_directions() -> None:
    runs = [run("a", checkpoint(loss=2.0)), run("b", checkpoint(loss=None)), run("c", checkpoint(loss=1.0)), run("d")]
    by_loss = next(one for one in SORTINGS if one.name == "loss")
    assert [row.run.name for row in arrange(runs, View(sorting=by_loss))][:2] == ["c", "a"]
    assert [row.run.name for row in arrange(runs, View(sorting=by_loss, is_reversed=True))][:2] == ["a", "c"]


@given(WORDS)
def test_any_text_is_a_filter(query: str) -> None:
    assert len(arrange([run("r", state=RunState.FAILED)], View(query=query))) in (0, 1)


@given(
    st.lists(st.tuples(st.integers(-(2**70), 2**70), st.none() | st.floats()), max_size=80),
    st.integers(-1, 40),
    st.integers(-1, 9),
)
def test_any_curve_fits_its_room(points, width: int, height: int) -> None:
    curve = draw(points, width, height)
    if curve is None:
        return
    assert len(curve.lines) == height and all(len(line) == width for line in curve.lines)
    assert math.isfinite(curve.low) and math.isfinite(curve.high)


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (2.0, 2.0, (1.5, 2.5)),
        (2.0, 2.00001, (1.4999975, 2.5000125)),
        (-4.0, -4.0, (-5.0, -3.0)),
        (0.0, 0.0, (-1.0, 1.0)),
        (2.0, 2.01, (2.0, 2.01)),
        (1.7e308, 1.7e308, (1.7e308, 1.7e308)),
    ],
)
def test_an_axis_leaves_room_about_a_flat_value(low: float, high: float, shown: tuple[float, float]) -> None:
    assert roomy(low, high) == pytest.approx(shown)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_an_axis_holds_its_values(one: float, other: float) -> None:
    least, greatest = sorted((one, other))
    low, high = roomy(least, greatest)
    assert low <= least and greatest <= high


def test_a_flat_curve_is_drawn_at_half_height() -> None:
    curve = draw([(1, 2.0), (2, 2.0)], 4, 5)
    assert curve is not None and (curve.low, curve.high) == (1.5, 2.5)
    assert [bool(line.strip()) for line in curve.lines] == [False, False, True, False, False]


@given(st.lists(st.tuples(WORDS, st.just("")), max_size=6), st.integers(2, 50), st.integers(0, 12))
def test_wrapped_lines_fit_and_lose_no_letter(spans, width: int, hang: int) -> None:
    lines = wrap_spans(spans, width, min(hang, width // 3))
    assert all(cell_len("".join(text for text, _ in line)) <= width for line in lines)
    kept = "".join(text for line in lines for text, _ in line).replace(" ", "")
    assert kept == "".join(text for text, _ in spans).replace(" ", "")


@given(WORDS, st.integers(0, 40), st.booleans(), st.sampled_from(["left", "right", "middle"]))
def test_a_cell_is_exactly_as_wide_as_its_column(words: str, width: int, right: bool, elide: str) -> None:
    assert cell_len(fit(words, width, right=right, elide=elide)) == width


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 99), st.integers(0, 80)), min_size=1, max_size=9),
    st.integers(1, 250),
)
def test_columns_never_exceed_the_width(specs, width: int) -> None:
    columns = [Column(key=str(n), title="", width=w, keep=k, grows_to=g) for n, (w, k, g) in enumerate(specs)]
    placed = lay_out(columns, width)
    assert placed and sum(w for _, w in placed) + GAP * (len(placed) - 1) <= max(width, 1)


def test_a_path_is_shown_from_home_and_cut_on_the_left() -> None:
    assert shown_path("/home/me/exp", home="/home/me") == "~/exp"
    assert shown_path("/home/meander", home="/home/me") == "/home/meander"
    assert shown_path("/a/very/long/path", 8) == "…ng/path"


def test_the_table_of_keys_is_consistent() -> None:
    ids = [key.id for key in keys.TABLE]
    assert len(ids) == len(set(ids))
    for place in SCREENS:
        pressed = [one for key in keys.of_place(place) for one in key.keys.split(",")]
        assert len(pressed) == len(set(pressed)), f"a key has two meanings in {place}"
    for key in keys.TABLE:
        assert key.help and key.help[0].isupper() and not key.help.endswith(".")
        assert key.shown in keys.markdown()


@pytest.mark.parametrize("place", SCREENS)
def test_every_key_of_a_screen_does_something(place: str) -> None:
    for binding in keys.bindings(place):
        name = binding.action.removeprefix("app.")  # type: ignore[union-attr]
        assert hasattr(SCREENS[place], f"action_{name}"), f"{name} on {place}"
        assert binding.id and binding.tooltip  # type: ignore[union-attr]


def test_help_knows_every_place() -> None:
    assert {place for key in keys.TABLE for place in key.places} == set(keys.PLACES)
    assert HelpScreen(keys.LIST)


def test_the_gpus_of_the_machine_fit_into_the_header() -> None:
    def device(index: int, percent: int | None, held: float) -> DeviceUse:
        return DeviceUse(
            name=f"GPU-{index}", index=index, utilisation_percent=percent, memory_used_bytes=int(held * 1e9),
            memory_total_bytes=80_000_000_000,
        )  # fmt: skip

    assert machine_gpus([]) == ""
    assert machine_gpus([device(0, 97, 62.1), device(3, None, 0)]) == "GPU 0 97 % 62.1/80.0 GB, GPU 3 0.0/80.0 GB"
    eight = [device(at, percent, 40) for at, percent in enumerate((0, 12, 30, 50, 60, 80, 100, None))]
    assert machine_gpus(eight) == "8 GPUs ▁▁▃▄▅▇█? 320/640 GB"


@pytest.mark.parametrize(
    ("every", "ago", "words"),
    [
        (600, 300, "next save in 5 min"),
        (60, 30, "next save within a minute"),
        (60, 70, "next save due now"),
        (600, 1500, "next save due since 15 min"),
        (36_000, 60, "next save in 10 h"),
        (None, 60, ""),
        (0.2, 60, ""),
        (600, -7200, ""),
    ],
)
def test_when_the_next_save_is_due(every: float | None, ago: float, words: str) -> None:
    alive = (LiveProcess(pid=1, start_ticks=1, role="worker"),)
    now = 1_800_000_000.0
    living = run("a", save_interval_seconds=every, last_save_at=now - ago, processes=alive)
    assert next_save(living, now) == words
    assert next_save(run("a", save_interval_seconds=every, last_save_at=now - ago), now) == ""
    assert next_save(replace(living, end=EndFacts(stop_requested=True)), now) == "", "it ends"


def test_a_busy_loop_still_knows_what_was_pasted() -> None:
    hand = Hand()
    for key in "R\nxy\n":
        hand.pressed(key)
    later = time.monotonic() + 2 * SECONDS
    while time.monotonic() < later:
        assert hand.is_too_quick
    hand.pressed("x")
    assert not hand.is_too_quick, "a hand's key after it"
    held = Hand()
    for _ in range(9):
        held.pressed("j")
    assert not held.is_too_quick, "one key, held down"
