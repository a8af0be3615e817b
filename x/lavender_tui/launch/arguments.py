"""What a command line starts: a Python script, torchrun, or something else. Pure: looks at words, runs nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch")
# Programs that start another one named later in the same line.
WRAPPERS = frozenset(
    [
        "env",
        "nohup",
        "nice",
        "ionice",
        "taskset",
        "numactl",
        "stdbuf",
        "time",
        "setsid",
        "chrt",
        "uv",
        "poetry",
        "pipenv",
        "pdm",
        "hatch",
        "rye",
        "conda",
        "mamba",
        "micromamba",
        "pixi",
    ]
)
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*t?(?:\.exe)?")
_PYTHON_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")

# torch.distributed.run's options (torch 2.6 to 2.13): those that take a value, and those that don't.
VALUE_OPTIONS = frozenset(
    [
        "--nnodes",
        "--nproc-per-node",
        "--rdzv-backend",
        "--rdzv-endpoint",
        "--rdzv-id",
        "--rdzv-conf",
        "--max-restarts",
        "--monitor-interval",
        "--start-method",
        "--event-log-handler",
        "--role",
        "--log-dir",
        "--redirects",
        "--tee",
        "--local-ranks-filter",
        "--duplicate-stdout-filters",
        "--duplicate-stderr-filters",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--local-addr",
        "--logs-specs",
        "--numa-binding",
        "--signals-to-handle",
        "--shutdown-timeout",
    ]
)
FLAG_OPTIONS = frozenset(("--standalone", "--module", "--no-python", "--run-path", "--virtual-local-rank", "--use-env"))
_SHORT = {"-r": "--redirects", "-t": "--tee", "-m": "--module"}


class Kind(StrEnum):
    PYTHON = "python"
    TORCHRUN = "torchrun"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of torchrun: its full name, its value where it takes one, and the words as they were written."""

    name: str
    value: str | None
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line taken apart. `script` begins with the script or module; its own arguments are never looked at.

    `launcher` holds the words that start torchrun (after the interpreter), empty for a plain Python command.
    """

    kind: Kind
    wrapper: tuple[str, ...] = ()
    interpreter: str | None = None
    interpreter_options: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    runs: str = "script"  # "script", "module" (-m), "code" (-c), "program" (torchrun --no-python)
    script: tuple[str, ...] = ()

    def option(self, name: str) -> str | None:
        """The value of the last option of that name, as argparse takes it."""
        values = [option.value for option in self.options if option.name == name]
        return values[-1] if values else None


def parse(argv: Sequence[str]) -> Command:
    """Take a command line apart; what isn't understood is `Kind.OTHER` and left whole."""
    words = tuple(argv)
    at = _program_at(words)
    if at is None:
        return Command(kind=Kind.OTHER, script=words)
    wrapper, program, rest = words[:at], words[at], words[at + 1 :]
    if _is_torchrun(program):
        return _torchrun(wrapper, None, (), (program,), rest)
    return _python(wrapper, program, rest)


def set_world_size(argv: Sequence[str], world_size: int, *, log_dir: str | None = None) -> tuple[str, ...]:
    """A torchrun command for `world_size` processes on one node, its old `--log-dir` replaced (or dropped).

    The script and its arguments stay as they are; so does every command that isn't torchrun's.
    """
    command = parse(argv)
    if command.kind is not Kind.TORCHRUN:
        return tuple(argv)
    head = (*command.wrapper, *([command.interpreter] if command.interpreter else ()), *command.interpreter_options)
    options = without(command.options, {"--nproc-per-node", "--log-dir"})
    ours = ["--nproc-per-node", str(world_size), *(["--log-dir", log_dir] if log_dir else [])]
    return (*head, *command.launcher, *words_of(options), *ours, *command.script)


def without(options: Sequence[Option], names: frozenset[str] | set[str]) -> tuple[Option, ...]:
    return tuple(option for option in options if option.name not in names)


def words_of(options: Sequence[Option]) -> list[str]:
    return [word for option in options for word in option.words]


def _program_at(words: tuple[str, ...]) -> int | None:
    """Where the interpreter or torchrun stands: first, or after a wrapper."""
    if not words:
        return None
    if _is_python(words[0]) or _is_torchrun(words[0]):
        return 0
    if os.path.basename(words[0]) not in WRAPPERS:
        return None  # a script of the user's own may take "python" as an argument
    return next((at for at, word in enumerate(words) if at and (_is_python(word) or _is_torchrun(word))), None)


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(os.path.basename(word)) is not None


def _is_torchrun(word: str) -> bool:
    return os.path.basename(word) == "torchrun"


def _python(wrapper: tuple[str, ...], interpreter: str, rest: tuple[str, ...]) -> Command:
    at, runs = 0, "script"
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "-":
        if rest[at] in ("-m", "-c"):
            runs = "module" if rest[at] == "-m" else "code"
            break
        at += 2 if rest[at] in _PYTHON_WITH_VALUE else 1
    options, script = rest[:at], rest[at:]
    if runs != "script":
        script = script[1:]
    if runs == "module" and script and script[0] in LAUNCHER_MODULES:
        return _torchrun(wrapper, interpreter, options, ("-m", script[0]), script[1:])
    if runs == "script" and script and _is_torchrun(script[0]):
        return _torchrun(wrapper, interpreter, options, (script[0],), script[1:])
    if not script:
        return Command(kind=Kind.OTHER, script=(*wrapper, interpreter, *rest))
    return Command(
        kind=Kind.PYTHON,
        wrapper=wrapper,
        interpreter=interpreter,
        interpreter_options=options,
        runs=runs,
        script=script,
    )


def _torchrun(
    wrapper: tuple[str, ...],
    interpreter: str | None,
    interpreter_options: tuple[str, ...],
    launcher: tuple[str, ...],
    rest: tuple[str, ...],
) -> Command:
    options, at = [], 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        option = _option(rest, at)
        options.append(option)
        at += len(option.words)
    names = {option.name for option in options}
    return Command(
        kind=Kind.TORCHRUN,
        wrapper=wrapper,
        interpreter=interpreter,
        interpreter_options=interpreter_options,
        launcher=launcher,
        options=tuple(options),
        runs="module" if "--module" in names else "program" if "--no-python" in names else "script",
        script=rest[at:],
    )


def _option(words: tuple[str, ...], at: int) -> Option:
    word = words[at]
    name, equals, value = word.partition("=")
    if not word.startswith("--") and word[:2] in _SHORT and len(word) > 2:
        return Option(_SHORT[word[:2]], word[2:].removeprefix("="), (word,))  # -r3
    name = _full_name(name)
    if equals:
        return Option(name, value, (word,))
    following = words[at + 1] if at + 1 < len(words) else None
    if following is not None and _takes_value(name, following):
        return Option(name, following, (word, following))
    return Option(name, None, (word,))


def _full_name(written: str) -> str:
    """`--nproc_per_node`, and what argparse takes for it: any beginning that only one option has."""
    name = _SHORT.get(written, written.replace("_", "-"))
    known = VALUE_OPTIONS | FLAG_OPTIONS
    if name in known or not name.startswith("--"):
        return name
    candidates = [option for option in known if option.startswith(name)]
    return candidates[0] if len(candidates) == 1 else name


def _takes_value(name: str, following: str) -> bool:
    if name in VALUE_OPTIONS:
        return True
    # An option of a newer torch: what follows is its value unless it looks like the script or another option.
    return name not in FLAG_OPTIONS and not following.startswith("-") and not following.endswith(".py")
