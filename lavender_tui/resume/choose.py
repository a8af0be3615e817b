"""Which checkpoint: the newest usable of the target's runs, or the one that was named."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lavender_tui import checkpoints
from lavender_tui.errors import NotFound, UsageError
from lavender_tui.launch import bad_files
from lavender_tui.launch.followers import directories_resumed_from
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.choosing import over_runs
from lavender_tui.model.run import Run
from lavender_tui.model.suspects import Follower, followers, suspects
from lavender_tui.resume import going_back
from lavender_tui.resume.request import Options, Target
from lavender_tui.resume.situation import new_root
from lavender_tui.watch.assemble import assemble
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import list_run
from lavender_tui.watch.records import read_papers
from lavender_tui.watch.scan import observe_now, scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """`run` is the run that the checkpoint lies in, None where its directory is none; `named`: by the user.

    `known_bad`: why it is suspected, though it was chosen; `spike` the jump of the loss that is gone back before.
    `behind`: the jump that the checkpoint was saved after, and what is from before it. `problem` says what was asked
    for and isn't there, where no checkpoint was chosen; `reasons` why the runs have none: (run's path, why).
    """

    run: Run | None
    checkpoint: Checkpoint | None
    passed_over: tuple[tuple[str, str], ...] = ()
    named: bool = False
    known_bad: str | None = None
    spike: str | None = None
    behind: going_back.Back | None = None
    problem: str = ""
    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def run_path(self) -> str:
        """The old run's directory, absolute."""
        if self.run is not None:
            return self.run.path
        return os.path.dirname(self.checkpoint.path) if self.checkpoint else ""


def choose(target: Target, options: Options, index: Index | None = None) -> Chosen:
    """The checkpoint to resume from; `checkpoint` None where no run has a usable one. Raises NotFound for a bad path.

    A named file is taken whatever it is: whether it can be resumed from is for the checks to say.
    """
    for path in target.paths:
        if not os.path.lexists(path):
            raise NotFound("there is no such root, run or checkpoint", where=path)
    index = Index() if index is None else index
    if len(target.paths) == 1 and not os.path.isdir(target.paths[0]):
        if options.before_spike:
            raise UsageError("one checkpoint is named already", where=target.paths[0], hint="Name its run instead")
        return _with_suspicions(_named(target.paths[0], index), _Suspects((), options, index), index)
    runs = scan(target.paths, index=index)
    suspects = _Suspects(runs, options, index)
    if options.before_spike:
        return _before_spike(runs, options, index, suspects)
    choice = over_runs(runs, options.stage, but_not=options.next_stage, bad=suspects.of)
    if choice.checkpoint is None:
        return Chosen(run=None, checkpoint=None, passed_over=choice.passed_over, reasons=_reasons(runs))
    chosen = Chosen(run=choice.run, checkpoint=choice.checkpoint, passed_over=choice.passed_over)
    return _with_suspicions(chosen, suspects, index)


def _reasons(runs: Sequence[Run]) -> tuple[tuple[str, str], ...]:
    """What the runs without a checkpoint say of themselves: parts of other programs' directories, or nothing saved."""
    bare = [run for run in runs if not run.checkpoints]
    return tuple((run.path, run.warnings[0] if run.warnings else "nothing is saved there") for run in bare)


def _with_suspicions(chosen: Chosen, suspects: _Suspects, index: Index) -> Chosen:
    """What speaks against a checkpoint that is whole: a resume from it broke, or the loss had jumped before it."""
    run, checkpoint = chosen.run, chosen.checkpoint
    if run is None or checkpoint is None:
        return chosen
    behind = going_back.behind_a_spike(run, checkpoint, find=lambda path: _run_at(path, index), bad=suspects.of)
    return replace(chosen, known_bad=suspects.of(run).get(checkpoint.path), behind=behind)


def _before_spike(runs: Sequence[Run], options: Options, index: Index, suspects: _Suspects) -> Chosen:
    back = going_back.before_spike(runs, options.stage, find=lambda path: _run_at(path, index), bad=suspects.of)
    return Chosen(
        run=back.run,
        checkpoint=back.checkpoint,
        passed_over=back.passed_over,
        spike=str(back.spike) if back.spike is not None else None,
        problem=back.problem,
    )


class _Suspects:
    """The known bad checkpoints of a run, looked up when the run is, and once."""

    def __init__(self, runs: Sequence[Run], options: Options, index: Index) -> None:
        self._runs, self._options, self._index = runs, options, index
        self._known: dict[str, dict[str, str]] = {}
        self._followers_of: dict[str, list[Run]] | None = None

    def of(self, run: Run) -> Mapping[str, str]:
        if run.path not in self._known:
            resumed = [Follower.of(one) for one in self._followers(run)]
            self._known[run.path] = suspects(run.checkpoints, resumed, bad_files.remembered())
        return self._known[run.path]

    def _followers(self, run: Run) -> Sequence[Run]:
        """Among the runs of the root; of a run that was named alone, those beside it."""
        if len(self._runs) > 1:
            if self._followers_of is None:
                self._followers_of = followers(self._runs, os.path.realpath)
            return self._followers_of.get(os.path.realpath(run.path), ())
        beside = resumed_as(run.path, new_root(run.path, self._options))
        return scan(beside, index=self._index) if beside else ()


def _named(path: str, index: Index) -> Chosen:
    """One file; a link is followed to the file that it means now. Only its own directory is looked at."""
    path = os.path.realpath(path)
    directory = os.path.dirname(path)
    run = _run_at(directory, index)
    for checkpoint in run.checkpoints if run else ():
        if checkpoint.path == path:
            return Chosen(run=run, checkpoint=checkpoint, named=True)
    return Chosen(run=run, checkpoint=checkpoints.read_checkpoint(path), named=True)


def _run_at(directory: str, index: Index) -> Run | None:
    listing = list_run(directory)
    papers = read_papers(listing, index)
    observed = observe_now({directory: papers})[directory]
    return assemble(listing, os.path.dirname(directory), papers, index=index, observed=observed, now=time.time())


def resumed_as(run_path: str, root: str) -> Sequence[str]:
    """The run directories, in the root and beside the run, whose records say that they were resumed from it."""
    return directories_resumed_from(run_path, root)
