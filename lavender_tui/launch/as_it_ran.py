"""The command of a run as a person would give it: with the number of ranks, the paths, the epoch that it had."""

from __future__ import annotations

from lavender_tui.launch.arguments import Command, Kind, parse, without, words_of
from lavender_tui.launch.record import LaunchRecord

# What torchrun is told on top, for the run's own files and its end: nobody gave it, and it isn't what was trained.
_OURS = frozenset(("--log-dir", "--redirects", "--tee", "--shutdown-timeout", "--signals-to-handle"))
_RANKS = "--nproc-per-node"


def command_as_it_ran(record: LaunchRecord) -> tuple[str, ...]:
    """What was asked for, changed to what was executed: `torchrun --nproc-per-node 4 …` of a run on 4 ranks.

    The template in the record keeps the number of an earlier run and its placeholders, for a resume begins with it.
    """
    if not record.command:
        return record.argv
    asked, ran = parse(record.command), parse(record.argv)
    if ran.kind is Kind.TORCHRUN:
        head = asked if asked.kind is Kind.TORCHRUN else ran
        return (*_head(head, ran), *words_of(without(ran.options, _OURS)), *ran.script)
    if ran.kind is Kind.PYTHON and asked.kind is Kind.PYTHON:
        return (*_head(asked, ran), *_how(asked), *ran.script)
    if record.backend == "local":
        return record.argv
    return _on_ranks(record, asked)


def _head(asked: Command, ran: Command) -> tuple[str, ...]:
    """What starts it as it was asked for; the words before it, `env OUT={run_dir}`, with the values that they got."""
    interpreter = (asked.interpreter,) if asked.interpreter else ()
    wrapper = ran.wrapper if len(ran.wrapper) == len(asked.wrapper) else asked.wrapper
    return (*wrapper, *interpreter, *asked.interpreter_options, *asked.launcher)


def _how(command: Command) -> tuple[str, ...]:
    return {"module": ("-m",), "code": ("-c",)}.get(command.runs, ())


def _on_ranks(record: LaunchRecord, asked: Command) -> tuple[str, ...]:
    """Of a job, whose script holds the words that run: the template, its ranks a node as the job has them."""
    if asked.kind is not Kind.TORCHRUN or record.world_size is None or asked.option(_RANKS) is None:
        return record.command
    each = str(max(1, record.world_size // max(1, record.nodes or 1)))
    words = [word for one in asked.options for word in ((_RANKS, each) if one.name == _RANKS else one.words)]
    return (*_head(asked, asked), *words, *asked.script)
