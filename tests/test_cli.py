"""The command line's manners: exit codes, one line an error, stdout for data only."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from lavender_tui.cli import split_command
from lavender_tui.commands.export import shown
from tests.resume.saves import save
from tests.tui import runs


def lavender(*args: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lavender_tui", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        timeout=60,
    )


def on_a_terminal(stream: str, *args: str, **environment: str) -> str:
    """What it writes to `stream`, which is a terminal; the terminal hands it on in as many pieces as it likes."""
    ours, theirs = pty.openpty()
    streams = {name: theirs if name == stream else subprocess.PIPE for name in ("stdout", "stderr")}
    words, told = [sys.executable, "-m", "lavender_tui", *args], b""
    with subprocess.Popen(words, **streams, env={**os.environ, **environment}) as process:  # type: ignore[call-overload]
        os.close(theirs)
        try:
            while part := os.read(ours, 65536):
                told += part
        except OSError:
            pass  # the other end is closed
        os.close(ours)
        process.communicate(timeout=60)
    assert process.returncode == 0
    return told.decode()


def test_everything_after_the_first_double_dash_is_the_training_command() -> None:
    assert split_command(["resume", "a", "--", "python", "x.py", "--", "-w"]) == (
        ["resume", "a"],
        ("python", "x.py", "--", "-w"),
    )
    assert split_command(["ls"]) == (["ls"], ())


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--help",), 0, ""),
        (("--version",), 0, ""),
        (("ls", "--nope"), 2, "No such option"),
        (("plan", "--world-size", "0"), 2, "0"),
        (("plan", "--policy", "guess"), 2, "guess"),
        (("export", "--format", "xml"), 2, "xml"),
        (("ls", "/no/such/root"), 102, "/no/such/root"),
        (("lss",), 2, "Did you mean ls?"),
        (("nosuchcmd",), 2, "there is no command nosuchcmd, and no directory of that name. `lavender-tui --help`"),
        (("no/such/root",), 102, "there is no such directory"),
        (("export", "nosuch"), 102, "nosuch: there is no such directory. Name the directory that holds the runs"),
        (("ls", "export"), 102, "export: there is no such directory"),
        (("stop", "run-nope", "--root", "nosuch"), 102, "nosuch: there is no such directory"),
        (("ls", __file__), 102, "it is a file"),
        (("inspect", "/no/such.pt"), 102, "/no/such.pt"),
        (("stop", "run-nowhere"), 102, "run-nowhere"),
        (("merge", "a.pt", "-o", "x.txt"), 2, "x.txt"),
        (("export", ".", "--follow", "-o", "x"), 2, "--follow"),
    ],
)
def test_exit_codes_and_one_line_an_error(tmp_path: Path, args: tuple[str, ...], code: int, words: str) -> None:
    done = lavender(*args, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert done.stdout == ""


def test_a_run_is_looked_for_right_here_where_the_usual_root_is_not(tmp_path: Path) -> None:
    (tmp_path / "run-2026-04-24_18-53-41").mkdir()
    told = lavender("logs", "run-nope", cwd=tmp_path)
    assert told.returncode == 102 and f"`lavender-tui ls {tmp_path}` shows the runs" in told.stderr
    assert "the run has no log" in lavender("logs", "18-53", cwd=tmp_path).stderr


def test_the_help_names_what_the_app_takes(tmp_path: Path) -> None:
    said = lavender("--help", cwd=tmp_path).stdout
    assert all(option in said for option in ("--readonly", "--theme NAME", "--mouse / --no-mouse", "--ascii"))
    assert said.count("--readonly") == 1 and "\n  app " not in said


def test_without_a_terminal_the_usual_root_that_is_missing_is_no_mistyped_command(tmp_path: Path) -> None:
    told, listed = lavender(cwd=tmp_path), lavender("ls", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (listed.returncode, listed.stderr)
    assert told.returncode == 102 and "checkpoints: there is no such directory" in told.stderr


def test_an_empty_log_is_said(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1" / "train.log").touch()
    told = lavender("logs", "run-1", cwd=tmp_path)
    assert (told.returncode, told.stdout) == (0, "") and "nothing is printed yet" in told.stderr
    (tmp_path / "run-1" / "train.log").write_text("a\n")
    told = lavender("logs", "run-1", cwd=tmp_path)
    assert (told.stdout, told.stderr) == ("a\n", "")


def test_where_one_process_is_the_whole_run_its_log_is_that_of_rank_0(tmp_path: Path) -> None:
    code = "import sys; print('trained'); print('noted', file=sys.stderr)"
    made = lavender("resume", "--latest", str(tmp_path / "checkpoints"), "--", sys.executable, "-c", code, cwd=tmp_path)
    run_dir = made.stdout.strip()
    followed = lavender("logs", run_dir, "--follow", "--rank", "0")
    assert followed.returncode == 0 and followed.stdout.splitlines() == ["rank 0: trained", "rank 0: noted"]
    assert lavender("logs", run_dir, "--rank", "0").stdout == "trained\nnoted\n"
    told = lavender("logs", run_dir, "--rank", "1")
    assert told.returncode == 102 and "the run has no log of rank 1" in told.stderr


def test_of_a_run_that_died_in_its_first_second_nothing_is_lost_and_that_is_said(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    made = lavender("resume", "--latest", str(root), "--", sys.executable, "-c", "raise SystemExit(1)", cwd=tmp_path)
    run_dir = made.stdout.strip()
    assert made.returncode == 0 and lavender("logs", run_dir, "--follow").returncode == 100
    told = lavender("stop", run_dir)
    assert "it isn't running" in told.stderr and "trained no step: nothing is lost" in told.stderr


def test_a_log_gets_no_check_that_passed_unless_asked(tmp_path: Path) -> None:
    run = tmp_path / "run-2026-04-24_18-53-41"
    save(str(run))
    words = ("resume", str(run), "--world-size", "1", "--follow")
    command = ("--", sys.executable, "-c", "print('it trains')")
    told = lavender(*words, *command, cwd=tmp_path)
    assert told.returncode == 0 and "it trains" in told.stdout and "✓" not in told.stderr
    told = lavender(*words, "--yes", "--verbose", *command, cwd=tmp_path)
    assert told.returncode == 0 and told.stderr.count(" ✓ ") > 5
    assert "exclude each other" in lavender(*words, "-q", "-v", *command).stderr


def test_in_a_refusal_nothing_stands_between_the_warnings_and_the_reason(tmp_path: Path) -> None:
    run = tmp_path / "run-2026-04-24_18-53-41"
    save(str(run))
    told = lavender("resume", str(run), "--world-size", "7", "--", sys.executable, "-c", "pass", cwd=tmp_path)
    assert told.returncode == 1 and "✓" not in told.stderr
    lines = told.stderr.splitlines()
    assert lines[-1].startswith("lavender-tui: not resumed: ") and not any("not resumed" in line for line in lines[:-1])
    plan = lavender("plan", str(run), "--world-size", "7", "--", sys.executable, "-c", "pass", cwd=tmp_path)
    assert "✓" in plan.stderr and "✗" in plan.stderr


def test_on_a_terminal_the_checks_that_passed_are_one_line(tmp_path: Path) -> None:
    run = tmp_path / "run-2026-04-24_18-53-41"
    save(str(run))
    told = on_a_terminal("stderr", "resume", str(run), "--world-size", "1", "--", sys.executable, "-c", "pass")
    assert told.count("✓") == 1
    assert re.search(r" ✓ [0-9]+ checks passed \(-v shows them\)", told)


def test_a_narrow_terminal_gets_the_columns_that_fit_and_a_pipe_all(tmp_path: Path) -> None:
    save(str(tmp_path / "run-2026-04-24_18-53-41"))

    def listed(columns: int) -> list[str]:
        return on_a_terminal("stdout", "ls", str(tmp_path), COLUMNS=str(columns)).splitlines()

    narrow, wide, piped = listed(70), listed(200), lavender("ls", str(tmp_path)).stdout.splitlines()
    assert max(map(len, narrow)) <= 70 < max(map(len, wide))
    for name in ("RUN", "STATE", "EPOCH", "SAVES", "LOSS", "SAVED"):
        assert name in narrow[0].split()
    assert "TREND" not in narrow[0] and "TREND" in wide[0]
    assert piped[0].split() == wide[0].split()


def test_no_line_is_wider_than_the_terminal_and_a_long_name_loses_its_middle(tmp_path: Path) -> None:
    long = "run-" + "ümläut-" * 20 + "数据集-the-end"
    save(str(tmp_path / "run-2026-04-24_18-53-41"))
    save(str(tmp_path / long))
    heads = {}
    for columns in (100, 80, 60, 40, 30):
        head, *lines = on_a_terminal("stdout", "ls", str(tmp_path), COLUMNS=str(columns)).splitlines()
        assert max(map(cell_len, (head, *lines))) <= columns
        assert all("…" in line and cell_len(line.split()[0]) >= 12 for line in lines if "end " in line)
        assert sum("end " in line for line in lines) == 1
        heads[columns] = head.split()
    assert {"STATE", "EPOCH", "SAVES", "LOSS", "SAVED"} <= set(heads[60])
    assert "EPOCH" not in heads[40] and {"STATE", "LOSS", "SAVED"} <= set(heads[40])
    assert heads[30][:2] == ["RUN", "STATE"]
    assert long in lavender("ls", str(tmp_path)).stdout


@pytest.mark.parametrize(
    ("widths", "room", "shown", "after"),
    [
        ([23, 7, 5, 5], 46, [0, 1, 2, 3], [23, 7, 5, 5]),
        ([23, 7, 5, 5], 45, [0, 1, 3], [23, 7, 5, 5]),
        ([200, 7, 5, 5], 60, [0, 1, 2, 3], [37, 7, 5, 5]),
        ([23, 60, 5, 5], 50, [0, 1, 3], [20, 21, 5, 5]),
        ([23, 60, 5, 5], 30, [0, 1], [14, 14, 5, 5]),
        ([23, 60, 5, 5], 20, [0], [20, 60, 5, 5]),
        ([9, 7, 5, 5], 10, [0], [9, 7, 5, 5]),
    ],
)
def test_the_columns_that_fit(widths: list[int], room: int, shown: list[int], after: list[int]) -> None:
    from lavender_tui.commands.printing import Narrow

    assert Narrow(spare=(2,), cut=(0, 1), last=(3, 1)).fit(widths, room) == shown
    assert [widths[at] for at in shown] == [after[at] for at in shown]


def test_a_refused_resume_ends_with_what_where_and_what_to_do(tmp_path: Path) -> None:
    run = tmp_path / "run-2026-04-24_18-53-41"
    run.mkdir()
    cut = run / "pretrain-10-00-00-0001.pt"
    cut.write_bytes(b"PK\x03\x04" + b"x" * 500)
    done = lavender("resume", str(cut), "--", "true")
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and done.stdout == ""
    assert last.startswith("lavender-tui: not resumed: ") and str(cut) in last and last.endswith("Take an earlier one")
    assert [path.name for path in tmp_path.iterdir()] == [run.name]


def test_a_new_run_can_be_made_under_another_root(tmp_path: Path) -> None:
    run = tmp_path / "here" / "run-2026-04-24_18-53-41"
    save(str(run))
    document = json.loads(
        lavender("plan", str(run), "--root", str(tmp_path / "there"), "--json", "--", sys.executable, "-m", "x").stdout
    )
    assert not document["refused"]
    assert Path(document["run_dir"]).parent == tmp_path / "there" and not (tmp_path / "there").exists()


def test_without_a_terminal_the_list_is_printed_instead_of_the_app(tmp_path: Path) -> None:
    done = lavender(str(tmp_path))
    assert done.returncode == 0
    assert "no runs" in done.stderr


def test_the_plain_list_says_everything_in_words(tmp_path: Path) -> None:
    root = runs.small_root(tmp_path, hostile=True)
    told = lavender("ls", "--plain", str(root)).stdout.splitlines()
    failed = next(line for line in told if line.startswith("run-2026-04-24_18-53-41"))
    for words in (
        "failed, killed by SIGKILL",
        "Stage pretrain, epoch 1 of 3, save 60, loss 2.4",
        "Saved 3 h ago",
        "4 ranks",
    ):
        assert words in failed
    assert any("Resumed from run-2026-04-24_18-53-41" in line for line in told)
    drawn = set("●◐✓✗■○─│▁▂▃▄▅▆▇█├└")
    assert not drawn & set("".join(told)) and all(line.isprintable() for line in told)


def test_an_empty_root_exports_as_an_empty_strict_document(tmp_path: Path) -> None:
    document = json.loads(lavender("export", str(tmp_path)).stdout)
    assert document["format"] == "lavender-export"
    assert document["roots"] == [str(tmp_path)]
    assert document["runs"] == []


def test_output_is_written_whole_into_the_file_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "runs.csv"
    out.write_text("old")
    done = lavender("export", str(tmp_path), "--format", "csv", "-o", str(out))
    assert done.returncode == 0
    assert out.read_text().startswith("run,path,format,state,")
    assert [path.name for path in tmp_path.iterdir()] == ["runs.csv"]


def test_settings_come_from_the_environment_and_a_bad_one_is_only_said(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    done = lavender("ls", cwd=tmp_path, LAVENDER_TUI_ROOT="mine", LAVENDER_TUI_POLL_SECONDS="soon")
    assert done.returncode == 0
    assert "poll_seconds" in done.stderr
    assert str(tmp_path / "mine") in done.stderr


def test_a_terminal_gets_no_control_codes_in_a_csv() -> None:
    assert shown("run,path\nrun-\x1b[31m,/x\n", "csv") == "run,path\nrun-\\x1b[31m,/x\n"
    assert shown('{"a": "\u202e"}', "json") == '{"a": "\u202e"}'


def test_a_directory_that_was_deleted_under_the_shell_is_named_as_that(tmp_path: Path) -> None:
    script = "import os, sys; os.mkdir('x'); os.chdir('x'); os.rmdir('../x'); from lavender_tui.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "ls"], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 1 and "current directory was deleted" in done.stderr and "Traceback" not in done.stderr


def test_a_reader_that_leaves_early_is_no_failure(tmp_path: Path) -> None:
    for number in range(3):
        save(str(tmp_path / f"run-2026-04-24_18-53-4{number}"))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "lavender_tui", "export", str(tmp_path)],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_behind_the_output_is_named(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lavender_tui", "export", str(tmp_path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "disk is full" in done.stderr
    where = lavender("export", str(tmp_path), "-o", str(tmp_path / "no" / "such" / "x.json"))
    assert where.returncode == 1 and "no/such/x.json: the export can't be written" in where.stderr


@pytest.mark.parametrize("words", [("ls",), ("ls", "--json"), (), ("export",), ("--version",)])
def test_a_closed_stdout_is_one_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    save(str(tmp_path / "run-2026-04-24_18-53-41"))
    done = shell(f"{' '.join(words)} >&-" if words == ("--version",) else f"{' '.join((*words, str(tmp_path)))} >&-")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "stdout is closed" in done.stderr


def test_closed_streams_cost_nothing_where_nothing_is_said(tmp_path: Path) -> None:
    run = tmp_path / "run-2026-04-24_18-53-41"
    save(str(run))
    told = shell(f"stop {run} >&-")
    assert told.returncode == 102 and "stdout" not in told.stderr
    told = shell(f"ls {tmp_path} --json 2>&-")
    assert told.returncode == 0 and json.loads(told.stdout)[0]["path"] == str(run)
    told = shell(f"resume {run} -- {sys.executable} no.py 2>&-")
    assert (told.returncode, told.stdout) == (1, "")


def shell(words: str) -> subprocess.CompletedProcess[str]:
    line = f"{sys.executable} -m lavender_tui {words}"
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60)


def test_a_plain_locale_prints_without_a_fault(tmp_path: Path) -> None:
    done = lavender("ls", str(tmp_path), LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_the_list_says_what_a_run_without_a_save_logged_and_leaves_names_as_they_are(tmp_path: Path) -> None:
    logging = tmp_path / "run-2026-05-01_08-00-00"
    logging.mkdir()
    (logging / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 2.25}\n{"step": 3}\n')
    runs.save(tmp_path / "run-2026-05-02_08-00-00", 1, stage="SFT-v2")
    table = {line.split()[0]: line.split() for line in lavender("ls", str(tmp_path)).stdout.splitlines()}
    assert "2.2500" in table[logging.name] and "SFT-v2" in table["run-2026-05-02_08-00-00"]
    said = lavender("ls", "--plain", str(tmp_path)).stdout
    assert "Loss 2.2500." in said and "Stage SFT-v2, epoch " in said


def test_only_a_living_run_has_time_left(tmp_path: Path) -> None:
    """What a dead one had before it is no promise: neither in the table nor in the sentences."""
    from lavender_tui.launch.identity import start_ticks
    from lavender_tui.launch.record import ProcessId

    root, alive = runs.small_root(tmp_path), tmp_path / "checkpoints" / "run-2026-05-01_08-00-00"
    runs.save(alive, 1, hours=7.0)
    here = os.getpid()
    runs.launched(alive, ["python"], leader=ProcessId(pid=here, start_ticks=start_ticks(here) or 0))
    head, *lines = lavender("ls", str(root)).stdout.splitlines()
    at = head.index("LEFT") + len("LEFT")
    left = {line.split()[0]: line[:at].split()[-1] for line in lines if line}
    assert left.pop(alive.name) == "h" and set(left.values()) == {"–"}
    said = lavender("ls", "--plain", str(root)).stdout.splitlines()
    assert [line.partition(":")[0] for line in said if " left." in line] == [alive.name]
