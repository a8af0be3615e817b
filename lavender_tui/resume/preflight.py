"""Everything that would go wrong later, or silently, looked at before anything is made or started.

Each check has a stable id. Refused is what can't end well; warned of is what costs something, or what nobody can know.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace

from lavender_tui.checkpoints.names import has_saved
from lavender_tui.launch.arguments import Kind, parse
from lavender_tui.launch.living import beats, is_alive, this_process_and_above
from lavender_tui.launch.locks import who_resumes
from lavender_tui.launch.rendezvous import why_taken
from lavender_tui.model import command_line, text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.job import words as job_words
from lavender_tui.model.plan import Check, Policy, Verdict
from lavender_tui.model.run import Run
from lavender_tui.model.start import is_training_over, stage_after
from lavender_tui.model.state_rules import passed, refuse, warn
from lavender_tui.resume.checkpoint_checks import checkpoint_checks
from lavender_tui.resume.cost import cost_checks
from lavender_tui.resume.data_checks import data_checks
from lavender_tui.resume.ending_checks import ending_checks
from lavender_tui.resume.further import more_epochs, were_asked_for_before
from lavender_tui.resume.situation import Situation
from lavender_tui.resume.start_checks import known_bad_checks, schedule_checks, spike_checks, stage_checks
from lavender_tui.resume.topology_checks import topology_checks
from lavender_tui.watch.mounts import file_system_of, is_silent

# What accelerate, DeepSpeed and their like are told by.
_PORT = re.compile(r"(?P<word>--(?:main[-_]process|master)[-_]port)(?:=|\0)(?P<port>[0-9]{1,5})(?=\0|$)")
MANY_SAVES = 3  # with room for fewer it is said


def preflight(it: Situation) -> tuple[Check, ...]:
    """All checks, in the order in which a person wants to read them.

    Of a file that isn't whole only that is said: where it would start, and with what, nobody knows.
    """
    checks: list[Check] = []
    looks = _STAGE_LOOKS if it.options.next_stage is not None else _LOOKS
    for look in looks if it.checkpoint.is_whole else (checkpoint_checks,):
        checks += look(it)
    return tuple(checks)


def _epoch(it: Situation) -> list[Check]:
    one = it.checkpoint
    said = f"{_epoch_words(one)}, epoch_complete {one.epoch_complete}"
    further = more_epochs(it)
    if further is not None and were_asked_for_before(it, further):
        further = None
    if is_training_over(one) and further is None:
        end = (
            "the final stage is saved" if one.stage == "final" else f"{_stage_words(one)} completed {_epoch_words(one)}"
        )
        return [refuse("epoch.over", f"nothing is left to train: {end}", text.clean(one.path), _after_the_end(it))]
    if it.epoch is None:
        if it.epoch_may_be_absent and it.policy is Policy.REPLAY_EPOCH:
            what = "the checkpoint counts no epochs: the training itself must know where it goes on"
            return [warn("epoch.rule", what, said)]
        what = "the checkpoint's epoch is no whole number, so where to start isn't known"
        return [refuse("epoch.rule", what, said, "take another checkpoint")]
    if it.policy is Policy.EXACT and not (it.set.found or it.set.checks):
        what = "exact needs the rank states, and the checkpoint has none"
        return [refuse("epoch.rule", what, said, "replay-epoch reads the epoch from its start")]
    if it.policy is Policy.EXACT and not it.set.is_complete:
        return []  # the states' own checks say why not
    if one.epochs is not None and one.epochs < it.epoch <= (further or 0):
        what = f"it goes on after its end: the command asks for {further} epochs. {it.policy.value}: "
        cost = f"a schedule that was made for {one.epochs} epochs is at its end: it needs a new length"
        return [warn("epoch.rule", what + _start_in_words(it), said, cost)]
    if one.epochs is not None and it.epoch > one.epochs:
        what = f"it would start in epoch {it.epoch}, after the last of {one.epochs}"
        asked = it.policy in (Policy.SKIP_EPOCH, Policy.NEXT_EPOCH) and not one.epoch_complete
        if asked or it.is_done:
            return [refuse("epoch.over", f"{what}: nothing is left to train", said, _with_more_epochs(it))]
        return [warn("epoch.rule", what, said, "the script must know of more epochs")]
    return [passed("epoch.rule", f"{it.policy.value}: {_start_in_words(it)}", said)]


def _stage_words(one: Checkpoint) -> str:
    return f"stage {text.clean(one.stage)}" if one.stage else "it"


def _epoch_words(one: Checkpoint) -> str:
    return f"epoch {text.count(one.epoch)} of {text.count(one.epochs)}"


def _after_the_end(it: Situation) -> str:
    """What can be done with a training that is over."""
    one = it.checkpoint
    stage = f"start the next stage from its weights (--next-stage {stage_after(one.stage) or 'STAGE'} -- COMMAND)"
    if one.stage == "final":
        return f"{stage}, or take an earlier checkpoint"
    return f"{stage}, {_with_more_epochs(it)}, or take an earlier checkpoint"


def _with_more_epochs(it: Situation) -> str:
    """By its words alone a command shows that it trains on."""
    asked = max(it.checkpoint.epochs or 1, more_epochs(it) or 1)
    return f"give a command that asks for more epochs (-- python train.py --epochs {2 * asked})"


def _start_in_words(it: Situation) -> str:
    if it.policy is Policy.EXACT:
        return f"epoch {it.epoch}, exactly where it stopped"
    if it.policy is Policy.NEXT_EPOCH:
        return f"epoch {it.epoch} from its start"
    if it.policy is Policy.SKIP_EPOCH:
        return f"epoch {it.epoch} from its start; the rest of epoch {it.checkpoint.epoch} is left out"
    return f"epoch {it.epoch} again from its start: what it has read of it is read again"


def _states(it: Situation) -> list[Check]:
    """The set's own checks; where the states aren't used, nothing in them refuses."""
    checks = list(it.set.checks)
    if it.policy is Policy.EXACT:
        if it.options.policy is Policy.EXACT and it.is_done:
            what = "the states stand at the end of the epoch: resumed there, no row is read"
            checks.append(refuse("states.end", what, remedy="leave the policy out: the next epoch starts"))
        return checks
    if not it.set.found and not checks:
        if it.policy is Policy.REPLAY_EPOCH:
            what = "no rank states: the epoch is read from its start, rows read before come twice"
            return [warn("states.complete", what, text.clean(it.checkpoint.path))]
        return []
    unused = f"not used: {it.policy.value}"
    return [
        replace(one, verdict=Verdict.WARN, evidence="; ".join(filter(None, (one.evidence, unused))))
        if one.verdict is Verdict.REFUSE
        else one
        for one in checks
    ]


def _source(it: Situation) -> list[Check]:
    checks = []
    run = it.run
    where = text.clean(it.run_path)
    if run is not None and run.job is not None and run.job.is_active and it.options.job is None:
        what = f"the old run still lives: {job_words(run.job)}"
        verdict = warn if it.options.though_alive else refuse
        checks.append(verdict("source.alive", what, where, f"stop it first: {_stop_command(run)}"))
    elif run is not None and run.processes:
        pids = ", ".join(f"{process.role} {process.pid} ({process.found_by})" for process in run.processes[:6])
        lives = "is stopping, and still lives" if run.is_stopping else "still lives"
        what = f"the old run {lives}: {text.plural(len(run.processes), 'process', 'processes')}"
        verdict = warn if it.options.though_alive else refuse
        checks.append(verdict("source.alive", what, pids, _what_ends_it(run)))
    elif run is not None and run.elsewhere and run.job is None and beats(run.path):
        what = f"the old run lives: its supervisor gave a sign of life just now, on {text.clean(run.elsewhere, 60)}"
        verdict = warn if it.options.though_alive else refuse
        checks.append(verdict("source.alive", what, where, "stop it there first; a minute after its end this is over"))
    elif run is not None and not run.is_surely_over and (run.elsewhere or (run.job and run.job.unasked)):
        checks.append(
            warn("source.alive", f"whether the old run lives can't be seen: {text.clean(run.state_reason)}", where)
        )
    else:
        checks.append(passed("source.alive", "no process of the old run lives", where))
    if run is not None and run.leftovers:
        checks.append(_leftovers(run, is_forced=it.options.though_alive))
    return [*checks, _lock(it), *_followers(it)]


def _what_ends_it(run: Run) -> str:
    """A script that resumes its own run as its last act would wait for itself."""
    if this_process_and_above() & {process.pid for process in run.processes}:
        return "this command is a part of it: `lavender-tui supervise RUN --detach` resumes it after its end"
    if run.is_stopping:
        return "wait until it has ended"
    return f"stop it first: {_stop_command(run)}"


def _stop_command(run: Run) -> str:
    """Ready to paste, from wherever one is."""
    return f"`{command_line.exact(('lavender-tui', 'stop', run.path))}`"


def _lock(it: Situation) -> Check:
    """Whether somebody else is at it, on whatever machine; asked again, and for sure, when it is carried out."""
    where = text.clean(it.run_path)
    if (who := who_resumes(it.run_path)) is not None:
        return refuse("source.lock", who, where, "wait until it has started, then look at its run")
    root = os.path.dirname(os.path.realpath(it.run_path))
    if os.access(root, os.W_OK | os.X_OK):
        return passed("source.lock", "nobody else is resuming it", where)
    what = "nobody else is resuming it; other machines wouldn't see that this one does: no right to write beside it"
    is_shared = is_silent(file_system_of(root))
    return warn("source.lock", what, text.clean(root)) if is_shared else passed("source.lock", what, text.clean(root))


def _leftovers(run: Run, *, is_forced: bool) -> Check:
    """They hold its GPUs and may save once more. What only looks like the run's is warned of."""
    left = run.leftovers
    what = f"{text.plural(len(left), 'process', 'processes')} of the old run outlived it and still run"
    pids = ", ".join(f"{process.role} {process.pid} ({process.found_by})" for process in left[:6])
    is_sure = any(process.is_surely_its for process in left)
    verdict = refuse if is_sure and not is_forced else warn
    return verdict("source.leftovers", what, pids, f"end them first: {_stop_command(run)}")


def _followers(it: Situation) -> list[Check]:
    """Runs that were resumed from this one; one that ended before its first save took nothing with it."""
    weights = [(is_alive(run), has_saved(run), run) for run in it.resumed_as]
    if not weights:
        return []
    lives, is_saved, run = max(weights)
    name, where = text.clean(os.path.basename(run)), text.clean(run)
    if lives:
        return [warn("source.resumed", f"it was resumed already, as {name}, which lives", where, "stop that one first")]
    if is_saved:
        what = f"it was resumed already, as {name}, which has saves of its own"
        return [warn("source.resumed", what, where, "resume that run instead, unless a second branch is wanted")]
    return [passed("source.resumed", f"it was resumed as {name}, which ended before its first save", where)]


def _place(it: Situation) -> list[Check]:
    root = it.root
    existing = root
    while not os.path.isdir(existing) and os.path.dirname(existing) != existing:
        existing = os.path.dirname(existing)
    where = text.clean(root)
    if not os.access(existing, os.W_OK | os.X_OK):
        what = "the new run's directory can't be made: no right to write there"
        return [refuse("place.writable", what, where, "make it writable, or choose another root (--root)")]
    checks = [passed("place.writable", "the new run's directory can be made", where)]
    size, free = max(1, it.checkpoint.facts.size_bytes), shutil.disk_usage(existing).free
    room = f"{text.size(free)} free, one save is {text.size(size)}"
    if free < size:
        checks.append(
            refuse(
                "place.space", f"no room for a single save: {room}", where, "make room, or choose another root (--root)"
            )
        )
    elif free < MANY_SAVES * size:
        checks.append(warn("place.space", f"{room}: room for {free // size}", where))
    else:
        checks.append(passed("place.space", room, where))
    return checks


def _command(it: Situation) -> list[Check]:
    if it.command is None:
        problem = it.command_problem or "the command that starts this training is not known"
        return [refuse("command.found", text.clean(problem), remedy="give it after --, such as: -- python train.py")]
    program = it.command.argv[0] if it.command.argv else ""
    if not _is_program(program, it.command.cwd):
        what = f"there is no program {text.clean(program, 120)}"
        return [refuse("command.found", what, text.clean(it.command.where), "give the command after --")]
    script = _script(it.command.argv)
    if script is not None and not os.path.exists(os.path.join(it.command.cwd, script)):
        what = f"there is no script {text.clean(script, 120)} in {text.clean(it.command.cwd)}"
        return [refuse("command.found", what, text.clean(it.command.where), "give the command after --, or its cwd")]
    what = f"the training command, from {text.clean(it.command.where, 120)}"
    found = passed("command.found", what, command_line.beginning(it.command.argv, 300))
    return [found, *_own_port(it.command.argv)]


def _own_port(argv: Sequence[str]) -> list[Check]:
    """A launcher that isn't ours to change meets where its words say; those of torchrun are left out."""
    named = _PORT.search("\0".join(parse(argv).script))
    taken = why_taken(int(named["port"])) if named is not None and 0 < int(named["port"]) < 65_536 else None
    if named is None or taken is None:
        return []
    what = f"{taken}, and the command's {named['word']} names it"
    return [warn("command.port", what, remedy="name another port in the command, or end that process first")]


def _script(argv: Sequence[str]) -> str | None:
    """The script file that a Python or torchrun command runs; None for modules, other programs and placeholders."""
    command = parse(argv)
    if command.kind is Kind.OTHER or command.runs != "script" or not command.script or "{" in command.script[0]:
        return None
    return command.script[0]


def _is_program(program: str, cwd: str) -> bool:
    if "{" in program:
        return True  # a placeholder: known only when the plan is carried out
    if os.sep in program:
        return os.access(os.path.join(cwd, program), os.X_OK)
    return bool(program) and (shutil.which(program) is not None or program in ("python", "python3", "torchrun"))


_LOOKS: tuple[Callable[[Situation], list[Check]], ...] = (
    ending_checks, checkpoint_checks, known_bad_checks, spike_checks, _epoch, schedule_checks, _states, topology_checks,
    cost_checks, data_checks, _source, _place, _command,
)  # fmt: skip
_STAGE_LOOKS: tuple[Callable[[Situation], list[Check]], ...] = (
    ending_checks, checkpoint_checks, known_bad_checks, spike_checks, stage_checks, topology_checks, _source,
    _place, _command,
)  # fmt: skip
