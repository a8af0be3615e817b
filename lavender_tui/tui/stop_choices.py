"""What the stop box says of a run and offers for it. Pure: a run and the time in, lines and choices out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lavender_tui.model import command_line, text
from lavender_tui.model.ending import (
    StopAt,
    at_stake,
    epoch_to_end,
    save_name,
    stopping_words,
    when_words,
    why_no_request,
)
from lavender_tui.model.run import ALIVE, Run
from lavender_tui.tui import ages
from lavender_tui.tui.outlook import Span

if TYPE_CHECKING:
    from lavender_tui.launch.living import Member
    from lavender_tui.watch.hand import HandRun

GRACEFUL, INTERRUPT, KILL, WITHDRAW, LEAVE = "graceful", "interrupt", "kill", "withdraw", ""
COPY = "copy"  # the command that stops it where it was started
_REQUEST_KEYS = {StopAt.NEXT_SAVE: "s", StopAt.EPOCH_END: "e"}
_MOST_PROCESSES = 10
_LABEL = 9
_COMMAND = 58  # characters of a command line: a line of the box at 80 columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One key of the box: `answer` is what it stands for, `what` what follows from it."""

    key: str
    title: str
    answer: str
    what: str = ""


def may_be_stopped(run: Run) -> bool:
    """Is there more to choose than to leave it?"""
    return len(choices(run, grace=0.0, now=0.0)) > 1


def title(run: Run) -> str:
    name = text.clean(run.title, 60)
    if _has_only_leftovers(run):
        return f"End what {name} left running?"
    return f"{name} is stopping" if run.is_stopping else f"Stop {name}?"


def needs_proof(run: Run) -> bool:
    """Does nothing of ours say which processes are its own, so that each has to be looked at before it is signalled?"""
    return bool(run.processes) and not run.is_ours


def facts(run: Run, now: float, hand: HandRun | str | None = None) -> list[list[Span]]:
    """Which run, where, and what would be lost. `hand`: of a run that needs a proof that, or why there is none."""
    lines = [_line("host", f"{_host(run)}{_processes(run)}")]
    if _has_only_leftovers(run):
        return [*lines, _line("run", text.clean(run.state_reason, 300))]
    if run.is_by_hand:
        lines.append(_line("started", f"by hand{_by_whom(run, hand)}"))
    lines += _elsewhere_lines(run)
    if needs_proof(run):
        lines += _proof_lines(hand)
    if isinstance(hand, str):
        return lines
    if (stopping := stopping_words(run, now)) is not None:
        by = f", asked by {text.clean(run.end.stop_by, 60)}" if run.end and run.end.stop_by else ""
        lines.append(_line("now", f"{stopping.removeprefix('stopping: ')}{by}"))
    elif run.request is not None:
        asked = ages.since(run.request.asked_at, now)
        lines.append(_line("asked", f"stops {run.request.what.words}, by {text.clean(run.request.who, 60)} {asked}"))
    stake = at_stake(run, now)
    saved = ages.since(ages.last_save(run), now)
    lines.append(_line("saved", f"{save_name(run.newest).removeprefix('save ')}, {saved}" if run.newest else "nothing"))
    lines.append(_line("since", stake.done))
    if stopping is None:
        lines.append(_line("lost", stake.when_asked))
    if not run.is_stopping and run.begin is None:
        why = why_no_request(run, StopAt.NEXT_SAVE) or ""
        lines += [_line("later", f"stop at the next save: {why}")] if why.startswith("not yet") else []
    if (note := _note(run)) is not None:
        lines.append(_line("note", note))
    return lines


def command_elsewhere(run: Run) -> str | None:
    """What stops a run of another host, pasted into a shell; None for one of this host, or of a container."""
    if run.elsewhere is None or run.elsewhere != run.host or run.job is not None:
        return None
    return command_line.stop_over_ssh(run.host, run.path)


def _elsewhere_lines(run: Run) -> list[list[Span]]:
    """Its leading process isn't seen from here, whatever else of it is: no signal from here reaches it."""
    if run.elsewhere is None or run.job is not None:
        return []
    command = command_elsewhere(run)
    where = text.clean(run.elsewhere, 60)
    if command is None:
        return [_line("there", f"it was started on {where}: stop it there")]
    return [_line("there", f"it was started on {where}; this stops all of it: {command}")]


def _by_whom(run: Run, hand: HandRun | str | None) -> str:
    who = run.started_by or (None if hand is None or isinstance(hand, str) else hand.user)
    return f", by {text.clean(who, 60)}" if who else ""


def _proof_lines(hand: HandRun | str | None) -> list[list[Span]]:
    if hand is None:
        return [_line("proof", "looking which processes are surely its own …")]
    if isinstance(hand, str):
        return [_line("refused", text.clean(hand, 500))]
    lines = [_line("proof", hand.evidence), _line("hears", hand.heard_by)]
    if hand.left_alone:
        lines.append(_line("spared", f"only look alike: {', '.join(hand.left_alone[:3])}"))
    return lines


def _note(run: Run) -> str | None:
    """What nobody does once the app is left."""
    if run.job is not None and run.is_slurms:
        whole = "scancel ends the whole job, whatever else it does; " if run.job.is_by_hand else ""
        return None if run.job.is_waiting else f"{whole}should it not end, it is cancelled only while this app is open"
    if not run.processes or any(one.role == "supervisor" for one in run.processes):
        return None
    return "nobody supervises it: it is killed only while this app is open"


def _line(label: str, words: str) -> list[Span]:
    return [(f"{label:<{_LABEL}}", "quiet"), (words, "")]


def _host(run: Run) -> str:
    if run.job is not None and run.is_slurms:
        where = f" on {text.clean(run.job.nodes, 60)}" if run.job.nodes else ""
        return f"Slurm {run.job.called}{where}"
    return text.clean(run.host, 60) if run.host else "this machine"


def _processes(run: Run) -> str:
    if _has_only_leftovers(run):
        return f", {text.plural(len(run.leftovers), 'process', 'processes')}"
    if run.job is not None and not run.processes:
        ranks = f", {text.plural(run.world_size, 'rank')}" if run.world_size else ""
        return f", {run.job.state.lower()}{ranks}"
    if not run.processes:
        return ", its processes can't be seen from here"
    ranks = f", {text.plural(run.world_size, 'rank')}" if run.world_size else ""
    pid = f", pid {run.pid}" if run.pid is not None else ""
    return f"{pid}{ranks}, {text.plural(len(run.processes), 'process', 'processes')}"


def _has_only_leftovers(run: Run) -> bool:
    return bool(run.leftovers) and not run.is_alive


def choices(run: Run, *, grace: float, now: float, is_proved: bool = True) -> list[Choice]:
    """What can be done, the harmless first. `grace` in seconds; what isn't `is_proved` gets no signal."""
    leave = Choice(key="n", title="leave it" if run.is_stopping else "no, leave it running", answer=LEAVE)
    if run.is_gone and not any(one.tells_itself for one in run.leftovers):
        return [leave]
    if _has_only_leftovers(run):
        return [
            Choice(key="n", title="no, leave them", answer=LEAVE),
            Choice(key="y", title="end them", answer=GRACEFUL, what=_after(run, "SIGTERM", grace)),
            Choice(key="K", title="kill them at once", answer=KILL, what="SIGKILL; asks again"),
        ]
    if run.job is not None and run.job.is_waiting:
        return [
            Choice(key="n", title="no, leave it in the queue", answer=LEAVE),
            Choice(key="y", title="take it out of the queue", answer=GRACEFUL, what="scancel; it had not started"),
        ]
    if not is_proved:
        return [leave]
    if not _takes_signals(run):
        return [leave, *(_elsewhere(run, now) if run.elsewhere is not None and not run.is_surely_over else [])]
    polite = [] if run.is_stopping else [_polite(run, grace), *_requests(run, now)]
    return [
        leave,
        *polite,
        Choice(key="i", title="interrupt", answer=INTERRUPT, what=_after(run, "SIGINT, as Ctrl-C", grace)),
        Choice(key="K", title=_kill_title(run), answer=KILL, what=_kill_costs(run)),
    ]


def _elsewhere(run: Run, now: float) -> list[Choice]:
    """A file reaches it over machines; a signal is sent there."""
    copy = Choice(key="c", title="copy the command", answer=COPY, what="to paste it into a shell")
    return [*_requests(run, now), *([copy] if command_elsewhere(run) is not None else [])]


def _takes_signals(run: Run) -> bool:
    """Its leading process is here, or a batch system passes a signal on to it."""
    if run.elsewhere is not None and run.job is None:
        return False
    return run.is_alive or run.state in ALIVE


def _polite(run: Run, grace: float) -> Choice:
    title = "save and stop" if run.saves_when_asked else "ask it to stop"
    return Choice(key="y", title=title, answer=GRACEFUL, what=_after(run, "SIGTERM", grace))


def _after(run: Run, signal: str, grace: float) -> str:
    if run.is_slurms:
        return f"scancel -s {signal.split(',')[0].removeprefix('SIG')}; scancel after {text.duration(grace)}"
    return f"{signal}; killed after {text.duration(grace)}"


def _kill_title(run: Run) -> str:
    return f"{'cancel' if run.is_slurms else 'kill'} it {'now' if run.is_stopping else 'at once'}"


def _kill_costs(run: Run) -> str:
    return "asks again; all since then is lost" if run.newest else "asks again; nothing of it is saved"


def _requests(run: Run, now: float) -> list[Choice]:
    """A request that stands is withdrawn by the key that asks for it."""
    found = []
    for what, key in _REQUEST_KEYS.items():
        if why_no_request(run, what) is not None:
            continue
        if run.request is not None and run.request.what is what:
            found.append(Choice(key=key, title="withdraw that", answer=WITHDRAW, what=f"don't stop {_at(run, what)}"))
        else:
            when = when_words(run, what, now).removeprefix(", ")
            more = f"{when}; can be withdrawn" if when else "can be withdrawn"
            found.append(Choice(key=key, title=f"stop {_at(run, what)}", answer=what.value, what=more))
    return found


def _at(run: Run, what: StopAt) -> str:
    if what is StopAt.NEXT_SAVE:
        return what.words
    epoch = epoch_to_end(run)
    return what.words if epoch is None else f"at the end of epoch {epoch}"


def kill_question(run: Run, members: Sequence[Member]) -> str:
    name = text.clean(run.title, 60)
    return f"Kill {text.plural(len(members), 'process', 'processes')} of {name}?" if members else f"Kill {name}?"


def kill_costs(run: Run, now: float) -> str:
    return "" if _has_only_leftovers(run) else f"Lost: {at_stake(run, now).work}."


def kill_listing(members: Sequence[Member]) -> list[str]:
    """The processes that a kill ends, a line each."""
    lines = [_process(one) for one in members[:_MOST_PROCESSES]]
    hidden = len(members) - len(lines)
    return [*lines, *([f"and {hidden} more"] if hidden else [])]


def _process(member: Member) -> str:
    return f"{member.pid:>8}  {text.clean('  ' * min(member.depth, 4) + member.command, _COMMAND)}"
