"""Stop a run that was started by hand: which processes are surely its own, and what is done to them.

Nothing is written into its directory, which isn't ours. The journal of its root says who stopped it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lavender_tui.errors import NotFound
from lavender_tui.launch import by_hand, identity, seen
from lavender_tui.launch.record import ProcessId, this_machine
from lavender_tui.launch.seen import Memory, Seen
from lavender_tui.launch.stop_order import GRACEFUL, CannotStop, StopOrder, StopOutcome
from lavender_tui.model import command_line
from lavender_tui.model.run import LiveProcess
from lavender_tui.model.text import clean, plural
from lavender_tui.watch import procfs
from lavender_tui.watch.hand_proof import Proof, catches, ignores, proof_of, uid_of, written_runs
from lavender_tui.watch.processes import find_processes
from lavender_tui.watch.procfs import Traits
from lavender_tui.watch.programs import is_agent, is_no_training
from lavender_tui.watch.remembering import remember

_GROUP = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
_HIGHEST = 6  # parents looked at above a training


@dataclass(frozen=True, slots=True, kw_only=True)
class HandRun:
    """What is surely of a run that was started by hand, at this instant.

    `leads` are asked to end, `members` is all that a kill ends, the leads among them. `evidence` says what ties them to
    the run, `heard_by` who gets the signal and what it does with it; `is_sure`: the processes say so themselves, or
    write there now. `left_alone`: what looks like the run's and isn't proved to be.
    """

    leads: tuple[ProcessId, ...]
    members: tuple[ProcessId, ...]
    evidence: str
    heard_by: str
    is_sure: bool
    user: str
    left_alone: tuple[str, ...] = ()


def stop_by_hand(
    run_dir: str, order: StopOrder = GRACEFUL, *, shown: Collection[LiveProcess] | None = None
) -> StopOutcome:
    """As `launch.stop`, for a run that nobody of ours started; its processes are judged now.

    `shown` are those that a person has seen and confirmed: others are never signalled. Raises NotFound and CannotStop
    where none is proved to be the run's, with what to do; CannotRecord where the journal can't be written.
    """
    run_dir = os.path.abspath(run_dir)
    found = judge(run_dir, order.signum)
    known = None if shown is None else {(one.pid, one.start_ticks) for one in shown}
    if known is not None and not known & {(one.pid, one.start_ticks) for one in found.members}:
        raise CannotStop("its processes are others now than those that were shown", where=run_dir, hint="Ask again")
    _keep_its_command(run_dir)
    return by_hand.stop_processes(run_dir, found.leads, found.members, order)


def judge(run_dir: str, signum: int = signal.SIGTERM) -> HandRun:
    """Which processes are the run's, and which of them shall get the signal. Raises NotFound, CannotStop."""
    run_dir = os.path.abspath(run_dir)
    remembered = seen.read(run_dir)
    found = find_processes([run_dir], {run_dir: None}, {run_dir: remembered}).get(run_dir, ())
    if not found:
        raise NotFound(
            "it has no launch.json, and no process on this machine is seen to be its own",
            where=run_dir,
            hint="If it runs, stop it where it was started: Ctrl-C there, or `kill -TERM` with its pid",
        )
    found = _own_users(run_dir, found)
    proofs = {one.pid: proof for one in found if (proof := proof_of(one.pid, run_dir)) is not None}
    proofs |= _remembered_proof(remembered, found, run_dir)
    proofs = _that_count(proofs, found, run_dir)
    others = [one for one in found if one.pid not in proofs]
    if not proofs:
        raise _not_proved(run_dir, others)
    tops = {_top(pid, run_dir) for pid in proofs}
    tops -= {pid for pid in tops if any(other in tops for other in _above(pid))}
    members = {pid: ticks for top in tops for pid, ticks in _with_all_below(top, run_dir)}
    _refuse_other_users(run_dir, members)
    leads = [lead for top in sorted(tops) for lead in _leads(top, proofs, members, signum)]
    return HandRun(
        leads=_ids(leads, members),
        members=_ids([*leads, *sorted(members)], members),
        evidence=_evidence(proofs),
        heard_by=_heard_by(leads, members, signum),
        is_sure=all(proof.is_sure for proof in proofs.values()),
        user=_user(leads),
        left_alone=tuple(f"pid {one.pid} ({_command(one)})" for one in others if one.pid not in members),
    )


def _remembered_proof(remembered: Seen | None, found: Sequence[LiveProcess], run_dir: str) -> dict[int, Proof]:
    """Of the very process that was once seen to write there, though it holds no file open at this moment."""
    if remembered is None or remembered.proof is None or remembered.machine != this_machine():
        return {}
    leader = remembered.leader
    is_there = any((one.pid, one.start_ticks) == (leader.pid, leader.start_ticks) for one in found)
    if not is_there or _serves_others(leader.pid, run_dir):
        return {}
    return {leader.pid: Proof(f"seen before: {clean(remembered.proof, 80)}", is_sure=True)}


def _own_users(run_dir: str, found: Sequence[LiveProcess]) -> tuple[LiveProcess, ...]:
    """Raises CannotStop where all are other users': whoever may signal them is not who started them."""
    mine = tuple(one for one in found if uid_of(one.pid) in (os.geteuid(), None))
    if not mine:
        _refuse_other_users(run_dir, [one.pid for one in found])
    return mine


def _that_count(proofs: dict[int, Proof], found: Sequence[LiveProcess], run_dir: str) -> dict[int, Proof]:
    """A proof that isn't sure counts where it is the only one; ranks of a group with one that is proved are proved."""
    sure = {pid: proof for pid, proof in proofs.items() if proof.is_sure}
    if sure:
        proofs = sure
    elif len({_group(pid) or _top(pid, run_dir) for pid in proofs}) > 1:
        return {}
    groups = {group for pid in proofs if (group := _group(pid)) is not None}
    shared = Proof("a rank of the same group", is_sure=bool(sure))
    return proofs | {one.pid: shared for one in found if one.pid not in proofs and _group(one.pid) in groups}


def _group(pid: int) -> tuple[str | None, ...] | None:
    """The process group of torch.distributed that a rank was started for."""
    environment = identity.raw_environment(pid)
    if identity.variable(environment, "RANK") is None or identity.variable(environment, "MASTER_PORT") is None:
        return None
    return tuple(identity.variable(environment, name) for name in _GROUP)


def _not_proved(run_dir: str, others: Sequence[LiveProcess]) -> CannotStop:
    for one in others:
        if (runs := written_runs(one.pid, run_dir)[1]) and one.role != "helper":
            named = ", ".join(clean(os.path.basename(run), 60) for run in runs[:3])
            what = f"pid {one.pid} ({_command(one)}) serves {named} too: it can't be stopped for this run alone"
            return CannotStop(what, where=run_dir, hint="Stop it where it was started")
    said = ", ".join(f"pid {one.pid} ({_command(one)})" for one in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    verb = "looks" if len(others) == 1 else "look"
    first = min(others, key=lambda one: (one.role != "agent", one.pid))
    return CannotStop(
        f"{said}{more} only {verb} like the run's, as an evaluation of it would: nothing writes there at this moment",
        where=run_dir,
        hint=f"If it is the training: `kill -TERM {first.pid}`",
    )


# The processes


def _above(pid: int) -> list[int]:
    chain: list[int] = []
    while (found := identity.process_stat(pid)) is not None and found[1] > 1 and len(chain) < 64:
        pid = found[1]
        chain.append(pid)
    return chain


def _top(pid: int, run_dir: str) -> int:
    """The highest process that leads this one and nothing else: torchrun, or what it was forked from."""
    for parent in _above(pid)[:_HIGHEST]:
        if uid_of(parent) != os.geteuid() or parent in (os.getpid(), os.getppid()):
            return pid
        if not _is_one_with(parent, pid) or _serves_others(parent, run_dir):
            return pid
        pid = parent
    return pid


def _is_one_with(parent: int, child: int) -> bool:
    above, below = procfs.read_traits(parent), procfs.read_traits(child)
    if is_agent(above):
        return True
    starts_elastic = "TORCHELASTIC_RUN_ID" in below.environ and "TORCHELASTIC_RUN_ID" not in above.environ
    if not above.is_python or (is_no_training(above) and not starts_elastic):
        return False
    return starts_elastic or below.argv == above.argv or _is_of_multiprocessing(below)


def _is_of_multiprocessing(traits: Traits) -> bool:
    words = traits.argv[1:]
    return "--multiprocessing-fork" in words or (
        words[:1] == ("-c",) and any("multiprocessing" in one for one in words)
    )


def _serves_others(top: int, run_dir: str) -> bool:
    """Does it, or what is below it, belong to another run? A program of many trainings isn't stopped for one."""
    names = (top, *(pid for pid, _ in identity.descendants(top)))
    return any(_is_of_another(pid, run_dir) for pid in names)


def _is_of_another(pid: int, run_dir: str) -> bool:
    return identity.is_of_another_run(identity.raw_environment(pid), [run_dir]) or bool(written_runs(pid, run_dir)[1])


def _with_all_below(top: int, run_dir: str) -> Iterable[tuple[int, int]]:
    """The process and what it has started, but for what is of another run, and never this process or one above it."""
    spared = {os.getpid(), *_above(os.getpid())}
    ticks = identity.start_ticks(top)
    every = [*([(top, ticks)] if ticks is not None else []), *identity.descendants_of_run(top, [run_dir])]
    return [one for one in every if one[0] not in spared and not _is_of_another(one[0], run_dir)]


def _leads(top: int, proofs: dict[int, Proof], members: dict[int, int], signum: int) -> list[int]:
    """Who gets the signal that asks: the top where it listens; else those below it that are the trainers and do."""
    if top not in members:
        return []
    below = [pid for pid in proofs if pid != top and pid in members and top in _above(pid)]
    listening = [pid for pid in below if catches(pid, signum)]
    return [top] if catches(top, signum) or not listening else sorted(listening)


def _ids(pids: Iterable[int], members: dict[int, int]) -> tuple[ProcessId, ...]:
    return tuple(ProcessId(pid=pid, start_ticks=members[pid]) for pid in dict.fromkeys(pids))


def _refuse_other_users(run_dir: str, members: Iterable[int]) -> None:
    for pid in members:
        uid = uid_of(pid)
        if uid is not None and uid != os.geteuid():
            name = procfs.other_owner(pid) or str(uid)
            what = f"process {pid} belongs to {name}, and a run that was started by hand is stopped by who started it"
            raise CannotStop(what, where=run_dir, hint=f"Ask {name}")


def _keep_its_command(run_dir: str) -> None:
    """What was stopped can be resumed, though no app was there to remember how it was started."""
    kept = Memory()
    before = kept.of(run_dir)
    found = find_processes([run_dir], {run_dir: None}, {run_dir: before}).get(run_dir, ())
    if (lives := remember(run_dir, found, before)) is not None:
        try:
            kept.keep(run_dir, lives)
        except OSError:
            return  # then the command has to be given


# Words


def _evidence(proofs: dict[int, Proof]) -> str:
    first = min(proofs.items(), key=lambda one: (not one[1].is_sure, one[0]))
    more = f", and {plural(len(proofs) - 1, 'process', 'processes')} more" if len(proofs) > 1 else ""
    return f"pid {first[0]}: {first[1].words}{more}"


def _heard_by(leads: Sequence[int], members: dict[int, int], signum: int) -> str:
    name = signal.Signals(signum).name
    if len(leads) > 1:
        return f"{name} goes to {len(leads)} ranks, each catches it"
    lead = leads[0]
    if is_agent(procfs.read_traits(lead)):
        return f"{name} goes to torchrun (pid {lead}), which passes it on to its ranks"
    if catches(lead, signum):
        return f"{name} goes to pid {lead}, which catches it"
    if ignores(lead, signum):
        return f"{name} goes to pid {lead}, which ignores it: it is killed when the time is over"
    return f"{name} ends pid {lead} at once: it does not catch it, so it won't save"


def _user(leads: Sequence[int]) -> str:
    uid = uid_of(leads[0]) if leads else None
    return identity.user_name(os.geteuid() if uid is None else uid)


def _command(process: LiveProcess) -> str:
    return command_line.beginning(process.command, 80)
