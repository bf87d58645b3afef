"""Who may know whom.

`cli → commands → service | acp | headless → settings, framing, client, ... → core → turnguard_protocol`.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CORE = {"core", "turnguard_protocol"}
SUPPORT = {
    "settings",
    "framing",
    "client",
    "transcript",
    "recording",
    "prose",
    "sealing",
    "process",
    "told",
    "appended",
    "arguments",
    "harmless",
}
FACES = {"service", "acp", "headless"}

MAY_KNOW = {
    "turnguard_protocol": set[str](),
    "turnguard": set[str](),
    "core": CORE,
    "settings": CORE | {"arguments", "harmless"},
    "framing": CORE,
    "client": CORE | {"framing"},
    "transcript": CORE,
    "appended": set[str](),
    "arguments": {"harmless"},
    "harmless": set[str](),
    "recording": CORE | {"appended", "sealing", "settings"},
    "sealing": CORE,
    "prose": CORE,
    "process": {"harmless"},
    "told": {"appended"},
    **{face: CORE | SUPPORT | {"turnguard"} for face in FACES},
    "demo": CORE | {"arguments", "client", "turnguard"},
    "commands": CORE | SUPPORT | {"turnguard", "acp", "headless"},
    "cli": CORE | SUPPORT | FACES | {"commands", "demo", "turnguard"},
    "__main__": {"cli"},
    "reference": {"arguments", "cli", "commands"},
}
"""Rooms, and the other rooms each may import. `turnguard` is the package itself, which holds the version."""

ONLY_IN = {
    "pygls": {"service"},
    "lsprotocol": {"service"},
    "asyncio": {"service", "headless"},
    "rich": {"commands", "demo", "headless"},
}
"""Modules of others that are slow to load or tempting, and the rooms that may import them."""

WORLD = {"importlib", "io", "logging", "os", "pathlib", "socket", "subprocess"}
CLOCKS_AND_CHANCE = {"datetime", "random", "time"}
IMPURE = WORLD | CLOCKS_AND_CHANCE | {"asyncio", "threading"}
"""What the core must do without."""


SOURCES = sorted(path for package in ("daemon", "protocol") for path in (ROOT / package).rglob("*.py"))


def module_of(path: Path) -> str:
    """The dotted name of the module in a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str:
    """The room a module belongs to; for one that is not ours the name of its package."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first == "turnguard" and rest else first


def imports(module: str, source: str, *, is_package: bool = False) -> Iterator[str]:
    """The full names of everything a module imports, wherever in it. `from a import b` counts as `a.b`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: None if is_package else -1]
            base = package[: len(package) - node.level + 1] if node.level else []
            yield from (".".join([*base, *filter(None, [node.module]), name.name]) for name in node.names)


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What is wrong with the imports of one module."""
    room = room_of(module)
    wrong: list[str] = []
    for imported in imports(module, source, is_package=is_package):
        first = imported.partition(".")[0]
        if first in {"turnguard", "turnguard_protocol"}:
            target = room_of(imported)
            target = target if target in MAY_KNOW else "turnguard"
            is_wrong = target != room and target not in MAY_KNOW[room]
        else:
            is_wrong = room not in ONLY_IN.get(first, {room}) or (room in CORE and first in IMPURE)
        if is_wrong:
            wrong.append(f"{module} imports {imported}")
    return wrong


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards_only(path: Path) -> None:
    assert room_of(module_of(path)) in MAY_KNOW
    assert violations(module_of(path), path.read_text("utf-8"), is_package=path.stem == "__init__") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("turnguard_protocol.events", "from turnguard.core.guard import Guard"),
        ("turnguard.core.guard", "import turnguard.settings.layers"),
        ("turnguard.core.guard", "from turnguard import settings"),
        ("turnguard.core.guard", "from turnguard import __version__"),
        ("turnguard.core.turn.cap", "from ...settings import layers"),
        ("turnguard.settings.layers", "from turnguard.framing import Framer"),
        ("turnguard.framing", "from turnguard.service.loop import serve"),
        ("turnguard.client", "import turnguard.service"),
        ("turnguard.service.loop", "def late():\n    from turnguard.acp import relay"),
        ("turnguard.service.loop", "from turnguard.cli import main"),
        ("turnguard.headless.exec", "from turnguard.service import sessions"),
        ("turnguard.commands.trust", "from turnguard.service import sessions"),
        ("turnguard.service.loop", "from turnguard.commands.terminal import harmless"),
        ("turnguard.acp.relay", "import asyncio"),
        ("turnguard.client", "from pygls.protocol import JsonRPCProtocol"),
        ("turnguard.cli", "import lsprotocol.types as types"),
        ("turnguard.cli", "from rich import print"),
        *(("turnguard.core.session", f"import {name}") for name in sorted(IMPURE)),
        ("turnguard.core.session", "from os import path"),
        ("turnguard_protocol.events", "import asyncio.events"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str) -> None:
    assert len(violations(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("turnguard.cli", "from turnguard import __version__, demo"),
        ("turnguard.service.lsp", "from pygls.lsp.server import LanguageServer\nimport asyncio"),
        ("turnguard.service.loop", "from .dispatch import answer\nfrom turnguard.core.session import SessionGuard"),
        ("turnguard.core.turn.cap", "from ..thresholds import GLOBAL_DUPLICATE_THRESHOLD\nimport re"),
    ],
)
def test_an_import_that_is_fine_is_not_found(module: str, source: str) -> None:
    assert violations(module, source) == []


HEAVY = {"pygls", "lsprotocol", "asyncio", "rich"}


@pytest.mark.parametrize(
    "code",
    [
        "import turnguard",
        "import turnguard.client",
        "import turnguard.cli",
        "import turnguard.commands.hook, turnguard.headless.hooks.hearing",
        "from turnguard.cli import main; sys.argv = ['turnguard', '--version']; main()",
        "from turnguard.cli import main; main(['exec', '--', 'true'])",
    ],
)
def test_what_starts_often_loads_nothing_heavy(code: str) -> None:
    loaded = f"import atexit, sys; atexit.register(lambda: print('loaded', *sys.modules)); {code}"
    answer = subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True, text=True)
    modules = answer.stdout.splitlines()[-1].split()
    assert modules[0] == "loaded"
    assert HEAVY.isdisjoint(modules)
