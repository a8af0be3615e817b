"""The watcher while something writes: real writers, real limits, file systems that tell nothing."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lavender_tui.model.checkpoint import Wholeness
from lavender_tui.model.run import RunState
from lavender_tui.watch import observe
from lavender_tui.watch.observe import Snapshot, Watcher
from tests.watch import saves
from tests.watch.watching import Seen

RUN = saves.RUN
SOON = 15.0  # seconds: all is listed anew after 30, that alone must not do


def writer(run: Path, way: str, count: int, seconds: float = 0.0) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.watch.writer", str(run), way, "1", str(count), str(seconds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


@pytest.mark.parametrize("way", ["rename", "rsync", "direct"])
def test_saves_of_a_live_writer_arrive_one_row_each(tmp_path: Path, seen: Seen, watch, until, way: str):
    watch(tmp_path)
    with writer(tmp_path / RUN, way, 5) as process:
        assert process.stdout.readline() == "ready\n"
        for count in range(1, 6):
            process.stdin.write("\n")
            process.stdout.readline()
            until(lambda count=count: seen.whole() == list(range(1, count + 1)), seconds=SOON, what=f"save {count}")
    assert all(len({one.path for one in run.checkpoints}) == len(run.checkpoints) for run in seen.last.runs)
    assert [one.sequence for one in seen.snapshots] == list(range(1, len(seen.snapshots) + 1))


def test_a_growing_file_is_one_row_being_written_and_then_whole(tmp_path: Path, seen: Seen, watch, until):
    watcher = watch(tmp_path)
    with writer(tmp_path / RUN, "grow", 2, seconds=2.0) as process:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("\n\n")
        until(lambda: seen.whole() == [1, 2], seconds=30, what="both saves")
        ended = [float(process.stdout.readline().split()[0]) for _ in range(2)][-1]
        assert time.monotonic() - ended < 20
    states = [run.checkpoints[-1].wholeness for one in seen.snapshots for run in one.runs if len(run.checkpoints) == 2]
    assert set(states) == {Wholeness.WRITING, Wholeness.WHOLE}
    assert all(len(run.checkpoints) <= 2 for one in seen.snapshots for run in one.runs)
    newest = [run.newest.save_count for one in seen.snapshots for run in one.runs if run.newest]
    assert newest == sorted(newest)
    assert watcher.index.reads < 40


def test_a_file_overwritten_in_place_shows_its_new_content(tmp_path: Path, seen: Seen, watch, until):
    path = saves.save(tmp_path / RUN, 1, ce_loss=9.0)
    watch(tmp_path)
    until(lambda: seen.whole() == [1])
    path.write_bytes(saves.as_bytes(save_count=1, ce_loss=1.25))
    until(lambda: [one.loss for one in seen.run().checkpoints] == [1.25], seconds=SOON)
    other = tmp_path / "elsewhere.bin"
    other.write_bytes(saves.as_bytes(save_count=1, ce_loss=0.5))
    os.replace(other, path)
    until(lambda: [one.loss for one in seen.run().checkpoints] == [0.5], seconds=SOON)
    path.unlink()
    until(lambda: seen.run().checkpoints == (), seconds=SOON)


def test_where_each_slice_of_time_is_over_at_once_everything_is_read_all_the_same(
    tmp_path: Path, seen: Seen, watch, until, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(observe, "SLICE_SECONDS", 0.0)
    for count in range(1, 9):
        saves.save(tmp_path / RUN, count, ce_loss=1.0 / count)
        saves.save(tmp_path / RUN.replace("03-14", "03-15"), count, ce_loss=2.0 / count)
    watch(tmp_path)
    until(lambda: [len(run.losses) for run in seen.last.runs] == [8, 8], what="every loss of both runs")


def test_a_run_directory_that_is_born_full(tmp_path: Path, seen: Seen, watch, until):
    root = tmp_path / "root"
    root.mkdir()
    for count in (1, 2, 3):
        saves.save(tmp_path / "made" / RUN, count)
    watch(root)
    until(lambda: seen.snapshots)
    os.rename(tmp_path / "made" / RUN, root / RUN)
    until(lambda: seen.whole() == [1, 2, 3], seconds=SOON)
    before = len(seen.snapshots)
    os.rename(root / RUN, tmp_path / "away")
    until(lambda: seen.last.runs == ())
    assert any(str(root / RUN) in one.changed for one in seen.snapshots[before:])


def test_a_root_that_comes_later_goes_and_comes_again(tmp_path: Path, seen: Seen, watch, until):
    root = tmp_path / "checkpoints"
    watch(root)
    until(lambda: seen.snapshots)
    assert any("can't be read" in note for note in seen.last.notes)
    for count in (1, 2):
        saves.save(root / RUN, count)
        until(lambda count=count: seen.whole() == [count], what="the run")
        until(lambda: seen.last.mode == "inotify", what="the events")
        shutil.rmtree(root)
        until(lambda: seen.last.runs == (), what="its end")


def test_a_linked_root_has_events(tmp_path: Path, seen: Seen, watch, until):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "checkpoints"
    link.symlink_to(tmp_path / "disk")
    watch(link, poll_seconds=1000.0)
    until(lambda: seen.last.mode == "inotify")
    saves.save(tmp_path / "disk" / RUN, 1)
    until(lambda: seen.whole() == [1], seconds=SOON)
    assert seen.run().path == str(link / RUN)


def test_metrics_and_log_are_activity(tmp_path: Path, seen: Seen, watch, until):
    saves.save(tmp_path / RUN, 1, mtime=time.time() - 3600)
    watch(tmp_path)
    until(lambda: seen.whole() == [1])
    with open(tmp_path / RUN / "metrics.jsonl", "a", buffering=1) as file:
        for step in range(1, 4):
            file.write(f'{{"step": {step}, "loss": {1 / step}}}\n')
            until(lambda step=step: seen.run().losses and seen.run().losses[-1].step == step, seconds=SOON)
    assert time.time() - seen.run().last_activity_at < 60


def test_a_live_process_makes_a_run_running_and_its_end_is_seen(tmp_path: Path, seen: Seen, watch, until):
    saves.save(tmp_path / RUN, 1)
    watch(tmp_path)
    variables = {**os.environ, "LAVENDER_RUN_DIR": str(tmp_path / RUN)}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=variables) as process:
        until(lambda: seen.run() and seen.run().state is RunState.RUNNING)
        assert seen.run().pid == process.pid
        process.communicate(b"\n")
    until(lambda: seen.run().state is RunState.IDLE, seconds=SOON)


def test_parts_of_a_large_tree(tmp_path: Path, seen: Seen, watch, until):
    content = saves.as_bytes(save_count=1)
    for number in range(40):
        run = tmp_path / f"run-2025-03-14_09-{number:02d}-00"
        run.mkdir()
        for count in range(1, 11):
            (run / saves.name(count)).write_bytes(content)
    watch(tmp_path)
    until(lambda: seen.last.is_complete, what="all parts")
    first = seen.snapshots[0]
    assert len(first.runs) == 40
    assert all(len(run.checkpoints) == 10 for run in first.runs)
    assert not first.is_complete
    assert all(one.is_whole for run in seen.last.runs for one in run.checkpoints)


def test_a_flood_beside_a_save_hides_nothing(tmp_path: Path, seen: Seen, watch, until, capfd):
    saves.save(tmp_path / RUN, 1)
    watch(tmp_path)
    until(lambda: seen.whole() == [1])
    content = saves.as_bytes(save_count=2)
    for number in range(5000):
        (tmp_path / RUN / f"e{number}.log").touch()
        if number == 2500:
            (tmp_path / RUN / saves.name(2)).write_bytes(content)
    until(lambda: seen.whole() == [1, 2])
    assert capfd.readouterr() == ("", "")


def test_a_consumer_that_fails_does_not_end_the_watching(tmp_path: Path, until):
    calls: list[Snapshot] = []

    def deliver(snapshot: Snapshot) -> None:
        calls.append(snapshot)
        if len(calls) == 1:
            raise ValueError("a consumer's own fault")

    watcher = Watcher([str(tmp_path)], deliver)
    watcher.start()
    until(lambda: len(calls) > 1 and any("a consumer's own fault" in note for note in calls[1].notes))
    saves.save(tmp_path / RUN, 1)
    until(lambda: calls[-1].runs and calls[-1].runs[0].newest and not calls[-1].notes)
    watcher.close()
    watcher.join(10)


def test_a_queue_that_overflows_is_said_nowhere_but_noted(tmp_path: Path, seen: Seen, watch, until, capfd):
    saves.save(tmp_path / RUN, 1)
    watch(tmp_path)
    until(lambda: seen.last.mode == "inotify")
    # What watchdog logs when the kernel's queue overflows; making it overflow needs a setting of the whole machine.
    for _ in range(5):
        logging.getLogger("watchdog.observers.inotify_c").warning(
            "Inotify queue overflowed; filesystem events were lost"
        )
    until(lambda: seen.last.mode == "polling")
    assert any("faster than they can be read" in note for note in seen.last.notes)
    saves.save(tmp_path / RUN, 2)
    until(lambda: seen.whole() == [1, 2], seconds=SOON)
    assert capfd.readouterr() == ("", "")


def test_close_waits_for_nobody_and_leaves_no_thread(tmp_path: Path, seen: Seen, until):
    before, is_busy, go_on = set(threading.enumerate()), threading.Event(), threading.Event()

    def deliver(snapshot: Snapshot) -> None:
        seen(snapshot)
        if snapshot.runs:  # whoever gets this one is long about it
            is_busy.set()
            go_on.wait(60)

    watcher = Watcher([str(tmp_path)], deliver)
    watcher.start()
    until(lambda: seen.last.mode == "inotify")
    saves.save(tmp_path / RUN, 1)
    until(is_busy.is_set, what="the run")
    closing = threading.Thread(target=watcher.close)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    told = len(seen.snapshots)
    go_on.set()
    until(lambda: set(threading.enumerate()) <= before, what="the threads' end")
    saves.save(tmp_path / RUN, 2)
    assert len(seen.snapshots) == told


def test_a_watcher_that_was_never_started_can_be_closed(tmp_path: Path, seen: Seen):
    watcher = Watcher([str(tmp_path)], seen)
    watcher.close()
    watcher.join(1)


# Limits and silent file systems: a process of its own in a user namespace

IN_NAMESPACE = """\
import json, os, sys, threading, time
from lavender_tui.watch.observe import Watcher
root, content = sys.argv[1], open(sys.argv[2], "rb").read()
behind = sys.argv[3] if len(sys.argv) > 3 else root
last = [None]
watcher = Watcher([root], lambda snapshot: last.__setitem__(0, snapshot))
watcher.start()
def wait(condition, what):
    end = time.monotonic() + 20
    while not (last[0] and condition(last[0])):
        assert time.monotonic() < end, (what, last[0])
        time.sleep(0.02)
wait(lambda s: s.is_complete, "the first list")
wait(lambda s: s.sequence > 1 or len(sys.argv) > 3, "the way of watching")
def add(name):
    run = os.path.join(behind, name)
    os.makedirs(run, exist_ok=True)
    with open(os.path.join(run, "pretrain-10-00-00-0001.pt"), "wb") as file:
        file.write(content)
    begun = time.monotonic()
    path = os.path.join(root, name)
    wait(lambda s: any(run.path == path and run.newest for run in s.runs), name)
    return time.monotonic() - begun
delays = [add(f"run-2025-03-14_09-{n:02d}-00") for n in (0, 15, 35)]
delays.append(add("run-2025-03-15_09-00-00"))
files = len(os.listdir("/proc/self/fd"))
time.sleep(1.5)  # some rounds in which nothing happens
grew = len(os.listdir("/proc/self/fd")) - files
print(json.dumps({"delays": delays, "mode": last[0].mode, "notes": last[0].notes, "grew": grew}))
"""


def in_namespace(flags: list[str], before: str, *arguments: Path) -> dict:
    import json

    probe = subprocess.run(["unshare", *flags, "sh", "-c", before], capture_output=True)
    if probe.returncode:
        pytest.skip(f"no such namespace here: {probe.stderr.decode(errors='replace').strip()}")
    command = ["unshare", *flags, "sh", "-c", f'{before} && exec "$@"', "sh", sys.executable, "-c", IN_NAMESPACE]
    answer = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (0, ""), answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoints"
    for number in range(40):
        (root / f"run-2025-03-14_09-{number:02d}-00" / "events" / "rank0").mkdir(parents=True)
    return root


@pytest.fixture
def content(tmp_path: Path) -> Path:
    path = tmp_path / "content.bin"
    path.write_bytes(saves.as_bytes(save_count=1))
    return path


@pytest.mark.parametrize(
    ("limit", "mode", "note"),
    [
        ("max_inotify_watches 5", "inotify + polling", "sysctl fs.inotify.max_user_watches"),
        ("max_inotify_watches 0", "polling", "sysctl fs.inotify.max_user_watches"),
        ("max_inotify_instances 0", "polling", "sysctl fs.inotify.max_user_instances"),
    ],
)
def test_without_enough_inotify_everything_is_polled(many: Path, content: Path, limit: str, mode: str, note: str):
    name, value = limit.split()
    found = in_namespace(["-rU"], f"echo {value} > /proc/sys/user/{name}", many, content)
    assert max(found["delays"]) < 15
    assert found["mode"] == mode
    assert sum(note in one for one in found["notes"]) == 1
    assert found["grew"] <= 0


def test_an_overlay_written_from_behind_is_polled(tmp_path: Path, content: Path):
    root = tmp_path / "checkpoints"
    for name in ("checkpoints", "lower", "upper", "work"):
        (tmp_path / name).mkdir()
    places = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    mount = f"mount -t overlay overlay -o {places} {root}"
    found = in_namespace(["-rm"], mount, root, content, tmp_path / "upper")
    assert max(found["delays"]) < 15
    assert found["mode"] == "polling"
    assert any("it is polled" in note for note in found["notes"])
