"""What a call is about: its hint, and its class.

A hint is the program and subcommand of a shell call, or the sub-command of an editor. Rules: our progress guard.
Hints are shown and written down, and what else stands in a command may be secret. So a command is not split within
quotes or `$( )`, a sub-command is a plain word that cannot be the value of an option, and there is none where that is
in doubt.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Literal

import msgspec
from msgspec import Raw

from turnguard.core.bounds import MAX_REMEMBERED_NAME
from turnguard.core.javascript import Json, parse, utf8
from turnguard.core.names import remembered

MAX_HINT_LENGTH = 80
"""Characters of a hint: it is kept with the call, and a command may begin with a word of any length."""

MAX_WORDS = 60
"""Words of a command line's part that are looked at; a program that comes later than that is not found."""

# --- names ------------------------------------------------------------------------------------------------------------

SHELL_TOOLS = frozenset(
    {"bash", "shell", "exec", "exec_command", "shell_command", "execute_bash", "run_shell_command", "run_terminal_cmd"}
    | {"terminal", "powershell", "local_shell", "run", "run_command", "execute_command", "shell_exec", "unified_exec"}
)
EDIT_WORDS = frozenset({"edit", "multiedit", "write", "create", "replace", "insert", "append", "patch", "overwrite"})
EDITOR_WORDS = EDIT_WORDS | {"editor"}

_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_NO_WORD = re.compile(r"[\W_]+")


def last_part(tool: str) -> str:
    """A tool's name without the server it came from: what follows the last `__`."""
    return tool.rpartition("__")[2]


def words_of(name: str) -> frozenset[str]:
    """The words of a name in lower case: `MultiEdit` is multi and edit, `replace_in_file` replace, in and file."""
    return frozenset(_NO_WORD.split(_HUMP.sub(" ", name).lower()))


@remembered
def is_shell(tool: str) -> bool:
    """Whether a tool runs commands, by the last part of its name in any case."""
    return last_part(tool).lower() in SHELL_TOOLS


@remembered
def is_editor(tool: str) -> bool:
    """Whether a tool may be one that edits, by any word of its whole name."""
    return not EDITOR_WORDS.isdisjoint(words_of(tool))


# --- classes ----------------------------------------------------------------------------------------------------------

CallClass = Literal["poll", "edit", "final", "other"]

POLL_VERBS = frozenset({"sleep", "wait", "watch"})
EDIT_VERBS = frozenset({"create", "insert", "str_replace", "replace", "write", "append"})
FINAL_NAMES = frozenset(
    {"finish", "submit", "done", "complete", "attempt_completion", "final_answer", "finalize", "task_complete"}
)
POLL_NAMES = frozenset({"bashoutput", "taskoutput", "command_status"})
POLL_WORDS = frozenset({"wait", "poll", "sleep", "stdin", "monitor", "watch"})
NO_EDIT_WORDS = frozenset({"editor", "tool", "view", "read", "stdin", "todo", "task"})


def call_class(tool: str, hint: str | None) -> CallClass:
    """What kind of call it is, by the tool's name and the first word of its hint: the first rule that fits."""
    words = hint.split(None, 1) if hint else ()
    verb = words[0].lower() if words else ""
    return (_class if len(tool) + len(verb) > MAX_REMEMBERED_NAME else _remembered_class)(tool, verb)


def _class(tool: str, verb: str) -> CallClass:
    if verb in POLL_VERBS:
        return "poll"
    if verb in EDIT_VERBS and is_editor(tool):
        return "edit"
    name = last_part(tool)
    if name.lower() in FINAL_NAMES:
        return "final"
    words = words_of(name)
    if name.lower() in POLL_NAMES or not POLL_WORDS.isdisjoint(words):
        return "poll"
    if not EDIT_WORDS.isdisjoint(words) and NO_EDIT_WORDS.isdisjoint(words):
        return "edit"
    return "other"


_remembered_class = lru_cache(maxsize=1024)(_class)


# --- the arguments ----------------------------------------------------------------------------------------------------

COMMAND_MEMBERS = ("command", "cmd", "CommandLine", "script")
"""Under which names shell tools take their command: most, Codex, Windsurf, PowerShell tools."""

_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_SUB_COMMAND = re.compile(r"\w+")
_COMMAND_OPTION = re.compile(r"-\w*c|-command|/c", re.IGNORECASE)


def call_hint(tool: str, args: Raw | bytes) -> str | None:
    """The hint of a call by its arguments, which are JSON text; None where there is nothing to tell.

    Raises NotJsonError or NestingError.
    """
    if is_shell(tool):
        command = _command_text(_member(args, COMMAND_MEMBERS))
        return None if command is None else shell_hint(command)
    if is_editor(tool):
        command = _member(args, COMMAND_MEMBERS[:1])
        if isinstance(command, str) and _SUB_COMMAND.fullmatch(command):
            return command[:MAX_HINT_LENGTH]
    return None


def _member(args: Raw | bytes, names: Sequence[str]) -> Json:
    """The first of these members that the arguments have."""
    try:
        members = _MEMBERS.decode(args)
    except msgspec.DecodeError:  # no object, or a lone surrogate somewhere
        plain = parse(bytes(args))
        return next((plain[name] for name in names if name in plain), None) if isinstance(plain, dict) else None
    return next((parse(bytes(members[name])) for name in names if name in members), None)


def _command_text(command: Json) -> str | None:
    """The text of a command; of `[bash, -lc, text]` that text."""
    if not isinstance(command, list):
        return command if isinstance(command, str) else None
    words = [word for word in command if isinstance(word, str)]
    if len(words) > 2 and _COMMAND_OPTION.fullmatch(words[1]):
        return words[2]
    return " ".join(words)


# --- shell commands ---------------------------------------------------------------------------------------------------

PREPARATIONS = frozenset({"cd", "export", "set", "source", ".", "pushd", "echo", "sleep"})
"""What a longer command line does besides its business."""

WRAPPERS = {
    "sudo": frozenset(
        {"-u", "-g", "-p", "-C", "-h", "-r", "-t", "-U", "-T", "-D", "-R", "--user", "--group", "--prompt", "--host"}
        | {"--chdir", "--role", "--type", "--other-user", "--command-timeout", "--chroot", "--close-from"}
    ),
    "time": frozenset({"-f", "-o", "--format", "--output"}),
    "nohup": frozenset[str](),
    "env": frozenset({"-u", "-C", "--unset", "--chdir"}),
    "exec": frozenset({"-a"}),
    "command": frozenset[str](),
    "timeout": frozenset({"-s", "-k", "--signal", "--kill-after"}),
}
"""Programs that run another one, and those of their options that take the next word as value."""

WITH_SUBCOMMANDS = frozenset(
    {"git", "npm", "npx", "pnpm", "yarn", "docker", "podman", "cargo", "go", "pip", "pip3", "uv", "kubectl", "helm"}
    | {"gh", "make", "apt", "apt-get", "poetry", "bun", "deno", "dotnet", "mvn", "gradle", "terraform", "systemctl"}
    | {"brew"}
)
WITH_A_WORD_MORE = frozenset({"run", "exec", "compose"})

OPTIONS_WITH_VALUE: Mapping[str, frozenset[str]] = {
    program: frozenset(options.split())
    for programs, options in {
        "git": "-c -C --git-dir --work-tree --namespace --super-prefix --config-env --attr-source",
        "npm npx": "--prefix -w --workspace --registry --userconfig --loglevel -p --package",
        "pnpm": "-C --dir --filter -F --reporter",
        "yarn": "--cwd",
        "docker podman": "-H --host -c --context --config -l --log-level -f --file -p --project-name --env-file",
        "kubectl helm": "-n --namespace --context --kubeconfig --cluster --user -s --server --token --as",
        "make": "-C --directory -f --file -I -o -W -O",
        "cargo": "--manifest-path -C --config -Z --color",
        "go": "-C",
        "pip pip3": "--python --log --proxy --cert --cache-dir",
        "uv": "--project --directory --cache-dir --python -p --config-file --color",
        "gh": "-R --repo --hostname",
        "systemctl": "-H --host -M --machine -t --type -p --property -n --lines -o --output --root --state",
        "mvn": "-f --file -s --settings -P -pl --projects",
        "gradle": "-p --project-dir -b --build-file -x -I --init-script -g",
        "apt apt-get": "-o -c -t --option --config-file --target-release",
        "bun": "--cwd -c --config --env-file",
        "poetry": "-C -P --directory --project",
    }.items()
    for program in programs.split()
}
"""Options that may stand before a sub-command and take the next word as their value."""

FLAGS = frozenset(
    {"-q", "--quiet", "-s", "--silent", "-v", "--verbose", "-y", "--yes", "-d", "--debug", "-D", "-p"}
    | {"-P", "--paginate", "--no-pager", "--no-optional-locks", "--bare", "--literal-pathspecs", "-k"}
    | {"--keep-going", "-B", "--always-make", "-j", "-i", "-e", "-U", "-g", "--global", "--offline"}
    | {"--frozen", "--locked", "--user", "--system", "--now", "--all", "-a", "--no-color", "--json"}
    | {"--batch-mode", "-ntp", "--no-transfer-progress", "--no-daemon"}
)
"""Options that may stand there and take none, unless the program's own say otherwise."""

MAX_WORD_LENGTH = 32
"""Characters of a sub-command."""

_QUOTED = r""" "(?:[^"\\]|\\.)*+" | '[^']*+' | \\. | \$\((?:[^()]|\([^()]*+\))*+\) | `[^`]*+` """
"""What stands for itself in a command line, whatever is in it."""

_SEGMENT = re.compile(
    rf""" (?: {_QUOTED} | (?<!\S)\#[^\n]*+ | (?<!&)&(?!&) | ["'].*+ | [^;|\n&"'] )++ """, re.VERBOSE | re.DOTALL
)
"""A part of a command line, up to `&&`, `||`, `;`, `|` or the end of the line; a quote that is not closed runs on."""

_WORD = re.compile(rf" (?: {_QUOTED} | \S )++ ", re.VERBOSE | re.DOTALL)
_UNSPLIT = frozenset("\"'\\$`")
_HERE_DOCUMENT = "<<"
_ASSIGNMENT = re.compile(r"\w+\+?=")
_PYTHON = re.compile(r"python[0-9.]*(?:\.exe)?")
_PLAIN_WORD = re.compile(r"(?![0-9]+\Z)[a-z0-9][a-z0-9:_-]*", re.ASCII)
_MODULE = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_NO_PROGRAM = re.compile(r"[$`@=:]")
_NO_VALUE_FOLLOWS = re.compile(r"-\w[^\W_].*|-.*=.*|--no-.*", re.DOTALL)


def shell_hint(command: str) -> str | None:
    """Program and subcommand of the first part of a command line that has some: `cd /x && FOO=1 pytest -q` → `pytest`.

    Comments are no parts; where there are several parts, those that only prepare are passed over.
    """
    command, here_document, _ = command.partition(_HERE_DOCUMENT)
    parts = map(str.strip, _SEGMENT.findall(command))
    segments = [part for part in parts if part and not part.startswith("#")]
    if here_document and not segments:
        return None
    for segment in segments:
        program, rest = _program(segment)
        if program and (len(segments) == 1 or program not in PREPARATIONS):
            if _NO_PROGRAM.search(program):  # what is run is only known when it runs
                return None
            hint = " ".join([program, *_subcommand(program, rest)])[:MAX_HINT_LENGTH]
            return utf8(hint).decode()  # a lone surrogate could not be written later
    return None


def _program(segment: str) -> tuple[str, list[str]]:
    """The base name of the program that a segment runs, empty when it runs none, and the words after it."""
    words = _words(segment)
    while words:
        word = words.pop(0)
        if _ASSIGNMENT.match(word):
            continue
        program = _unquoted(word).replace("\\", "/").rpartition("/")[2]
        if program not in WRAPPERS:
            return program, words
        while words and words[0].startswith("-"):
            del words[: 2 if words[0] in WRAPPERS[program] else 1]
        if program == "timeout":
            del words[:1]
    return "", []


def _words(segment: str) -> list[str]:
    if not _UNSPLIT.isdisjoint(segment):
        return [word[0] for word in islice(_WORD.finditer(segment), MAX_WORDS)]
    return segment.split(None, MAX_WORDS)[:MAX_WORDS]


def _subcommand(program: str, rest: Sequence[str]) -> list[str]:
    if _PYTHON.fullmatch(program):
        return _python_module(rest)
    if program not in WITH_SUBCOMMANDS:
        return []
    words = list(rest)
    while words:
        word = words.pop(0)
        if word.startswith("-"):
            if not _passes_over(program, word, words):
                return []
        elif _is_plain(_unquoted(word)):
            more = words[:1] if word in WITH_A_WORD_MORE else []
            return [_unquoted(word), *(each for each in map(_unquoted, more) if _is_plain(each))]
        else:
            return []
    return []


def _passes_over(program: str, option: str, words: list[str]) -> bool:
    """Takes away the value of an option; whether it is certain that what follows is none."""
    if option in OPTIONS_WITH_VALUE.get(program, ()):
        del words[:1]
        return True
    return option in FLAGS or _NO_VALUE_FOLLOWS.fullmatch(option) is not None


def _is_plain(word: str) -> bool:
    return len(word) <= MAX_WORD_LENGTH and _PLAIN_WORD.fullmatch(word) is not None


def _python_module(options: Sequence[str]) -> list[str]:
    for option, value in pairwise(options):
        if option == "-m":
            return ["-m", _unquoted(value)] if _MODULE.fullmatch(_unquoted(value)) else []
        if not option.startswith("-"):
            break
    return []


def _unquoted(word: str) -> str:
    return word.strip("\"'")
