"""Stopping: the intent first, only the run's own processes, and an honest answer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.errors import NotFound
from lavender_tui.launch import stop_order, stopping
from lavender_tui.launch.living import members
from lavender_tui.launch.record import (
    ProcessId,
    describe_this_process,
    end_facts,
    examine_launch,
    is_same_process,
    read_exit,
    read_stop,
    send_signal,
    start_ticks,
    write_launch,
)
from lavender_tui.launch.stop_order import CannotStop
from tests.launch.conftest import POLITE, STUBBORN, Lab

# Notes what stop.json said at the moment of the signal.
WITNESS = POLITE.replace(
    "    sys.exit(0)",
    '    print("saw", os.path.exists(os.environ["LAVENDER_RUN_DIR"] + "/stop.json"), flush=True)\n    sys.exit(0)',
)


def test_the_intent_is_on_disk_before_the_signal(lab: Lab) -> None:
    run_dir, _ = lab.train(WITNESS)
    outcome = launch.stop(run_dir, launch.StopOrder(who="ada@lab (pts/3)", why="enough"))
    assert outcome.how == "ended" and outcome.has_ended and outcome.supervised
    assert "without a new checkpoint" in outcome.words
    assert "saw True" in lab.log(run_dir)
    asked = read_stop(run_dir)
    assert asked is not None and (asked.who, asked.how, asked.why) == ("ada@lab (pts/3)", "graceful", "enough")
    ended = read_exit(run_dir)
    assert ended is not None and ended.code == 0 and ended.stop is not None and ended.stop["who"] == "ada@lab (pts/3)"
    facts = end_facts(run_dir)
    assert facts is not None and facts.stop_requested and facts.stop_by == "ada@lab (pts/3)" and facts.error is None


def test_saved_is_said_only_of_a_checkpoint_that_is_new(lab: Lab) -> None:
    save = '    open(os.environ["LAVENDER_RUN_DIR"] + "/a-0002.pt", "w")\n    sys.exit(0)'
    saving = POLITE.replace("    sys.exit(0)", save)
    run_dir, _ = lab.train(saving)
    open(os.path.join(run_dir, "a-0001.pt"), "w").close()
    assert launch.stop(run_dir).words.startswith("saved and ended ")
    assert os.path.exists(os.path.join(run_dir, "a-0002.pt"))


def test_a_run_that_ended_is_not_stopped_again(lab: Lab) -> None:
    run_dir, _ = lab.start("true")
    lab.ended(run_dir)
    lab.until(lambda: not launch.is_alive(run_dir))
    assert launch.stop(run_dir).how == "not running"
    assert read_stop(run_dir) is None


def test_asking_and_then_killing(lab: Lab) -> None:
    run_dir, record = lab.train(STUBBORN)
    lab.until(lambda: lab.log(run_dir).count("up") == 2)
    assert launch.stop(run_dir, launch.StopOrder(wait=False)).how == "asked"
    assert record.is_alive
    started = time.monotonic()
    assert launch.stop(run_dir, launch.KILL).how == "killed"
    assert time.monotonic() - started < 10 and not members(run_dir, record)
    asked = read_stop(run_dir)
    assert asked is not None and asked.how == "graceful"  # the first word stays


def test_without_a_supervisor_everything_is_found_and_killed(lab: Lab) -> None:
    run_dir, record = lab.train(STUBBORN)
    lab.until(lambda: lab.log(run_dir).count("up") == 2)
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGKILL)
    os.kill(record.leader.pid, signal.SIGKILL)  # the child in its own session is known by its environment alone
    lab.until(lambda: not record.is_alive)
    left = members(run_dir, record)
    assert len(left) == 1
    outcome = launch.stop(run_dir, launch.StopOrder(grace=0.3))
    assert outcome.how == "killed" and not outcome.supervised and not members(run_dir, record)
    ended = read_exit(run_dir)
    assert ended is not None and ended.killed and ended.code is None and ended.signal is None


def test_a_frozen_supervisor_does_not_keep_a_stop_from_its_end(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "PATIENCE", 0.5)
    run_dir, record = lab.train(STUBBORN)
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGSTOP)
    outcome = launch.stop(run_dir, launch.StopOrder(grace=0.2))
    assert outcome.how == "killed" and not members(run_dir, record)
    send_signal(record.supervisor.pid, record.supervisor.start_ticks, signal.SIGCONT)
    lab.until(lambda: read_exit(run_dir))


def test_a_suspended_training_is_continued_so_that_it_can_save(lab: Lab) -> None:
    run_dir, record = lab.train(POLITE)
    os.kill(record.leader.pid, signal.SIGSTOP)
    assert launch.stop(run_dir, launch.StopOrder(grace=10)).how == "ended"
    assert os.path.exists(os.path.join(run_dir, "saved"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host": "gpu-07"}, "gpu-07"),
        ({"boot_id": "another"}, "restarted since"),
        ({"pid_namespace": "pid:[1]"}, "another container"),
    ],
)
def test_what_runs_elsewhere_is_refused_in_words(tmp_path: Path, change: dict[str, str], words: str) -> None:
    write_launch(str(tmp_path), replace(describe_this_process(str(tmp_path)), **change))  # type: ignore[arg-type]
    with pytest.raises(CannotStop, match=words):
        launch.stop(str(tmp_path))
    assert os.listdir(tmp_path) == ["launch.json"]


def test_a_pid_taken_over_by_another_process_is_never_signalled(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ticks = start_ticks(bystander.pid)
    assert ticks is not None
    stale = ProcessId(pid=bystander.pid, start_ticks=ticks - 1)
    write_launch(str(tmp_path), replace(describe_this_process(str(tmp_path)), leader=stale, supervisor=stale))
    assert launch.stop(str(tmp_path), launch.KILL).how == "not running"
    assert is_same_process(bystander.pid, ticks)
    bystander.communicate(b"\n")
    assert bystander.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_record_that_another_user_wrote_names_nobody_elses_process(lab: Lab) -> None:
    run_dir, record = lab.train(STUBBORN)
    foreign = lab.directory / "run-2026-04-24_18-53-41"
    foreign.mkdir()
    forged = replace(record, run_id="forged", run_dir=str(foreign))
    write_launch(str(foreign), forged)
    os.chown(foreign / "launch.json", 12345, 12345)
    assert members(str(foreign), forged) == []
    assert launch.stop(str(foreign), launch.KILL).how == "not running"
    assert record.is_alive and launch.is_alive(run_dir)
    os.chown(os.path.join(run_dir, "launch.json"), 12345, 12345)
    outcome = launch.stop(run_dir, launch.KILL)
    assert outcome.how == "killed", "where the owner says nothing, the environment does"
    assert outcome.words == "killed, as asked", "nobody waited for an end that came too late"


def test_a_training_that_wrote_its_own_record_is_stopped_by_it(lab: Lab) -> None:
    run_dir = lab.run_dir()
    script = lab.script(POLITE)
    process = subprocess.Popen([sys.executable, script], env={**os.environ, "LAVENDER_RUN_DIR": run_dir})
    ticks = start_ticks(process.pid)
    assert ticks is not None
    own = replace(describe_this_process(run_dir), leader=ProcessId(pid=process.pid, start_ticks=ticks))
    write_launch(run_dir, own)
    lab.until(lambda: _catches_term(process.pid), what="the handler")
    assert launch.stop(run_dir).how == "ended"
    assert process.wait() == 0 and os.path.exists(os.path.join(run_dir, "saved"))


def _catches_term(pid: int) -> bool:
    caught = int(Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0], 16)
    return bool(caught & (1 << (signal.SIGTERM - 1)))


def test_without_a_record_only_the_environment_counts(lab: Lab) -> None:
    run_dir = lab.run_dir()
    # Looks like the run's by its arguments and its working directory, which is not enough.
    lookalike = subprocess.Popen([sys.executable, "-c", "input()", run_dir], stdin=subprocess.PIPE, cwd=run_dir)
    with pytest.raises(NotFound, match=r"no launch\.json"):
        launch.stop(run_dir)
    member = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"LAVENDER_RUN_DIR": run_dir}
    )
    lab.until(lambda: members(run_dir, None))
    assert launch.stop(run_dir, launch.StopOrder(grace=5)).how == "ended"
    assert member.wait() == -signal.SIGTERM
    lookalike.communicate(b"\n")
    assert lookalike.returncode == 0
    assert member.stdin is not None
    member.stdin.close()


def test_an_unreadable_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "launch.json").write_text("{")
    with pytest.raises(NotFound, match="no whole JSON"):
        launch.stop(str(tmp_path))
    with pytest.raises(NotFound, match="no such run"):
        launch.stop(str(tmp_path / "nowhere"))


def test_a_copy_is_refused_and_the_original_lives(lab: Lab) -> None:
    run_dir, record = lab.train(POLITE)
    copy = str(lab.directory / "copy")
    shutil.copytree(run_dir, copy)
    with pytest.raises(CannotStop, match="a copy"):
        launch.stop(copy, launch.KILL)
    assert record.is_alive
    launch.stop(run_dir)


def test_a_stop_that_cannot_be_recorded_sends_no_signal(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir, record = lab.train(POLITE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stop_order, "write_stop", full)
    with pytest.raises(CannotStop, match="No space left"):
        launch.stop(run_dir)
    assert record.is_alive
    monkeypatch.undo()
    launch.stop(run_dir)


def test_a_stop_from_within_the_run_does_not_end_whoever_asks(lab: Lab) -> None:
    run_dir, record = lab.train(POLITE)
    code = f"from lavender_tui import launch; print(launch.stop({run_dir!r}).how)"
    env = {**os.environ, "LAVENDER_RUN_ID": record.run_id, "LAVENDER_RUN_DIR": run_dir}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "ended\n"


def test_a_copied_record_with_foreign_fields_still_reads(tmp_path: Path) -> None:
    document = json.loads(json.dumps(asdict(describe_this_process(str(tmp_path)))))
    (tmp_path / "launch.json").write_text(json.dumps({**document, "cloud": {"job_id": 7}}))
    assert examine_launch(str(tmp_path))[1] is None
