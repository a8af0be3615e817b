"""`lavender-tui` with a fault at the n-th step of a resume, or of its supervisor, its merging child, its training.

    python faulty.py '{"where": "launcher", "fault": "kill", "at": 3, "notes": DIRECTORY}' resume RUN ...
    python faulty.py '{..., "in_app": true}' ROOT -- COMMAND...     the app: only what a launch does in it counts

A step is a call that makes, changes, names or starts something. "kill" is a SIGKILL just before the call; a number is
the error that the call fails with, once. Each step is noted before it is made, one a line, in `notes`. In the app each
launch counts from 1 anew, and the file `at` in `notes` says which step is meant by then.
"""

from __future__ import annotations

import builtins
import faulthandler
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

STEPS = (
    "open", "write", "link", "replace", "rename", "unlink", "mkdir", "rmdir", "fsync", "fork", "pipe", "dup2", "setsid",
    "chdir", "execvpe", "pidfd_open", "chmod", "utime", "fchmod",
)  # fmt: skip
SPEC = "FAULTY_STEPS"
_append, _note, _kill = os.open, os.write, os.kill


class Faults:
    """Counts the steps of a process and lets one of them go wrong."""

    def __init__(self, where: str, spec: dict[str, Any]) -> None:
        self.spec, self.fired, self.forks = spec, os.path.join(spec["notes"], "fired"), 0
        self.thread: int | None = None  # the only one that counts, where there are others
        self._become(where)

    def _become(self, where: str) -> None:
        self.where, self.count = where, 0
        path = os.path.join(self.spec["notes"], where)
        self.notes = _append(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    def _is_forked(self) -> None:
        """The supervisor's first fork detaches it; the second is what becomes the training."""
        self.forks += 1
        if self.forks == 2:
            self._become("training")

    def wrap(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def step(*args: Any, **options: Any) -> Any:
            if self._counts(name, args):
                self._take(name)
            result = original(*args, **options)
            if name == "fork" and not result:
                self._is_forked()
            return result

        setattr(owner, name, step)

    def _counts(self, name: str, args: tuple[Any, ...]) -> bool:
        if self.thread is not None and self.thread != threading.get_ident():
            return False
        return name != "open" or bool(args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_DIRECTORY))

    def _take(self, name: str) -> None:
        self.count += 1
        _note(self.notes, f"{self.count} {name}\n".encode())
        if self.spec["where"] != self.where or self.count != self.spec["at"] or not self._is_first():
            return
        if self.spec["fault"] == "kill":
            _kill(os.getpid(), signal.SIGKILL)
        raise OSError(self.spec["fault"], os.strerror(self.spec["fault"]))

    def _is_first(self) -> bool:
        """A fault comes once, whoever counts on after a fork."""
        try:
            os.close(_append(self.fired, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def begin_anew(self) -> None:
        """Count from 1, towards the step that the file `at` names by now."""
        self.count = 0
        with open(os.path.join(self.spec["notes"], "at"), encoding="ascii") as file:
            self.spec["at"] = int(file.read())

    def everywhere(self) -> None:
        for name in STEPS:
            self.wrap(os, name)
        self.wrap(fcntl, "flock")
        self.wrap(subprocess, "_fork_exec")
        if self.spec["fault"] == "kill":  # its errors are Python's own to swallow
            self.wrap(subprocess.Popen, "communicate")


def launch(spec: dict[str, Any], arguments: list[str]) -> None:
    """The command line as it is, in a process whose steps are counted."""
    from lavender_tui import cli
    from lavender_tui.launch import starting
    from lavender_tui.resume import child

    os.environ[SPEC] = json.dumps(spec)
    starting.ENTRY = os.path.abspath(__file__)  # the supervisor begins here too, and goes the other way
    sys.argv = ["lavender-tui", *arguments]
    child.MODULE = "tests.resume.faulty_merge"
    faults = Faults("launcher", spec)
    faults.everywhere()
    if spec.get("in_app"):
        faulthandler.register(signal.SIGUSR1, open(os.path.join(spec["notes"], "stacks"), "w"))  # noqa: SIM115
        only_launches(faults)
    cli.main()


def only_launches(faults: Faults) -> None:
    """Nothing counts but what a launch does, in its own thread."""
    from lavender_tui import resume

    carry_out, faults.thread = resume.carry_out, -1

    def counted(*args: Any, **options: Any) -> Any:
        faults.begin_anew()
        faults.thread, outcome = threading.get_ident(), "refused"
        try:
            launched = carry_out(*args, **options)
            outcome = "launched"
            return launched
        finally:
            faults.thread = -1
            with open(os.path.join(faults.spec["notes"], outcome), "w"):
                pass

    resume.carry_out = counted


def merge(spec: dict[str, Any]) -> int:
    """The merging child; what it writes goes through a file that may refuse."""
    from lavender_tui.resume import merge as merging

    faults = Faults("merger", spec)
    faults.everywhere()
    merging.open = lambda *args: _File(faults, args)  # type: ignore[attr-defined]
    save, faults.thread = merging.save, -1

    def counted(**request: Any) -> Any:
        """Only a request counts, not how the process came to be."""
        faults.begin_anew()
        faults.thread = None
        try:
            return save(**request)
        finally:
            faults.thread = -1

    merging.TASKS["save"], merging._ABOUT[counted] = counted, "file"
    return merging.main()


class _File:
    """A file whose opening, writing and flushing are steps."""

    def __init__(self, faults: Faults, args: tuple[Any, ...]) -> None:
        self._faults = faults
        faults._take("open")
        self._file = builtins.open(*args)  # noqa: SIM115 (closed by __exit__)

    def write(self, data: Any) -> int:
        self._faults._take("write")
        return self._file.write(data)

    def flush(self) -> None:
        self._faults._take("flush")
        self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()


def supervise() -> int:
    """As supervise.py does it: nothing of the environment is imported, only what lies here."""
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from lavender_tui.launch import supervisor

    Faults("supervisor", json.loads(os.environ[SPEC])).everywhere()
    return supervisor.main(sys.argv[1:])


if __name__ == "__main__":
    if "--report" in sys.argv:
        sys.exit(supervise())
    launch(json.loads(sys.argv[1]), sys.argv[2:])
