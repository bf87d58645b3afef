"""mini-swe-agent: a `.traj.json` file, one document for one task, of version 1 and 2.

All calls are commands for one shell. How a message shows them, and the results, depends on how the model was asked:

              calls                                        results
    version 1 the one block of `bash` in the words         the next message of the user
    text      `extra.actions`                              messages of the user with `extra.returncode`, in order
    tools     `tool_calls`                                 messages of `tool`, by `tool_call_id`
    responses `function_call` in `output`                  `function_call_output`, by `call_id`
"""

import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from turnguard.headless.readers import written
from turnguard.headless.readers.document import Document, Parts, outline
from turnguard.headless.readers.results import result_of
from turnguard.transcript import Format, Head, Kept, Told, decoded
from turnguard_protocol.events import (
    Call,
    Event,
    Result,
    Text,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
    UserInput,
)

SHELL = "bash"
SUBMITTED = "Submitted"

NOT_RUN = "action was not executed"
"""What `exception_info` says of commands of which one before it ended the step."""

SPOKE = ("UserInterruption", "UserRejection")
"""Interruptions in which the user says something, and the run goes on."""

NEW_TASK = "UserNewTask"

REJECTED = ("Command not executed", "Commands not executed", "Interrupted by user")
"""How a message of version 1 begins that stands in the place of a result."""

TIMED_OUT = re.compile(r"\AThe last command\b.{0,10000}?\btimed out\b", re.DOTALL)
RETURN_CODE = re.compile(r"\A\s*+(?:<returncode>|Observation: \{.*'returncode': )(-?\d+)", re.DOTALL)
"""Where a result of version 1 says it, by the configurations that come with it."""

BLOCK = re.compile(r"```(?:bash|mswea_bash_command)[^\S\n]*+\n(.*?)\n```", re.DOTALL)


class Action(Struct):
    """A command that the agent understood."""

    command: str
    tool_call_id: str | None = None


class Extra(Struct):
    """What the agent notes beside a message; its fields depend on what the message is."""

    actions: list[Action] | None = None
    returncode: int | None = None
    exception_info: str | None = None
    interrupt_type: str | None = None
    exit_status: str | None = None
    timestamp: float | None = None


class Function(Struct):
    """What is called."""

    name: str = ""
    arguments: str = ""


class ToolCall(Struct):
    """A call of the chat API."""

    function: Function
    id: str | None = None


class Block(Struct):
    """A piece of a message, or an item of the responses API."""

    type: str = ""
    text: str | None = None
    name: str = ""
    arguments: str = ""
    call_id: str | None = None


Content = str | list[Block] | None


class Message(Struct):
    """A message. Those of the responses API have a `type`, and no `role` where they are results."""

    role: str = ""
    type: str | None = None
    content: Content = None
    extra: Extra = msgspec.field(default_factory=Extra)
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    output: Content = None
    call_id: str | None = None
    timestamp: float | None = None


class Info(Struct):
    """How the run ended."""

    exit_status: str | None = None


class File(Struct):
    """The document."""

    messages: list[Raw]
    info: Info = msgspec.field(default_factory=Info)


_file = msgspec.json.Decoder(File)
_message = msgspec.json.Decoder(Message)


def _read(document: bytes) -> Iterator[Told]:
    file, conversation, parts = decoded(_file, document), Conversation(), Parts()
    for place, message in parts.read(file.messages, _message):
        time = message.timestamp or message.extra.timestamp
        at = None if time is None else f"{time:.3f}"
        for event in conversation.events(message, place):
            yield Told(event, message=str(place) if message.role == "assistant" else None, place=place, at=at)
    if file.info.exit_status and not conversation.has_ended:
        yield Told(_ended(file.info.exit_status))
    parts.complain()


class Conversation:
    """The messages of one file. `has_ended`: the last of them said so."""

    def __init__(self) -> None:
        self.has_ended = False
        self._has_begun = False
        self._open: list[str | None] = []

    def events(self, message: Message, place: int) -> Iterator[Event]:
        """What a message says."""
        role = message.role or ("tool" if message.type == "function_call_output" else "assistant")
        if role == "assistant":
            yield from self._of_model(message, place)
        elif role == "tool":
            yield from self._result(message.tool_call_id or message.call_id, message)
        elif role == "exit":
            self.has_ended = True
            yield _ended(message.extra.exit_status or "")
        elif role == "user":
            yield from self._of_user(message)

    def _of_model(self, message: Message, place: int) -> Iterator[Event]:
        words = _words(message.content)
        if words:
            yield Text(words)
        calls = _calls(message, words, place)
        self._open = [call.id for call in calls]
        if calls:
            yield ToolCalls(calls)

    def _of_user(self, message: Message) -> Iterator[Event]:
        extra = message.extra
        if not self._has_begun or extra.interrupt_type == NEW_TASK:
            self._has_begun = True
            yield TurnStarted()
        elif extra.interrupt_type in SPOKE:
            yield UserInput()
        elif extra.interrupt_type is None and extra.actions is None and self._open:
            yield from self._result(self._open[0], message)

    def _result(self, call_id: str | None, message: Message) -> Iterator[Event]:
        if call_id not in self._open:  # of a command that the user ran
            return
        self._open.remove(call_id)
        words = _words(message.content if message.output is None else message.output)
        code = message.extra.returncode
        if message.extra.exception_info == NOT_RUN:
            yield ToolResults([Result(call_id, status="notStarted")])
            return
        if code is None and words.startswith(REJECTED):
            yield ToolResults([Result(call_id, status="cancelled")])
            yield UserInput()
            return
        if code is None:
            shown = RETURN_CODE.search(words)
            code = int(shown[1]) if shown else (-1 if TIMED_OUT.match(words) else None)
        ok = None if code is None else code == 0
        yield ToolResults([result_of(call_id, written.text(words), ok=ok)])


def _calls(message: Message, words: str, place: int) -> list[Call]:
    if message.tool_calls:
        return [
            Call(each.function.name, each.id, written.arguments(each.function.arguments)) for each in message.tool_calls
        ]
    if isinstance(message.output, list):
        asked = [each for each in message.output if each.type == "function_call"]
        return [Call(each.name, each.call_id, written.arguments(each.arguments)) for each in asked]
    if message.extra.actions is not None:
        commands = [action.command for action in message.extra.actions]
    else:
        commands = [each.strip() for each in BLOCK.findall(words)]
        commands = commands if len(commands) == 1 else []  # the agent takes one, and else asks again
    return [
        Call(SHELL, f"{place}.{number}", Raw(b'{"command":%b}' % bytes(written.text(command))))
        for number, command in enumerate(commands, 1)
    ]


def _words(content: Content) -> str:
    if isinstance(content, list):
        return "\n".join(block.text for block in content if block.text is not None)
    return content or ""


def _ended(status: str) -> TurnEnded:
    return TurnEnded("completed" if status == SUBMITTED else "failed")


RUN = (".info.model_stats", ".info.mini_version", ".trajectory_format")


def _recognises(head: Head) -> bool:
    shown = outline(head.start)
    return ".messages[].role" in shown and not shown.isdisjoint(RUN)


FORMAT = Format(
    "mini-swe-agent",
    _recognises,
    lambda: Document(_read),
    (
        Kept("MSWEA_GLOBAL_CONFIG_DIR", ".config/mini-swe-agent", "*.traj.json"),
        Kept(None, "Library/Application Support/mini-swe-agent", "*.traj.json"),
    ),
)
