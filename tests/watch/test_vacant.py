"""Why there are no runs: found out by looking at real directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lavender_tui.watch.vacant import Vacancy, VacantRoot, look_at_root


def test_what_is_not_there_and_where_runs_are_instead(tmp_path: Path) -> None:
    (tmp_path / "out" / "run-2026-04-24_18-53-41").mkdir(parents=True)
    (tmp_path / "lit").mkdir()
    (tmp_path / "lit" / "epoch=1-step=100.ckpt").touch()
    (tmp_path / "src").mkdir()
    near = (str(tmp_path / "lit"), str(tmp_path / "out"))
    for path in (tmp_path / "checkpoints", tmp_path / "no" / "such" / "place"):
        assert look_at_root(str(path)) == VacantRoot(path=str(path), vacancy=Vacancy.MISSING, near=near)


def test_a_file_an_empty_directory_and_one_of_other_things(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert look_at_root(str(tmp_path / "file")).vacancy is Vacancy.FILE
    (tmp_path / "empty" / ".hidden").mkdir(parents=True)
    assert look_at_root(str(tmp_path / "empty")).vacancy is Vacancy.EMPTY
    for name in ("b", "a\x1b[31m", "c", "d", "e", "f"):
        (tmp_path / "src" / name).mkdir(parents=True)
    seen = look_at_root(str(tmp_path / "src"))
    assert (seen.vacancy, seen.count, seen.names) == (Vacancy.OTHERS, 6, ("a\x1b[31m", "b", "c", "d"))


def test_a_link_to_nothing_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    seen = look_at_root(str(tmp_path / "link"))
    assert seen.vacancy is Vacancy.UNREADABLE and "No such file" in seen.why


def test_what_is_forbidden_is_said_to_be(tmp_path: Path) -> None:
    """As somebody else, where the tests are root, whom nothing is forbidden."""
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o000)
    if os.geteuid():
        assert look_at_root(str(secret)).why == "Permission denied"
        return
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == 0 and not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
    child = os.fork()
    if not child:
        os.seteuid(65534)
        os._exit(0 if look_at_root(str(secret)).why == "Permission denied" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/self/mem", "/dev/null"])
def test_odd_places_are_no_harm(path: str) -> None:
    assert look_at_root(path).path == path
