"""Roots to runs, on real directories with real checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lavender_tui.checkpoints import read_checkpoint
from lavender_tui.model.checkpoint import Wholeness
from lavender_tui.model.run import Run, RunState
from lavender_tui.watch.discover import MAX_DEPTH
from lavender_tui.watch.index import Index
from lavender_tui.watch.scan import scan, scan_all
from tests.watch import saves

RUN = saves.RUN
LATER = "run-2025-03-15_09-00-00"


def names(run: Run) -> list[str]:
    return [os.path.basename(one.path) for one in run.checkpoints]


def only(root: Path) -> Run:
    (run,) = scan([str(root)])
    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / RUN
    directory.mkdir()
    return directory


def test_order_is_by_count_never_by_name_or_time(run: Path, tmp_path: Path):
    for count, clock, mtime in ((9, "23-59-30", 3e8), (10, "00-00-30", 2e8), (9999, "10-00-01", 1e8)):
        saves.save(run, count, named=saves.name(count, clock=clock), mtime=mtime)
    saves.save(run, 10000, named=saves.name(10000, clock="10-00-01"), mtime=1e8)
    assert [one.save_count for one in only(tmp_path).checkpoints] == [9, 10, 9999, 10000]
    assert only(tmp_path).newest.save_count == 10000


def test_runs_come_newest_first(tmp_path: Path):
    for name in (RUN, LATER):
        saves.save(tmp_path / name, 1)
    assert [one.name for one in scan([str(tmp_path)])] == [LATER, RUN]


@pytest.mark.parametrize("given", ["", RUN, f"{RUN}/{saves.name(1)}"])
def test_a_root_may_be_a_run_or_a_file_in_it(run: Path, tmp_path: Path, given: str):
    saves.save(run, 1)
    assert only(tmp_path / given).path == str(run)


def test_overlapping_roots_show_a_run_once(run: Path, tmp_path: Path):
    saves.save(run, 1)
    assert len(scan([str(tmp_path), str(run), str(tmp_path / "."), str(tmp_path)])) == 1


def test_runs_lie_some_levels_deep_and_by_any_name(tmp_path: Path):
    saves.save(tmp_path / "exp" / "a" / RUN, 1)
    saves.save(tmp_path / "exp" / "baseline", 100, named="checkpoint_100.pt")
    deep = tmp_path.joinpath(*("d" for _ in range(MAX_DEPTH + 1)))
    saves.save(deep, 1)
    assert {one.name for one in scan([str(tmp_path)])} == {RUN, "baseline"}


def test_a_root_that_holds_runs_and_a_checkpoint_is_both(tmp_path: Path):
    saves.save(tmp_path, 1, named="pretrained.pt")
    saves.save(tmp_path / RUN, 1)
    assert {one.path for one in scan([str(tmp_path)])} == {str(tmp_path), str(tmp_path / RUN)}


def test_an_empty_run_is_a_run_by_its_name(tmp_path: Path):
    (tmp_path / RUN).mkdir()
    (tmp_path / "run-not-a-date").mkdir()
    found = only(tmp_path)
    assert (found.name, found.checkpoints, found.newest, found.state) == (RUN, (), None, RunState.IDLE)


def test_a_missing_root_is_a_warning(tmp_path: Path):
    scanned = scan_all([str(tmp_path / "nowhere")])
    assert scanned.runs == ()
    assert "nowhere" in scanned.warnings[0]


def test_links_are_never_counted_and_broken_ones_are_said(run: Path, tmp_path: Path):
    one = saves.save(run, 1)
    (run / "last.pt").symlink_to(one.name)
    (run / "latest.pt").symlink_to("gone.pt")
    (run / "loop-a.pt").symlink_to("loop-b.pt")
    (run / "loop-b.pt").symlink_to("loop-a.pt")
    (tmp_path / "run-latest").symlink_to(RUN)
    (run / "up").symlink_to("..")
    found = only(tmp_path)
    assert names(found) == [one.name]
    assert [warning.partition(" is ")[0] for warning in found.warnings] == ["latest.pt", "loop-a.pt", "loop-b.pt"]


def test_a_linked_run_that_lies_elsewhere_is_shown(tmp_path: Path):
    saves.save(tmp_path / "disk" / RUN, 1)
    root = tmp_path / "root"
    root.mkdir()
    (root / RUN).symlink_to(tmp_path / "disk" / RUN)
    (root / "everything").symlink_to(tmp_path)
    assert only(root).path == str(root / RUN)


def test_foreign_hidden_and_half_copied_names(run: Path, tmp_path: Path):
    real = saves.save(run, 2, stage="sft")
    for name in (f"._{real.name}", f".{real.name}.Zx81Qa", "sft-09-25-00-0003.pt.tmp", "sft-09-25-00-0003.pt.part",
                 ".nfs00000000000abcde00000001", "sft-09-26-00-0004.pt.sha256"):  # fmt: skip
        (run / name).write_bytes(b"x")
    (run / "notes.pt").write_bytes(b"not a checkpoint\n")
    (run / "sft-notes.pt").write_bytes(b"")
    (run / "sft-09-27-00-0005.pt").mkdir()
    os.mkfifo(run / "sft-09-28-00-0006.pt")
    found = only(tmp_path)
    assert names(found) == [real.name]
    assert len(found.warnings) == 3  # two ignored, and the pipe that isn't opened


def test_a_directory_of_foreign_files_is_no_run(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.pt").write_bytes(b"text\n")
    assert scan([str(tmp_path)]) == ()


def test_damaged_files_keep_their_row_and_newest_is_whole(run: Path, tmp_path: Path):
    whole = saves.save(run, 1)
    cut = run / saves.name(2)
    cut.write_bytes(saves.as_bytes(save_count=2)[:-100])
    os.utime(cut, (1e9, 1e9))
    (run / saves.name(3)).write_bytes(b"an error page\n")
    os.utime(run / saves.name(3), (1e9, 1e9))
    found = only(tmp_path)
    assert names(found) == [saves.name(1), saves.name(2), saves.name(3)]
    assert found.newest.path == str(whole)
    assert [one.is_usable for one in found.checkpoints] == [True, False, False]


def test_clocks_that_disagree(tmp_path: Path):
    now = time.time()
    ahead = tmp_path / RUN
    saves.save(ahead, 1, mtime=0)
    saves.save(ahead, 2, mtime=now + 7200)
    future = time.strftime("run-%Y-%m-%d_%H-%M-%S", time.localtime(now + 26 * 3600))
    saves.save(tmp_path / future, 1, mtime=now - 60)
    early, late = scan([str(tmp_path)])[::-1]
    assert early.last_save_at is None
    assert early.last_activity_at is None
    assert "the clocks differ" in early.warnings[0]
    assert [one.save_count for one in early.checkpoints] == [1, 2]
    assert late.last_save_at == pytest.approx(now - 60)
    assert "future" in late.warnings[0]
    assert {one.state for one in (early, late)} == {RunState.IDLE}


def test_the_save_interval_is_the_median_gap(run: Path, tmp_path: Path):
    for count, mtime in enumerate((1e9, 1e9 + 60, 1e9 + 120, 1e9 + 5000, 1e9 + 5060), 1):
        saves.save(run, count, mtime=mtime)
    found = only(tmp_path)
    assert found.save_interval_seconds == 60
    assert found.last_save_at == 1e9 + 5060


def test_losses_come_from_metrics_else_from_the_saves(run: Path, tmp_path: Path):
    saves.save(run, 1, ce_loss=2.5)
    saves.save(run, 2, ce_loss=float("nan"))
    assert [(point.step, point.loss) for point in only(tmp_path).losses] == [(1, 2.5), (2, None)]
    (run / "metrics.jsonl").write_text('{"step": 10, "loss": 1.5}\nbad\n{"step": 20, "loss": 1.25}\n{"ste')
    found = only(tmp_path)
    assert [(point.step, point.loss) for point in found.losses] == [(10, 1.5), (20, 1.25)]
    assert found.warnings == ("metrics.jsonl: 1 line can't be read, left out",)


def test_lineage_and_world_size_from_the_plan(run: Path, tmp_path: Path):
    plan = {"source": {"run": "/old/run", "checkpoint": "/old/run/x.pt"}, "world_size": {"previous": 4, "next": 2}}
    (run / "resume.json").write_text(json.dumps(plan))
    found = only(tmp_path)
    assert (found.resumed_from.run, found.resumed_from.checkpoint) == ("/old/run", "/old/run/x.pt")
    assert found.world_size == 2


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"source": 3}', '{"source": {"run": 3}}', '{"world_size": {"next": true}}']
)
def test_a_hostile_plan_is_no_lineage(run: Path, tmp_path: Path, text: str):
    (run / "resume.json").write_text(text)
    (run / "launch.json").write_text(text)
    assert only(tmp_path).resumed_from is None


def test_rank_states_that_never_move_are_flagged(tmp_path: Path):
    for count in (1, 2, 3):
        saves.save(tmp_path / RUN, count, dataset=saves.state(0))
        saves.save(tmp_path / LATER, count, dataset=saves.state(100 * count))
    saves.save(tmp_path / LATER, 4, dataset=saves.state(200))
    saves.save(tmp_path / LATER, 5, epoch=2, dataset=saves.state(0, epoch=1))
    moving, stuck = scan([str(tmp_path)])
    assert [bool(one.warnings) for one in stuck.checkpoints] == [False, True, True]
    assert [bool(one.warnings) for one in moving.checkpoints] == [False, False, False, True, False]
    assert "fell from 1,200 to 800" in moving.checkpoints[3].warnings[0]


def test_saves_of_a_later_part_that_say_nothing_was_read_are_all_flagged(run: Path, tmp_path: Path):
    for count in (4, 5):
        saves.save(run, count, dataset=saves.state(0))
    assert all("read again" in one.warnings[0] for one in only(tmp_path).checkpoints)


HOSTILE = ["exp[/x]", "[bold red]", "a\x1b[31mb", "a\nb", "\u202egnp", "%s{}", " ", "-rf", "é" * 80]


@pytest.mark.parametrize("name", [os.fsdecode(b"run\xff\xfe"), *HOSTILE])
def test_hostile_names_are_read_as_they_are(tmp_path: Path, name: str):
    one = saves.save(tmp_path / name / RUN, 1)
    (tmp_path / name / RUN / (name[:50].replace("/", "") + ".pt")).symlink_to("gone")
    found = only(tmp_path)
    assert found.checkpoints[0].path == str(one)
    assert found.root == str(tmp_path)
    (warning,) = found.warnings
    assert warning.isprintable()
    assert "\u202e" not in warning


def test_unreadable_directories_are_said_and_the_others_shown(tmp_path: Path):
    saves.save(tmp_path / RUN, 1)
    saves.save(tmp_path / LATER, 1)
    (tmp_path / RUN).chmod(0)
    (tmp_path / "private").mkdir(mode=0)
    code = (
        "import json, sys; from lavender_tui.watch.scan import scan_all; scanned = scan_all(sys.argv[1:]);"
        "print(json.dumps([[[run.name, run.warnings] for run in scanned.runs], scanned.warnings]))"
    )
    # Permissions don't bind root, unless it leaves the right to pass them by behind.
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if plain and shutil.which("setpriv") is None:
        pytest.skip("needs setpriv to act as a plain user")
    answer = subprocess.run([*plain, sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    runs, warnings = json.loads(answer.stdout)
    assert runs == [[LATER, []], [RUN, ["its directory can't be read (Permission denied)"]]]
    assert warnings == [f"{tmp_path / 'private'} can't be read (Permission denied)"]


def test_an_unchanged_file_is_read_once(run: Path, tmp_path: Path):
    index = Index()
    for count in (1, 2, 3):
        saves.save(run, count)
    for _ in range(3):
        scan([str(tmp_path)], index=index)
    assert index.reads == 3
    saves.save(run, 2, ce_loss=1.25)
    assert [one.loss for one in scan([str(tmp_path)], index=index)[0].checkpoints] == [2.0, 1.25, 2.0]
    assert index.reads == 4


def test_a_rank_file_that_comes_later_is_seen(run: Path, tmp_path: Path):
    index = Index()
    saves.save(run, 1)
    (before,) = scan([str(tmp_path)], index=index)
    assert before.newest.rank_states.found == 0
    stem = saves.name(1).removesuffix(".pt")
    (run / f"{stem}.rank0-of-1.json").write_text(json.dumps(saves.state(10)))
    (after,) = scan([str(tmp_path)], index=index)
    assert after.newest.rank_states.found == 1


def test_a_directory_for_each_rank_is_one_checkpoint_a_save(run: Path, tmp_path: Path):
    for rank in range(2):
        for count in (1, 2):
            saves.save(run / f"rank{rank}", count, dataset=saves.state(10), world_size=2)
    found = only(tmp_path)
    assert [one.save_count for one in found.checkpoints] == [1, 2]
    assert found.newest.rank_states.found == 2


def test_a_deadline_leaves_the_rest_unread_and_the_newest_read(tmp_path: Path):
    for name in (RUN, LATER):
        for count in range(1, 6):
            saves.save(tmp_path / name, count)
    index = Index()
    runs = scan([str(tmp_path)], index=index, deadline=time.monotonic())
    assert index.reads == 2
    for one in runs:
        assert one.newest.save_count == 5
        assert [c.wholeness for c in one.checkpoints[:4]] == [Wholeness.UNREAD] * 4
        assert [c.name_save_count for c in one.checkpoints] == [1, 2, 3, 4, 5]
        assert not any(c.is_usable for c in one.checkpoints[:4])
    assert all(c.is_usable for one in scan([str(tmp_path)], index=index) for c in one.checkpoints)


def test_a_growing_file_is_read_at_a_modest_rate_and_judged_in_the_end(run: Path, tmp_path: Path, until):
    content = saves.as_bytes(save_count=1)
    path = run / saves.name(1)
    index = Index(read=lambda path, **known: read_checkpoint(path, **known, now=clock[0]))
    clock = [time.time()]
    begun = time.monotonic()
    for size in range(len(content) // 2, len(content) // 2 + 200):
        path.write_bytes(content[:size])
        clock[0] = time.time()
        (found,) = scan([str(tmp_path)], index=index)
        assert found.checkpoints[0].wholeness is Wholeness.WRITING
    assert index.reads <= 5 + (time.monotonic() - begun)
    clock[0] += 60  # it grows no more

    def settled() -> bool:
        return scan([str(tmp_path)], index=index)[0].checkpoints[0].wholeness is Wholeness.CUT

    until(settled, seconds=10, what="the verdict on the cut file")
    path.write_bytes(content)
    assert scan([str(tmp_path)], index=index)[0].checkpoints[0].is_whole
