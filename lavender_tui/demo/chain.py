"""One training over all its lives: started, killed, resumed on another world_size, until it is through."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from lavender_tui.checkpoints import is_checkpoint_name, read_checkpoint
from lavender_tui.demo.coverage import Coverage, Generation, judge, logged_steps
from lavender_tui.errors import LaunchFailed, LavenderError
from lavender_tui.launch import StopOrder, start, stop
from lavender_tui.launch.command import build
from lavender_tui.launch.living import members
from lavender_tui.launch.record import new_run_id, read_exit, read_launch, send_signal
from lavender_tui.launch.run_dir import new_run_dir
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.resume import Launched, Options, Target, carry_out, propose

NUM_SPLITS = 8
GLOBAL_BATCH = 32
POLL_SECONDS = 0.05
EXAMPLE = "lavender_tui.demo.train"


class DemoFailed(LavenderError):
    """The training did not do in time what the story waits for."""


class Chain:
    """A training of the example in `directory`: the table in `data`, one run directory a life in `checkpoints`."""

    def __init__(self, directory: str, *, rows: int, options: Sequence[str] = ()) -> None:
        """`options` go to the example as they are. Nothing is written before `make_corpus`."""
        self.directory, self.rows, self.options = os.path.abspath(directory), rows, tuple(options)
        self.data, self.root = os.path.join(self.directory, "data"), os.path.join(self.directory, "checkpoints")
        self.runs: list[str] = []

    @property
    def run_dir(self) -> str:
        """The directory of the life that is lived now."""
        return self.runs[-1]

    def make_corpus(self) -> None:
        _python("lavender_tui.demo.corpus", self.data, "--rows", str(self.rows))

    def start(self, world_size: int) -> str:
        """Start it fresh, under torchrun for more than one rank; returns the run's directory. Raises LaunchFailed."""
        run_dir = new_run_dir(self.root)
        run_id = new_run_id(run_dir)
        words = (sys.executable, "-m", EXAMPLE, "--data", self.data, "--root", self.root, *self.options)
        launch = build(words, world_size=world_size, run_dir=run_dir, run_id=run_id, cwd=self.directory)
        start(launch, run_dir, run_id=run_id, world_size=world_size, command=words)
        self.runs.append(run_dir)
        return run_dir

    def resume(self, world_size: int) -> Launched:
        """Resume the last life on `world_size` ranks, as `lavender-tui resume` does. Raises Refused, LaunchFailed."""
        launched = carry_out(propose(Target(paths=(self.run_dir,)), Options(world_size=world_size)))
        self.runs.append(launched.run_dir)
        return launched

    def newest_save(self) -> Checkpoint | None:
        """The newest whole checkpoint of this life."""
        paths = [os.path.join(self.run_dir, name) for name in os.listdir(self.run_dir) if is_checkpoint_name(name)]
        whole = [one for one in map(read_checkpoint, paths) if one.is_usable]
        return max(whole, key=lambda one: one.order, default=None)

    def trained_step(self) -> int:
        """The last step of this life that every rank has trained; 0 before the first."""
        last: dict[str, int] = {}
        for rank, _, step, _ in logged_steps(self.run_dir):
            last[rank] = step
        record = read_launch(self.run_dir)
        expected = record.world_size if record and record.world_size else 1
        return min(last.values()) if len(last) == expected else 0

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Poll until `condition()`; raises DemoFailed when the time is over, or when the training has ended instead."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.has_ended() and not condition():
                raise DemoFailed(f"the training ended before {what}", where=self.run_dir, hint=self._last_words())
            if time.monotonic() > deadline:
                raise DemoFailed(f"{what} did not happen in {seconds:g} s", where=self.run_dir, hint=self._last_words())
            time.sleep(POLL_SECONDS)

    def wait_for_work_after_a_save(self, steps: int = 1, *, not_before: int = 0) -> tuple[Checkpoint, int]:
        """Wait until step `not_before` is trained and the newest save lies at least `steps` back, so that a kill now
        throws work away. Returns that save and the last step trained."""
        found: list[tuple[Checkpoint, int]] = []

        def is_ahead() -> bool:
            save, step = self.newest_save(), self.trained_step()
            if save is None or save.step is None or step < max(save.step + steps, not_before):
                return False
            found.append((save, step))
            return True

        self.wait_until(is_ahead, f"{steps} steps after a save")
        return found[-1]

    def wait_for_end(self, seconds: float = 120.0) -> int | None:
        """Wait until training and supervisor are through; returns the exit code, None where a signal ended it."""
        deadline = time.monotonic() + seconds
        while not self.has_ended():
            if time.monotonic() > deadline:
                raise DemoFailed(f"the training did not end in {seconds:g} s", where=self.run_dir)
            time.sleep(POLL_SECONDS)
        record = read_exit(self.run_dir)
        return record.code if record else None

    def has_ended(self) -> bool:
        """Neither the supervisor nor any process of the training lives."""
        record = read_launch(self.run_dir)
        supervised = record is not None and record.supervisor is not None and record.supervisor.is_alive
        return not supervised and not members(self.run_dir, record)

    def kill(self) -> int:
        """SIGKILL for the agent and every worker of this life, and for nothing else; returns how many were hit.

        Killing the agent alone is not enough: its workers live in sessions of their own and would train on.
        """
        processes = members(self.run_dir, read_launch(self.run_dir))
        return sum(send_signal(one.pid, one.start_ticks, signal.SIGKILL) for one in processes)

    def close(self) -> list[str]:
        """End whatever still lives, in this chain's root; returns the run directories where something did."""
        ended = []
        for name in sorted(os.listdir(self.root)) if os.path.isdir(self.root) else ():
            run_dir = os.path.join(self.root, name)
            if members(run_dir, read_launch(run_dir)):
                stop(run_dir, StopOrder(how="kill", who="the demo"))
                ended.append(run_dir)
        return ended

    def generations(self) -> list[Generation]:
        """Every life with the step up to which the next one made use of it."""
        return [
            Generation(run_dir=run_dir, last_step=_resumed_step(after) if after else None)
            for run_dir, after in zip(self.runs, [*self.runs[1:], None], strict=True)
        ]

    def uninterrupted(self, epoch: int = 1) -> list[list[int]]:
        """The row ids of each global batch of an epoch that nothing interrupts, read from the table."""
        options = ("--epoch", str(epoch), "--num-splits", str(NUM_SPLITS), "--global-batch", str(GLOBAL_BATCH))
        return [json.loads(line) for line in _python("lavender_tui.demo.order", self.data, *options).splitlines()]

    def coverage(self, epoch: int = 1) -> Coverage:
        return judge(self.generations(), self.uninterrupted(epoch), epoch=epoch)

    def _last_words(self) -> str:
        record = read_exit(self.run_dir)
        cause = f" ({record.error})" if record and record.error else ""
        return f"Its output lies in that directory{cause}"


def _resumed_step(run_dir: str) -> int:
    """The step of the checkpoint that the run was resumed from."""
    record = read_launch(run_dir)
    origin = record.resumed_from.checkpoint if record and record.resumed_from else None
    step = read_checkpoint(origin).step if origin else None
    if step is None:
        raise DemoFailed("nothing says which step this run was resumed from", where=run_dir)
    return step


def _python(module: str, *arguments: str) -> str:
    """Run one of our modules in a process of its own, which may import torch and lancedb; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "LANCEDB_LOG": "error"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise LaunchFailed(f"python -m {module} ended with {done.returncode}: {last[0]}")
    return done.stdout
