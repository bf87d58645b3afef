"""Arguments are repeated in complaints, and somebody else may have chosen them: nothing in them steers a terminal."""

import argparse
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.commands.process import Home
from turnguard import cli
from turnguard.arguments import Parser
from turnguard.commands import hook_install
from turnguard.harmless import harmless

STEERING = "\x1b[31m\x9b1m\u202e\u200b"
"""Colours, by an escape and by its short form; what reorders the text after it; what is not seen."""

BUT_HOOK = [command for command in cli.COMMANDS if command != "hook"]
"""Agents take a complaint of that one for a refusal, so it has none."""

COMPLAINED: list[list[str]] = [
    [STEERING],
    [f"--{STEERING}"],
    *([command, f"--{STEERING}"] for command in cli.COMMANDS),
    *([command, STEERING] for command in BUT_HOOK),
    *([command, "--set", f"{STEERING}=1"] for command in ("serve", "settings", "hook")),
    *([command, "--set", f"{STEERING}=1", "."] for command in ("replay", "explain")),
    ["acp", "--set", f"{STEERING}=1", "--", "true"],
    ["exec", "--set", STEERING, "--", "true"],
    ["acp", "--", STEERING],
    ["exec", "--", f"/{STEERING}"],
    ["acp", "--log", f"{STEERING}/x", "--", "true"],
    ["acp", "--record", f"{STEERING}/x", "--", "true"],
    ["exec", "--record", f"{STEERING}/x", "--", "true"],
    ["exec", "--grace", STEERING, "--", "true"],
    ["replay", ".", "--compare", STEERING],
    ["replay", ".", "--format", STEERING],
    ["replay", ".", "--html", f"{STEERING}/x"],
    ["explain", ".", "--turn", STEERING],
    ["settings", "--project", STEERING],
    ["settings", "check", STEERING],
    ["settings", "path", STEERING],
    ["trust", "--revoke", STEERING],
    ["trust", "--list", STEERING],
    ["hook", "install", STEERING],
    ["hook", "install", "claude", "--write", "--project", f"{STEERING}/x"],
    ["completion", STEERING],
]


@pytest.mark.parametrize("arguments", COMPLAINED, ids=[" ".join(map(ascii, each)) for each in COMPLAINED])
def test_no_complaint_steers_a_terminal(home: Home, arguments: Sequence[str]) -> None:
    ran = home.run(*arguments)
    said = ran.stdout + ran.stderr
    assert said
    assert not set("\x1b\x9b\u202e\u200b") & set(said)
    assert "Traceback" not in said


def parsers_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers_of(each)


@pytest.mark.parametrize(
    "parser",
    [cli.parser, hook_install.parser, *(cli.load(name).parser for name in BUT_HOOK)],
    ids=["turnguard", "hook install", *BUT_HOOK],
)
def test_every_command_complains_in_one_way(parser: Callable[[], argparse.ArgumentParser]) -> None:
    for each in parsers_of(parser()):
        assert isinstance(each, Parser)


def test_what_is_harmless_stays() -> None:
    assert harmless("größe C:\\x 日本 'a b'") == "größe C:\\x 日本 'a b'"
    assert harmless("a\nb\t\x7f\x9b\u2028\ud800") == "a\\nb\\t\\x7f\\x9b\\u2028\\ud800"


# --- what a newcomer reads --------------------------------------------------------------------------------------------

MISTAKES: list[tuple[list[str], int, str]] = [
    (["setings"], 2, "there is no command 'setings'; did you mean settings?"),
    (["help"], 2, "there is no command 'help'; turnguard --help lists them"),
    (["--verison"], 2, "there is no option '--verison' before a command; turnguard --help lists them"),
    (["replay", "cluade"], 2, "there is no cluade; expected a path, or one of: claude, "),
    (["replay", "empty"], 1, "empty: it is empty"),
    (["replay", "text"], 1, "text: no transcript of a format that is known"),
    (["replay", "folder"], 1, "There was no transcript to replay. turnguard replay --help names the formats"),
    (["replay", "codex"], 1, "codex: it keeps no transcripts in "),
    (["explain", ""], 2, "argument FILE: expected a path, which is not empty"),
    (["explain", "claude"], 2, "claude is an agent; expected one transcript, and turnguard replay claude lists"),
    (["explain", "text"], 2, "text: no transcript of a format that is known. turnguard replay --help names"),
    (["explain", "folder"], 2, "folder is a folder; expected one transcript of it"),
    *((["explain", "text", "--turn", wrong], 2, "argument --turn: expected the number of a turn, from 1")
      for wrong in ("0", "-1", "x", "", "9" * 5000, "²")),
    (["settings", "check", "nope"], 2, "; yours is "),
    (["settings", "check", "folder"], 1, "it is not a regular file; expected a regular file of its own, of 256 KiB"),
    (["settings", "check", "huge"], 1, "bytes; expected a regular file of its own, of 256 KiB at most"),
    (["settings", "--project", "text"], 2, "text is no directory; expected the one that a session runs in"),
    (["trust", "--revoke", "."], 1, "was not trusted; turnguard trust --list shows what is"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "said"), MISTAKES, ids=[" ".join(arguments)[:40] for arguments, _, _ in MISTAKES]
)
def test_a_mistake_is_told_with_what_to_do(home: Home, arguments: list[str], code: int, said: str) -> None:
    (home.project / "empty").touch()
    (home.project / "text").write_text("hello\n")
    (home.project / "folder").mkdir()
    with (home.project / "huge").open("wb") as file:
        file.truncate(1 << 30)
    ran = home.run(*arguments)
    assert (ran.returncode, said in ran.stdout + ran.stderr) == (code, True), ran.stderr
    assert "Traceback" not in ran.stderr
