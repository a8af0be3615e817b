"""End processes that are proved to be of a run which nobody of ours started; all that is written is the root's journal.

`STOPPED` in the journal carries what a later reader needs to know that it was this very process, and when.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from lavender_tui.launch import identity, journal
from lavender_tui.launch.living import alive_and_below
from lavender_tui.launch.record import ProcessId, this_machine
from lavender_tui.launch.seen import Memory
from lavender_tui.launch.stop_order import (
    JUST_ENDED,
    CannotRecord,
    CannotStop,
    StopOrder,
    StopOutcome,
    ended_words,
    kill_all,
    saves,
    still_there,
    wait_for_end,
    with_warning,
)

ASKED, STOPPED, MISSED = "stop asked", "stopped", "stop missed"


def stop_processes(
    run_dir: str, leads: Sequence[ProcessId], members: Sequence[ProcessId], order: StopOrder
) -> StopOutcome:
    """Ask the `leads`; when the order's time is over end all `members` and what they have started meanwhile.

    Each signal goes to the very process that is meant, or to none. Raises CannotRecord where the journal can't be
    written, unless the order takes that; CannotStop where a process changed its user.
    """
    stopping = _Stopping(run_dir, leads, members, order)
    failed = None if stopping.note_asked() else "the journal of its root can't be written"
    if failed is not None and not (order.unrecorded or order.how == "kill"):
        raise CannotRecord(
            f"the stop can't be recorded ({failed}): it would look like a failure",
            where=journal.root_of(run_dir),
            hint="Make the directory writable; --yes or --kill stops it all the same",
        )
    if not stopping.ask():
        stopping.note(MISSED)
        return JUST_ENDED
    return with_warning(stopping.finish() if order.wait else stopping.asked(), failed)


class _Stopping:
    def __init__(
        self, run_dir: str, leads: Sequence[ProcessId], members: Sequence[ProcessId], order: StopOrder
    ) -> None:
        self.run_dir, self.leads, self.members, self.order = run_dir, leads, members, order
        self.saves_before = saves(run_dir)
        self.since, self.asked_at = time.monotonic(), time.time()
        self.killed = order.how == "kill"

    def note_asked(self) -> bool:
        return self.note(ASKED, how=self.order.how, why=self.order.why, grace_seconds=self.order.seconds_to_end)

    def note(self, what: str, **facts: object) -> bool:
        """With the identity of the process that led: the next one in the same directory was not stopped."""
        place, led = asdict(this_machine()), self.leads[0]
        facts = {"by_hand": True, "pid": led.pid, "start_ticks": led.start_ticks, **place, **facts}
        return journal.note(journal.root_of(self.run_dir), what, run=self.run_dir, who=self.order.asked_by, **facts)

    def ask(self) -> bool:
        """False where nobody was left to hear it."""
        order = self.order
        targets, signum = (self.members, signal.SIGKILL) if order.how == "kill" else (self.leads, order.signum)
        was_heard = self._send(targets, signum)
        self._send(self.leads, signal.SIGCONT)  # a suspended process would not see the first
        return was_heard

    def asked(self) -> StopOutcome:
        return StopOutcome(how="asked", words=f"{self.order.words}; nobody is left to end it by force later")

    def finish(self) -> StopOutcome:
        look = partial(alive_and_below, names=[self.run_dir])  # what was seen below them once stays theirs
        left = wait_for_end(list(self.members), look, self.order.seconds_to_end)
        self.killed |= bool(left)
        left = kill_all(left, look, self._send)
        if not left:
            self.note(STOPPED, killed=self.killed, asked_at=self.asked_at, ended_at=time.time())
            self._remember_the_end()
        return self._outcome(left)

    def _send(self, processes: Sequence[ProcessId], signum: int) -> bool:
        """True where one of them was there to get it."""
        reached = [self._send_to_one(process, signum) for process in processes]
        return any(reached)

    def _send_to_one(self, process: ProcessId, signum: int) -> bool:
        try:
            is_mine = os.stat(f"/proc/{process.pid}").st_uid == os.geteuid()
            return is_mine and identity.send_signal(process.pid, process.start_ticks, signum)
        except FileNotFoundError:
            return False
        except PermissionError as error:
            raise CannotStop(f"process {process.pid} belongs to another user", where=self.run_dir) from error

    def _remember_the_end(self) -> None:
        try:
            for one in self.leads:
                Memory().ended(self.run_dir, one, time.time(), None)
        except OSError:
            return  # the journal says it

    def _outcome(self, left: Sequence[ProcessId]) -> StopOutcome:
        seconds = time.monotonic() - self.since
        if left:
            how, words = "alive", still_there(left)
        elif self.killed:
            how, words = "killed", self.order.words_if_killed
        else:
            how, words = "ended", ended_words(self.run_dir, self.saves_before, seconds)
        return StopOutcome(how=how, words=words, waited_seconds=seconds, left=tuple(left))
