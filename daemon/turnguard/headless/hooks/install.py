"""An agent's configuration with the hooks of turnguard in it, or without them. Everything else in it stays, in order.

What is turnguard's is told by its command. So a configuration that has it already is only brought up to date, where it
is, and one that a person has moved into another group is found there.
"""

import copy
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from turnguard.headless.hooks.call import Agent, Place

HOOKS: Final = "hooks"
ALL_TOOLS: Final = "*"

OURS: Final = re.compile(r"\bturnguard(?:\.exe|\.cmd)?[\"']?\s+hook(?:\s|$)")
"""A command that runs turnguard as a hook, however it is called."""

Document = dict[str, Any]


class InstallError(Exception):
    """The configuration cannot be changed. Its text says why, for people."""


def file_of(agent: Agent, project: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The file that is to be changed: a person's own, or a project's. Raises InstallError."""
    place = agent.place
    if project is not None:
        return project / place.file
    if place.is_for_projects_only:
        raise InstallError(f"{agent.name} has no such file of your own: name a project with --project DIR")
    moved = environ.get(place.variable or "")
    return Path(moved, place.within) if moved else Path.home() / place.file


def configuration(place: Place, command: str) -> Document:
    """The whole configuration where there is none."""
    return merged({}, place, command)


def merged(document: Document, place: Place, command: str) -> Document:
    """A configuration with the hooks in it. Raises InstallError."""
    document = copy.deepcopy(document)
    hooks = _hooks(document)
    for event in place.events:
        found = _ours(_entries(hooks, event))
        if found:
            found[0]["command"] = command
            hooks[event] = _without(_entries(hooks, event), lambda entry, kept=found[0]: entry is not kept)
        else:
            hooks.setdefault(event, []).append(_new(place, event, command))
    for event in [event for event in hooks if event not in place.events]:
        _drop(hooks, event)
    return document


def removed(document: Document) -> Document:
    """A configuration without the hooks, and without what is empty then. Raises InstallError."""
    document = copy.deepcopy(document)
    if HOOKS not in document:
        return document
    hooks = _hooks(document)
    had_any = bool(hooks)
    for event in list(hooks):
        _drop(hooks, event)
    if had_any and not hooks:
        del document[HOOKS]
    return document


def command_in(document: Document) -> str | None:
    """The command of the hooks in a configuration, of the first of them; None where there are none."""
    hooks = document.get(HOOKS)
    for entries in cast("Document", hooks).values() if isinstance(hooks, dict) else ():
        found = _ours(cast("list[Any]", entries)) if isinstance(entries, list) else []
        if found:
            return str(found[0]["command"])
    return None


def _hooks(document: Document) -> dict[str, Any]:
    hooks = document.setdefault(HOOKS, {})
    if not isinstance(hooks, dict):
        raise InstallError(f"its {HOOKS} are no object")
    return cast("dict[str, Any]", hooks)


def _entries(hooks: dict[str, Any], event: str) -> list[Any]:
    entries = hooks.get(event, [])
    if not isinstance(entries, list):
        raise InstallError(f"its {HOOKS}.{event} is no list")
    return cast("list[Any]", entries)


def _new(place: Place, event: str, command: str) -> Document:
    entry: Document = {"type": "command", "command": command}
    if not place.is_grouped:
        return entry
    return {"matcher": ALL_TOOLS, HOOKS: [entry]} if event in place.with_matcher else {HOOKS: [entry]}


def _is_ours(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    command = cast("Document", entry).get("command")
    return isinstance(command, str) and OURS.search(command) is not None


def _ours(entries: list[Any]) -> list[Document]:
    """The hooks that are turnguard's, in groups or beside them."""
    found: list[Document] = []
    for entry in entries:
        if _is_ours(entry):
            found.append(entry)
        elif isinstance(entry, dict):
            inner = cast("Document", entry).get(HOOKS)
            if isinstance(inner, list):
                found += _ours(cast("list[Any]", inner))
    return found


def _without(entries: list[Any], goes: Callable[[Any], bool]) -> list[Any]:
    """The entries without those of turnguard that go, and without groups that are empty then."""
    kept: list[Any] = []
    for entry in entries:
        if _is_ours(entry):
            if not goes(entry):
                kept.append(entry)
            continue
        inner = cast("Document", entry).get(HOOKS) if isinstance(entry, dict) else None
        if isinstance(inner, list) and inner:
            entry[HOOKS] = _without(cast("list[Any]", inner), goes)
            if not entry[HOOKS]:
                continue
        kept.append(entry)
    return kept


def _drop(hooks: dict[str, Any], event: str) -> None:
    entries = _entries(hooks, event)
    if not _ours(entries):
        return
    hooks[event] = _without(entries, lambda entry: True)  # noqa: ARG005
    if not hooks[event]:
        del hooks[event]
