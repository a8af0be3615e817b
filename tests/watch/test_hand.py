"""A training that nobody of ours started is stopped: what is proved to be its own, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lavender_tui.errors import NotFound
from lavender_tui.launch import KILL, StopOrder, journal, seen
from lavender_tui.launch.identity import is_same_process, start_ticks
from lavender_tui.launch.stop_order import CannotRecord, CannotStop, How
from lavender_tui.model.run import RunState
from lavender_tui.watch.hand import judge, stop_by_hand
from lavender_tui.watch.hand_proof import catches
from lavender_tui.watch.processes import find_processes
from lavender_tui.watch.remembering import remember
from lavender_tui.watch.scan import scan
from tests.watch import saves
from tests.watch.saves import RUN

# A trainer of somebody else's. `saves`: it catches the signal, writes a checkpoint and ends.
TRAIN = """\
import os, shutil, signal, subprocess, sys, time
run, words = sys.argv[1], sys.argv[2:]
if "saves" in words:
    def save(*_):
        shutil.copy(os.path.join(os.path.dirname(__file__), "next.pt"), os.path.join(run, "pretrain-09-31-00-0004.pt"))
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
if "stubborn" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "writes" in words:
    log = open(os.path.join(run, "metrics.jsonl"), "a")
if "writes-once" in words:
    open(os.path.join(run, "metrics.jsonl"), "a").close()
if "writes-other" in words:
    other = open(os.path.join(words[-1], "metrics.jsonl"), "a")
if "becomes-another" in words:
    os.setuid(12345)
if "child" in words:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", run])
if "forks" in words and not os.fork():
    log = open(os.path.join(run, "metrics.jsonl"), "a")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    open(os.path.join(run, "forked"), "w").close()
    time.sleep(600)
print("up", flush=True)
time.sleep(600)
"""

Start = Callable[..., subprocess.Popen]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints" / RUN
    saves.save(path, 3, mtime=time.time() - 100)
    (tmp_path / "next.pt").write_bytes(saves.as_bytes(save_count=4))
    return path


@pytest.fixture
def start(tmp_path: Path, run: Path, nothing_survives: Callable[[], list[int]]) -> Iterator[Start]:
    """Start it below a shell, as people do; returns the shell's process, whose end is the training's."""
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    started: list[subprocess.Popen] = []

    def begin(*words: object, prompt: str = '"$@"; exit $?', **environment: str) -> subprocess.Popen:
        argv = ["bash", "-c", prompt, "bash", sys.executable, str(script), *map(str, words)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, **environment}, cwd="/")
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def found(run: Path) -> list[int]:
    return [one.pid for one in find_processes([str(run)], {str(run): None}).get(str(run), ())]


def contents(run: Path) -> set[str]:
    return set(os.listdir(run))


def test_it_saves_and_ends_and_the_journal_says_who_stopped_it(run: Path, start: Start) -> None:
    shell = start(run, "saves", "writes")
    before = contents(run)
    alive = scan([str(run.parent)])[0]
    assert (alive.state, alive.is_ours, alive.is_by_hand, alive.started_by) == (
        RunState.RUNNING, False, True, journal.person(),
    )  # fmt: skip
    outcome = stop_by_hand(str(run), StopOrder(who="ann@gpu-03", grace=20), shown=alive.processes)
    assert outcome.how == "ended" and outcome.words.startswith("saved and ended ")
    assert shell.wait(30) == 0
    assert contents(run) - before == {"pretrain-09-31-00-0004.pt"}, "nothing of ours is in a directory that isn't"
    stopped = scan([str(run.parent)])[0]
    assert stopped.state is RunState.STOPPED
    assert stopped.state_reason.startswith("stopped on request by ann@gpu-03: saved 0004, ended after ")
    remembered = seen.read(str(run))
    assert remembered is not None and remembered.ended_at is not None, "r can resume it"


def test_a_new_start_in_the_same_directory_was_not_stopped(run: Path, start: Start, until) -> None:
    start(run, "saves", "writes")
    stop_by_hand(str(run), StopOrder(grace=20))
    assert scan([str(run.parent)])[0].state is RunState.STOPPED
    second = start(run, "writes")
    alive = scan([str(run.parent)])[0]
    assert (alive.state, alive.is_stopping) == (RunState.RUNNING, False)
    (pid,) = found(run)
    os.kill(pid, signal.SIGKILL)
    second.wait(30)
    os.utime(run / "metrics.jsonl", (time.time() + 60, time.time() + 60))
    until(lambda: scan([str(run.parent)], now=time.time() + 60)[0].state is not RunState.STOPPED, what="its own end")


def test_while_it_ends_it_says_so(run: Path, start: Start) -> None:
    start(run, "stubborn", "writes")
    outcome = stop_by_hand(str(run), StopOrder(who="ann@gpu-03", wait=False))
    assert outcome.how == "asked"
    alive = scan([str(run.parent)])[0]
    assert alive.is_stopping and alive.state_reason.endswith("asked to end by ann@gpu-03")
    assert stop_by_hand(str(run), StopOrder(grace=0.3)).how == "killed"
    assert scan([str(run.parent)])[0].state_reason.startswith("stopped on request by ")


@pytest.mark.parametrize("how", ["graceful", "kill"])
def test_what_it_started_ends_with_it(run: Path, start: Start, nothing_survives, until, how: How) -> None:
    shell = start(run, "stubborn", "writes", "child")
    until(lambda: len(judge(str(run)).members) == 2, what="the child")
    outcome = stop_by_hand(str(run), StopOrder(how=how, grace=0.3))
    assert (outcome.how, shell.wait(30)) == ("killed", 128 + signal.SIGKILL)
    assert nothing_survives() == []
    (asked, ended) = journal.read(str(run.parent), str(run))
    assert (asked.what, asked.facts["how"]) == ("stop asked", how)
    assert (ended.what, ended.facts["killed"]) == ("stopped", True)


def test_the_signal_goes_to_who_listens(run: Path, start: Start, until) -> None:
    """The one that was forked catches it, the one above doesn't and would die of it without a word to the other."""
    start(run, "forks")
    until(lambda: (run / "forked").exists(), what="the fork")
    judged = judge(str(run))
    (lead,), (other,) = judged.leads, [one for one in judged.members if one not in judged.leads]
    assert catches(lead.pid, signal.SIGTERM) and not catches(other.pid, signal.SIGTERM)
    assert f"goes to pid {lead.pid}, which catches it" in judged.heard_by
    outcome = stop_by_hand(str(run), StopOrder(grace=1.0))
    assert outcome.how == "killed"  # the one above waits for ever: it is ended with the rest


def test_who_ignores_the_signal_is_said_to_be_killed_later(run: Path, start: Start) -> None:
    start(run, "stubborn", "writes")
    assert judge(str(run)).heard_by.endswith("which ignores it: it is killed when the time is over")


def test_who_does_not_catch_the_signal_is_said_to_end_at_once(run: Path, start: Start) -> None:
    shell = start(run, "writes")
    judged = judge(str(run))
    assert "does not catch it" in judged.heard_by and judged.is_sure
    outcome = stop_by_hand(str(run), StopOrder(grace=20))
    assert outcome.words.endswith("without a new checkpoint in its directory")
    assert shell.wait(30) == 128 + signal.SIGTERM


def test_what_was_seen_to_write_there_once_is_proved(run: Path, start: Start) -> None:
    """It opens its files only to write to them; whoever watched has seen it at that."""
    start(run, "saves", "writes-once", RANK="0", WORLD_SIZE="1")
    with pytest.raises(CannotStop, match="only looks like the run's"):
        judge(str(run))
    found_now = find_processes([str(run)], {str(run): None})[str(run)]
    memory = remember(str(run), found_now, None)
    assert memory is not None and memory.proof is None
    seen.write(replace(memory, proof="it writes metrics.jsonl there"))
    judged = judge(str(run))
    assert judged.is_sure and judged.evidence.endswith("seen before: it writes metrics.jsonl there")
    other = replace(memory, proof="it writes", leader=replace(memory.leader, start_ticks=memory.leader.start_ticks - 1))
    seen.write(other)
    with pytest.raises(CannotStop):
        judge(str(run))


def test_a_proof_is_remembered_when_it_is_seen(run: Path, start: Start) -> None:
    start(run, "writes")
    memory = remember(str(run), find_processes([str(run)], {str(run): None})[str(run)], None)
    assert memory is not None and memory.proof == "it writes metrics.jsonl there"
    seen.write(memory)
    assert seen.read(str(run)) == memory
    later = remember(str(run), find_processes([str(run)], {str(run): None})[str(run)], replace(memory, proof=None))
    assert later == memory, "the first time that it is seen is soon enough"


def test_an_evaluation_is_not_taken_for_the_training(run: Path, start: Start, tmp_path: Path) -> None:
    """It names the run and is a rank, as a training is; it is refused, and left alone beside one."""
    script = tmp_path / "evaluate.py"
    script.write_text("import sys\nprint('up', flush=True)\nsys.stdin.read()\n")
    argv = [sys.executable, str(script), str(run)]
    rank = {**os.environ, "RANK": "0", "WORLD_SIZE": "1"}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=rank) as evaluation:
        assert evaluation.stdout is not None and evaluation.stdin is not None
        evaluation.stdout.readline()
        assert found(run) == [evaluation.pid], "it makes the run look alive"
        with pytest.raises(CannotStop, match=rf"pid {evaluation.pid} .* only looks like the run's") as refused:
            stop_by_hand(str(run), KILL)
        assert refused.value.hint == f"If it is the training: `kill -TERM {evaluation.pid}`"
        shell = start(run, "saves", "writes")
        assert [str(evaluation.pid) in words for words in judge(str(run)).left_alone] == [True]
        assert stop_by_hand(str(run), StopOrder(grace=20)).how == "ended"
        assert (shell.wait(30), evaluation.poll()) == (0, None)
        evaluation.stdin.close()
        assert evaluation.wait(30) == 0


# Reads the newest checkpoint and computes with it until its input ends, then it may write what it found.
EVALUATION = """\
import os, sys, torch
run = sys.argv[-1]
content = torch.load(os.path.join(run, "pretrain-09-31-00-0004.pt"), weights_only=True)
print("up", flush=True)
sys.stdin.readline()
open(os.path.join(run, "evaluation.json"), "w").close()
print("wrote", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("option", [[], ["--run-dir"]])
def test_reading_a_stopped_run_makes_it_neither_live_nor_forget_its_stop(
    run: Path, start: Start, tmp_path: Path, until, watch, request, option: list[str]
) -> None:
    script, other = tmp_path / "evaluate.py", run.parent / "run-2025-03-15_09-00-00"
    script.write_text(EVALUATION)
    saves.save(other, 1)
    watch(run.parent)
    watched = request.getfixturevalue("seen")
    start(run, "saves", "writes")
    until(lambda: seen.read(str(run)) is not None, what="its command to be remembered")
    assert stop_by_hand(str(run), StopOrder(who="ann@gpu-03", grace=20)).how == "ended"
    until(lambda: (now := watched.run()) is not None and now.state is RunState.STOPPED, what="its stop on the screen")
    trained, shown = seen.read(str(run)), len(watched.snapshots)
    argv = [sys.executable, str(script), *option, str(run)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as evaluation:
        assert evaluation.stdin is not None and evaluation.stdout is not None
        for said in ("up\n", "wrote\n"):
            assert evaluation.stdout.readline() == said
            assert found(run) == [evaluation.pid] and found_again(run) == []
            now = next(one for one in scan([str(run.parent)]) if one.name == RUN)
            assert (now.state, now.processes) == (RunState.STOPPED, ()) and "by ann@gpu-03" in now.state_reason
            evaluation.stdin.write("\n")
            evaluation.stdin.flush()
            if said == "up\n":
                start(other, "writes")  # once it is seen, so is the evaluation
                until(lambda: watched.run(other.name).is_alive, what="a search for processes")
    assert {run.state for one in watched.snapshots[shown:] for run in one.runs if run.name == RUN} == {RunState.STOPPED}
    after = seen.read(str(run))
    assert trained is not None and after is not None
    assert (after.leader, after.argv) == (trained.leader, trained.argv), "what it is resumed by is the training"


def test_training_on_in_the_same_directory_is_known_by_what_it_writes(
    run: Path, start: Start, until: Callable[..., object]
) -> None:
    start(run, "saves", "writes")
    (first,) = find_processes([str(run)], {str(run): None})[str(run)]
    seen.write(remember(str(run), [first], None))  # type: ignore[arg-type]
    assert stop_by_hand(str(run), StopOrder(grace=20)).how == "ended"
    for entry in run.iterdir():
        os.utime(entry, (time.time() - 60, time.time() - 60))
    ended = seen.read(str(run))
    assert ended is not None and ended.ended_at is not None
    over = ended.ended_at + 0.05  # the start of a process is known to a hundredth of a second
    until(lambda: time.time() > over)
    start(run, "saves", RANK="0", WORLD_SIZE="1")
    (second,) = found(run)
    assert found_again(run) == [], "as an evaluation would look"
    os.utime(run / "metrics.jsonl")
    assert found_again(run) == [second]


def found_again(run: Path) -> list[int]:
    memory = {str(run): seen.read(str(run))}
    return [one.pid for one in find_processes([str(run)], {str(run): None}, memory).get(str(run), ())]


def test_a_program_of_several_trainings_is_not_stopped_for_one(run: Path, start: Start) -> None:
    other = run.parent / "run-2025-03-15_09-00-00"
    saves.save(other, 1)
    start(run, "writes", "writes-other", other)
    with pytest.raises(CannotStop, match=f"serves {other.name} too") as refused:
        stop_by_hand(str(run), KILL)
    assert refused.value.hint == "Stop it where it was started"


def test_who_was_not_shown_is_not_signalled(run: Path, start: Start) -> None:
    start(run, "writes")
    (shown,) = find_processes([str(run)], {str(run): None})[str(run)]
    stop_by_hand(str(run), KILL, shown=[shown])
    second = start(run, "writes")
    with pytest.raises(CannotStop, match="others now than those that were shown"):
        stop_by_hand(str(run), KILL, shown=[shown])
    assert second.poll() is None


def test_nothing_runs(run: Path) -> None:
    with pytest.raises(NotFound, match="no process on this machine is seen to be its own"):
        stop_by_hand(str(run))
    assert journal.read(str(run.parent)) == []


def test_a_journal_that_cannot_be_written_is_a_question_of_its_own(run: Path, start: Start) -> None:
    start(run, "saves", "writes")
    (run.parent / ".lavender-tui").write_text("in the way")
    (pid,) = found(run)
    with pytest.raises(CannotRecord, match="would look like a failure"):
        stop_by_hand(str(run))
    assert is_same_process(pid, start_ticks(pid) or 0)
    outcome = stop_by_hand(str(run), StopOrder(unrecorded=True, grace=20))
    assert outcome.how == "ended" and outcome.unrecorded is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_another_users_training_is_refused_by_name(run: Path, start: Start) -> None:
    shell = start(run, "writes", "becomes-another")
    with pytest.raises(CannotStop, match=r"belongs to user 12345, and a run that was started by hand is"):
        stop_by_hand(str(run), KILL)
    assert shell.poll() is None


def test_a_forged_journal_calls_no_other_process_stopped(run: Path, start: Start) -> None:
    start(run, "writes")
    (pid,) = found(run)
    facts = {"by_hand": True, "pid": pid, "start_ticks": 1, "host": "h", "boot_id": "b", "pid_namespace": "p"}
    journal.note(str(run.parent), "stop asked", run=str(run), **facts)
    assert not scan([str(run.parent)])[0].is_stopping
