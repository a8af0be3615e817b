"""What program a process runs, by its command line alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lavender_tui.watch.procfs import Traits

_AGENT = re.compile(r"(^|/)torchrun$|^torch\.distributed\.(run|launch)$")
_OURS = re.compile(r"lavender_tui(\.cli|\.__main__|\.resume\.merge)?|(.*/)?lavender-tui|.*/lavender_tui/__main__\.py")
_TOOLS = re.compile(
    r"(.*/)?(tensorboard|jupyter.*|ipython.*|ipykernel.*|pytest|pip[0-9.]*|mypy|ruff|http\.server|wandb|nvitop|gpustat"
    r"|dvc|aim|mlflow|rsync|pdb|timeit|zipfile|json\.tool)(\.py)?"
)


def arguments(argv: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(option in small letters without its dashes, value) of `--option value` and `--option=value`; ("", word)."""
    before = ""
    for argument in argv[1:]:
        option, is_pair, value = argument.partition("=")
        option, value = (option, value) if is_pair else (before, argument)
        before = argument if argument.startswith("-") else ""
        yield option.lstrip("-").lower(), value


def program_of(traits: Traits) -> str | None:
    """The script or module that a Python process runs; None for a prompt or `-c`."""
    arguments = iter(traits.argv[1:])
    for argument in arguments:
        if argument == "-m":
            return next(arguments, None)
        if argument in ("-X", "-W"):
            next(arguments, None)
        elif argument == "-c" or argument.startswith("-c"):
            return None
        elif not argument.startswith("-"):
            return argument
    return None


def is_no_training(traits: Traits) -> bool:
    """Is it a prompt, one of the well-known tools, or a program of ours?"""
    program = program_of(traits)
    return program is None or is_tool(program) or is_ours(traits)


def is_ours(traits: Traits) -> bool:
    program = program_of(traits) if traits.is_python else (traits.argv[0] if traits.argv else None)
    return program is not None and _OURS.fullmatch(program) is not None


def is_agent(traits: Traits) -> bool:
    """Is it torchrun, whose children are the ranks?"""
    return any(_AGENT.search(part) for part in traits.argv[:6])


def is_tool(program: str) -> bool:
    """One of the well-known ones, which train nothing."""
    return _TOOLS.fullmatch(program) is not None
