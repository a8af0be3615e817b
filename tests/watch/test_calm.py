"""A run that just goes on is looked at less often, and one of which news may not come by themselves every second."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.launch.identity import is_same_process, process_stat
from lavender_tui.launch.record import ProcessId
from lavender_tui.model.run import RunState
from lavender_tui.watch import observe
from lavender_tui.watch.ends import Ends, Identity
from lavender_tui.watch.index import Index
from lavender_tui.watch.observe import Watcher
from lavender_tui.watch.survey import Survey
from tests.tui import runs
from tests.watch.saves import RUN
from tests.watch.watching import Seen

LONG = 1000.0  # seconds


@pytest.fixture
def training() -> Iterator[subprocess.Popen]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def alive(tmp_path: Path, training: subprocess.Popen) -> tuple[Path, Identity]:
    """A run of that process by its record, which saved half an hour ago."""
    run = tmp_path / RUN
    runs.save(run, 1, age_seconds=1800)
    stat = process_stat(training.pid)
    assert stat is not None
    runs.launched(run, ["train"], leader=ProcessId(pid=training.pid, start_ticks=stat[2]))
    return run, (training.pid, stat[2])


def looked(root: Path, run: Path) -> Survey:
    survey = Survey([str(root)], Index())
    survey.explore()
    survey.look(str(run))
    assert survey.runs[str(run)].is_alive
    return survey


def test_it_may_wait_only_where_its_end_is_told(tmp_path: Path, alive: tuple[Path, Identity]) -> None:
    run, identity = alive
    survey = looked(tmp_path, run)
    assert survey.may_wait(str(run), {identity}, LONG)
    assert not survey.may_wait(str(run), frozenset(), LONG), "nobody would tell of its end"
    assert not survey.may_wait(str(run), {(identity[0], identity[1] + 1)}, LONG), "another process's end"
    assert not survey.may_wait(str(run), {identity}, 0.0), "the last look is too long ago"
    assert not survey.may_wait(str(tmp_path / "other"), {identity}, LONG)


def test_what_is_being_written_or_asked_for_is_looked_at_every_second(
    tmp_path: Path, alive: tuple[Path, Identity]
) -> None:
    run, identity = alive
    survey = looked(tmp_path, run)
    torn = run / "pretrain-10-00-00-0002.pt"
    torn.write_bytes(b"PK\x03\x04 and no more")
    survey.look(str(run))
    assert not survey.may_wait(str(run), {identity}, LONG)
    torn.unlink()
    survey.look(str(run))
    assert survey.may_wait(str(run), {identity}, LONG)
    asked = {"schema": 1, "what": "stop-at-next-save", "asked_at": time.time(), "who": "ann@here"}
    (run / "request.json").write_text(json.dumps(asked))
    survey.look(str(run))
    assert survey.runs[str(run)].request is not None and not survey.may_wait(str(run), {identity}, LONG)


def test_only_what_is_really_held_is_said_to_be(training: subprocess.Popen, until) -> None:
    stat = process_stat(training.pid)
    assert stat is not None
    ended: list[str] = []
    ends = Ends(lambda key, identity, status: ended.append(key))
    assert ends.held == frozenset()
    try:
        ends.keep({(training.pid, stat[2]): "run"})
        assert ends.held == {(training.pid, stat[2])}
        training.kill()
        until(lambda: ended == ["run"], what="its end")
        assert ends.held == frozenset()
    finally:
        ends.close()
    until(lambda: not ends._thread.is_alive(), what="the thread's end")
    assert ends.held == frozenset()


def test_a_run_that_was_left_alone_shows_its_end_at_once(
    tmp_path: Path, alive: tuple[Path, Identity], training: subprocess.Popen, until, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, identity = alive
    for name in ("CALM_SECONDS", "PROCESS_SECONDS", "RELIST_SECONDS"):  # only its handle can tell
        monkeypatch.setattr(observe, name, LONG)
    seen = Seen()
    watcher = Watcher([str(tmp_path)], seen)
    watcher.start()
    try:
        until(lambda: seen.run() is not None and seen.run().state is RunState.RUNNING, what="the run")
        survey = watcher._survey
        listed = lambda: survey._listed_at[str(run)]  # noqa: E731
        until(lambda: identity in watcher._ends.held and str(run) in watcher._events.watched, what="a handle, a watch")
        until(lambda: time.time() - listed() > 2.0, what="a rest that is longer than a second")
        assert is_same_process(*identity)
        os.kill(training.pid, signal.SIGKILL)
        until(lambda: seen.run().state is RunState.FAILED, what="its end")
    finally:
        watcher.close()
        watcher.join(10)


def test_a_child_asks_anew_for_its_namespace_of_pids() -> None:
    code = (
        "import os; from lavender_tui.launch.identity import pid_namespace\n"
        "assert pid_namespace() == os.readlink('/proc/self/ns/pid')\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(pid_namespace.cache_info().currsize)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_that_others_may_read_the_directory_now_is_noticed_without_a_change_in_it(tmp_path: Path) -> None:
    run = tmp_path / RUN
    runs.save(run, 1)
    os.utime(run, (1, 1))
    survey = Survey([str(tmp_path)], Index())
    survey.explore()
    survey.look(str(run))
    assert not survey.has_moved(str(run))
    run.chmod(0o700)
    assert survey.has_moved(str(run))
