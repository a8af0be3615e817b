"""What a resume costs beyond the training's own start, and a merge beyond the library's own: ratios, side by side."""

from __future__ import annotations

import json
import marshal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch.record import read_exit
from lavender_tui.model.rank_state import SaveFacts, examine, owners_merge
from lavender_tui.model.state_shapes import normalise
from lavender_tui.resume import carry_out, warm_child
from lavender_tui.resume.merge import packed
from tests.resume.real_states import make_table, train
from tests.resume.saves import proposed, save

pytestmark = [
    pytest.mark.bench,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]
ROUNDS = 11
GOAL_SECONDS = 0.3
# Writes when its first line runs, so that what is measured ends inside the training.
FIRST_LINE = "import sys, time; open(sys.argv[1], 'w').write(repr(time.monotonic()))"
RANKS, SPLITS = 256, 1024
MERGE_ALLOWED_TIMES = 12  # of the bare merge in memory: the states go through a pipe


def test_from_enter_to_the_first_line(
    tmp_path: Path, until: Callable[..., Any], nothing_survives: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """From `carry_out` to the training's first line of Python, against Popen of the same words; by turns."""
    uri = str(tmp_path / "data")
    table = make_table(uri)
    states, _ = train(table, 2, rows=48)
    data = {"uri": uri, "table": "rows", "version": table.version, "num_rows": 1000}
    run = str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")
    save(run, dataset=states, world_size=2, data=data)
    mark = tmp_path / "mark"
    words = (sys.executable, "-u", "-I", "-S", "-c", FIRST_LINE, str(mark))
    by_hand, resumed, asked = [], [], []
    with warm_child() as child:
        child.merge(states)  # its libraries are there
        for _ in range(ROUNDS):
            started = time.monotonic()
            subprocess.Popen(words, start_new_session=True).wait()
            by_hand.append(float(mark.read_text()) - started)
            proposal = proposed(run, words, world_size=1)
            mark.unlink()
            started = time.monotonic()
            launched = carry_out(proposal, child=child)
            until(lambda launched=launched: read_exit(launched.run_dir), 30, "the end of the run")
            resumed.append(float(mark.read_text()) - started)
            started = time.monotonic()
            child.merge(states)
            merged = time.monotonic()
            child.table(uri, "rows", version=table.version)
            asked.append((merged - started, time.monotonic() - merged))
    added = statistics.median(resumed) - statistics.median(by_hand)
    merge, look = (statistics.median(times) for times in zip(*asked, strict=True))
    with capsys.disabled():
        print(
            f"\nEnter to the first line, median of {ROUNDS}: by hand {ms(statistics.median(by_hand))}, resumed "
            f"{ms(statistics.median(resumed))}: +{ms(added)} (goal {ms(GOAL_SECONDS)}, best "
            f"{ms(min(resumed))}, worst {ms(max(resumed))}); of it the merge {ms(merge)}, the look into the table "
            f"{ms(look)}"
        )
    assert min(resumed) - min(by_hand) < GOAL_SECONDS


@dataclass(frozen=True)
class Found:
    rank: int
    state: dict[str, Any]
    world_size: int = RANKS
    origin: str = "save.pt"


def rank_states() -> list[dict[str, Any]]:
    """As ranks say it that read through a loader after a resume: of their own splits the truth, of others' the past."""
    each = SPLITS // RANKS
    states = []
    for rank in range(RANKS):
        counts = [50_000 + 24 * (split // each == rank) for split in range(SPLITS)]
        fixed = {"shuffle_seed": 0, "num_splits": SPLITS, "epoch": 0}
        states.append({**fixed, "samples_consumed_per_split": counts, "positions_consumed_per_split": list(counts)})
    return states


def test_a_merge_of_256_ranks_and_1024_splits(capsys: pytest.CaptureFixture[str]) -> None:
    """States in memory to the merged state that both agree on, against `merge_state_dicts` alone in this process."""
    from lancedb.streaming import StreamingDataset

    states = rank_states()
    found = [Found(rank, state) for rank, state in enumerate(states)]
    bare, merged = best(lambda: StreamingDataset.merge_state_dicts(states))
    checking, result = best(lambda: examine(found, SaveFacts(world_size=RANKS)))
    owning, by_owners = best(lambda: owners_merge(result.states, RANKS))
    with warm_child() as child:
        child.merge(states[:1])  # its libraries are there
        asking, by_library = best(lambda: child.merge(states))
    assert merged == by_owners == by_library
    writing, text = best(lambda: packed({"task": "merge", "states": states}))
    reading, _ = best(lambda: marshal.loads(text[8:]))
    answering, _ = best(lambda: normalise(json.loads(json.dumps(merged))))
    rest = asking - writing - reading - bare - answering
    whole = owning + asking
    with capsys.disabled():
        print(
            f"\nmerge of {RANKS} ranks x {SPLITS} splits, best of {ROUNDS}: bare {ms(bare)}, owners and library "
            f"{ms(whole)} ({whole / bare:.1f} times): owners {ms(owning)}; the child {ms(asking)}, of it writing "
            f"{len(text) / 1e6:.1f} MB {ms(writing)}, reading them {ms(reading)}, the merge {ms(bare)}, the answer "
            f"{ms(answering)}, the pipe and the rest {ms(rest)}; before that every rule on the set {ms(checking)}"
        )
    assert whole < MERGE_ALLOWED_TIMES * bare


def best(work: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest of several times, in seconds, and what came out: load on the machine only ever adds."""
    times, value = [], None
    for _ in range(ROUNDS):
        started = time.perf_counter()
        value = work()
        times.append(time.perf_counter() - started)
    return min(times), value


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
