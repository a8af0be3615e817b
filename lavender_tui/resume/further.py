"""A training that is over and whose command asks for more epochs than it was planned for: it goes on."""

from __future__ import annotations

from lavender_tui.checkpoints.names import has_saved
from lavender_tui.launch.arguments import parse
from lavender_tui.launch.record import read_exit, read_launch
from lavender_tui.resume.epochs_asked import epochs_in
from lavender_tui.resume.situation import Situation


def more_epochs(it: Situation) -> int | None:
    """How many epochs the command asks for, where those are more than the checkpoint knows of."""
    one = it.checkpoint
    if it.command is None or one.epochs is None or one.stage == "final":
        return None
    wanted = epochs_in(parse(it.command.argv).script)
    return wanted if wanted is not None and wanted > one.epochs else None


def were_asked_for_before(it: Situation, wanted: int) -> bool:
    """By the command of the run itself, or of one resumed from it that ended well and saved nothing: the script means
    something else by that number, and a line of cron would start it again and again."""
    in_vain = [run for run in it.resumed_as if _ended_well(run) and not has_saved(run)]
    return any(_asked(run) >= wanted for run in (it.run_path, *in_vain))


def _ended_well(run: str) -> bool:
    end = read_exit(run)
    return end is not None and end.code == 0


def _asked(run: str) -> int:
    record = read_launch(run)
    words = parse(record.command).script if record is not None and record.command else ()
    return epochs_in(words) or 0
