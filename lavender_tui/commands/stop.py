"""`lavender-tui stop RUN`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lavender_tui.commands import places
from lavender_tui.commands.printing import ask, is_terminal, say
from lavender_tui.errors import UsageError
from lavender_tui.model import command_line
from lavender_tui.model.ending import StopAt, at_stake, request_words, what_is_kept, when_words, why_no_request
from lavender_tui.model.run import Run
from lavender_tui.model.text import clean, plural

if TYPE_CHECKING:
    from lavender_tui.launch.stop_order import How, StopOrder, StopOutcome

_REQUESTS = {"at_next_save": StopAt.NEXT_SAVE, "at_epoch_end": StopAt.EPOCH_END}
_FLAGS = ("kill", "interrupt", "at_next_save", "at_epoch_end", "withdraw")


def run(run: str, *, root: str | None, grace: float | None, yes: bool, **flags: bool) -> int:
    """`flags`: one of _FLAGS at most."""
    chosen = [name for name in _FLAGS if flags.get(name)]
    if len(chosen) > 1:
        options = " and ".join("--" + name.replace("_", "-") for name in chosen)
        raise UsageError(f"{options} exclude each other")
    run_dir = places.resolve_run(run, root)
    flag = chosen[0] if chosen else ""
    if flag == "withdraw":
        return _withdraw(run_dir)
    if flag in _REQUESTS:
        return _request(run_dir, _REQUESTS[flag])
    from lavender_tui.launch.stop_order import StopOrder, is_ours

    how: How = "kill" if flag == "kill" else "interrupt" if flag == "interrupt" else "graceful"
    order = StopOrder(how=how, grace=places.settings().grace_seconds if grace is None else grace)
    seen = _seen(run_dir)
    if seen is not None and seen.leftovers and not seen.is_alive:
        return _end_left_over(seen, order, yes)
    if seen is not None and seen.processes and not is_ours(run_dir):
        return _stop_by_hand(seen, order, yes)
    return _stop(run_dir, seen, order, yes)


def _stop(run_dir: str, seen: Run | None, order: StopOrder, yes: bool) -> int:
    from lavender_tui.launch import stop

    may_ask = not yes and is_terminal() and _needs_an_answer(run_dir, seen, order)
    if may_ask and not ask(_question(run_dir, seen, order)):
        say("nothing was stopped")
        return 1
    return _carry_out(partial(stop, run_dir), run_dir, order, yes)


def _needs_an_answer(run_dir: str, run: Run | None, order: StopOrder) -> bool:
    """A question before a refusal, or before hearing that nothing runs, would only annoy."""
    from lavender_tui.launch.stopping import nothing_runs

    if run is not None and run.job is not None:
        return run.job.is_active or run.job.unasked is not None or run.job.away_since is not None
    is_refused = run is not None and run.elsewhere is not None
    return not is_refused and not nothing_runs(run_dir, order)


def _end_left_over(run: Run, order: StopOrder, yes: bool) -> int:
    """What looks like the run's and doesn't say so itself is ended only when somebody has seen it, or said --yes."""
    from lavender_tui.launch.left_over import end_left_over
    from lavender_tui.launch.stop_order import CannotStop

    listed = ", ".join(f"{one.pid} ({command_line.beginning(one.command, 120)})" for one in run.leftovers)
    is_sure = all(one.is_surely_its for one in run.leftovers)
    if not yes and not is_terminal() and not is_sure:
        raise CannotStop(f"they only look like the run's: {listed}", where=run.path, hint="--yes ends them")
    if not yes and is_terminal() and not ask(f"End what {clean(run.title, 80)} left running: {listed}?"):
        say("nothing was stopped")
        return 1
    outcome = end_left_over(run.path, run.leftovers, kill=order.how == "kill", grace=order.grace)
    say(outcome.words)
    return 0 if outcome.has_ended else 1


def _seen(run_dir: str) -> Run | None:
    """The run as the list shows it; of its checkpoints only the newest is read."""
    from lavender_tui.watch.scan import scan

    found = scan((run_dir,), deadline=time.monotonic())
    return next((one for one in found if os.path.realpath(one.path) == os.path.realpath(run_dir)), None)


def _question(run_dir: str, run: Run | None, order: StopOrder) -> str:
    """Names run, host and process, and what would be lost."""
    verb = {"kill": "Kill", "interrupt": "Interrupt"}.get(order.how, "Stop")
    name = clean(os.path.basename(run_dir), 80)
    if run is None or not run.is_alive:
        is_kept = run is not None and run.keeper is not None and run.keeper.is_alive is not False
        return f"{name} isn't running. Tell its keeper not to resume it?" if is_kept else f"{verb} {name}?"
    stake = at_stake(run, time.time())
    known_as = f"Slurm {run.job.called}" if run.job is not None and run.is_slurms else f"pid {run.pid}"
    where = f"{clean(run.host, 60)}, {known_as}" if run.host and not run.is_slurms else known_as
    number = f", {plural(len(run.processes), 'process', 'processes')}" if run.processes else ""
    lost = stake.when_asked if order.how == "graceful" else stake.work
    return f"{verb} {name} ({where}{number})? Lost: {lost}."


def _stop_by_hand(run: Run, order: StopOrder, yes: bool) -> int:
    """What is proved to be the run's is ended; who isn't sure is asked, or says --yes."""
    from lavender_tui.launch.stop_order import CannotStop
    from lavender_tui.watch import hand

    found = hand.judge(run.path, order.signum)
    if not yes and not is_terminal() and not found.is_sure:
        raise CannotStop(f"not sure enough: {found.evidence}", where=run.path, hint="--yes stops it")
    for words in (f"started by hand, by {found.user}: {found.evidence}", "" if order.how == "kill" else found.heard_by):
        if words:
            say(words)
    if not yes and is_terminal() and not ask(_question(run.path, run, order)):
        say("nothing was stopped")
        return 1
    code = _carry_out(partial(hand.stop_by_hand, run.path, shown=run.processes), run.path, order, yes)
    if found.left_alone:
        say(f"left alone, for it only looks like the run's: {', '.join(found.left_alone)}")
    return code


def _carry_out(stop: Callable[[StopOrder], StopOutcome], run_dir: str, order: StopOrder, yes: bool) -> int:
    """Where nobody can be asked, a stop that can't be recorded is carried out all the same."""
    from lavender_tui.launch.stop_order import CannotRecord

    unrecorded = replace(order, unrecorded=True)
    try:
        outcome = stop(unrecorded if yes or not is_terminal() else order)
    except CannotRecord as error:
        if not ask(f"{clean(error.what)}. Stop it all the same?"):
            raise
        outcome = stop(unrecorded)
    after = _seen(run_dir) if outcome.has_ended else None
    is_told = after is None or after.is_alive or (after.newest is not None and outcome.how != "not running")
    say(outcome.words if after is None or is_told else f"{outcome.words}; {what_is_kept(after)}")
    return 0 if outcome.has_ended else 1


def _request(run_dir: str, what: StopAt) -> int:
    from lavender_tui.launch import ask_to_stop
    from lavender_tui.launch.stop_order import CannotStop

    run = _seen(run_dir)
    may_live = run is not None and (run.is_alive or run.elsewhere is not None)
    why_not = why_no_request(run, what) if run is not None and may_live else None
    if why_not is not None:
        raise CannotStop(why_not, where=run_dir, hint="`lavender-tui stop RUN` asks it by a signal, now")
    request = ask_to_stop(run_dir, what)
    when = when_words(run, what, time.time()) if run is not None else ""
    say(f"{request_words(request)}{when}; --withdraw takes that back")
    return 0


def _withdraw(run_dir: str) -> int:
    from lavender_tui.launch import withdraw
    from lavender_tui.launch.asking import why_nothing_to_withdraw

    request = withdraw(run_dir)
    if request is None:
        say(why_nothing_to_withdraw(run_dir))
        return 1
    say(f"withdrawn: it goes on (asked to stop {request.what.words} by {request.who})")
    return 0
