"""Runs the child process that may import torch and lancedb, and turns what it answers into values and errors.

This process never imports them: they cost seconds and hundreds of MB, and one of them may end the process that uses it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any

import lavender_tui
from lavender_tui.errors import BadState, LavenderError, NotFound
from lavender_tui.model.state_shapes import normalise
from lavender_tui.model.text import clean, one_line
from lavender_tui.resume.merge import packed, temporary_name

MODULE = "lavender_tui.resume.merge"
TIMEOUT_SECONDS = 120.0
PIPE_BYTES = 1 << 20  # the states of many ranks are megabytes: 16 times fewer turns than with the usual pipe
# What a launcher, a cluster or a notebook set for itself would make the child a rank, a worker or a GPU user.
_NOT_INHERITED = ("LAVENDER_", "TORCHELASTIC_", "MASTER_", "SLURM_", "PYTORCH_", "NCCL_", "PYTHONSTARTUP")
_NOT_INHERITED_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")
_LAST_WORDS_BYTES = 4096


class Child:
    """One child; the libraries are being imported from the moment it is made. Answers one request at a time.

    Use it as a context manager, or call `close`: both end the process at once, also from another thread and in the
    middle of a request, which then raises LavenderError.
    """

    def __init__(self, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._timeout = timeout_seconds
        self._is_ready = False
        self._is_closed = False
        self._closing = threading.Lock()
        self._was_too_slow = False
        try:
            self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the child)
        except OSError as error:
            what = f"the merging process has nowhere to write what it says ({error.strerror or error})"
            raise LavenderError(what, where=tempfile.gettempdir(), hint="Make room there") from error
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=_environment(),
                cwd="/",
                pipesize=PIPE_BYTES,
                start_new_session=True,  # Ctrl-C in the terminal is ours to handle
            )
        except OSError as error:
            self._said.close()
            raise LavenderError(
                f"the merging process can't be started ({error.strerror})", where=sys.executable
            ) from error

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_usable(self) -> bool:
        return not self._is_closed and self._process.poll() is None

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The library's own merge of the states in rank order. Raises BadState with the library's reason."""
        answer = self._ask({"task": "merge", "states": list(states)})
        return normalise(answer["merged"])

    def save(self, state: dict[str, Any], path: str) -> None:
        """Write a state alone as `.pt`, atomically. Raises LavenderError."""
        try:
            self._ask({"task": "save", "state": state, "path": path, "mode": 0o666 & ~_umask()})
        except LavenderError:
            # Killed in the middle of it, the child left its unfinished file.
            with suppress(OSError):
                os.unlink(temporary_name(path, self._process.pid))
            raise

    def table(
        self, uri: str, table: str, *, version: int | None = None, tag: str | None = None, filter: str | None = None
    ) -> dict[str, Any]:
        """What `merge.table` answers of the table at the version. Raises NotFound where there is no table."""
        return self._ask(
            {"task": "table", "uri": uri, "table": table, "version": version, "tag": tag, "filter": filter}
        )

    def close(self) -> None:
        """End the child now; may be called twice, and from any thread."""
        self._is_closed = True
        self._process.kill()
        self._process.wait()
        with self._closing:  # a file that two threads close at once fails in one of them
            for pipe in (self._process.stdin, self._process.stdout, self._said):
                try:
                    if pipe is not None:
                        pipe.close()
                except OSError:
                    continue  # the pipe of a child that was killed in the middle of a request has unwritten bytes

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        watchdog = threading.Timer(self._timeout, self._end_as_too_slow)
        watchdog.daemon = True
        watchdog.start()
        try:
            asked = packed(request)
            if not self._is_ready:
                self._take(self._read())
                self._is_ready = True
            assert self._process.stdin is not None
            self._process.stdin.write(asked)
            self._process.stdin.flush()
            return self._take(self._read(), where=request.get("path"))
        except (OSError, ValueError) as error:
            raise self._death() from error
        finally:
            watchdog.cancel()

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ValueError("the answer is cut off")
        return line

    def _take(self, line: bytes, where: str | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(line)
        if "error" not in answer:
            return answer
        if answer["about"] == "state":
            raise BadState(
                f"lancedb can't merge the states ({one_line(answer['error'])})",
                hint="Take another checkpoint, or start the epoch again with --policy replay-epoch",
            )
        if answer["about"] == "file":
            raise LavenderError(
                f"can't be written ({one_line(answer['error'])})", where=where, hint="Name another place"
            )
        if answer["about"] == "table":
            raise NotFound(one_line(answer["error"]))
        raise LavenderError(one_line(answer["error"]))

    def _end_as_too_slow(self) -> None:
        self._was_too_slow = True
        self._process.kill()

    def _death(self) -> LavenderError:
        """Why there is no answer: closed, too slow, or ended; with the last line that it said."""
        if self._is_closed:
            return LavenderError("the merge was cancelled")
        code = self._process.wait()
        if self._was_too_slow:
            return LavenderError(f"the merge took longer than {self._timeout:.0f} s and was ended")
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return LavenderError(f"the merging process ended {how}", where=self._last_words() or None)

    def _last_words(self) -> str:
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - _LAST_WORDS_BYTES))
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return clean(lines[-1], 200) if lines else ""


def _umask() -> int:
    """Asked without setting another one: for that instant it would be every thread's, and of all that they start."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0o077


def _environment() -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_NOT_INHERITED) and name not in _NOT_INHERITED_NAMES
    }
    package = os.path.dirname(os.path.dirname(os.path.abspath(lavender_tui.__file__)))
    path = os.pathsep.join(filter(None, (package, inherited.get("PYTHONPATH"))))
    own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"}
    return {**inherited, **own}
