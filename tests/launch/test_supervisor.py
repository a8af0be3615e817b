"""The supervisor: what it records, what it outlives, and what it never leaves behind."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.errors import AlreadyRunning, LaunchFailed
from lavender_tui.launch import starting
from lavender_tui.launch.identity import descendants, process_stat, raw_environment
from lavender_tui.launch.living import members
from lavender_tui.launch.record import end_facts, read_exit, read_launch, send_signal
from lavender_tui.launch.starting import OUR_NAMES
from lavender_tui.model.run import Lineage
from tests.launch.conftest import POLITE, STUBBORN, Lab


def test_the_record_is_there_when_start_returns(lab: Lab) -> None:
    run_dir, record = lab.start("sh", "-c", "echo hello; exit 3", grace=7, world_size=1, command=["sh", "{plan}"])
    assert record.argv == ("sh", "-c", "echo hello; exit 3") and record.command == ("sh", "{plan}")
    assert record.env["LAVENDER_RUN_ID"] == record.run_id and record.env["LAVENDER_RUN_DIR"] == run_dir
    assert record.is_here and record.written_by == "supervisor" and record.grace_seconds == 7
    ended = lab.ended(run_dir)
    assert (ended.code, ended.signal, ended.stop, ended.killed) == (3, None, None, False)
    assert lab.log(run_dir) == "hello\n"


def test_the_environment_arrives_and_ours_with_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARK_FROM_SHELL", "kept")
    monkeypatch.setenv("LAVENDER_RUN_ID", "of an outer run")
    run_dir, _ = lab.start(
        "sh", "-c", 'echo "$MARK_FROM_SHELL $LAVENDER_RUN_ID $LAVENDER_RUN_DIR $PWD"', run_id="inner"
    )
    lab.ended(run_dir)
    assert lab.log(run_dir) == f"kept inner {run_dir} {lab.directory}\n"


def test_what_makes_a_process_a_part_of_another_run_is_left_behind(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LAVENDER_RESUME_PLAN", "LAVENDER_RUN_ID", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(name, "foreign")
    monkeypatch.setenv("MY_RANK", "mine")
    run_dir, record = lab.start("sh", "-c", "env; sleep 99")
    lab.until(lambda: "MY_RANK=mine" in lab.log(run_dir))
    assert "foreign" not in lab.log(run_dir)
    assert record.supervisor is not None
    assert not any(b"foreign" in pair for pair in raw_environment(record.supervisor.pid))
    launch.stop(run_dir)


def test_the_training_has_a_session_no_terminal_and_no_foreign_descriptors(lab: Lab) -> None:
    run_dir, record = lab.train(POLITE)
    pid = record.leader.pid
    assert os.getsid(pid) == pid == os.getpgid(pid)
    descriptors = {name: os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
    log = os.path.join(run_dir, "train.log")
    assert descriptors == {"0": "/dev/null", "1": log, "2": log}
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = int(status.split("SigIgn:")[1].split()[0], 16)
    blocked = int(status.split("SigBlk:")[1].split()[0], 16)
    assert not blocked and not ignored & (1 << (signal.SIGHUP - 1))
    with open(os.path.join(run_dir, "launch.lock")) as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    launch.stop(run_dir, launch.KILL)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["no-such-program"], 127, "no such program on the PATH"),
        (["./nothing.sh"], 127, "no such program in"),
        (["./plain.txt"], 126, "can't be executed"),
        (["./lost.sh"], 127, "interpreter named in its first line"),
        (["./empty.sh"], 126, "can't be executed"),
    ],
)
def test_what_cannot_be_executed_is_said_and_recorded(lab: Lab, argv: list[str], code: int, words: str) -> None:
    (lab.directory / "plain.txt").write_text("text")
    for name, text in (("lost.sh", "#!/no/such/shell\n"), ("empty.sh", "")):
        (lab.directory / name).write_text(text)
        (lab.directory / name).chmod(0o755)
    run_dir = lab.run_dir()
    if argv == ["./empty.sh"]:
        (lab.directory / "empty.sh").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(LaunchFailed, match=words):
        lab.start(*argv, run_dir=run_dir)
    ended = read_exit(run_dir)
    assert ended is not None and ended.code == code and words in (ended.error or "")
    assert set(os.listdir(run_dir)) <= set(OUR_NAMES)


def test_a_missing_working_directory_is_said(lab: Lab) -> None:
    from lavender_tui.model.plan import Launch

    with pytest.raises(LaunchFailed, match=r"/gone: the working directory can't be entered"):
        launch.start(Launch(backend="local", argv=("true",), cwd="/gone"), lab.run_dir())


def test_a_run_directory_that_cannot_be_written_starts_nothing(lab: Lab) -> None:
    with pytest.raises(LaunchFailed, match="can't be written"):
        lab.start("touch", str(lab.directory / "ran"), run_dir=str(lab.directory / "nowhere"))
    assert not (lab.directory / "ran").exists()


def test_of_twenty_starts_at_once_one_wins(lab: Lab) -> None:
    run_dir = lab.run_dir()
    script = lab.script(POLITE.replace('print("up"', 'print("up", os.getpid()'))

    def begin(number: int) -> bool:
        try:
            lab.start(sys.executable, script, run_dir=run_dir, run_id=f"try-{number}")
        except AlreadyRunning:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        won = list(pool.map(begin, range(20)))
    assert won.count(True) == 1
    record = read_launch(run_dir)
    assert record is not None and record.run_id == f"try-{won.index(True)}"
    lab.until(lambda: lab.log(run_dir))
    assert lab.log(run_dir) == f"up {record.leader.pid}\n"
    launch.stop(run_dir)
    with pytest.raises(AlreadyRunning):
        lab.start("true", run_dir=run_dir)


def test_a_second_resume_of_the_same_run_is_refused_while_the_first_lives(lab: Lab) -> None:
    old = lab.run_dir()
    first, _ = lab.train(POLITE, resumed_from=Lineage(run=old, checkpoint=None))
    with pytest.raises(AlreadyRunning, match=os.path.basename(first)):
        lab.start("true", resumed_from=Lineage(run=old))
    wished, record = lab.start("true", resumed_from=Lineage(run=old), again=True)
    assert record.resumed_from == Lineage(run=old)
    lab.ended(wished)
    launch.stop(first)
    again, _ = lab.start("true", resumed_from=Lineage(run=old))
    lab.ended(again)


def test_a_signal_to_the_supervisor_is_a_stop_and_says_who_sent_it(lab: Lab) -> None:
    run_dir, record = lab.train(POLITE)
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGTERM)
    ended = lab.ended(run_dir)
    assert ended.code == 0 and os.path.exists(os.path.join(run_dir, "saved"))
    facts = end_facts(run_dir)
    assert facts is not None and facts.stop_requested and f"pid {os.getpid()}" in (facts.stop_by or "")


def test_a_hang_up_ends_nothing_and_usr1_reaches_a_local_training(lab: Lab) -> None:
    text = POLITE.replace(
        "signal.signal(", "signal.signal(signal.SIGUSR1, lambda *_: print('asked', flush=True))\nsignal.signal(", 1
    )
    run_dir, record = lab.train(text)
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGHUP)
    os.kill(record.supervisor.pid, signal.SIGUSR1)
    lab.until(lambda: "asked" in lab.log(run_dir))
    assert record.is_alive and read_exit(run_dir) is None
    launch.stop(run_dir)


def test_usr1_is_kept_from_torchrun(lab: Lab) -> None:
    run_dir, record = lab.train(POLITE, backend="torchrun")
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGUSR1)
    assert launch.stop(run_dir).how == "ended"
    assert read_exit(run_dir).code == 0  # type: ignore[union-attr]


def test_a_traceback_and_a_signal_are_the_cause(lab: Lab) -> None:
    failing, _ = lab.start(sys.executable, "-c", "raise ValueError('the loss is \\x1b[31mnan')")
    assert lab.ended(failing).error == "ValueError: the loss is nan", "colours are no words"
    killed, record = lab.train(POLITE)
    send_signal(record.leader.pid, record.leader.start_ticks, signal.SIGKILL)
    ended = lab.ended(killed)
    assert ended.signal == "SIGKILL" and ended.code is None and ended.stop is None
    assert ended.error.startswith("killed by signal 9")


def test_orphans_of_a_killed_leader_save_and_end(lab: Lab) -> None:
    lab.script(POLITE, "worker.py")
    leader = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, 'worker.py'], start_new_session=True)\n"
        "time.sleep(99)"
    )
    run_dir, record = lab.train(leader)
    send_signal(record.leader.pid, record.leader.start_ticks, signal.SIGKILL)
    ended = lab.ended(run_dir)
    assert os.path.exists(os.path.join(run_dir, "saved"))
    assert ended.signal == "SIGKILL" and not ended.killed and "the 1 processes" in ended.error
    assert not members(run_dir, record)


def test_signals_that_a_launcher_ignores_are_not_lost(lab: Lab) -> None:
    """A launcher started in the background of a shell ignores INT; one that ignores CHLD would lose the exit status."""
    script = lab.script(
        "import signal, sys\n"
        "for s in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGUSR2): signal.signal(s, signal.SIG_IGN)\n"
        "from lavender_tui import launch\nfrom lavender_tui.model.plan import Launch\n"
        "try: launch.start(Launch(backend='local', argv=(sys.executable, 'train.py'), cwd='.'), sys.argv[1])\n"
        "except ChildProcessError: pass\n",
        "launcher.py",
    )
    lab.script(POLITE)
    run_dir = lab.run_dir()
    subprocess.run([sys.executable, script, run_dir], cwd=lab.directory, check=True)
    lab.until(lambda: "up" in lab.log(run_dir))
    assert launch.stop(run_dir).how == "ended"
    assert lab.ended(run_dir).code == 0


def test_the_training_outlives_its_launcher_and_the_terminal(lab: Lab) -> None:
    script = lab.script(
        "import sys, time\nfrom lavender_tui import launch\nfrom lavender_tui.model.plan import Launch\n"
        "launch.start(Launch(backend='local', argv=(sys.executable, 'train.py'), cwd=sys.argv[2]), sys.argv[1])\n"
        "time.sleep(99)\n",
        "launcher.py",
    )
    lab.script(POLITE)
    run_dir = lab.run_dir()
    master, slave = pty.openpty()
    launcher = subprocess.Popen(
        [sys.executable, script, run_dir, str(lab.directory)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    lab.until(lambda: "up" in lab.log(run_dir))
    os.close(master)  # the terminal is gone: HUP for whoever is still in its session
    launcher.kill()
    launcher.wait()
    record = read_launch(run_dir)
    assert record is not None and record.is_alive and record.supervisor is not None
    assert os.getsid(record.leader.pid) == record.leader.pid
    assert launch.stop(run_dir).how == "ended" and os.path.exists(os.path.join(run_dir, "saved"))


# Killed at every step

STEPS = {
    "before the lock": "before(s, '_take_lock')",
    "after the lock": "after(s, '_take_lock')",
    "before the fork": "before(s, '_Child')",
    "after the fork": "after(s, '_Child')",
    "within the record": "before(s.files, '_give_name')",
    "after the record": "after(s.files, 'write_atomically')",
    "before the word": "before(s._Child, 'go')",
    "after the word": "after(s._Child, 'go')",
    "before the answer": "before(s, '_tell')",
    "while it watches": "before(s._Supervised, 'watch')",
}
BROKEN = """
import os, signal, sys
sys.path.insert(0, {root!r})
import lavender_tui.launch.supervisor as s
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
def before(where, name): setattr(where, name, die)
def after(where, name):
    old = getattr(where, name)
    setattr(where, name, lambda *a, **k: (old(*a, **k), die()))
{step}
sys.exit(s.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("step", STEPS)
def test_a_supervisor_killed_at_any_step_leaves_nothing_or_a_known_training(
    lab: Lab, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = lab.script(BROKEN.format(root=str(Path(starting.ENTRY).parents[2]), step=STEPS[step]), "broken.py")
    monkeypatch.setattr(starting, "ENTRY", broken)
    run_dir = lab.run_dir()
    script = lab.script(POLITE)
    is_started = step in ("after the word", "before the answer", "while it watches")
    if not is_started:
        with pytest.raises(LaunchFailed):
            lab.start(sys.executable, script, run_dir=run_dir, run_id="known")
        lab.until(lambda: not members(run_dir, read_launch(run_dir)), what="nothing to be left")
        assert lab.log(run_dir) == ""
        return
    _, record = lab.start(sys.executable, script, run_dir=run_dir, run_id="known")
    lab.until(lambda: "up" in lab.log(run_dir))
    assert record.supervisor is not None
    lab.until(lambda: not record.supervisor.is_alive, what="the supervisor's death")
    assert launch.is_alive(run_dir)
    outcome = launch.stop(run_dir, launch.StopOrder(grace=10))
    assert outcome.how == "ended" and not outcome.supervised and os.path.exists(os.path.join(run_dir, "saved"))
    facts = end_facts(run_dir)
    assert facts is not None and facts.stop_requested and facts.ended_at is not None and facts.exit_code is None


def test_a_launcher_killed_while_it_gives_the_order_starts_nothing(lab: Lab) -> None:
    run_dir = lab.run_dir()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", starting.ENTRY, run_dir], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"run_id": "x", "argv": ["true"]}).encode()[:-5])
    process.stdin.close()
    assert process.wait() != 0
    assert os.listdir(run_dir) == []


def test_nothing_of_the_supervisor_is_a_child_of_the_launcher(lab: Lab) -> None:
    before = set(descendants(os.getpid()))
    run_dir, record = lab.train(POLITE)
    assert set(descendants(os.getpid())) <= before
    assert record.supervisor is not None
    stat = process_stat(record.supervisor.pid)
    assert stat is not None and stat[1] != os.getpid()
    launch.stop(run_dir)


def test_a_stubborn_training_is_killed_with_all_below_it(lab: Lab) -> None:
    run_dir, record = lab.train(STUBBORN)
    lab.until(lambda: lab.log(run_dir).count("up") == 2)
    outcome = launch.stop(run_dir, launch.StopOrder(grace=0.3))
    assert outcome.how == "killed" and outcome.supervised and not members(run_dir, record)
    ended = read_exit(run_dir)
    assert ended is not None and ended.killed and ended.signal == "SIGKILL" and ended.error is None
    assert end_facts(run_dir).stop_requested  # type: ignore[union-attr]
