"""A run is kept alive through real kills: from its newest good checkpoint, and only as long as that makes sense."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import StopOrder, journal, keepers, stop
from lavender_tui.launch.files import encode, write_atomically
from lavender_tui.launch.identity import is_same_process, process_stat
from lavender_tui.launch.record import read_launch, read_stop, send_signal
from lavender_tui.resume import Options, Target, carry_out, propose
from tests.resume.kept import Keep, fill_shelf
from tests.resume.saves import save


@pytest.fixture(scope="session")
def full_shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shelf = tmp_path_factory.mktemp("shelf")
    fill_shelf(shelf, save)
    return shelf


@pytest.fixture
def kept(tmp_path: Path, full_shelf: Path, until: Callable[..., Any], nothing_survives: Any) -> Iterator[Keep]:
    shutil.copytree(full_shelf, tmp_path / "shelf")
    made = Keep(tmp_path, tmp_path / "shelf", until)
    yield made
    made.close()


def test_three_kills_and_every_save_is_made_once(kept: Keep) -> None:
    kept.order(last=30, pace=0.15, rests=4)
    run_dir = kept.start()
    keeper = kept.supervise("--backoff", "0.1")
    for number in range(2, 5):
        kept.wait_for_saves(run_dir, 2)
        if number == 4:
            kept.order(last=30, pace=0.15)  # the one that comes now goes on to the end
        kept.kill(run_dir)
        killed_at = time.time()
        before, run_dir = run_dir, kept.wait_for_start(number)
        assert kept.froms[-1] == kept.saves(before)[-1], "from its newest"
        assert kept.starts[-1]["at"] - killed_at < 20
        assert read_launch(run_dir).resumed_from.run == before
    assert kept.ended(keeper) == 0
    assert keeper.stdout.read().split() == [one["run"] for one in kept.starts[1:]]
    made = [count for one in kept.starts for count in kept.saves(one["run"])]
    assert made == list(range(1, 31))
    assert "is through: completed epoch 2 of 2" in kept.said()
    assert len(kept.runs) == len(kept.starts) == 4
    whats = [one.get("next") or one["what"] for one in kept.decisions()]
    assert whats == ["supervising", *["resume", "start", "follow"] * 3, "finished", "supervising ended"]
    assert not os.path.exists(os.path.join(kept.root, ".lavender-tui", "keepers")), "what it left behind"


def test_a_checkpoint_that_fails_at_once_is_not_tried_twice(kept: Keep) -> None:
    run_dir = kept.start(3)
    keeper = kept.supervise("--backoff", "0.1")
    newest = kept.saves(run_dir)[-1] + 1
    kept.until(lambda: newest in kept.saves(run_dir), what="one more save")
    kept.order(bad=[*range(newest, newest + 9)])
    kept.kill(run_dir)
    kept.wait_for_start(3)
    died_at = kept.saves(run_dir)[-1]
    assert kept.froms == [0, died_at, died_at - 1]
    decided = [one for one in kept.decisions() if one.get("next") == "start"]
    assert "failed at once" in decided[-1]["passed_over"][0][1]
    if died_at - 1 >= newest:  # two of them can be bad: then that is said, and nothing older is lost
        assert kept.ended(keeper) == 100
        return
    kept.wait_for_saves(kept.starts[-1]["run"], 1)
    assert keeper.poll() is None


def test_two_that_fail_before_a_step_are_not_to_blame_and_it_gives_up(kept: Keep) -> None:
    run_dir = kept.start(4)
    kept.order(bad=[*range(1, 30)])
    keeper = kept.supervise("--backoff", "0.1", "--tries", "9")
    kept.kill(run_dir)
    assert kept.ended(keeper) == 100
    newest = kept.saves(run_dir)[-1]
    assert kept.froms == [0, newest, newest - 1]
    assert "2 checkpoints failed before the first step, so that is not their fault" in kept.said()
    assert "the loss is NaN" in kept.said()
    assert any(one["what"] == "gave up" for one in kept.decisions())


@pytest.mark.long
def test_those_that_break_while_training_are_gone_back_behind_until_the_tries_are_over(kept: Keep) -> None:
    run_dir = kept.start(5)
    kept.order(bad=[*range(1, 30)], steps=7)
    keeper = kept.supervise("--backoff", "0.1", "--tries", "3")
    kept.kill(run_dir)
    assert kept.ended(keeper) == 100
    newest = kept.saves(run_dir)[-1]
    assert kept.froms == [0, newest, newest - 1, newest - 2]
    assert "3 tries in a row saved nothing new" in kept.said()


@pytest.mark.long
def test_the_tries_that_save_nothing_wait_ever_longer_and_end(kept: Keep) -> None:
    run_dir = kept.start(2)
    kept.order(dies=True)
    keeper = kept.supervise("--backoff", "0.4", "--tries", "3")
    kept.kill(run_dir)
    assert kept.ended(keeper) == 100
    newest = kept.saves(run_dir)[-1]
    assert kept.froms == [0, newest, newest, newest], "killed from outside: no checkpoint is to blame"
    waits = [one["wait_seconds"] for one in kept.decisions() if one.get("next") == "resume"]
    assert waits == [0.0, 0.4, 0.8]
    times = [one["at"] for one in kept.starts]
    assert times[2] - times[1] >= 0.4 and times[3] - times[2] >= 0.8


@pytest.mark.long
def test_progress_gives_the_tries_back(kept: Keep) -> None:
    run_dir = kept.start(2)
    keeper = kept.supervise("--backoff", "0.1", "--tries", "1")
    for number in (2, 3):
        kept.kill(run_dir)
        run_dir = kept.wait_for_start(number)
        kept.wait_for_saves(run_dir, 1)
    kept.order(dies=True)
    kept.kill(run_dir)
    assert kept.ended(keeper) == 100 and len(kept.starts) == 4


@pytest.mark.long
def test_a_killed_keeper_costs_nothing_and_the_next_one_goes_on_counting(kept: Keep) -> None:
    run_dir = kept.start(2)
    kept.order(dies=True)
    first = kept.supervise("--backoff", "3", "--tries", "3")
    kept.kill(run_dir)
    last = kept.wait_for_start(2)
    kept.until(lambda: (one := kept.keeper_of(last)) is not None and one.next_try_at, what="the wait")
    first.kill()
    kept.until(lambda: kept.keeper_of(last).is_alive is False, what="its end is seen")
    listed = lavender("ls", kept.root)
    assert f"no longer kept alive: its keeper (pid {first.pid}" in listed.stderr
    kept.order(pace=0.1)
    second = kept.supervise("--backoff", "0.1", "--tries", "3")
    assert "takes over from a keeper that was killed (1 try used)" in kept.said()
    kept.wait_for_saves(kept.wait_for_start(3), 1)
    assert len(kept.starts) == 3 and second.poll() is None


@pytest.mark.long
def test_a_training_lives_on_without_its_keeper(kept: Keep) -> None:
    run_dir = kept.start(2)
    before = kept.record(run_dir).leader
    for signum, code in ((signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
        keeper = kept.supervise(run_dir)
        kept.until(lambda: kept.keeper_of(run_dir), what="the keeper")
        keeper.send_signal(signum)
        assert kept.ended(keeper) == code
        assert is_same_process(before.pid, before.start_ticks)
    kept.wait_for_saves(run_dir, len(kept.saves(run_dir)) + 1)
    assert len(kept.starts) == 1


@pytest.mark.long
def test_of_many_keepers_at_once_one_keeps(kept: Keep) -> None:
    run_dir = kept.start(2)
    all_of_them = [kept.supervise(run_dir, "--backoff", "0.1", ready=False) for _ in range(4)]
    kept.until(lambda: sum(one.poll() is None for one in all_of_them) == 1, what="one to be left")
    kept.kill(run_dir)
    kept.wait_for_saves(kept.wait_for_start(2), 1)
    assert sorted(one.poll() is None for one in all_of_them) == [False, False, False, True]
    refused = [kept.said(number) for number, one in enumerate(all_of_them) if one.poll() is not None]
    assert all("it is kept alive already, by pid" in said for said in refused) and len(kept.starts) == 2


def test_stopped_by_a_person_it_is_left_alone(kept: Keep) -> None:
    run_dir = kept.start(2)
    keeper = kept.supervise()
    stop(run_dir, StopOrder(who="ada", grace=5))
    assert kept.ended(keeper) == 103
    assert "isn't resumed: stopped on request by ada" in kept.said()
    assert len(kept.runs) == 1
    assert kept.ended(kept.supervise(run_dir)) == 103, "whoever keeps it next is told the same"


def test_a_stop_while_it_waits_for_its_next_try_ends_the_keeping(kept: Keep) -> None:
    run_dir = kept.start(2)
    keeper = kept.supervise("--backoff", "60")
    kept.kill(run_dir)  # it lived for less than the back-off, so that even the first try waits
    kept.until(lambda: (one := kept.keeper_of(run_dir)) is not None and one.next_try_at, what="the wait")
    assert "; the next in " in lavender("ls", kept.root).stderr
    told = lavender("stop", run_dir, "--yes")
    assert told.returncode == 0 and f"its keeper (pid {keeper.pid} on " in told.stderr
    assert kept.ended(keeper) == 103 and len(kept.starts) == 1
    assert "asked that it be left alone" in kept.said()


def test_a_stop_that_saw_nothing_run_ends_what_was_started_in_that_instant(kept: Keep) -> None:
    """It wrote where nothing ran, and the keeper had looked there a moment before."""
    run_dir = kept.start(1)
    keeper = kept.supervise("--backoff", "0.1")
    directory, name = keepers.place_of(run_dir)
    write_atomically(os.path.join(directory, f"{name}.leave"), encode({"schema": keepers.SCHEMA, "who": "ann@gpu-03"}))
    keeper.send_signal(signal.SIGUSR1)
    assert kept.ended(keeper) == 103 and not kept.lives(run_dir) and len(kept.starts) == 1
    stopped = read_stop(run_dir)
    assert stopped is not None and stopped.who == "ann@gpu-03"


@pytest.mark.long
@pytest.mark.parametrize("has_ended", [False, True])
def test_a_run_that_somebody_resumes_meanwhile_is_followed(kept: Keep, has_ended: bool) -> None:
    run_dir = kept.start(2)
    kept.order(dies=True)
    kept.supervise("--backoff", "6")
    kept.kill(run_dir)
    kept.wait_for_start(2)
    kept.order()
    words = (sys.executable, str(kept.script), str(kept.shelf))
    by_hand = carry_out(propose(Target(paths=(run_dir,)), Options(command=words, verify=False)))
    if has_ended:  # also where it died before the next try was due: it went on from there, not the one before
        kept.wait_for_saves(by_hand.run_dir, 2)
        kept.kill(by_hand.run_dir)
    kept.until(lambda: "somebody else resumed it" in kept.said(), what="it to be followed")
    if not has_ended:
        assert len(kept.starts) == 3
        kept.kill(by_hand.run_dir)
    kept.wait_for_saves(kept.wait_for_start(4), 1)
    assert len(kept.runs) == 4 and kept.froms[-1] == kept.saves(by_hand.run_dir)[-1]


def test_what_outlived_its_leader_and_its_supervisor_is_ended_before_the_resume(kept: Keep) -> None:
    kept.order(ranks=2)
    run_dir = kept.start(1)
    keeper = kept.supervise("--backoff", "0.1")
    bystander = subprocess.Popen([sys.executable, str(kept.script), str(kept.shelf), "rank"], cwd=kept.directory,
                                 env={**os.environ, "LAVENDER_RUN_DIR": "/elsewhere"})  # fmt: skip
    kept.kill(run_dir, supervisor=True)
    kept.wait_for_start(2)
    assert not kept.lives(run_dir) and bystander.poll() is None and keeper.poll() is None
    bystander.kill()
    bystander.wait()
    assert "ends 2 processes that outlived what led them" in kept.said()


def test_it_survives_its_terminal(kept: Keep) -> None:
    run_dir = kept.start(2)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(kept.directory)
        os.execv(sys.executable, [sys.executable, "-m", "lavender_tui", "supervise", run_dir, "--backoff", "0.1"])
    try:
        kept.until(lambda: kept.keeper_of(run_dir), what="the keeper")
        os.close(terminal)
        kept.kill(run_dir)
        kept.wait_for_saves(kept.wait_for_start(2), 1)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.long
def test_detached_it_has_a_session_and_a_log_of_its_own(kept: Keep) -> None:
    run_dir = kept.start(2)
    started = lavender("supervise", run_dir, "--detach", "--backoff", "0.1", cwd=kept.directory)
    assert started.returncode == 0, started.stderr
    keeper = kept.keeper_of(run_dir)
    assert keeper is not None and f"kept alive by pid {keeper.pid}" in started.stderr
    try:
        assert os.getsid(keeper.pid) == keeper.pid
        again = lavender("supervise", run_dir, "--detach", cwd=kept.directory)
        assert again.returncode == 1 and "kept alive already" in again.stderr
        kept.kill(run_dir)
        kept.wait_for_saves(kept.wait_for_start(2), 1)
        log = Path(*keepers.place_of(run_dir)).with_suffix(".log").read_text()
        assert "died: killed by signal 9" in log and kept.starts[1]["run"] in log
        stop(kept.starts[1]["run"], StopOrder(grace=5))
        kept.until(lambda: process_stat(keeper.pid) is None, what="its end")
    finally:
        if (stat := process_stat(keeper.pid)) is not None:
            send_signal(keeper.pid, stat[2], signal.SIGKILL)


def test_detached_it_says_what_it_decided_and_with_its_exit_code(kept: Keep) -> None:
    run_dir = kept.start(2)
    stop(run_dir, StopOrder(who="ada", grace=5))
    told = lavender("supervise", run_dir, "--detach", cwd=kept.directory)
    assert told.returncode == 103 and "isn't resumed: stopped on request by ada" in told.stderr
    assert "kept alive" not in told.stderr and kept.keeper_of(run_dir) is None
    kept.order(last=2)
    done = kept.start(2)
    kept.until(lambda: not kept.lives(done), what="its end")
    told = lavender("supervise", done, "--detach", cwd=kept.directory)
    assert told.returncode == 0 and " is through: " in told.stderr and "kept alive" not in told.stderr


def test_detached_it_answers_when_the_dead_run_is_resumed(kept: Keep) -> None:
    run_dir = kept.start(2)
    kept.kill(run_dir)
    kept.until(lambda: not kept.lives(run_dir), what="its end")
    told = lavender("supervise", run_dir, "--detach", cwd=kept.directory)
    assert told.returncode == 0 and len(kept.starts) == 2, told.stderr
    keeper = kept.keeper_of(kept.starts[1]["run"])
    assert keeper is not None and f"kept alive by pid {keeper.pid}" in told.stderr
    send_signal(keeper.pid, process_stat(keeper.pid)[2], signal.SIGKILL)


def test_a_dead_run_is_resumed_at_once_and_the_list_says_by_whom(kept: Keep) -> None:
    run_dir = kept.start(2)
    kept.kill(run_dir)
    kept.until(lambda: not kept.lives(run_dir), what="its end")
    keeper = kept.supervise()
    second = kept.wait_for_start(2)
    kept.until(lambda: kept.keeper_of(second), what="the keeper to follow")
    said = f"{os.path.basename(second)}: kept alive by pid {keeper.pid} on {os.uname().nodename} ("
    assert said in lavender("ls", kept.root).stderr
    # The older run names nobody: it isn't the one that is followed.
    assert f"{os.path.basename(run_dir)}: kept" not in lavender("ls", kept.root).stderr


@pytest.mark.long
def test_the_permitted_number_of_ranks_is_taken(kept: Keep) -> None:
    run_dir = kept.start(2)
    words = ("--", sys.executable, str(kept.script), str(kept.shelf))
    kept.supervise(run_dir, "--world-sizes", "2,4", "--backoff", "0.1", *words)
    kept.kill(run_dir)
    kept.wait_for_start(2)
    assert {one["world_size"] for one in kept.starts[1:]} == {2}


@pytest.mark.long
def test_what_cannot_be_kept_is_refused_in_words(kept: Keep, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert lavender("supervise", str(empty)).returncode == 102
    assert lavender("supervise", str(tmp_path / "none")).returncode == 102
    assert lavender("supervise", kept.root, "--world-sizes", "2,x").returncode == 2
    run_dir = kept.start(1)
    kept.kill(run_dir)
    kept.until(lambda: not kept.lives(run_dir), what="its end")
    path = Path(run_dir, "launch.json")
    before = path.read_text()
    here = os.uname().nodename
    path.write_text(before.replace(f'"host": "{here}"', '"host": "gpu-07"'))
    kept.until(Path(run_dir, "exit.json").exists, what="its end to be recorded")
    Path(run_dir, "exit.json").unlink()
    refused = lavender("supervise", run_dir)
    assert refused.returncode == 1 and "started on gpu-07" in refused.stderr
    path.write_text(before.replace('"backend": "local"', '"backend": "slurm"'))
    refused = lavender("supervise", run_dir)
    assert refused.returncode == 1 and "Slurm" in refused.stderr and "Traceback" not in refused.stderr


def test_where_nothing_can_be_written_beside_the_runs_nothing_is_kept(kept: Keep) -> None:
    run_dir = kept.start(1)
    hidden = Path(kept.root, ".lavender-tui")
    shutil.rmtree(hidden)
    hidden.write_text("mine")
    for words in ((), ("--detach",)):
        refused = lavender("supervise", run_dir, *words)
        assert refused.returncode == 1 and "Traceback" not in refused.stderr
        assert "be written" in refused.stderr and hidden.read_text() == "mine"


def test_every_decision_is_in_the_journal_with_its_reason(kept: Keep) -> None:
    run_dir = kept.start(2)
    keeper = kept.supervise("--backoff", "0.1")
    kept.kill(run_dir)
    kept.wait_for_saves(kept.wait_for_start(2), 1)
    kept.until(lambda: any(one.get("next") == "follow" for one in kept.decisions()), what="that it follows")
    keeper.terminate()
    kept.ended(keeper)
    entries = journal.read(kept.root)
    assert [one.what for one in entries] == [
        "launched", "supervising", "decided", "decided", "resumed", "decided", "supervising ended",
    ]  # fmt: skip
    assert all(one.who == journal.person() for one in entries)
    resumed = entries[4]
    assert resumed.run == kept.starts[1]["run"] and resumed.facts["from"] == run_dir
    assert "killed by signal 9" in entries[2].facts["why"]


def lavender(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lavender_tui", *words], capture_output=True, text=True, timeout=60, cwd=cwd
    )
