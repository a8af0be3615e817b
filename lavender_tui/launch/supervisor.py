"""The process between whoever starts a training and the training: it outlives the first, and records the second's end.

One per run. It holds the run's lock for its life, adopts orphaned workers (child subreaper), keeps the output, passes
a stop on and writes `exit.json`. It is executed as `supervise.py` with `python -I -S`, so that nothing of the user's
environment is imported and it starts in milliseconds; the order comes as JSON on standard input. Standard library only.

No training ever lives without a record: the child is forked and waits, `launch.json` with the child's pid is written,
and only then is the child told to become the training. Killed at any step before that, the supervisor takes the child
with it (the pipe that the child waits on closes).
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time

from lavender_tui.launch import files, identity, memory_kills, upkeep

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes milliseconds
    from typing import Any

EXIT_TAKEN, EXIT_NOT_EXECUTABLE, EXIT_NO_PROGRAM = 75, 126, 127
DEFAULT_GRACE = 30.0
ORPHANS_GRACE = 10.0  # seconds that workers get after the death of their agent
LEFTOVERS_PATIENCE = 1.0  # seconds in which helpers of a training that ended well may end by themselves
TICK = 0.1
PR_SET_CHILD_SUBREAPER = 36
WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD}


class _CannotStart(Exception):
    """(kind, sentence, hint) for the launcher; `code` is the supervisor's own exit code."""

    def __init__(self, kind: str, what: str, hint: str = "", code: int = 1) -> None:
        super().__init__(what)
        self.kind, self.what, self.hint, self.code = kind, what, hint, code


def main(arguments: list[str]) -> int:
    """`supervise.py RUN_DIR [--report FD] [--detach]`, the order as JSON on standard input."""
    report = int(arguments[arguments.index("--report") + 1]) if "--report" in arguments else None
    order = json.loads(sys.stdin.buffer.read())
    if report is not None:
        os.set_inheritable(report, False)
    if "--detach" in arguments and os.fork():
        # The launcher reaps this process at once and is left with no child; the fork can never get a terminal.
        os._exit(0)
    try:
        supervised = _start(arguments[0], order)
    except _CannotStart as error:
        _tell(report, {"error": error.kind, "what": error.what, "hint": error.hint})
        return error.code
    _tell(report, {"ok": True})
    return supervised.watch()


def _tell(report: int | None, message: dict[str, Any]) -> None:
    if report is None:
        if "error" in message:
            print(message["what"], file=sys.stderr)
        return
    try:
        os.write(report, files.encode(message))
    except BrokenPipeError:
        pass  # the launcher is gone; the records say the same
    os.close(report)


# Starting


def _start(run_dir: str, order: dict[str, Any]) -> _Supervised:
    _arrange_signals()
    lock = _take_lock(run_dir)
    os.chdir("/")  # a mount that the launcher stood in can be unmounted
    log = _open_log(run_dir)
    _become_subreaper()
    child = _Child(order, log, lock)
    started_at, since = time.time(), time.monotonic()
    try:
        record = _record(run_dir, order, child.pid, started_at)
        path = os.path.join(run_dir, files.LAUNCH)
        files.write_atomically(path, files.encode(record), mode=order.get("record_mode", 0o644))
    except FileExistsError:
        child.abandon()
        raise _taken(run_dir) from None
    except OSError as error:
        child.abandon()
        raise _CannotStart("failed", f"{run_dir}: the launch record can't be written ({error.strerror})") from error
    supervised = _Supervised(run_dir, order, child.pid, lock, started_at, since)
    problem = child.go()
    if problem:
        supervised.reap()
        supervised.record_end(problem.code, None, problem.what)
        raise problem
    return supervised


def _arrange_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, WATCHED)
    for signum in WATCHED:
        # An ignored signal, inherited from a launcher, would never arrive; ignored SIGCHLD would lose the exit status.
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a dropped connection ends nothing


def _take_lock(run_dir: str) -> int:
    """The lock's descriptor, held until this process ends; children don't inherit it."""
    try:
        lock = os.open(os.path.join(run_dir, files.LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _CannotStart("failed", f"{run_dir}: can't be written to ({error.strerror})") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _taken(run_dir) from None
    except OSError:
        pass  # no locks on this file system: the launch record, made exclusively, decides alone
    if os.path.lexists(os.path.join(run_dir, files.LAUNCH)):
        raise _taken(run_dir)
    return lock


def _taken(run_dir: str) -> _CannotStart:
    return _CannotStart(
        "taken", f"{run_dir}: a training was started in this directory already", "Take a new one", EXIT_TAKEN
    )


def _open_log(run_dir: str) -> int:
    path = os.path.join(run_dir, files.LOG)
    try:
        # O_APPEND: several ranks write at once, and whoever truncates the file leaves no hole.
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _CannotStart("failed", f"{path}: can't be written ({error.strerror})") from error
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, descriptor)
    return log


def _become_subreaper() -> None:
    """From now on orphaned descendants become children of this process instead of init's."""
    import ctypes

    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux: orphans are found by their environment then


def _record(run_dir: str, order: dict[str, Any], leader: int, started_at: float) -> dict[str, Any]:
    return {
        "schema": 1,
        "run_id": order["run_id"],
        "run_dir": run_dir,
        "attempt": order.get("attempt", 1),
        "backend": order["backend"],
        "argv": order["argv"],
        "command": order.get("command", []),
        "cwd": order["cwd"],
        "env": order.get("recorded_env", {}),
        "world_size": order.get("world_size"),
        "host": identity.host_name(),
        "boot_id": identity.boot_id(),
        "pid_namespace": identity.pid_namespace(),
        "supervisor": {"pid": os.getpid(), "start_ticks": identity.start_ticks(os.getpid())},
        "leader": {"pid": leader, "start_ticks": identity.start_ticks(leader)},
        "resumed_from": order.get("resumed_from"),
        "grace_seconds": order.get("grace", DEFAULT_GRACE),
        "started_at": started_at,
        "written_by": "supervisor",
        "nodes": order.get("nodes"),
        "rdzv": order.get("rdzv"),
        **order.get("facts", {}),
    }


class _Child:
    """The training before it is one: forked, in its own session, waiting for the word."""

    def __init__(self, order: dict[str, Any], log: int, lock: int) -> None:
        waits, self._go = os.pipe()
        self._problem, tells = os.pipe()
        self._order = order
        self.pid = os.fork()
        if not self.pid:
            os.close(self._go)
            os.close(self._problem)
            os.close(lock)
            self._become_the_training(waits, tells)
        os.close(waits)
        os.close(tells)

    def go(self) -> _CannotStart | None:
        """Let the training begin; returns what kept it from beginning, if something did."""
        try:
            os.write(self._go, b"g")
        except BrokenPipeError:
            pass  # somebody killed it meanwhile: its status will tell
        os.close(self._go)
        with open(self._problem, "rb") as pipe:
            told = pipe.read().decode("ascii")  # ends when exec closes the other end
        if not told:
            return None
        what, _, number = told.partition(" ")
        return _explain(what, int(number), self._order)

    def abandon(self) -> None:
        """Nothing is started: the child sees the pipe close and ends."""
        os.close(self._go)
        os.close(self._problem)
        os.waitpid(self.pid, 0)

    def _become_the_training(self, waits: int, tells: int) -> None:
        what = "exec"
        try:
            os.setsid()
            for signum in (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(signum, signal.SIG_DFL)  # Python ignores the last two, we the first
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if os.read(waits, 1) != b"g":
                os._exit(1)
            what, cwd = "cwd", self._order["cwd"]
            os.chdir(cwd)
            what, argv = "exec", self._order["argv"]
            environment = {**os.environ, **self._order.get("env", {})}
            environment.pop(identity.OUTSIDE, None)
            environment["PWD"] = cwd
            os.execvpe(argv[0], argv, environment)
        except OSError as error:
            os.write(tells, f"{what} {error.errno}".encode("ascii"))
        finally:
            os._exit(EXIT_NO_PROGRAM)


def _explain(what: str, number: int, order: dict[str, Any]) -> _CannotStart:
    """Why exec or chdir failed, in words, with the exit code that a shell would give."""
    import errno

    reason, cwd, program = os.strerror(number), order["cwd"], order["argv"][0]
    if what == "cwd":
        return _CannotStart(
            "failed", f"{cwd}: the working directory can't be entered ({reason})", "Start from another", EXIT_NO_PROGRAM
        )
    if number in (errno.ENOENT, errno.ENOTDIR):
        if "/" in program and os.path.exists(os.path.join(cwd, program)):
            return _CannotStart(
                "failed", f"{program}: the interpreter named in its first line doesn't exist", "", EXIT_NO_PROGRAM
            )
        where = f"in {cwd}" if "/" in program else "on the PATH"
        return _CannotStart(
            "failed", f"{program}: there is no such program {where}", "Check the command's first word", EXIT_NO_PROGRAM
        )
    hint = "Name its interpreter, or make it executable (chmod +x)"
    return _CannotStart("failed", f"{program}: can't be executed ({reason})", hint, EXIT_NOT_EXECUTABLE)


# Watching


class _Supervised:
    """The running training, from the first instant to `exit.json`."""

    def __init__(
        self, run_dir: str, order: dict[str, Any], leader: int, lock: int, started_at: float, since: float
    ) -> None:
        self.run_dir, self.order, self.leader = run_dir, order, leader
        self.ticks = identity.start_ticks(leader) or 0
        self.started_at, self.since = started_at, since
        self.grace = float(order.get("grace", DEFAULT_GRACE))
        self.memory_kills = memory_kills.Kills(leader)
        self.upkeep = upkeep.Upkeep(
            run_dir, lock, order.get("log_bytes", 0), run=order.get("run"), waits=order.get("waits", False)
        )
        self.status: int | None = None
        self.stop: dict[str, Any] | None = None
        self.passed_on: set[int] = set()
        self.terminate_orphans_at: float | None = None
        self.orphans = 0
        self.kill_at: float | None = None
        self.killed = False
        self.failure: dict[str, Any] | None = None

    def watch(self) -> int:
        """Wait for the end of the training and of everything that it started; returns the exit code to end with."""
        while True:
            self.receive()
            self.reap()
            if self.status is not None and not self.settle_orphans():
                break
            self.kill_when_due()
        code = os.waitstatus_to_exitcode(self.status)
        name = _signal_name(-code) if code < 0 else None
        error = self.error(code) if code != 0 and self.stop is None else None
        self.record_end(code if code >= 0 else None, name, error)
        return code if code >= 0 else 128 - code

    def receive(self) -> None:
        """Sleep until a signal arrives or something is due; for a tick while the end is near."""
        is_ending = self.status is not None or self.kill_at is not None
        info = signal.sigtimedwait(WATCHED, TICK if is_ending else self.upkeep.seconds_left())
        if self.upkeep.tend():
            self.memory_kills.refresh()
        self.heed_other_nodes()
        if info is None or info.si_signo == signal.SIGCHLD:
            return
        if info.si_signo == signal.SIGUSR1:
            # torchrun's agent ends at USR1; a training of one process may take it as "save now".
            if self.order["backend"] == "local":
                self.signal_leader(signal.SIGUSR1)
            return
        self.begin_stop(info)

    def begin_stop(self, info: signal.struct_siginfo) -> None:
        at_once = info.si_signo == signal.SIGUSR2
        passed = signal.SIGINT if info.si_signo == signal.SIGINT else signal.SIGTERM
        if self.stop is None:
            self.stop = self.find_stop(info)
            self.set_limit()
        self.pass_on(passed)
        if at_once:
            self.kill_at = time.monotonic()

    def set_limit(self) -> None:
        asked = (self.stop or {}).get("grace_seconds")
        self.kill_at = time.monotonic() + (float(asked) if isinstance(asked, (int, float)) else self.grace)

    def pass_on(self, signum: int) -> None:
        """To the leader, each once: some trainings take a second one for "without saving"."""
        if signum not in self.passed_on:
            self.passed_on.add(signum)
            self.signal_leader(signum)
            self.signal_leader(signal.SIGCONT)  # a suspended process would not see the first

    def heed_other_nodes(self) -> None:
        """A stop of one node is a stop of all; what waits in vain for a failed one is told to save and end."""
        if self.kill_at is not None or self.status is not None:
            return
        if self.upkeep.stop_elsewhere is not None:
            self.stop = self.upkeep.stop_elsewhere
        elif not self.upkeep.is_left_alone:
            return
        self.set_limit()
        self.pass_on(signal.SIGINT if (self.stop or {}).get("how") == "interrupt" else signal.SIGTERM)
        if (self.stop or {}).get("how") == "kill":
            self.kill_at = time.monotonic()

    def find_stop(self, info: signal.struct_siginfo) -> dict[str, Any]:
        """Who asked: as written in `stop.json` (or another node's) before the signal, else whoever sent the signal."""
        path = os.path.join(self.run_dir, files.STOP)
        document, _ = files.read_document(path)
        if document is None:
            self.upkeep.listen()
            document = self.upkeep.stop_elsewhere
        if document is not None:
            return document
        name = _signal_name(info.si_signo)
        hows: dict[int, str] = {signal.SIGUSR2: "kill", signal.SIGINT: "interrupt"}
        document = {
            "schema": 1,
            "who": f"{name} from {_sender(info.si_pid, info.si_uid)}",
            "how": hows.get(info.si_signo, "graceful"),
            "asked_at": time.time(),
            "why": None,
            "grace_seconds": self.grace,
        }
        try:
            files.write_atomically(path, files.encode(document))
        except OSError as error:
            upkeep.note(f"the stop can't be recorded: {error}")
        return document

    def signal_leader(self, signum: int) -> None:
        if self.status is None:
            _send(self.leader, self.ticks, signum)

    def reap(self) -> None:
        """Take the status of every child that ended, adopted ones too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.leader:
                self.status = status

    def settle_orphans(self) -> bool:
        """After the leader's end: tell what is left to end, kill it when its time is over; False when none is left."""
        left = self.below()
        if not left:
            return False
        now = time.monotonic()
        if self.terminate_orphans_at is None:
            assert self.status is not None
            ended_well = os.waitstatus_to_exitcode(self.status) >= 0 and self.stop is None
            self.terminate_orphans_at = now + (LEFTOVERS_PATIENCE if ended_well else 0)
        if now >= self.terminate_orphans_at and not self.orphans:
            self.orphans = len(left)
            for pid, ticks in left:
                _send(pid, ticks, signal.SIGTERM)
            if self.kill_at is None:
                self.kill_at = now + min(self.grace, ORPHANS_GRACE)
        return True

    def kill_when_due(self) -> None:
        """SIGKILL for every descendant, in whatever session; again at the next tick for what they started meanwhile."""
        if self.kill_at is None or time.monotonic() < self.kill_at:
            return
        for pid, ticks in self.below():
            self.killed |= _send(pid, ticks, signal.SIGKILL)

    def below(self) -> list[tuple[int, int]]:
        """What the training has started and lives, but for other trainings, their supervisors and keepers."""
        own = (self.run_dir, self.order.get("env", {}).get(identity.RUN_DIR) or self.run_dir)
        return identity.descendants_of_run(os.getpid(), own)

    def error(self, code: int) -> str | None:
        from lavender_tui.launch import cause

        kills = cause.MemoryKills(self.memory_kills.struck(), self.memory_kills.named(), self.leader)
        try:
            failure = cause.examine(self.run_dir, code, memory_kills=kills, orphans=self.orphans)
            own = failure.words if failure is not None else None
            self.failure = failure.to_json() if failure is not None else None
        except (OSError, ValueError, RecursionError) as error:
            upkeep.note(f"the cause can't be found: {error!r}")
            own = None
        if code > 0 and not (own or "").startswith("rank "):
            self.upkeep.await_others()  # what failed on another node is the cause of much that is seen here
        return "; ".join(filter(None, (own, self.upkeep.failure_elsewhere))) or None

    def record_end(self, code: int | None, signal_name: str | None, error: str | None) -> None:
        document = {
            "schema": 1,
            "code": code,
            "signal": signal_name,
            "ended_at": time.time(),
            "stop": self.stop,
            "killed": self.killed,
            "error": error,
            "failure": self.failure,
            "wall_s": round(time.monotonic() - self.since, 3),
        }
        for pause in (0, 0.5, 2, 5, 10):  # a full disk is often freed within seconds
            time.sleep(pause)
            try:
                files.write_atomically(os.path.join(self.run_dir, files.EXIT), files.encode(document))
                return
            except (FileExistsError, FileNotFoundError):
                return  # the end is recorded already, or the directory was removed
            except OSError as failure:
                upkeep.note(f"the end can't be recorded: {failure}")


def _send(pid: int, ticks: int, signum: int) -> bool:
    try:
        return identity.send_signal(pid, ticks, signum)
    except PermissionError:
        return False  # it changed its user: all that can be done is to wait for it


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _sender(pid: int, uid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = ascii(os.fsdecode(file.read().strip()))[1:-1]
    except OSError:
        return f"pid {pid} (user {uid})"
    return f"pid {pid} ({name}, user {uid})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
