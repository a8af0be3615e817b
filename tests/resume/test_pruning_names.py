"""Deleting checkpoints: what was resumed from stays under every name, and what a resume would take was read before."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lavender_tui.launch import journal
from lavender_tui.model.disk import KeepRules
from lavender_tui.resume.pruning import Pruned, judged, led_to, prune
from lavender_tui.watch.scan import scan
from tests.tui import runs

OLD, NEW = "run-2026-04-24_18-53-41", "run-2026-04-25_18-53-41"
RULES = KeepRules(last=1)


def made(here: Path, old_name: str = OLD, new_name: str = NEW) -> tuple[Path, list[Path]]:
    """A run of four saves, and one that was resumed from the second."""
    old, new = here / old_name, here / new_name
    saved = [runs.save(old, count) for count in (1, 2, 3, 4)]
    runs.save(new, 1)
    runs.launched(old, ["python", "train.py"])
    runs.launched(new, ["python", "train.py"], source=old, checkpoint=saved[1])
    return old, saved


def pruned(*roots: Path) -> Pruned:
    named = [str(root) for root in roots]
    return prune(named, [fate for fate in judged(scan(named), RULES) if fate.may_go], RULES)


def counts(run: Path) -> list[int]:
    return sorted(int(path.stem[-4:]) for path in run.glob("*.pt"))


def through_a_link(base: Path, root: Path) -> list[Path]:
    (base / "link").symlink_to(root)
    return [base / "link"]


def twice(base: Path, root: Path) -> list[Path]:
    return [*through_a_link(base, root), root]


def the_run_alone(base: Path, root: Path) -> list[Path]:
    return [next(iter(sorted(root.iterdir())))]


def a_view_of_links(base: Path, root: Path) -> list[Path]:
    (base / "view").mkdir()
    (base / "view" / "best of all").symlink_to(next(iter(sorted(root.iterdir()))))
    return [base / "view"]


@pytest.mark.parametrize("named", [through_a_link, twice, the_run_alone, a_view_of_links])
def test_the_source_of_a_resume_stays_however_its_run_is_named(
    tmp_path: Path, named: Callable[[Path, Path], list[Path]]
) -> None:
    old, _ = made(tmp_path / "checkpoints")
    pruned(*named(tmp_path, old.parent))
    assert counts(old) == [2, 4]


@pytest.mark.parametrize("names", [(OLD, NEW), ("exp a", "exp b")])
def test_it_stays_in_a_root_that_was_moved(tmp_path: Path, names: tuple[str, str]) -> None:
    made(tmp_path / "before", *names)
    shutil.move(tmp_path / "before", tmp_path / "after")
    pruned(tmp_path / "after")
    assert counts(tmp_path / "after" / names[0]) == [2, 4]


def test_the_journal_of_a_moved_root_tells_the_same(tmp_path: Path) -> None:
    old, saved = made(tmp_path / "before")
    journal.note(str(old.parent), "resumed", run=str(old.parent / NEW), checkpoint=str(saved[1]))
    shutil.rmtree(old.parent / NEW)
    shutil.move(tmp_path / "before", tmp_path / "after")
    pruned(tmp_path / "after")
    assert counts(tmp_path / "after" / OLD) == [2, 4]


def test_a_newest_one_with_bad_bytes_is_no_reason_to_delete_the_good_one(tmp_path: Path) -> None:
    run = tmp_path / OLD
    saved = [runs.save(run, count, extra=torch.ones(1000)) for count in (1, 2, 3, 4)]
    raw = bytearray(saved[3].read_bytes())
    raw[raw.index(b"\x00\x00\x80\x3f" * 40)] ^= 0xFF
    saved[3].write_bytes(raw)
    runs.launched(run, ["python", "train.py"])
    done = pruned(tmp_path)
    assert counts(run) == [1, 2, 3, 4] and not done.gone and "damaged" in done.left[0]
    pruned(tmp_path)
    assert counts(run) == [3, 4], "from now on it is known to be bad, and the one before it takes its place"


def test_one_that_a_resume_broke_at_is_no_reason_either(tmp_path: Path) -> None:
    run = tmp_path / OLD
    saved = [runs.save(run, count) for count in (1, 2, 3)]
    runs.launched(run, ["python", "train.py"])
    runs.launched(tmp_path / NEW, ["python", "train.py"], source=run, checkpoint=saved[2])
    runs.metrics(tmp_path / NEW, [2.0, 2.1])
    runs.ended(tmp_path / NEW, code=1)
    pruned(tmp_path)
    assert counts(run) == [2, 3]


def test_rank_files_that_two_checkpoints_may_count_on_stay(tmp_path: Path) -> None:
    run = tmp_path / OLD
    first, _ = runs.save(run, 1), runs.save(run, 2)
    beside = first.with_suffix(".rank0.json")
    beside.write_text("{}")
    shutil.copy(first, first.with_suffix(".pth"))
    runs.launched(run, ["python", "train.py"])
    while (done := pruned(tmp_path)).gone:
        left = [name for name in os.listdir(run) if name.startswith(first.stem) and "rank" not in name]
        assert beside.exists() == bool(left)
        assert len(done.gone) == 1 or not left


def test_every_path_leads_where_the_system_leads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "f").touch()
    for link, to in (("l", "a/b"), ("a/b/up", "../.."), ("loop", "loop"), ("a/g", "b/c/f")):
        (tmp_path / link).symlink_to(to)
    monkeypatch.chdir(tmp_path)
    led, few = led_to(), ("a", "l", "up", "b", "c", "f", "g", "loop", "gone", "..", ".")
    for path in map("/".join, itertools.product(few, repeat=3)):
        for one in (path, f"{tmp_path}/{path}/"):
            assert led(one) == os.path.realpath(one), one
