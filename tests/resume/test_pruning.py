"""Deleting checkpoints: what stays, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lavender_tui.cli import run as lavender
from lavender_tui.launch import journal, resume_lock
from lavender_tui.model.disk import Fate, KeepRules
from lavender_tui.resume.pruning import FOREIGN, judged, prune
from lavender_tui.watch.scan import scan
from tests.tui import runs

RULES = KeepRules(last=1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One recorded run of four saves, the second of which another run was resumed from."""
    here = tmp_path / "checkpoints"
    old, new = here / "run-2026-04-24_18-53-41", here / "run-2026-04-25_18-53-41"
    saved = [runs.save(old, count) for count in (1, 2, 3, 4)]
    runs.save(new, 1)
    runs.launched(old, ["python", "train.py"])
    runs.launched(new, ["python", "train.py"], source=old, checkpoint=saved[1])
    return here


def doomed(root: Path) -> list[Fate]:
    return [fate for fate in judged(scan([str(root)]), RULES) if fate.may_go]


def counts(root: Path, name: str = "run-2026-04-24_18-53-41") -> list[int]:
    return sorted(int(path.stem[-4:]) for path in (root / name).glob("*.pt") if "rank" not in path.name)


def test_what_nothing_needs_goes_with_its_rank_files(root: Path) -> None:
    old = root / "run-2026-04-24_18-53-41"
    first = next(old.glob("*-0001.pt"))
    beside = first.with_suffix(".rank0.json")
    beside.write_text("{}")
    done = prune([str(root)], doomed(root), RULES)
    assert counts(root) == [2, 4] and counts(root, "run-2026-04-25_18-53-41") == [1]
    assert len(done.gone) == 2 and not done.left and not beside.exists()
    noted = journal.read(str(root))[-1]
    assert noted.what == "pruned" and noted.facts["count"] == 2


def test_a_run_that_is_not_ours_is_left_alone(root: Path) -> None:
    (root / "run-2026-04-24_18-53-41" / "launch.json").unlink()
    whys = {fate.why for fate in judged(scan([str(root)]), RULES)}
    assert FOREIGN in whys and not doomed(root)


def test_what_changed_since_it_was_shown_stays(root: Path) -> None:
    wanted = doomed(root)
    path = Path(wanted[0].checkpoint.path)
    os.utime(path, (1, 1))
    done = prune([str(root)], wanted, RULES)
    assert path.exists() and len(done.gone) == 1 and "not what it was" in done.left[0]


def test_what_was_resumed_from_meanwhile_stays(root: Path) -> None:
    wanted = doomed(root)
    source = Path(wanted[0].checkpoint.path)
    runs.launched(root / "run-2026-04-26_00-00-00", ["python"], source=source.parent, checkpoint=source)
    runs.save(root / "run-2026-04-26_00-00-00", 1)
    prune([str(root)], wanted, RULES)
    assert source.exists()


def test_what_the_journal_remembers_stays_though_the_new_run_is_gone(root: Path) -> None:
    source = doomed(root)[0].checkpoint.path
    journal.note(str(root), "resumed", run=str(root / "gone"), checkpoint=source)
    assert source not in {fate.checkpoint.path for fate in doomed(root)}


def test_while_somebody_resumes_the_run_nothing_goes(root: Path) -> None:
    wanted = doomed(root)
    with resume_lock(str(root / "run-2026-04-24_18-53-41")):
        done = prune([str(root)], wanted, RULES)
    assert counts(root) == [1, 2, 3, 4] and "nothing more of it was deleted" in done.left[0]


def test_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    wanted = doomed(root)
    path, elsewhere = Path(wanted[0].checkpoint.path), tmp_path / "elsewhere.pt"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    prune([str(root)], wanted, RULES)
    assert elsewhere.exists() and path.is_symlink()


def test_the_command_shows_then_asks_and_deletes_only_then(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["prune", str(root), "--keep-last", "1", "--keep-best", "0"]
    assert lavender([*asked, "--dry-run"]) == 0
    told = capsys.readouterr()
    assert told.out.count("could go") == 2 and "resumed as run-2026-04-25_18-53-41" in told.out
    assert "2 of 5 checkpoints could go" in told.err
    assert lavender(asked) == 2, "without a terminal nothing is deleted on a mere call"
    assert lavender(["--readonly", *asked, "--yes"]) == 1 and counts(root) == [1, 2, 3, 4]
    capsys.readouterr()
    assert lavender([*asked, "--yes", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["deleted"]) == 2 and document["freed_bytes"] > 0 and counts(root) == [2, 4]
