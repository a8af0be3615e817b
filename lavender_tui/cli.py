"""Arguments and dispatch only: what a verb does lives in `commands/`.

Exit codes: 0 done · 1 failed or refused · 2 usage · 100 the followed run failed · 102 no such run or checkpoint ·
103 the followed run was stopped on request · 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import click

from lavender_tui import __version__
from lavender_tui.errors import LavenderError

READONLY = "--readonly"
EPILOG = "Exit codes: 0 done, 1 failed or refused, 2 usage, 100 the followed run failed, 102 not found, 103 stopped."


class Verb(click.Command):
    """A verb that says whether it changes something: starts, ends or writes something of a run. Read-only, it may not.

    `changes` may be a test of the verb's options, for a verb that only looks with some of them.
    """

    def __init__(self, *args: Any, changes: bool | Callable[[dict[str, Any]], bool], **options: Any) -> None:
        super().__init__(*args, **options)
        self.changes = changes

    def invoke(self, ctx: click.Context) -> Any:
        if (self.changes(ctx.params) if callable(self.changes) else self.changes) and (why := why_readonly(ctx)):
            raise LavenderError(f"`{self.name}` changes something, and {why}")
        return super().invoke(ctx)


def why_readonly(ctx: click.Context) -> str | None:
    """What says that nothing may be changed, by the flag or a setting; None where nothing does."""
    if ctx.find_root().params.get("readonly"):
        return "--readonly forbids that"
    from lavender_tui.config import PREFIX, load

    if not load()[0].readonly:
        return None
    return f"the setting `readonly` forbids that ({PREFIX}READONLY, or the file of settings)"


class AppOrVerb(click.Group):
    """`lavender-tui [ROOT…]` opens the app; `lavender-tui VERB …` runs a verb. A root named like a verb: `./ls`."""

    command_class = Verb

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return super().resolve_command(ctx, ["app", *args])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs, and before them what the app takes: it has no verb whose help one could ask for."""
        options = (one for one in self.commands["app"].params if isinstance(one, click.Option))
        records = [one.get_help_record(ctx) for one in options if READONLY not in one.opts]
        with formatter.section("Options of the app"):
            formatter.write_dl([record for record in records if record is not None])
        super().format_commands(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {"-h", "--help", "-V", "--version"}
        own = 0
        while own < len(args) and args[own] == READONLY:
            own += 1
        if own == len(args) or (args[own] not in self.commands and args[own] not in known):
            args = [*args[:own], "app", *args[own:]]
        return super().parse_args(ctx, args)


def verb(name: str) -> Callable[..., int]:
    """The function of a verb, imported when it is called: a verb pays only for what it needs."""

    def run(*args: Any, **options: Any) -> int:
        try:
            return int(import_module(f"lavender_tui.commands.{name}").run(*args, **options))
        except BrokenPipeError:
            # The reader of our output is gone, as with `| head`: done. Here, for click would make a failure of it.
            return _without_reader()

    return run


@click.group(
    cls=AppOrVerb,
    subcommand_metavar="[ROOT]... | VERB ... [-- COMMAND...]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(__version__, "-V", "--version", prog_name="lavender-tui")
@click.option(READONLY, is_flag=True, help="Only look: nothing is started, stopped or changed.")
def cli(readonly: bool) -> None:
    """See every training run; resume one on another world_size, no row lost and none repeated.

    Without a verb the app opens on the ROOTs (default: ./checkpoints). A training command for resuming may follow
    after `--`.
    """


ROOTS = click.argument("roots", nargs=-1, metavar="[ROOT]...")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
ROOT = click.option("--root", metavar="DIR", help="Where runs lie (default: ./checkpoints).")


def planning_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `plan` and `resume` share."""
    options = (
        click.argument("target", required=False),
        click.option("-w", "--world-size", type=click.IntRange(min=1), help="Ranks to resume on (default: as before)."),
        click.option("--num-workers", type=click.IntRange(min=0), help="Loader workers per rank (default: as before)."),
        click.option("--stage", help="Only checkpoints of this stage: pretrain, sft, dpo, …"),
        click.option(
            "--policy",
            type=click.Choice(["exact", "next-epoch", "replay-epoch", "skip-epoch"]),
            help="Where to start (default: exact where every rank state is there).",
        ),
        click.option(
            "--backend",
            type=click.Choice(["local", "torchrun", "slurm"]),
            help="How to start it (default: torchrun, where more than one rank runs; as before for a job of Slurm).",
        ),
        click.option("--nodes", type=click.IntRange(min=1), help="Hosts that share the ranks evenly (torchrun)."),
        click.option("--rdzv-endpoint", metavar="HOST:PORT", help="Where they meet (default: a free port here)."),
        click.option("--max-restarts", type=click.IntRange(min=0), help="Start failed ranks again so often."),
        click.option("--root", metavar="DIR", help="Where the new run is made (default: beside the old one)."),
        click.option(
            "--next-stage",
            metavar="STAGE",
            help="Start this stage (such as sft) from the weights: optimizer, schedule and data fresh, epoch 1.",
        ),
        click.option(
            "--verify/--no-verify",
            default=None,
            help="Read the whole checkpoint: checksums, NaN (default: one up to 2 GB); a plan opens the table too.",
        ),
        click.option("--before-spike", is_flag=True, help="From the newest checkpoint before the loss jumped."),
        JSON,
    )
    for option in reversed(options):
        function = option(function)
    return function


@cli.command(hidden=True, changes=False)
@ROOTS
@click.option(READONLY, is_flag=True, help="Only look: nothing can be started, stopped or changed.")
@click.option("--theme", metavar="NAME", help="The colours; `ansi-dark` and `ansi-light` are the terminal's own.")
@click.option("--mouse/--no-mouse", default=None, help="Leave the mouse to the terminal, for selecting text.")
@click.option("--ascii", "ascii_only", is_flag=True, default=None, help="Draw with ASCII alone.")
@click.pass_context
def app(ctx: click.Context, roots: tuple[str, ...], readonly: bool, **look: Any) -> int:
    """Open the app on the ROOTs; without a terminal print the list."""
    return verb("app")(roots, command=ctx.obj, readonly=readonly or why_readonly(ctx) is not None, **look)


@cli.command(changes=False)
@ROOTS
@click.option("--plain", is_flag=True, help="As sentences, for a screen reader.")
@JSON
def ls(roots: tuple[str, ...], plain: bool, as_json: bool) -> int:
    """List every run: state, stage, epoch, saves, loss, age of the last save."""
    return verb("ls")(roots, plain=plain, as_json=as_json)


@cli.command(changes=False)
@ROOTS
@click.option(
    "-f", "--format", "form", type=click.Choice(["json", "jsonl", "csv", "md"]), default="json", show_default=True
)
@click.option("-o", "--output", metavar="FILE", help="Write there, whole or not at all (default: stdout).")
@click.option("--follow", is_flag=True, help="Go on: one JSON line for each run that changes (jsonl).")
@click.option("--curve", is_flag=True, help="Each run's loss from the first start on, through all its resumes.")
def export(roots: tuple[str, ...], form: str, output: str | None, follow: bool, curve: bool) -> int:
    """Every run and checkpoint as data."""
    return verb("export")(roots, form=form, output=output, follow=follow, curve=curve)


@cli.command(changes=False)
@click.argument("checkpoint")
@JSON
def inspect(checkpoint: str, as_json: bool) -> int:
    """What one CHECKPOINT holds, read without executing a byte of it."""
    return verb("inspect")(checkpoint, as_json=as_json)


@cli.command(changes=False)
@click.argument("states", nargs=-1, required=True, metavar="STATE...")
@click.option("-o", "--output", required=True, metavar="FILE", help="FILE.pt or FILE.json for the merged state.")
@click.option("-w", "--world-size", type=click.IntRange(min=1), help="How many ranks wrote the states.")
def merge(states: tuple[str, ...], output: str, world_size: int | None) -> int:
    """Merge the rank states of ONE save (rank files, or a checkpoint that holds them) into one state."""
    return verb("merge")(states, output=output, world_size=world_size)


@cli.command(changes=False)
@planning_options
@click.pass_obj
def plan(command: tuple[str, ...], **options: Any) -> int:
    """Show how TARGET (a root, run or checkpoint) would be resumed. Nothing is written or started."""
    return verb("plan")(command=command, **options)


@cli.command(changes=lambda options: not options["dry_run"])
@planning_options
@click.option(
    "--latest",
    is_flag=True,
    help="For cron and job scripts: TARGET is a root; start fresh where it has nothing to resume. Nothing is started, "
    "and the exit code is 0, while the newest run lives and when the training is over.",
)
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("-y", "--yes", is_flag=True, help="Answer yes: also resume a run that was resumed before.")
@click.option("--follow", is_flag=True, help="Print the training's output until it ends.")
@click.option("-q", "--quiet", is_flag=True, help="Say only warnings, refusals and the result (default: in a log).")
@click.option("-v", "--verbose", is_flag=True, help="Say every check that passed.")
@click.pass_obj
def resume(command: tuple[str, ...], **options: Any) -> int:
    """Resume TARGET (a root, run or checkpoint): merge its rank states, plan, launch. Prints the new run's path.

    The training command may follow after `--`; else it is found in lavender.toml, pyproject.toml or the run's record.
    """
    return verb("resume")(command=command, **options)


@cli.command(changes=True)
@click.argument("run")
@ROOT
@JSON
def join(run: str, root: str | None, as_json: bool) -> int:
    """Take part, on this host, in RUN, which was launched with --nodes on another one; prints the node's directory."""
    return verb("join")(run, root=root, as_json=as_json)


@cli.command(changes=True)
@click.argument("run")
@ROOT
@click.option("--at-next-save", is_flag=True, help="Let it end after its next save; it goes on until then.")
@click.option("--at-epoch-end", is_flag=True, help="Let it end after the save at the end of the epoch.")
@click.option("--withdraw", is_flag=True, help="Take a request back that it has not come to yet.")
@click.option("--interrupt", is_flag=True, help="Send SIGINT, as Ctrl-C does, instead of SIGTERM.")
@click.option("--kill", is_flag=True, help="Kill at once, without waiting for a last save.")
@click.option("--grace", type=click.FloatRange(min=0), help="Seconds until a deaf training is killed (default: 30).")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
def stop(run: str, root: str | None, grace: float | None, yes: bool, **flags: bool) -> int:
    """Stop RUN politely: it saves at its next step and ends. What it left running, once it has ended, is ended too."""
    return verb("stop")(run, root=root, grace=grace, yes=yes, **flags)


def _sizes(ctx: click.Context, parameter: click.Parameter, words: str | None) -> tuple[int, ...] | None:
    from lavender_tui.config import parse_world_sizes

    try:
        return None if words is None else parse_world_sizes(words)
    except ValueError as error:
        raise click.BadParameter(f"{words!r} is no list of numbers such as 1,2,4") from error


@cli.command(changes=True)
@click.argument("target", required=False, metavar="[RUN|ROOT]")
@click.option(
    "--tries", type=click.IntRange(min=1), help="Resumes in vain until it gives up: they save nothing new (default: 5)."
)
@click.option(
    "--backoff",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Wait before the second of them; doubled with each further one, up to an hour (default: 10).",
)
@click.option("--world-sizes", callback=_sizes, metavar="1,2,4", help="Permitted numbers of ranks (default: any).")
@click.option("--detach", is_flag=True, help="In the background, in a session of its own.")
@click.pass_obj
def supervise(command: tuple[str, ...], **options: Any) -> int:
    """Keep RUN, or the newest run of ROOT, alive: when it dies, resume it, and so on.

    From the newest checkpoint that passes every check, never twice from one that failed at once, on as many ranks as
    the devices now allow. A run that ends well or is stopped is left alone. Ctrl-C ends the keeper, never the training.
    """
    return verb("supervise")(command=command, **options)


@cli.command(changes=False)
@click.argument("run")
@ROOT
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--rank", type=click.IntRange(min=0), help="Only this rank's output.")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Lines, or what is found, from the end (default: 100).")
@click.option("--errors", is_flag=True, help="Only errors, each traceback whole.")
@click.option("--grep", metavar="TEXT", help="Only lines with TEXT, numbered; `\\vPATTERN` for a pattern.")
@click.option("--raw", is_flag=True, help="The bytes as they were printed, control codes too; never to a terminal.")
def logs(run: str, root: str | None, follow: bool, rank: int | None, lines: int | None, **what: Any) -> int:
    """Print RUN's output: progress bars in their last state, control codes harmless."""
    return verb("logs")(run, root=root, follow=follow, rank=rank, lines=lines, **what)


@cli.command(changes=lambda options: not options["dry_run"])
@ROOTS
@click.option(
    "--keep-last", type=click.IntRange(min=1), help="So many of the newest of each run and stage (default: 3)."
)
@click.option("--keep-best", type=click.IntRange(min=0), help="So many of the lowest loss (default: 1).")
@click.option("--dry-run", is_flag=True, help="Only show what could go, and why the rest stays.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@JSON
def prune(roots: tuple[str, ...], **options: Any) -> int:
    """Delete checkpoints that nothing needs, after showing them and a yes.

    Never the newest whole one of a stage, never one that a run was resumed from, never what can't be read, and nothing
    in runs of other trainers.
    """
    return verb("prune")(roots, **options)


@cli.command(changes=False)
@ROOTS
@click.option("--on", multiple=True, metavar="EVENT=COMMAND", help="Run COMMAND at each failed, stalled, finished, …")
@JSON
def watch(roots: tuple[str, ...], on: tuple[str, ...], as_json: bool) -> int:
    """Go on, with a line for each run that failed, stalled, finished, was stopped, went NaN or didn't carry on.

    COMMAND is read by no shell. It may use {run}, {path}, {reason} and {event} as words or in them, but not within the
    program of an `sh -c`: there write "$LAVENDER_RUN", "$LAVENDER_RUN_PATH", "$LAVENDER_REASON" and "$LAVENDER_EVENT",
    which are in its environment, or sh -c 'echo "$1"' _ {reason}.
    """
    return verb("watch")(roots, on=on, as_json=as_json)


@cli.command(changes=False)
@JSON
def config(as_json: bool) -> int:
    """Print where the settings lie and which are in force, as TOML that can be saved there."""
    return verb("config")(as_json=as_json)


@cli.command(changes=True)
@click.option("--headless", is_flag=True, help="Play the whole story without a terminal and check every row.")
@click.option("--directory", metavar="DIR", help="Where the demo works (default: ./lavender-demo).")
def demo(headless: bool, directory: str | None) -> int:
    """A real training on this machine: watch it, kill it, resume it on another world_size."""
    return verb("demo")(headless=headless, directory=directory)


@cli.command(changes=True, hidden=True)
@click.argument("run")
def requeued(run: str) -> int:
    """Go on with a job that Slurm has started again; called by the job's script."""
    return verb("requeued")(run)


def split_command(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """(our arguments, the training command after the first `--`)."""
    if "--" not in argv:
        return list(argv), ()
    at = list(argv).index("--")
    return list(argv[:at]), tuple(argv[at + 1 :])


def run(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code and never raises."""
    ours, command = split_command(argv)
    try:
        outcome = cli.main(args=ours, prog_name="lavender-tui", standalone_mode=False, obj=command)
        return outcome if isinstance(outcome, int) else 0
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except LavenderError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if _stands_nowhere():
            say("the current directory was deleted. Change to one that exists, then try again")
        elif error.filename is None and error.errno in (errno.ENOSPC, errno.EBADF):
            return _unwritten(error)
        else:
            say(f"{error.filename or 'input or output'}: {error.strerror or error}")
        return 1


def _without_reader() -> int:
    """Let what is still buffered go nowhere: Python would complain while flushing at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _unwritten(error: OSError) -> int:
    """The output went nowhere, and neither will the rest of it."""
    if error.errno == errno.ENOSPC:
        say("the output can't be written: its disk is full. Make room, or let it go elsewhere")
    elif error.errno == errno.EBADF:
        say("the output can't be written: stdout is closed. Let it go somewhere, such as to /dev/null")
    else:
        say(f"the output can't be written: {error.strerror or error}")
    _without_reader()
    return 1


def _written(code: int) -> int:
    """The exit code, once what is still buffered is written: at exit Python itself would complain."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _without_reader()
    except OSError as error:
        return code or _unwritten(error)
    return code


def _stands_nowhere() -> bool:
    """No relative path, and no training, can be started from a directory that is gone."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def say(message: str) -> None:
    from lavender_tui.model.text import clean

    print(f"lavender-tui: {clean(message)}", file=sys.stderr)


def main() -> None:
    """The console script."""
    _stand_in_for_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # Under the C locale, or with odd names, printing must degrade to escapes instead of raising.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    sys.exit(_written(run(sys.argv[1:])))


def _stand_in_for_closed_streams() -> None:
    """Python has None for a stream that was closed (`>&-`), and the next file that is opened would get its number.

    What goes to such a stdout is an error, told as any other; such a stderr hears nothing.
    """
    if sys.stdout is None:
        _take(1, os.O_RDONLY)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        _take(2, os.O_WRONLY)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _take(number: int, flags: int) -> None:
    nowhere = os.open(os.devnull, flags)
    if nowhere == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(nowhere, number)
        os.close(nowhere)
