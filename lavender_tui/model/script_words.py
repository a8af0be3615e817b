"""Which words of a command are read as a program: by a shell, by another language, or by a shell on another host.

What comes from disk may be a word that a program gets, never a part of such a one: `$(…)` in a run's name would run.
No list of the programs that run what they get can be whole (`sg`, `adb shell`, …), so what counts is the other one, of
those that don't: any other gets nothing of a piece of news, and of a path only a plain word of its own, behind no
option that sounds like code. Pure: looks at words, runs nothing. Where it isn't sure it says yes.
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
    "script", "su", "sg", "newgrp", "adb", "kitty", "wezterm", "i3-msg", "swaymsg", "hyprctl", "xdotool", "ydotool",
    "socat", "ncat", "salt", "salt-call", "ansible", "fab", "invoke", "nix-shell", "npx", "pdb",
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
    "terminal-notifier": ("-execute",),
}
# As `_OPTION_OF`, of programs that else run nothing of what they get: a command, or a file of settings that names one.
_OPTION_OF_PLAIN = {
    **dict.fromkeys(("mail", "mailx"), ("-E", "-S", "-X", "-Y", "-:", "--exec", "--set")),
    "curl": ("-K", "--config", "--conf"),
    "apprise": ("-P", "--plugin-path"),
}
_WRAPPERS = frozenset((
    "env", "nohup", "nice", "ionice", "taskset", "numactl", "stdbuf", "time", "timeout", "setsid", "chrt", "sudo",
    "doas", "xargs", "exec", "command", "busybox", "chroot", "unshare", "nsenter", "systemd-run", "flock", "docker",
    "podman", "kubectl", "srun", "su", "runuser", "uv", "poetry", "pipenv", "conda", "mamba", "micromamba",
    "gosu", "tini", "dumb-init", "proxychains", "mpirun", "mpiexec", "script", "chpst", "fakeroot",
    "pixi", "strace", "firejail", "apptainer", "singularity", "chronic", "torchrun",
))  # fmt: skip
_READS_OPERANDS = re.compile("-[^-MmiFDxCdI]*[np]")  # perl -n opens each operand, and runs one such as `x|`
# Run nothing of what they get, wherever in a word it stands; of some a single subcommand.
_PLAIN = frozenset((
    "notify-send", "dunstify", "zenity", "kdialog", "xmessage", "terminal-notifier", "growlnotify", "wall", "write",
    "say", "spd-say", "espeak", "espeak-ng", "mail", "mailx", "logger", "echo", "printf", "curl", "http",
    "https", "xh", "ntfy publish", "ntfy pub", "ntfy send", "apprise", "telegram-send", "pushover", "gotify push",
    "true", "false", "test", "cat", "tee", "cp", "mv", "ln", "touch", "mkdir", "rm", "ls", "du", "stat", "chmod",
    "basename", "dirname", "sha256sum", "gzip", "zstd",
))  # fmt: skip
_PLAIN_NAMES = frozenset(name.partition(" ")[0] for name in _PLAIN)
_SCRIPT_FILE = re.compile(r".*\.(?:py|sh|bash|zsh|pl|rb|js|mjs|ts|php|lua|R|jl)")
# What starts a script or a module of Python. Of torchrun's options it is known which have no value; of the others' not.
_TORCHRUNS = frozenset(("torchrun", "torch.distributed.run", "torch.distributed.launch"))
_STARTERS = frozenset((
    "accelerate", "accelerate.commands.launch", "deepspeed", "deepspeed.launcher.runner", "cProfile", "profile",
    "trace", "coverage", "debugpy", "viztracer", "scalene", "memray",
))  # fmt: skip
_PYTHON_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed"))
_TORCHRUN_FLAGS = (
    "--standalone", "--module", "--no-python", "--run-path", "--use-env", "--virtual-local-rank", "--help",
)  # fmt: skip
_STARTER_VALUES = frozenset(("--config_file", "--config-file", "--hostfile", "-o", "--outfile"))
# Between a wrapper and its program: a subcommand, an operand (an image, a directory), and options with a value.
_SUBCOMMANDS = frozenset(("run", "exec"))
_HAS_OPERAND = frozenset(("docker", "podman", "kubectl", "apptainer", "singularity", "chroot", "flock", "gosu"))
_VALUED = {
    "sudo": ("-u", "-g"), "doas": ("-u",), "runuser": ("-u",), "env": ("-u", "-C"), "taskset": ("-c",),
    "nice": ("-n",), "ionice": ("-c", "-n"), "timeout": ("-k", "-s"),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("-n", "-p", "--name", "--prefix")),
}  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SAFE_AROUND = re.compile(r"[A-Za-z0-9_./:@%+,=-]*")
_CODE_OPTION = re.compile(
    r"-[A-Za-z]{0,2}[cexE]|--?(?:run|eval)|--?(?:.*[-_.])?(?:exec|execute|command|cmd|shell|spawn)(?:[-_.].*)?",
    re.I | re.S,
)
_CODE_WORD = re.compile(
    r"(?:.*[.:@_-])?(?:shell|exec|execute|cmd|command|spawn)(?:[.:@_-].*)?|system|eval|send-?(?:text|keys)",
    re.I | re.S,
)
_CODE_VARIABLE = re.compile(
    r"(?:BASH_.*|ENV|ZDOTDIR|PROMPT.*|PS[0-4]|SHELL|SHELLOPTS|BASHOPTS|IFS|PATH|PYTHON.*|LD_.*|DYLD_.*|PERL5.*|PERLLIB"
    r"|RUBYOPT|RUBYLIB|NODE_.*|GIT_.*|(?:.*_)?(?:EDITOR|PAGER|COMMAND|RSH)|MANPAGER|VISUAL|BROWSER|LESS.*|_?JAVA_.*|JDK_.*"
    r"|R_PROFILE.*|R_ENVIRON.*|JULIA_.*|LUA_.*|PHPRC|MAKEFLAGS|MFLAGS|XDG_CONFIG.*)"
)
_NAMED_BEFORE = re.compile(r"(?:^|[=,;])([A-Za-z_][A-Za-z0-9_]*)=")


def name_of(word: str) -> str:
    """The program's name: without its directory and its version."""
    base = os.path.basename(word)
    build = base.removesuffix("t")  # python3.13t
    stem = build.rstrip("-.0123456789")
    return (base if stem == build else stem).lower() or word


def read_as_program(words: Sequence[str]) -> dict[int, str]:
    """The places of such words, each with the name of the program that reads it; the program itself is one."""
    first = name_of(words[0]) if words else ""
    wraps = first in _WRAPPERS or (first != "" and _launcher(words, 0, first) is not None)
    found, seen = {0: first} if words else {}, set()
    for at, word in enumerate(words):
        name, is_program = name_of(word), not at or wraps
        if name not in seen:  # of the same program once more it would be some of the same places
            found.update(dict.fromkeys(_read_anywhere_behind(words, at, name, is_program), name))
            seen.add(name)
        if is_program and (launcher := _launcher(words, at, name)) is not None:
            found.update(_launched(words, launcher))
        if name in _LANGUAGES:
            found.update(dict.fromkeys(_script_of(_LANGUAGES[name], words, at, is_program), name))
    return found


def _read_anywhere_behind(words: Sequence[str], at: int, name: str, is_program: bool) -> Iterator[int]:
    """The places of what a program reads wherever it stands among its words."""
    if name in _HAND_ON and (is_program or name in _ANYWHERE):
        yield from range(at + 1, len(words))
    if name in _OPTION_OF:
        yield from _after_options(words, at, _OPTION_OF[name])
    if is_program and name in _PLAIN_NAMES:
        yield from _code_options_of_plain(words, at, name)
    if name == "perl" and is_program and any(_READS_OPERANDS.match(word) for word in words[at + 1 :]):
        yield from range(at + 1, len(words))


def _after_options(words: Sequence[str], at: int, options: Sequence[str]) -> Iterator[int]:
    """Where one of these options stands, and its value."""
    for place in range(at + 1, len(words)):
        for option in options:
            word, letter = words[place], option[1:] if len(option) == 2 else ""
            if word == option or (letter and re.fullmatch(f"-[A-Za-z]*{letter}[A-Za-z]*", word)):  # su -lc
                yield from (place, place + 1)
            elif word.startswith(option + "=") or (letter and re.match(f"-[A-Za-z]*{letter}", word)):
                yield place


def _code_options_of_plain(words: Sequence[str], at: int, name: str) -> Iterator[int]:
    """Where an option stands behind which even such a program runs what it gets, and its value."""
    yield from _after_options(words, at, _OPTION_OF_PLAIN.get(name, ()))
    for place in range(at + 1, len(words)):
        option, equals, _ = words[place].partition("=")
        if option.startswith("--") and _CODE_OPTION.fullmatch(option):
            yield from (place,) if equals else (place, place + 1)


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
    # A shell's options end at a dash as well; to others it is what they read from.
    place += place < len(words) and words[place] in (("--", "-") if language.waits else ("--",))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Misplaced:
    """`name`: the first placeholder that stands badly; `reader`: who gets it, a program or a variable; `is_sure`: that
    reads it as a program, for all that is known; else it isn't known what it does."""

    name: str
    reader: str
    is_sure: bool


def misplaced(words: Sequence[str], placeholder: re.Pattern[str], *, known_only: bool = False) -> Misplaced | None:
    """None where all placeholders stand well.

    `placeholder` has the name as its first group. `known_only`: none to a program of which nothing is known.
    """
    for at, program in sorted(read_as_program(words).items()):
        if at < len(words) and (found := placeholder.search(words[at])):
            return Misplaced(name=found[1], reader=program, is_sure=True)
    if not words:
        return None
    start, free = _free_from(words)
    for at in range(1, min(free, len(words))):
        if not (found := placeholder.search(words[at])):
            continue
        name = next((name for name in _NAMED_BEFORE.findall(words[at][: found.start()]) if reads_code(name)), None)
        if name is not None:
            return Misplaced(name=found[1], reader=name, is_sure=True)
        reader = name_of(re.sub("^-[A-Za-z]*?m", "", words[start if start < len(words) else 0]))  # python -mtimeit
        is_module = at > start and words[start - 1] == "-m"
        if (
            (known_only and not is_module)
            or at == start
            or reader in _HAND_ON
            or not _is_plain(words, at, start, placeholder)
        ):
            return Misplaced(name=found[1], reader=reader, is_sure=reader in _HAND_ON)
    return None


def reads_code(variable: str) -> bool:
    """Does a shell or another program run what a variable of that name holds, or the file that it names?"""
    return _CODE_VARIABLE.fullmatch(variable) is not None


def _is_plain(words: Sequence[str], at: int, start: int, placeholder: re.Pattern[str]) -> bool:
    """Is it a word of its own, or an option's, and nothing before it says that it is code?"""
    before = placeholder.split(words[at])[0]
    return (
        _SAFE_AROUND.fullmatch(placeholder.sub("", words[at])) is not None
        and not _CODE_OPTION.fullmatch(words[at - 1])
        and not _CODE_OPTION.fullmatch(before.rstrip("="))
        and not any(
            _CODE_WORD.fullmatch(word.rstrip(":=")) for word in (*words[start + 1 : at], before) if word[:1] != "-"
        )
    )


def _free_from(words: Sequence[str]) -> tuple[int, int]:
    """(where the program is that gets the words, from where on they may hold anything, a place behind them for never).

    A wrapper hands its program the words as they are; one of its own options stands before that.
    """
    never, at = len(words), 0
    while at < never:
        name = name_of(words[at])
        if name in _PYTHON_LAUNCHERS:
            return at, _script_behind(words, at)
        if name not in _WRAPPERS:
            break
        at = _wrapped(words, at, name)
    if at >= never:
        return at, never
    name = name_of(words[at])
    if name in _LANGUAGES:
        module = _module(words, at) if _LANGUAGES[name] is _PYTHON else None
        return (at, at + 1) if module is None else _free_of_module(words, module)
    both = f"{name} {words[at + 1]}" if at + 1 < never else name
    is_free = name in _PLAIN or both in _PLAIN or _SCRIPT_FILE.fullmatch(words[at]) is not None
    return (at, at + 1) if is_free else (at, never)


def _free_of_module(words: Sequence[str], module: int) -> tuple[int, int]:
    """A module with dots is a package's own program; one without may be any."""
    if words[module] in _TORCHRUNS or words[module] in _STARTERS:
        return module, _script_behind(words, module)
    return module, module + 1 if "." in words[module] else len(words)


def _launcher(words: Sequence[str], at: int, name: str) -> int | None:
    """Where the launcher of Python processes is that `at` names: there, or as a module behind Python."""
    if name in _PYTHON_LAUNCHERS:
        return at
    module = _module(words, at) if _LANGUAGES.get(name) is _PYTHON else None
    return module if module is not None and words[module] in _TORCHRUNS | _STARTERS else None


def _launched(words: Sequence[str], at: int) -> dict[int, str]:
    """The places of what the launcher at `at` runs, or may run, each with who reads it."""
    name = name_of(words[at])
    if name not in _TORCHRUNS and words[at] not in _TORCHRUNS:
        return dict.fromkeys(_perhaps_scripts(words, at), name)
    return {_torchruns_script(words, at)[0]: name}


def _torchruns_script(words: Sequence[str], at: int) -> tuple[int, bool]:
    """(where torchrun's script is, is it a program of any language); options may be shortened."""
    place, is_any_program = at + 1, False
    while place < len(words) and words[place][:1] == "-" and words[place] not in ("-", "--"):
        word = words[place].replace("_", "-")
        is_any_program |= len(word) > 3 and "--no-python".startswith(word)
        is_alone = "=" in word or (word[1] != "-" and len(word) > 2) or word in ("-m", "-h")
        place += 1 if is_alone or any(flag.startswith(word) for flag in _TORCHRUN_FLAGS) else 2
    return place + (place < len(words) and words[place] == "--"), is_any_program


def _perhaps_scripts(words: Sequence[str], at: int) -> Iterator[int]:
    """Each word that may be the script, up to the first that surely is: behind an option stands that, or its value."""
    first = at + 1 + (at + 1 < len(words) and words[at + 1] in ("launch", "run"))
    for place in range(first, len(words)):
        before = words[place - 1] if place > first else ""
        if words[place].startswith("-") or before in _STARTER_VALUES:
            continue
        yield place
        is_behind_option = before.startswith("-") and "=" not in before and before not in ("-m", "--module")
        if not is_behind_option or _SCRIPT_FILE.fullmatch(words[place]):
            return


def _script_behind(words: Sequence[str], at: int) -> int:
    """The place behind the script or the module that a launcher of Python processes starts."""
    if name_of(words[at]) in _TORCHRUNS or words[at] in _TORCHRUNS:
        script, is_any_program = _torchruns_script(words, at)
        return len(words) if is_any_program else script + 1
    for place in range(at + 1, len(words)):
        if words[place] in ("-m", "--module"):
            return place + 2
        if _SCRIPT_FILE.fullmatch(words[place]) and "=" not in words[place]:
            return place + 1
    return len(words)


def _wrapped(words: Sequence[str], at: int, name: str) -> int:
    """The place of what the wrapper at `at` starts."""
    needs_operand, place = name in _HAS_OPERAND, at + 1
    while place < len(words):
        word = words[place]
        if word in _VALUED.get(name, ()):
            place += 2
        elif word.startswith("-") or _ASSIGNMENT.match(word) or word in _SUBCOMMANDS:
            place += 1
        elif needs_operand:
            needs_operand = False
            place += 1
        elif re.fullmatch(r"0x[0-9a-f]+|[0-9][0-9.,:-]*[smhd]?", word):
            place += 1
        else:
            break
    return place


def _module(words: Sequence[str], at: int) -> int | None:
    """The place of the module that Python runs, None where it runs something else."""
    place = at + 1
    while place < len(words) and words[place][:1] == "-" and words[place] not in ("-", "--"):
        has_code, takes, is_last = _option(_PYTHON, words[place])
        if has_code:
            return None
        if is_last:
            return place + takes
        place += 1 + takes
    return None
