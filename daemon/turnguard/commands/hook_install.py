"""`turnguard hook install AGENT`: prints the configuration of the agent's hooks, or changes the agent's file."""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from turnguard.arguments import Parser
from turnguard.commands import hook_program
from turnguard.commands.terminal import FINE, REFUSED, console, line
from turnguard.harmless import harmless
from turnguard.headless.hooks.agents import BY_NAME
from turnguard.headless.hooks.call import Agent
from turnguard.headless.hooks.install import (
    Document,
    InstallError,
    command_in,
    configuration,
    file_of,
    merged,
    removed,
)
from turnguard.settings.given import read_assignments
from turnguard.settings.problems import describe

BACKUP = ".before-turnguard"
"""What the name of a file ends with that is as the other one was before it was changed."""

_INDENT = re.compile(r'\n([ \t]+)"')


def main(argv: Sequence[str]) -> int:
    """Runs the command; its exit code. Exits with 2 when the arguments cannot be understood."""
    understood = parser()
    given = understood.parse_args(argv)
    agent = BY_NAME[given.agent]
    problems = read_assignments(given.set).problems
    if problems:
        understood.error("; ".join(describe(problem) for problem in problems))
    by_name = given.project is not None and not given.absolute  # that file goes to others, whose turnguard is elsewhere
    command = hook_program.command(agent.name, given.set, by_name=by_name)
    try:
        if given.remove:
            _change(agent, file_of(agent, given.project), None)
        elif given.write:
            _change(agent, file_of(agent, given.project), command)
            _doubt(by_name=by_name)
        else:
            _show(agent, given.project, command, by_name=by_name)
    except (InstallError, OSError) as error:
        console(sys.stderr).print(line(f"turnguard hook install: {_why(error)}"))
        return REFUSED
    return FINE


def _doubt(*, by_name: bool) -> None:
    """Says why agents may not find the program, and what helps."""
    why = hook_program.why_not_found() if by_name else None
    if why is not None:
        console(sys.stderr).print(
            line(
                f"Careful: these hooks run {hook_program.NAME} by its name, and {why}. An agent that does not find it "
                "goes on unguarded. Install it where all programs find it (pipx install . or uv tool install . in the "
                "clone), or use --absolute, for this computer alone."
            )
        )


def _show(agent: Agent, project: Path | None, command: str, *, by_name: bool) -> None:
    sys.stdout.write(f"{json.dumps(configuration(agent.place, command), indent=2, ensure_ascii=False)}\n")
    _doubt(by_name=by_name)
    file = Path("DIR", agent.place.file) if project is None and agent.place.is_for_projects_only else None
    console(sys.stderr).print(line(f"It belongs into {file or file_of(agent, project)}; --write puts it there."))


def _change(agent: Agent, file: Path, command: str | None) -> None:
    """Puts the hooks into a file, or takes them out of it where there is no command."""
    file = file.resolve()  # what a link leads to is changed, and the link stays
    before = file.read_bytes() if file.exists() else None
    document = _read(file, before)
    after = removed(document) if command is None else merged(document, agent.place, command)
    out = console()
    if after == document:
        out.print(
            line(f"{file} stays as it is: {'it has none of them' if command is None else 'it has them already'}.")
        )
        return
    backup = file.with_name(f"{file.name}{BACKUP}")
    if command is None:
        out.print(line(f"Taken out of {file}.{_take_out(agent, file, backup, document, after)}"))
        return
    kept = ""
    if before is not None and not os.path.lexists(backup) and not _is_merged({}, document, agent):
        _write(backup, before, like=file)
        kept = f" As it was: {backup.name}."
    _write(file, _written(after, before), like=file)
    out.print(line(f"Written to {file}.{kept}"))
    if agent.place.after:
        out.print(line(agent.place.after))


def _take_out(agent: Agent, file: Path, backup: Path, document: Document, after: Document) -> str:
    """Takes the hooks out of a file: what else there is to say.

    Where nothing else has changed since they were put in, the file is byte for byte what it was, or gone if there was
    none.
    """
    if os.path.lexists(backup):
        was = _as_it_was(agent, backup, document)
        if was is not None:
            _write(file, was, like=file)
            backup.unlink()
            return f" It is as it was, so {backup.name} is gone."
    elif _is_merged({}, document, agent):
        file.unlink()
        return " Nothing else was in it, so it is gone."
    if not after and agent.place.is_for_projects_only:
        file.unlink()
    else:
        _write(file, _written(after, file.read_bytes()), like=file)
    return ""


def _as_it_was(agent: Agent, backup: Path, document: Document) -> bytes | None:
    """What was there before, if the hooks are all that has changed."""
    try:
        was = backup.read_bytes()
        before = _read(backup, was)
        is_free = removed(before) == before
    except (InstallError, OSError):
        return None
    return was if is_free and _is_merged(before, document, agent) else None


def _is_merged(before: Document, document: Document, agent: Agent) -> bool:
    """Whether a document is what comes of another one and the hooks; the order of members does not count."""
    command = command_in(document)
    return command is not None and _canonical(merged(before, agent.place, command)) == _canonical(document)


def _canonical(document: Document) -> str:
    return json.dumps(document, sort_keys=True)  # to Python true and 1 are the same


def _read(file: Path, data: bytes | None) -> Document:
    """What stands in a file. Raises InstallError when it is no JSON that can be written again without losing any."""
    if data is None or not data.strip():
        return {}
    try:
        document = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        raise InstallError(f"{file} is not plain JSON, so it is not changed ({error}); print it and add it") from None
    if not isinstance(document, dict):
        raise InstallError(f"{file} is no JSON object")
    return cast("Document", document)


def _members(pairs: list[tuple[str, Any]]) -> Document:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member stands there twice")
    return members


def _written(document: Document, before: bytes | None) -> bytes:
    """A document as text, in the style of what was there."""
    text = "" if before is None else before.decode("utf-8-sig")
    indent = _INDENT.search(text)
    written = json.dumps(document, indent=2 if indent is None else indent[1], ensure_ascii=False) + "\n"
    return (written.replace("\n", "\r\n") if "\r\n" in text else written).encode("utf-8", "surrogatepass")


def _write(file: Path, data: bytes, *, like: Path) -> None:
    """Writes a file in one step, with the rights of another one where that is there. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new.write_bytes(data)
        if like.exists():
            new.chmod(like.stat().st_mode & 0o777)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def _why(error: InstallError | OSError) -> str:
    if isinstance(error, OSError):
        return harmless(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return str(error)


def parser() -> argparse.ArgumentParser:
    """What the command understands."""
    parser = Parser(
        prog="turnguard hook install",
        description="Prints the configuration that makes an agent run turnguard as its hook, or puts it into its file.",
        epilog="Example: turnguard hook install claude --write. Exits with 1 when the file was not changed though it "
        "should be, with 2 when the arguments do not fit.",
        allow_abbrev=False,
    )
    parser.add_argument("agent", choices=sorted(BY_NAME), metavar="AGENT", help=", ".join(sorted(BY_NAME)))
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_true", help="put it into the file, beside what is there")
    what.add_argument("--remove", action="store_true", help="take it out of the file again")
    parser.add_argument("--project", type=Path, metavar="DIR", help="the file of a project instead of your own")
    parser.add_argument(
        "--absolute", action="store_true", help="the whole path of this turnguard in a project's file, too"
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting for these hooks")
    return parser
