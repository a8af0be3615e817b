"""`lavender-tui demo`: a real training to watch, kill and resume; or the whole story, checked row by row."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from lavender_tui.demo import guide
from lavender_tui.demo.chain import GLOBAL_BATCH, Chain
from lavender_tui.errors import LaunchFailed
from lavender_tui.model import text

DIRECTORY = "lavender-demo"
WATCHED = ("--epochs", "40", "--save-seconds", "5", "--pause", "0.2", "--schedule-steps", "5120")
TOLD = ("--epochs", "1", "--save-seconds", "1", "--pause", "0.1")
STAGES = ((2, 4), (4, 1))  # world_size before and after each kill


def play(headless: bool, directory: str | None = None, *, rows: int | None = None) -> int:
    """Play the demo in a new directory under `directory` (default: ./lavender-demo); returns the exit code.

    Interactive: a training on 2 ranks runs while the app is open, and ends when that is left, which asks. Headless:
    the story is told line by line, 0 only if every row was trained exactly once. No process stays behind, whatever
    happens; the files stay. Raises LavenderError where the training can't be started or doesn't go on.
    """
    place = new_place(directory or DIRECTORY)
    chain = Chain(place, rows=rows or (1024 if headless else 4096), options=TOLD if headless else WATCHED)
    try:
        with _signals_as_interrupts():
            return _tell(chain) if headless else _show(chain)
    finally:
        with _held_signals():
            for run_dir in chain.close():
                print(f"stopped what still ran of {text.clean(os.path.basename(run_dir))}")


def new_place(directory: str) -> str:
    """Make the first free one of `directory`/1, /2, …: a second demo takes nothing from the first."""
    directory = os.path.abspath(directory)
    try:
        os.makedirs(directory, exist_ok=True)
        for number in range(1, 100_000):
            place = os.path.join(directory, str(number))
            with suppress(FileExistsError):
                os.mkdir(place)
                return place
    except OSError as error:
        raise LaunchFailed(
            f"the demo can't be made there ({error.strerror or error})",
            where=directory,
            hint="Choose another place with --directory",
        ) from error
    raise LaunchFailed("a hundred thousand demos lie there already", where=directory, hint="Remove some")


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """SIGTERM and a lost terminal end the block as ctrl-C does: the processes must not outlive the demo either way."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    with _handled_by(interrupt, (signal.SIGTERM, signal.SIGHUP)):
        yield


@contextmanager
def _held_signals() -> Iterator[None]:
    """Ctrl-C and its like wait until the block is through: what is half started can't be found and ended yet."""
    came: list[int] = []
    try:
        with _handled_by(lambda number, frame: came.append(number), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
            yield
    finally:
        if came:
            raise KeyboardInterrupt


@contextmanager
def _handled_by(handler: Callable[[int, object], None], numbers: Sequence[int]) -> Iterator[None]:
    """What is ignored stays ignored: whoever starts it under nohup wants that."""
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _show(chain: Chain) -> int:
    from lavender_tui.tui.start import run_app

    print(f"lavender-tui demo: making a corpus and starting a training in {text.clean(chain.directory)} …")
    chain.make_corpus()
    with _held_signals():
        chain.start(2)
    code = run_app([chain.root], hint=guide.hint, leaving=guide.leaving)
    print(f"The demo's runs lie in {text.clean(chain.root)}")
    return code


class _Teller:
    """Prints each step with the seconds since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, line: str) -> None:
        print(f"{time.monotonic() - self._began:5.1f} s  {text.clean(line)}", flush=True)


def _tell(chain: Chain) -> int:
    tell = _Teller()
    tell(f"everything lies in {chain.directory}")
    chain.make_corpus()
    steps = -(-chain.rows // GLOBAL_BATCH)
    tell(f"a corpus of {chain.rows:,} rows: an epoch is {steps} global batches of {GLOBAL_BATCH} rows")
    with _held_signals():
        run_dir = chain.start(STAGES[0][0])
    tell(f"training on {STAGES[0][0]} ranks: {os.path.basename(run_dir)}")
    for number, (before, after) in enumerate(STAGES, start=1):
        _kill_in_the_middle(chain, tell, not_before=steps * number // (len(STAGES) + 1))
        _resume(chain, tell, before, after)
    chain.wait_for_end()
    tell(f"the epoch is through at step {chain.trained_step()}")
    return _judge(chain, tell)


def _kill_in_the_middle(chain: Chain, tell: _Teller, not_before: int) -> None:
    save, step = chain.wait_for_work_after_a_save(not_before=not_before)
    hit = chain.kill()
    chain.wait_for_end()
    tell(f"  saved {os.path.basename(save.path)} at step {save.step}, then trained on to step {step}")
    tell(f"  kill -9 in the middle of the epoch: {hit} processes, torchrun's agent and its workers")


def _resume(chain: Chain, tell: _Teller, before: int, after: int) -> None:
    with _held_signals():
        launched = chain.resume(after)
    tell(
        f"resuming on {after} rank{'s' if after > 1 else ''} instead of {before}: {os.path.basename(launched.run_dir)}"
    )
    save = chain.generations()[-2].last_step
    tell(f"  from step {save}, the newest whole save; plan in {os.path.relpath(launched.plan_path, chain.directory)}")


def _judge(chain: Chain, tell: _Teller) -> int:
    """Hold the rows that the trainings logged against the order of an epoch that nothing interrupts."""
    tell("checking the rows that each rank logged while it trained")
    coverage = chain.coverage()
    tell(f"  {coverage}")
    tell(f"  the kills threw {coverage.forgotten} rows of unsaved work away; the resumed runs trained them again")
    if coverage.is_exact:
        tell("every row of the epoch was trained exactly once, in the same batches as without any kill")
        return 0
    for name in ("lost", "repeated", "wrong_steps"):
        found = getattr(coverage, name)
        if found:
            tell(f"  WRONG: {name.replace('_', ' ')}: {', '.join(map(str, found[:20]))}")
    return 1
