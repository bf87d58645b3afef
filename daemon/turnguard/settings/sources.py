"""The sources of settings that no client sends: a person's file, a project's file, the environment, the command line.

Files are looked at again when they are asked for, at most once a second, so that a change holds without a restart.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from turnguard.settings import places, trust
from turnguard.settings.files import Reading, read_file
from turnguard.settings.given import read_assignments, read_environment
from turnguard.settings.layers import COMMAND_LINE, ENVIRONMENT, PROJECT, TRUSTED_PROJECT, USER, Layer, Merged
from turnguard.settings.table import Face
from turnguard_protocol.settings import SettingsProblem, SettingsReport

LOOK_SECONDS = 1.0
"""How old what is known of a file may be."""

MAX_DIRECTORIES = 1000
"""Directories of which it is remembered what holds there."""

Stamp = tuple[object, ...]
"""What tells one state of a file from another."""


class Found(NamedTuple):
    """What holds in a directory, but for what a client says. The same object as long as nothing has changed.

    `layers`: a person's own, low to high. `tightening`: the file of a project that is not trusted. `problems`: what
    could not be taken. `project`: the directory of the project whose file that is.
    """

    layers: tuple[Layer, ...]
    tightening: tuple[Layer, ...]
    problems: tuple[SettingsProblem, ...]
    project: Path | None


class Sources:
    """Reads the sources for one process.

    `assignments`: what `--set` gave. `clock`: monotonic seconds. `own_problems` are those of a person's own sources,
    as they were at the start.
    """

    def __init__(
        self,
        face: Face,
        *,
        environ: Mapping[str, str] = os.environ,
        assignments: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.face: Face = face
        self._clock = clock
        self._environment = read_environment(environ)
        self._assignments = read_assignments(assignments)
        self._found: dict[str | None, tuple[float, Stamp, Found]] = {}
        self._user = (_stamp(places.user_file()), read_file(places.user_file(), USER))
        problems = [*self._user[1].problems, *self._environment.problems, *self._assignments.problems]
        error = self.merged(self.found(None)).error
        if error is not None:
            source, path = str(places.user_file()), f"$.{error.name}"
            problems.append(SettingsProblem(origin=USER, source=source, path=path, message=error.message))
        self.own_problems = tuple(problems)

    def directory(self, cwd: str | None) -> str | None:
        """Where a session runs that begins now in a directory of this name; None: where no project is."""
        return None if cwd is None else places.real_directory(cwd)

    def found(self, directory: str | None, *, now: bool = False) -> Found:
        """What holds for a session in a directory. `now`: also if it was looked at less than a second ago.

        `directory`: as `directory` gave it when the session began.
        """
        at = self._clock()
        known = self._found.get(directory)
        if known is not None and not now and at - known[0] < LOOK_SECONDS:
            return known[2]
        file = None if directory is None else places.project_file(directory)
        stamp = (_stamp(places.user_file()), file, _stamp(file), _stamp(trust.store_file()))
        if known is None or known[1] != stamp:
            known = (at, stamp, self._read(file))
        if len(self._found) >= MAX_DIRECTORIES and directory not in self._found:
            self._found.clear()
        self._found[directory] = (at, stamp, known[2])
        return known[2]

    def merged(
        self,
        found: Found,
        client: Sequence[Layer] = (),
        workspace: Sequence[Layer] = (),
        *,
        agent_id: str | None = None,
    ) -> Merged:
        """All layers merged: those that were found, a client's over them, and what may only tighten."""
        layers = (*found.layers, *client)
        return Merged(layers, (*found.tightening, *workspace), agent_id=agent_id, face=self.face)

    def report(self, cwd: str | None, *, agent_id: str | None = None) -> SettingsReport:
        """What holds in a directory, as a person reads it, without a client."""
        found = self.found(self.directory(cwd), now=True)
        return reported(self.merged(found, agent_id=agent_id), found)

    def _read(self, file: Path | None) -> Found:
        user = self._read_user()
        layers = [
            Layer(USER, user.values, str(places.user_file())),
            Layer(ENVIRONMENT, self._environment.values),
            Layer(COMMAND_LINE, self._assignments.values),
        ]
        problems = [*user.problems, *self._environment.problems, *self._assignments.problems]
        if file is None:
            return Found(tuple(layers), (), tuple(problems), None)
        directory = file.parent.parent
        project = read_file(file, PROJECT, beneath=directory)
        problems += project.problems
        if project.digest is not None and trust.is_trusted(directory, project.digest):
            layers.insert(1, Layer(TRUSTED_PROJECT, project.values, str(file)))
            return Found(tuple(layers), (), tuple(problems), directory)
        return Found(tuple(layers), (Layer(PROJECT, project.values, str(file)),), tuple(problems), directory)

    def _read_user(self) -> Reading:
        stamp = _stamp(places.user_file())
        if self._user[0] != stamp:
            self._user = (stamp, read_file(places.user_file(), USER))
        return self._user[1]


def reported(merged: Merged, found: Found) -> SettingsReport:
    """The values that hold, and what could not be taken of their sources."""
    report = merged.report()
    if found.problems:
        report.problems = list(found.problems)
    return report


def _stamp(file: Path | None) -> Stamp:
    """The state of a file, and of what a link at its place leads to; empty where there is none."""
    if file is None:
        return ()
    try:
        here, there = file.lstat(), file.stat()
    except (OSError, ValueError):
        return ()
    return (here.st_ino, there.st_dev, there.st_ino, there.st_mtime_ns, there.st_ctime_ns, there.st_size, there.st_mode)
