"""Which command starts the training again, and how it is fitted; nothing is executed here."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.errors import UsageError
from lavender_tui.launch import command
from lavender_tui.launch.arguments import Kind, parse
from lavender_tui.launch.record import ProcessId, describe_this_process, start_ticks, write_launch
from lavender_tui.launch.sources import CommandSource
from lavender_tui.model.plan import Launch
from lavender_tui.model.run import Lineage, LiveProcess, Run, RunState

RUN = "/runs/run-2026-04-25_09-12-07"


def build(line: str, world_size: int, **more: object) -> Launch:
    defaults: dict[str, object] = {"run_dir": RUN, "environ": {"PATH": os.environ["PATH"]}, "cores": 8, "run_id": "id"}
    return command.build(shlex.split(line), world_size=world_size, **{**defaults, **more})  # type: ignore[arg-type]


def run_of(path: Path, *processes: LiveProcess) -> Run:
    return Run(
        path=str(path),
        root=str(path.parent),
        name=path.name,
        format="lavender",
        state=RunState.IDLE,
        state_reason="",
        checkpoints=(),
        newest=None,
        processes=processes,
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("torchrun --nproc-per-node 4 train.py", "torchrun --nproc-per-node 2 train.py"),
        ("torchrun --nproc_per_node=4 train.py", "torchrun --nproc-per-node 2 train.py"),
        ("torchrun --nproc_per_node 4 --max_restarts=1 t.py", "torchrun --max_restarts=1 --nproc-per-node 2 t.py"),
        ("torchrun --nproc 4 t.py", "torchrun --nproc-per-node 2 t.py"),
        ("torchrun --log_dir=/old --nproc-per-node gpu -m pkg.t", "torchrun -m --nproc-per-node 2 pkg.t"),
        ("torchrun --standalone t.py", "torchrun --standalone --nproc-per-node 2 t.py"),
        (
            "python -X utf8 -m torch.distributed.run --nproc-per-node=4 t.py --nproc-per-node 4 --log-dir x",
            "python -X utf8 -m torch.distributed.run --nproc-per-node 2 t.py --nproc-per-node 4 --log-dir x",
        ),
        (
            "python3 -m torch.distributed.launch --use-env --nproc_per_node=4 t.py",
            "python3 -m torch.distributed.launch --use-env --nproc-per-node 2 t.py",
        ),
        (
            "/v/bin/python /v/bin/torchrun -r3 --tee 1 t.py",
            "/v/bin/python /v/bin/torchrun -r3 --tee 1 --nproc-per-node 2 t.py",
        ),
        ("env A=1 torchrun --nproc-per-node 4 t.py", "env A=1 torchrun --nproc-per-node 2 t.py"),
        ("python train.py --nproc-per-node 4", "python train.py --nproc-per-node 4"),
        ("bash run.sh torchrun --nproc-per-node 4", "bash run.sh torchrun --nproc-per-node 4"),
    ],
)
def test_only_the_launchers_own_options_change(line: str, expected: str) -> None:
    assert shlex.join(command.set_world_size(shlex.split(line), 2)) == expected


def test_the_log_directory_can_be_redirected() -> None:
    words = command.set_world_size(["torchrun", "--log-dir", "/old", "t.py", "--log-dir", "mine"], 3, log_dir="/new")
    assert words == ("torchrun", "--nproc-per-node", "3", "--log-dir", "/new", "t.py", "--log-dir", "mine")


def test_values_are_put_in_literally_and_once() -> None:
    words = ["{checkpoint}", "--x={world_size}", "{other}", "{", "{{plan}}", "{}", "$(rm -rf /) `x` {stage}"]
    values = {"checkpoint": "/a b/{plan}.pt", "world_size": 2, "plan": "P", "stage": "sft; reboot"}
    assert command.fill(words, values) == (
        "/a b/{plan}.pt",
        "--x=2",
        "{other}",
        "{",
        "{P}",
        "{}",
        "$(rm -rf /) `x` sft; reboot",
    )


@pytest.mark.parametrize("place", ["checkpoint", "plan", "state", "run_dir", "stage"])
def test_what_lies_on_disk_is_put_into_no_shells_program(place: str) -> None:
    words = ("env", "A=1", "bash", "-lc", f"python train.py --from {{{place}}}")
    with pytest.raises(UsageError, match=rf"\{{{place}\}} stands in what bash reads as a program.*_ \{{{place}\}}"):
        command.build(words, world_size=1, run_dir="/r")


def test_a_path_from_disk_is_given_to_no_program_as_code_and_to_no_variable_that_is_run() -> None:
    for words in (("sg", "root", "-c", "python t.py {checkpoint}"), ("env", "BASH_ENV={checkpoint}", "bash", "t.sh")):
        with pytest.raises(UsageError, match=r"\{checkpoint\} stands in what (sg|BASH_ENV) reads as a program"):
            command.build(words, world_size=1, run_dir="/r", checkpoint="/c.pt")
    source = CommandSource(argv=("bash", "t.sh"), cwd="/", where="given", env={"BASH_ENV": "{checkpoint}"})
    with pytest.raises(UsageError, match=r"\{checkpoint\} stands in BASH_ENV"):
        command.build(source, world_size=1, run_dir="/r", checkpoint="/c.pt")


def test_a_word_of_its_own_and_a_number_may_be_given_to_a_shell() -> None:
    words = ("bash", "-c", 'torchrun --nproc-per-node {world_size} t.py "$1"', "_", "{checkpoint}")
    launch = command.build(words, world_size=2, run_dir="/r", checkpoint="/c/$(touch x).pt")
    assert launch.argv[-1] == "/c/$(touch x).pt" and "--nproc-per-node 2" in launch.argv[2]


def test_a_value_that_this_resume_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match=r"asks for \{state\}"):
        build("python train.py {state}", 1)
    assert build("python t.py {state} {start_epoch}", 1, state_path="/s.pt", start_epoch=2).argv[-2:] == ("/s.pt", "2")


def test_one_process_starts_without_torchrun() -> None:
    launch = build("python train.py --lr 1", 1, plan_path=f"{RUN}/resume.json", cwd="/project")
    assert launch == Launch(
        backend="local",
        argv=("python", "-u", "train.py", "--lr", "1"),
        cwd="/project",
        env={
            "PYTHONUNBUFFERED": "1",
            "LAVENDER_RUN_ID": "id",
            "LAVENDER_RUN_DIR": RUN,
            "LAVENDER_RESUME_PLAN": f"{RUN}/resume.json",
        },
    )


def test_more_processes_become_torchruns_and_it_is_said() -> None:
    launch = build(f"{sys.executable} -u train.py --lr 1", 4, grace=40)
    assert launch.backend == "torchrun"
    assert shlex.join(launch.argv) == (
        f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 4 --log-dir {RUN}/ranks --tee 3 "
        "--shutdown-timeout 35 --signals-to-handle SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 train.py --lr 1"
    )
    assert launch.env["OMP_NUM_THREADS"] == "2" and "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" not in launch.env
    assert command.notes(["python", "-u", "train.py"], world_size=4) == (
        "torchrun starts the script 4 times, once a rank",
    )
    assert command.notes(["python", "train.py"], world_size=1) == ()


def test_a_module_stays_a_module() -> None:
    assert build(f"{sys.executable} -m pkg.train x", 2).argv[-3:] == ("-m", "pkg.train", "x")
    assert build("torchrun -m pkg.train x", 1, backend="local").argv == (sys.executable, "-u", "-m", "pkg.train", "x")


def test_torchrun_stays_torchrun_for_one_process_unless_asked() -> None:
    line = f"{sys.executable} -m torch.distributed.run --nproc-per-node 4 t.py"
    assert build(line, 1).backend == "torchrun"
    asked = build(line, 1, backend="local")
    assert asked.backend == "local" and asked.argv == (sys.executable, "-u", "t.py")


def test_old_rendezvous_and_files_are_replaced_and_the_rest_kept() -> None:
    line = (
        f"{sys.executable} -m torch.distributed.run --nnodes=2 --node-rank 1 --rdzv-endpoint h:29500 --master_port 1 "
        "--log-dir /old --redirects 3 --max-restarts 2 --role trainer t.py --nnodes 2"
    )
    launch = build(line, 2)
    assert shlex.join(launch.argv).startswith(
        f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 2 --max-restarts 2 --role trainer "
        f"--log-dir {RUN}/ranks --tee 3"
    )
    assert launch.argv[-3:] == ("t.py", "--nnodes", "2")
    assert launch.env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert any("2 nodes" in note for note in command.notes(shlex.split(line), world_size=2))


def test_a_variable_that_is_set_is_left_alone() -> None:
    assert "OMP_NUM_THREADS" not in build("torchrun t.py", 2, environ={"PATH": "", "OMP_NUM_THREADS": "3"}).env


def test_an_interpreter_without_a_known_torch_gets_no_newer_options(tmp_path: Path) -> None:
    old = tmp_path / "lib" / "python3.11" / "site-packages" / "torch" / "distributed"
    old.mkdir(parents=True)
    (old / "run.py").write_text('parser.add_argument("--signals-to-handle")')
    (tmp_path / "bin").mkdir()
    argv = build(f"{tmp_path}/bin/python t.py", 2).argv
    assert "--signals-to-handle" in argv and "--shutdown-timeout" not in argv
    assert "--signals-to-handle" not in build("/nowhere/bin/python t.py", 2).argv
    assert "--signals-to-handle" not in build("uv run torchrun t.py", 2).argv


def test_torchrun_by_its_name_means_its_own_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "torchrun"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    assert build("torchrun t.py", 2, environ={"PATH": str(tmp_path)}).argv[:2] == (sys.executable, "-m")
    script.write_text("#!/no/such/python\n")
    assert build("torchrun t.py", 2, environ={"PATH": str(tmp_path)}).argv[:2] == (sys.executable, "-m")


@pytest.mark.parametrize(
    ("line", "world_size", "backend", "words"),
    [
        ("bash run.sh", 2, None, "is not known"),
        ("python train.py", 2, "local", "can't be 2 ranks"),
        ("bash run.sh", 2, "torchrun", "can't start this command"),
        ("python -c pass", 2, None, "can't start this command"),
        ("python train.py", 1, "kubernetes", "no backend 'kubernetes'"),
        ("python train.py", 0, None, "makes no sense"),
        ("", 1, None, "empty"),
    ],
)
def test_what_cannot_fit_is_refused(line: str, world_size: int, backend: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build(line, world_size, backend=backend)


def test_a_command_that_takes_the_number_itself_is_left_to_it() -> None:
    launch = build("bash run.sh {world_size}", 4)
    assert launch.backend == "local" and launch.argv == ("bash", "run.sh", "4")
    assert build("python spawn.py {world_size}", 4, backend="local").argv == ("python", "-u", "spawn.py", "4")


@pytest.mark.parametrize(
    "line", ["", "python", "python -u", "torchrun", "torchrun --nproc-per-node", "env", "python -m"]
)
def test_half_commands_are_taken_as_they_are(line: str) -> None:
    parsed = parse(line.split())
    assert parsed.kind in Kind
    command.set_world_size(line.split(), 2)


LAUNCHERS = ["torchrun", "python", "-m", "torch.distributed.run", "env", "-u", "t.py"]
OPTIONS = ["--nproc-per-node", "--nproc_per_node=3", "--log-dir", "-r3", "-t", "--standalone", "--new-option"]
ODD = ["--", "-", "4", "{world_size}", "", "=", "--="]
WORDS = st.sampled_from([*LAUNCHERS, *OPTIONS, *ODD])


@given(st.lists(WORDS, max_size=12), st.integers(1, 64))
def test_no_line_of_words_breaks_the_taking_apart(words: list[str], world_size: int) -> None:
    parsed = parse(words)
    once = command.set_world_size(words, world_size)
    if parsed.kind is not Kind.TORCHRUN:
        assert once == tuple(words)
    else:
        assert tuple(words)[len(words) - len(parsed.script) :] == parsed.script
    with contextlib.suppress(UsageError):
        command.build(words, world_size=world_size, run_dir=RUN, checkpoint="c", cores=1, environ={})


@given(st.lists(st.text(st.characters(exclude_characters="\0")), max_size=4))
def test_the_scripts_own_words_stay_as_they_are(words: list[str]) -> None:
    own = ["train.py", *words]
    for line in (["torchrun", "--nproc-per-node", "4", *own], ["python", "-m", "torch.distributed.run", *own]):
        assert command.set_world_size(line, 2)[-len(own) :] == tuple(own)


# Where it comes from


def test_what_was_given_comes_first(tmp_path: Path) -> None:
    (tmp_path / "lavender.toml").write_text('command = "python other.py"')
    found = command.find_command(None, explicit=["python", "t.py"], project_dir=str(tmp_path))
    assert found == CommandSource(argv=("python", "t.py"), cwd=str(tmp_path), where="given after --")


def test_the_settings_of_the_project_come_next(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.lavender-tui]\ncommand = "python train.py --name \'a b\'"\ncwd = "src"\n'
        'backend = "torchrun"\nenv = {A = "{stage}"}\n'
    )
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    found = command.find_command(None, project_dir=str(below))
    assert found.argv == ("python", "train.py", "--name", "a b") and found.cwd == str(tmp_path / "src")
    assert found.where == str(tmp_path / "pyproject.toml")
    launch = command.build(found, world_size=1, run_dir=RUN, stage="sft")
    assert launch.backend == "torchrun" and launch.env["A"] == "sft" and launch.cwd == str(tmp_path / "src")


def test_the_nearest_project_decides_and_its_own_file_first(tmp_path: Path) -> None:
    (tmp_path / "lavender.toml").write_text('command = ["outer"]')
    inner = tmp_path / "inner"
    (inner / ".git").mkdir(parents=True)
    with pytest.raises(UsageError, match="not known"):
        command.find_command(None, project_dir=str(inner))
    (inner / "pyproject.toml").write_text('[tool.lavender-tui]\ncommand = ["second"]')
    assert command.find_command(None, project_dir=str(inner)).argv == ("second",)
    (inner / "lavender.toml").write_text('command = ["first"]')
    assert command.find_command(None, project_dir=str(inner)).argv == ("first",)


@pytest.mark.parametrize(
    "text",
    [
        'command = "a',
        "command = []",
        "command = 5",
        'command = "\'"',
        'command = ["a", 1]',
        'command = "a"\nenv = {A = 1}',
        'command = "a"\ncwd = 1',
    ],
)
def test_settings_that_make_no_sense_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "lavender.toml").write_text(text)
    with pytest.raises(UsageError, match=r"lavender\.toml"):
        command.find_command(None, project_dir=str(tmp_path))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another's file")
def test_a_strangers_settings_have_no_say(tmp_path: Path) -> None:
    path = tmp_path / "lavender.toml"
    path.write_text('command = "steal"')
    os.chown(path, 12345, 12345)
    assert path.stat().st_mode & stat.S_IRUSR
    with pytest.raises(UsageError, match="not known"):
        command.find_command(None, project_dir=str(tmp_path))


def test_the_record_gives_back_what_was_asked_for(tmp_path: Path) -> None:
    project, run_dir = tmp_path / "p", tmp_path / "run-1"
    project.mkdir()
    (project / ".git").mkdir()
    run_dir.mkdir()
    record = replace(
        describe_this_process(str(run_dir)),
        argv=("python", "-u", "t.py", "--from=/old/c.pt", str(run_dir), f"{run_dir}/resume.json", "/old/c.pt.bak"),
        cwd=str(project),
        resumed_from=Lineage(run="/old", checkpoint="/old/c.pt"),
    )
    write_launch(str(run_dir), record)
    found = command.find_command(run_of(run_dir), project_dir=str(project))
    assert found.argv == ("python", "-u", "t.py", "--from={checkpoint}", "{run_dir}", "{plan}", "/old/c.pt.bak")
    assert found.cwd == str(project) and "run-1" in found.where
    (run_dir / "launch.json").unlink()
    write_launch(str(run_dir), replace(record, command=("python", "t.py", "{state}")))
    assert command.find_command(run_of(run_dir), project_dir=str(project)).argv == ("python", "t.py", "{state}")


def test_the_live_process_comes_last_and_must_be_itself(tmp_path: Path, until: Callable[..., object]) -> None:
    (tmp_path / ".git").mkdir()
    argv = [sys.executable, "-c", "input()", "a b"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, cwd=tmp_path)
    ticks = start_ticks(process.pid)
    assert ticks is not None
    until(Path(f"/proc/{process.pid}/cmdline").read_bytes, what="its words: a process has none while it is executed")
    live = LiveProcess(pid=process.pid, start_ticks=ticks, role="process")
    found = command.find_command(run_of(tmp_path, live), project_dir=str(tmp_path))
    assert found.argv == tuple(argv) and found.cwd == str(tmp_path)
    with pytest.raises(UsageError, match="not known"):
        command.find_command(run_of(tmp_path, replace(live, start_ticks=ticks - 1)), project_dir=str(tmp_path))
    process.communicate(b"\n")
    assert ProcessId(pid=process.pid, start_ticks=ticks).is_alive is False


def test_a_mere_python_that_is_on_no_path_is_the_one_that_runs_us(tmp_path: Path) -> None:
    """As under cron: the recorded command says `python`, and the PATH has none."""
    (tmp_path / "t.py").write_text("")
    source = CommandSource(argv=("python", "t.py"), cwd=str(tmp_path), where="here")
    launch = command.build(source, world_size=1, run_dir=str(tmp_path), environ={"PATH": "/nowhere"})
    assert launch.argv[0] == sys.executable
    assert command.build(source, world_size=1, run_dir=str(tmp_path), environ=dict(os.environ)).argv[0] == "python"


def test_the_record_of_a_training_names_its_interpreter_in_full(tmp_path: Path) -> None:
    code = "from lavender_tui.launch.record import describe_this_process; print(describe_this_process('.').argv[0])"
    path = os.path.dirname(sys.executable)
    done = subprocess.run(
        ["python3", "-c", code],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert os.path.samefile(done.stdout.strip(), sys.executable)


def test_a_setting_that_does_not_exist_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "lavender.toml").write_text('comand = "python t.py"')
    with pytest.raises(UsageError, match=r"lavender\.toml: there is no setting 'comand'.*backend, command, cwd, env"):
        command.find_command(None, project_dir=str(tmp_path))
