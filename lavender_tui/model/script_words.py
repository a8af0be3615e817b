"""Which words of a command are read as a program: by a shell, by another language, or by a shell on another host.

What comes from disk may be a word that a program gets, never a part of such a one: `$(…)` in a run's name would run.
Pure: looks at words, runs nothing. Where it isn't sure it says yes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    """How an interpreter takes a program: the letters before one, those before some other value, and what swallows
    the rest of its word; `waits`: it comes as the first operand after all options, as a shell's."""

    code: str = ""
    values: str = ""
    swallows: str = ""
    long: tuple[str, ...] = ()
    long_values: tuple[str, ...] = ()
    ends: str = ""
    waits: bool = False
    first_is_code: bool = False


_SHELL = _Language(
    code="c", values="oO", waits=True, long=("--command",), long_values=("--rcfile", "--init-file", "--init-command")
)
_PYTHON = _Language(code="c", values="XWm", ends="m", long_values=("--check-hash-based-pycs",))
_AWK = _Language(code="e", values="vFfil", first_is_code=True, long=("--source",), long_values=("--assign", "--file"))
_EVAL = ("--eval", "--print", "--run", "--execute", "--expression")
_LANGUAGES = {
    **dict.fromkeys(("sh", "ash", "bash", "dash", "zsh", "ksh", "mksh", "rbash", "csh", "tcsh", "yash", "nu"), _SHELL),
    **dict.fromkeys(("elvish", "xonsh", "rc", "busybox", "hush", "osh", "lksh", "posh", "bash.real"), _SHELL),
    "fish": _Language(code="cC", long=("--command", "--init-command"), values="fdpD"),
    **dict.fromkeys(("python", "pypy", "ipython"), _PYTHON),
    "perl": _Language(code="eE", values="I", swallows="MmiFDxCd"),
    "ruby": _Language(code="e", values="IrC", swallows="iFKTW"),
    **dict.fromkeys(("node", "nodejs", "bun"), _Language(code="ep", values="rC", long=_EVAL)),
    "deno": _Language(first_is_code=True),
    "php": _Language(code="rBRE", values="dcfFzS", long=_EVAL),
    **dict.fromkeys(("lua", "luajit", "texlua"), _Language(code="e", values="l")),
    **dict.fromkeys(("rscript", "r", "julia", "osascript", "guile"), _Language(code="eE", values="lLp", long=_EVAL)),
    **dict.fromkeys(("pwsh", "powershell"), _Language(first_is_code=True)),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    "sed": _Language(code="e", values="fl", first_is_code=True, long=("--expression",), long_values=("--file",)),
}
# What they get is put together and read anew, by a shell here or elsewhere, or as SQL.
_HAND_ON = frozenset((
    "ssh", "mosh", "rsh", "pdsh", "clush", "dsh", "autossh", "watch", "tmux", "screen", "parallel", "eval", "make",
    "gmake", "psql", "mysql", "mariadb", "sqlite", "duckdb", "expect", "vim", "nvim", "vi", "emacs", "gdb", "ex",
    "hyperfine", "entr", "lftp", "qsub", "bsub", "pueue", "batch", "gnome-terminal", "konsole", "sshpass", "timeit",
))  # fmt: skip
_ANYWHERE = frozenset(("ssh", "mosh", "rsh", "pdsh", "clush", "autossh", "sshpass", "tmux"))  # behind any wrapper
_OPTION_OF = {
    **dict.fromkeys(("su", "runuser", "script", "flock"), ("-c", "--command", "--session-command")),
    "env": ("-S", "-vS", "-iS", "--split-string"),
    "sbatch": ("--wrap",),
    "git": ("-c", "foreach"),
    **dict.fromkeys(("sudo", "doas"), ("-s", "-i", "--shell", "--login")),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "tar": ("-I", "-F", "--use-compress-program", "--to-command", "--checkpoint-action", "--info-script"),
    "xterm": ("-e",),
    "find": ("-exec", "-execdir", "-ok", "-okdir"),
}
_WRAPPERS = frozenset((
    "env", "nohup", "nice", "ionice", "taskset", "numactl", "stdbuf", "time", "timeout", "setsid", "chrt", "sudo",
    "doas", "xargs", "exec", "command", "busybox", "chroot", "unshare", "nsenter", "systemd-run", "flock", "docker",
    "podman", "kubectl", "srun", "su", "runuser", "uv", "poetry", "pipenv", "conda", "mamba", "micromamba",
    "gosu", "tini", "dumb-init", "proxychains", "mpirun", "mpiexec", "script", "chpst", "fakeroot",
    "pixi", "strace", "firejail", "apptainer", "singularity", "chronic", "torchrun",
))  # fmt: skip


def name_of(word: str) -> str:
    """The program's name: without its directory and its version."""
    return re.sub(r"[-0-9.]+t?$", "", os.path.basename(word)).lower() or word


def read_as_program(words: Sequence[str]) -> dict[int, str]:
    """The places of such words, each with the name of the program that reads it; the program itself is one."""
    found: dict[int, str] = {}
    wraps = bool(words) and name_of(words[0]) in _WRAPPERS
    for at, word in enumerate(words):
        name = name_of(word)
        is_program = not at or wraps
        if not at:
            found[at] = name
        if name in _HAND_ON and (is_program or name in _ANYWHERE):
            found.update(dict.fromkeys(range(at + 1, len(words)), name))
        if name in _OPTION_OF:
            found.update(dict.fromkeys(_after_options(words, at, _OPTION_OF[name]), name))
        if name in _LANGUAGES:
            found.update(dict.fromkeys(_script_of(_LANGUAGES[name], words, at, is_program), name))
    return found


def _after_options(words: Sequence[str], at: int, options: Sequence[str]) -> Iterator[int]:
    """Where one of these options stands, and its value."""
    for place in range(at + 1, len(words)):
        for option in options:
            word, letter = words[place], option[1:] if len(option) == 2 else ""
            if word == option or (letter and re.fullmatch(f"-[A-Za-z]*{letter}[A-Za-z]*", word)):  # su -lc
                yield from (place, place + 1)
            elif word.startswith(option + "=") or (letter and re.match(f"-[A-Za-z]*{letter}", word)):
                yield place


def _script_of(language: _Language, words: Sequence[str], at: int, is_program: bool) -> list[int]:
    """The places of the options and of the program in the words after the interpreter at `at`.

    A file to be run counts only behind a word that surely is the interpreter: "python" may be anybody's argument.
    """
    places: list[int] = []
    is_coded, place = False, at + 1
    while place < len(words) and words[place][:1] in ("-", "+") and words[place] not in ("-", "--"):
        places.append(place)
        has_code, takes, is_last = _option(language, words[place])
        is_coded |= has_code
        takes += has_code and not language.waits
        places += range(place + 1, place + 1 + takes)
        place += 1 + takes
        if is_last:
            return places
    place += place < len(words) and words[place] == "--"
    if (is_coded and language.waits) or (not is_coded and (is_program or language.first_is_code)):
        places.append(place)
        if language.first_is_code and not language.code:  # `deno eval …`, and all words of PowerShell's are its program
            places += range(place, len(words))
    return places if is_coded or is_program or language.first_is_code else []


def _option(language: _Language, word: str) -> tuple[bool, int, bool]:
    """Of one option: (has it a program, how many further words are its values, do the program's own words follow)."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        return name in language.long and not equals, int(name in language.long_values and not equals), False
    takes, has_code = 0, False
    for index, letter in enumerate(word[1:], 2):
        rest = word[index:]
        if letter in language.swallows:
            break
        if letter in language.code:
            has_code = True
            if not language.waits:
                return rest == "" or (len(rest) < 3 and rest.isalpha()), 0, False
        elif letter in language.values:
            if language.waits:
                takes += 1  # bash: -eo pipefail
                continue
            return False, int(not rest), letter in language.ends
    return has_code, takes, False


def misplaced(words: Sequence[str], placeholder: re.Pattern[str]) -> tuple[str, str] | None:
    """(the first placeholder within a word that is read as a program, who reads it); None where all stand well.

    `placeholder` has the name as its first group.
    """
    for at, program in sorted(read_as_program(words).items()):
        if at < len(words) and (found := placeholder.search(words[at])):
            return found[1], program
    return None
