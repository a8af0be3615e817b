"""The engine for jobs of Slurm: what `sbatch` is given, and how a job is submitted exactly once.

The launch record is made exclusively before `sbatch` is called, with the job's name, which carries the run's id; the
job's number is put in when `sbatch` has answered. Killed in between, the job is found again by its name.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from lavender_tui.errors import AlreadyRunning, LaunchFailed, UsageError
from lavender_tui.launch import environment as environment_rules
from lavender_tui.launch import local, torchrun
from lavender_tui.launch.arguments import Command, Kind
from lavender_tui.launch.engine import Topology
from lavender_tui.launch.files import LAUNCH, encode, write_atomically
from lavender_tui.launch.journal import DIRECTORY, person
from lavender_tui.launch.record import LaunchRecord, SlurmJob, record_mode, this_machine, write_launch
from lavender_tui.launch.slurm_script import SCRIPT, JobScript, meeting_words, options_of, render
from lavender_tui.launch.slurm_state import ControllerAway, answering_cluster, find_by_name
from lavender_tui.model.plan import Launch
from lavender_tui.model.run import Lineage
from lavender_tui.model.secrets import looks_secret
from lavender_tui.model.text import one_line

NAME = "slurm"
TAKES_SAVE_SIGNAL = False
SUBMIT_SECONDS = 60.0
LOOKING_SECONDS = 10.0  # for a job whose submit was not answered
_ODD = re.compile(r"[^A-Za-z0-9._-]")
_CLUSTERS = re.compile(r"(?:-M|--clusters=)([^\s=]+)")
_ANSWER = re.compile(r"([0-9]{1,10})(?:;(.+))?")
# What sbatch says where it can't know whether the job was taken.
_UNSURE = re.compile(r"timed out|unable to contact|connection|communication|zero bytes|transport", re.IGNORECASE)


def nodes_for(topology: Topology) -> int:
    """The most nodes, up to the settings' number, that share the ranks evenly."""
    return max(count for count in range(1, topology.slurm.nodes + 1) if topology.world_size % count == 0)


def argv(command: Command, topology: Topology) -> tuple[str, ...]:
    """What submits the job. Whatever must hold, or may hold a path, is said here: no variable overrules it."""
    nodes = nodes_for(topology)
    _, others = options_of(topology.slurm, nodes=nodes, ranks=topology.world_size)
    return (
        "sbatch",
        "--parsable",
        f"--job-name={job_name(topology.run_id)}",
        f"--output={literal(stdout_of(topology.run_dir))}",
        "--open-mode=append",
        "--requeue",
        f"--signal={_warning(command, topology)}@{topology.slurm.signal_seconds}",
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        *others,
        os.path.join(topology.run_dir, SCRIPT),
    )


def script(command: Command, topology: Topology, env: dict[str, str], cwd: str) -> str:
    """The job's script. Raises UsageError where the command can't be started so."""
    nodes = nodes_for(topology)
    lines, _ = options_of(topology.slurm, nodes=nodes, ranks=topology.world_size)
    return render(
        JobScript(
            run_dir=topology.run_dir,
            cwd=cwd,
            words=_words(command, topology, nodes),
            env={name: value for name, value in env.items() if not looks_secret(name, value)},  # those: see `submit`
            nodes=nodes,
            ranks=topology.world_size,
            python=sys.executable,
            signal_seconds=topology.slurm.signal_seconds,
            attempt=topology.attempt,
            options=lines,
        )
    )


def environment(command: Command, topology: Topology) -> dict[str, str]:
    found = torchrun.environment(command, topology) if _by_torchrun(command, topology) else {}
    found.pop("OMP_NUM_THREADS", None)  # the cores of this machine say nothing of a node's
    return found


def notes(command: Command, topology: Topology) -> tuple[str, ...]:
    nodes, asked = nodes_for(topology), topology.slurm.nodes
    told = []
    if command.kind is Kind.PYTHON and topology.world_size > 1:
        told.append(f"torchrun starts the script {topology.world_size} times, once a rank")
    if nodes != asked:
        told.append(f"{topology.world_size} ranks can't be shared by {asked} nodes: {nodes} asked for")
    return tuple(told)


def _nodes_asked(argv: Sequence[str]) -> int | None:
    told = [word.removeprefix("--nodes=") for word in argv if word.startswith("--nodes=")]
    return int(told[0]) if told and int(told[0]) > 1 else None


def job_name(run_id: str) -> str:
    return "lavender-" + _ODD.sub("_", run_id)[-180:]


def stdout_of(run_dir: str) -> str:
    """Where Slurm's own words about the job go: not into the run, for a job outlives the run that it began with."""
    return os.path.join(os.path.dirname(run_dir), DIRECTORY, "slurm", f"{os.path.basename(run_dir)}.log")


def literal(path: str) -> str:
    """As sbatch takes it for itself: a % begins a pattern of Slurm's."""
    return path.replace("%", "%%")


def _by_torchrun(command: Command, topology: Topology) -> bool:
    if topology.is_in_command and command.kind is not Kind.TORCHRUN:
        return False
    return topology.world_size > 1 or command.kind is Kind.TORCHRUN or bool(topology.max_restarts)


def _words(command: Command, topology: Topology, nodes: int) -> tuple[str, ...]:
    if not _by_torchrun(command, topology):
        if nodes > 1:
            raise UsageError(
                f"how this command is started on {nodes} nodes is not known",
                hint="Give `python SCRIPT …` or `torchrun … SCRIPT …`, or set nodes = 1",
            )
        return local.argv(command, topology)
    if nodes == 1:
        return torchrun.argv(command, topology)
    meet = ("--nnodes", str(nodes), *meeting_words())
    return _with_own_logs(torchrun.argv(command, topology, meet=meet, ranks=topology.world_size // nodes))


def _with_own_logs(words: tuple[str, ...]) -> tuple[str, ...]:
    """Each node's agent writes into a directory of its node's number, which only there is known: a shell on the node
    says it by the variable that torchrun reads for `--log-dir`."""
    at = words.index("--log-dir")
    shell = ("bash", "-c", 'PET_LOG_DIR="$0/node-$SLURM_NODEID" exec "$@"', words[at + 1])
    return (*shell, *words[:at], *words[at + 2 :])


def _warning(command: Command, topology: Topology) -> str:
    """The signal before the time limit: USR1, unless it would end the agent of an older torchrun on the spot."""
    if _by_torchrun(command, topology) and not torchrun.passes_usr1_on(command, topology):
        return "TERM"
    return "USR1"


# Submitting


def submit(launch: Launch, run_dir: str, **facts: Any) -> LaunchRecord:
    """Submit the job of a prepared run directory and return its record; `facts` as in `_record`.

    Raises AlreadyRunning where the directory was used before, LaunchFailed where Slurm takes no job; where it can't be
    known whether it took one, the record stays and the error says so.
    """
    assert launch.script is not None
    run_id = facts["run_id"]
    script_path = os.path.join(run_dir, SCRIPT)
    job = SlurmJob(
        job_id=None,
        name=job_name(run_id),
        script=script_path,
        stdout=stdout_of(run_dir),
        cluster=cluster_asked_for(launch.argv, launch.script),
        uid=os.getuid(),
    )
    record = _record(launch, run_dir, job=job, attempt=1, **facts)
    _prepare(record, launch.script)
    # What is set for the training is set for the whole job, each further attempt too; secrets stand nowhere else.
    ours = {name: value for name, value in launch.env.items() if not name.startswith("LAVENDER_")}
    job_id, cluster = _sbatch(record, {**_environment(), **ours})
    return _complete(record, job_id, cluster or job.cluster or _own_cluster())


def cluster_asked_for(argv: Sequence[str], script: str) -> str | None:
    """By the words, the variables or the script, in the order of sbatch's manual; None where nobody names one."""
    named = [match[1] for word in argv[:-1] if (match := _CLUSTERS.fullmatch(word))]
    variables = [os.environ[name] for name in ("SBATCH_CLUSTERS", "SLURM_CLUSTERS") if os.environ.get(name)]
    lines = [match[1] for line in script.splitlines() if (match := _CLUSTERS.fullmatch(line.removeprefix("#SBATCH ")))]
    return next(iter((*named, *variables, *lines)), None)


def _own_cluster() -> str | None:
    try:
        return answering_cluster()
    except ControllerAway:
        return None


def begin_inside(launch: Launch, run_dir: str, *, job: SlurmJob, attempt: int, **facts: Any) -> LaunchRecord:
    """Prepare the run directory of a job's next attempt, from inside of that job; nothing is submitted.

    The script beside the record is then to be executed in the place of this process.
    """
    assert launch.script is not None
    record = _record(launch, run_dir, job=replace(job, script=os.path.join(run_dir, SCRIPT)), attempt=attempt, **facts)
    _prepare(record, launch.script)
    return record


def _record(
    launch: Launch,
    run_dir: str,
    *,
    job: SlurmJob,
    attempt: int,
    run_id: str,
    resumed_from: Lineage | None = None,
    world_size: int | None = None,
    command: Sequence[str] = (),
    grace: float | None = None,
) -> LaunchRecord:
    machine = this_machine()
    return LaunchRecord(
        run_id=run_id,
        run_dir=run_dir,
        backend=NAME,
        argv=launch.argv,
        cwd=launch.cwd,
        env=environment_rules.set_by_us(launch.env),
        environment=environment_rules.recorded(_environment()),
        started_by=person(),
        nodes=_nodes_asked(launch.argv),
        max_restarts=launch.max_restarts,
        host=machine.host,
        boot_id=machine.boot_id,
        pid_namespace=machine.pid_namespace,
        leader=None,
        started_at=time.time(),
        written_by="launcher",
        world_size=world_size,
        attempt=attempt,
        resumed_from=resumed_from,
        command=tuple(command),
        grace_seconds=grace,
        slurm=job,
    )


def _prepare(record: LaunchRecord, script: str) -> None:
    """The record, exclusively, and the script beside it. Raises AlreadyRunning, LaunchFailed."""
    assert record.slurm is not None
    try:
        os.makedirs(os.path.dirname(record.slurm.stdout), exist_ok=True)
        write_launch(record.run_dir, record)
        write_atomically(record.slurm.script, os.fsencode(script), mode=record_mode((script,)))
    except FileExistsError as error:
        what = "a training was started in this directory already"
        raise AlreadyRunning(what, where=record.run_dir, hint="Take a new one") from error
    except OSError as error:
        raise LaunchFailed(f"the job can't be prepared ({error.strerror or error})", where=record.run_dir) from error


def _complete(record: LaunchRecord, job_id: int, cluster: str | None) -> LaunchRecord:
    assert record.slurm is not None
    record = replace(record, slurm=replace(record.slurm, job_id=job_id, cluster=cluster))
    try:
        mode = record_mode((*record.argv, *record.command))
        write_atomically(os.path.join(record.run_dir, LAUNCH), encode(asdict(record)), replace=True, mode=mode)
    except OSError:
        return record  # the job is found by its name
    return record


def _sbatch(record: LaunchRecord, env: dict[str, str]) -> tuple[int, str | None]:
    """(job id, cluster). Where Slurm surely took no job the record goes again."""
    try:
        done = subprocess.run(
            record.argv,
            cwd=record.cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SUBMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _find_or_raise(record, f"sbatch did not answer within {SUBMIT_SECONDS:.0f} s"), None
    except OSError as error:
        _withdraw(record)
        what = "sbatch can't be executed" if error.filename != record.cwd else "the working directory can't be entered"
        raise LaunchFailed(f"{what} ({error.strerror})", hint="Submit where Slurm is installed") from error
    answer = _ANSWER.fullmatch(done.stdout.decode("utf-8", "replace").strip())
    if done.returncode == 0 and answer:
        return int(answer[1]), answer[2]
    told = one_line(done.stderr.decode("utf-8", "replace").replace("sbatch: error: ", ""), 400)
    if done.returncode == 0 or _UNSURE.search(told):
        return _find_or_raise(record, f"sbatch said: {told or 'nothing'}"), None
    _withdraw(record)
    raise LaunchFailed(f"Slurm takes no such job: {told}", hint="Check the table [slurm] in the settings")


def _find_or_raise(record: LaunchRecord, what: str) -> int:
    """The number of the job that was submitted all the same."""
    assert record.slurm is not None
    deadline = time.monotonic() + LOOKING_SECONDS
    is_sure = False
    while time.monotonic() < deadline:
        try:
            if (job_id := find_by_name(record.slurm)) is not None:
                return job_id
            is_sure = True  # it answered, and knows no such job
        except ControllerAway:
            is_sure = False
        time.sleep(1.0)
    if is_sure:
        _withdraw(record)
        raise LaunchFailed(f"nothing was submitted; {what}")
    raise LaunchFailed(
        f"whether the job was submitted isn't known; {what}",
        where=record.run_dir,
        hint=f"Its name is {record.slurm.name}: it is found when the controller answers again, and not submitted twice",
    )


def _withdraw(record: LaunchRecord) -> None:
    for name in (LAUNCH, SCRIPT):
        try:
            os.unlink(os.path.join(record.run_dir, name))
        except FileNotFoundError:
            continue


def _environment() -> dict[str, str]:
    """The caller's, which the job inherits, without what belongs to another run or to a job that we are called in."""
    kept = ("SLURM_CONF", "SLURM_CLUSTERS")
    return {
        name: value
        for name, value in environment_rules.clean_environment().items()
        if not name.startswith("SLURM_") or name in kept
    }
