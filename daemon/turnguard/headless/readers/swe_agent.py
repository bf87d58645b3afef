"""SWE-agent: a `.traj` file, one document for one task, of version 0 and 1.

`trajectory` has a step for each answer of the model: the action that was run, and what was observed. What tool it was
is told by the action's first word, in version 1 also by the `tool_calls` of the `history`, which has the same actions
in the same order, besides demonstrations. A demonstration itself is a file that may have a `history` only. An agent
that tries again keeps each of its `attempts`, and says one of them once more.

Nothing says whether a call succeeded. `exit_...` in the place of an action is how SWE-agent itself ends a run.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.headless.readers import written
from turnguard.headless.readers.document import Document, Parts, outline
from turnguard.transcript import Format, Head, Told, UnreadableError, decoded
from turnguard_protocol.events import Call, Event, Result, Text, ToolCalls, ToolResults, TurnEnded, TurnStarted

SHELL = "bash"

EDITOR = "str_replace_editor"

OWN_COMMANDS = frozenset(
    {"open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "append", "set_cursors", "undo_edit"}
    | {"search_dir", "search_file", "find_file", "filemap", "view_image", "submit", "exit_forfeit", EDITOR}
)
"""First words of actions that are tools of SWE-agent's; all others are programs for the shell."""

NO_ACTIONS = frozenset({"exit_format", "exit_context", "exit_cost", "exit_api", "exit_error", "exit_command", "exit"})
"""What stands in the place of an action when the run ends for another reason."""

SUBMITTED = "submitted"

MAX_SKIPPED = 5
"""Actions of the history that may be missing in the trajectory between two that are in both."""


class Function(Struct):
    """What is called. The arguments are JSON in a string, or as they are."""

    name: str
    arguments: Raw = written.NONE


class ToolCall(Struct):
    """A call as the model asked for it."""

    function: Function
    id: str | None = None


class Item(Struct):
    """A message of the history."""

    role: str = ""
    content: Raw | UnsetType = UNSET
    action: str | None = None
    message_type: str | None = None
    is_demo: bool | None = None
    tool_calls: list[ToolCall] | None = None


class Step(Struct):
    """A step of the trajectory."""

    action: str | None = None
    observation: str | None = None
    response: str | None = None


class Info(Struct):
    """How the run ended."""

    exit_status: str | None = None


class Run(Struct):
    """One attempt at the task."""

    trajectory: list[Raw] | None = None
    history: list[Raw] | None = None
    info: Info | None = None


class File(Run):
    """The document."""

    attempts: list[Run] | None = None


_file = msgspec.json.Decoder(File)
_step = msgspec.json.Decoder(Step)
_item = msgspec.json.Decoder(Item)


def _read(document: bytes) -> Iterator[Told]:
    file = decoded(_file, document)
    parts = Parts()
    if file.attempts:
        for number, attempt in enumerate(file.attempts, 1):
            yield from (told._replace(session=f"attempt {number}") for told in _run(attempt, parts))
    else:
        yield from _run(file, parts)
    parts.complain()


def _run(run: Run, parts: Parts) -> Iterator[Told]:
    yield Told(TurnStarted(), place=1)
    if run.trajectory:
        asked = _asked(run.history or ())
        for place, step in parts.read(run.trajectory, _step):
            yield from _at(place, _of_step(step, str(place), asked))
    else:
        yield from _history(run.history or (), parts)
    status = None if run.info is None else run.info.exit_status
    if status:
        yield Told(TurnEnded("completed" if status.startswith(SUBMITTED) else "failed"))


def _at(place: int, events: Iterator[Event]) -> Iterator[Told]:
    return (Told(event, message=str(place), place=place) for event in events)


# --- the trajectory ---------------------------------------------------------------------------------------------------


def _of_step(step: Step, call_id: str, asked: deque[Item]) -> Iterator[Event]:
    if step.response:
        yield Text(step.response)
    action = (step.action or "").strip()
    if not action or action in NO_ACTIONS:
        return
    calls = _calls_of(action, call_id, asked)
    yield ToolCalls(calls)
    if step.observation is not None:
        yield ToolResults([Result(call.id, output=written.text(step.observation)) for call in calls])


def _asked(history: Sequence[Raw]) -> deque[Item]:
    """The messages of the history in which the model called a tool, in order."""
    asked: deque[Item] = deque()
    for part in history:
        if b'"tool_calls"' not in bytes(part):
            continue
        try:
            item = decoded(_item, bytes(part))
        except UnreadableError:
            continue
        if item.role == "assistant" and item.tool_calls and not _is_demo(item):
            asked.append(item)
    return asked


def _calls_of(action: str, call_id: str, asked: deque[Item]) -> list[Call]:
    """The calls of a step: as the model asked for them, or else as the action has it."""
    for number, item in enumerate(islice(asked, MAX_SKIPPED)):
        if (item.action or "").strip() == action:
            for _ in range(number + 1):
                asked.popleft()
            return _tool_calls(item.tool_calls or (), call_id)
    return [_written(action, call_id)]


def _tool_calls(calls: Sequence[ToolCall], message: str) -> list[Call]:
    return [
        Call(call.function.name, f"{message}.{number}" if number > 1 else message, _arguments(call.function.arguments))
        for number, call in enumerate(calls, 1)
    ]


def _arguments(asked: Raw) -> Raw:
    text = written.string_of(asked)
    return asked if text is None else written.arguments(text)


def _written(action: str, call_id: str) -> Call:
    """The call that an action is when only its text is known."""
    name, *rest = action.split(None, 1)
    if name not in OWN_COMMANDS:
        return Call(SHELL, call_id, Raw(b'{"command":%b}' % bytes(written.text(action))))
    arguments: dict[str, str] = {}
    if name == EDITOR and rest:
        arguments["command"], *rest = rest[0].split(None, 1)
    if rest:
        arguments["arguments"] = rest[0]
    return Call(name, call_id, Raw(msgspec.json.encode(arguments)))


# --- a history alone --------------------------------------------------------------------------------------------------


def _history(history: Sequence[Raw], parts: Parts) -> Iterator[Told]:
    """Each action, and the message after it, which tells what was observed."""
    open_calls: list[Call] = []
    for place, item in parts.read(history, _item):
        if _is_demo(item):
            continue
        if item.role == "assistant":
            open_calls = _history_calls(item, str(place))
            if open_calls:
                yield Told(ToolCalls(open_calls), message=str(place), place=place)
        elif open_calls:
            results = [Result(call.id, output=item.content) for call in open_calls]
            open_calls = []
            yield Told(ToolResults(results), place=place)


def _history_calls(item: Item, message: str) -> list[Call]:
    if item.tool_calls:
        return _tool_calls(item.tool_calls, message)
    action = (item.action or "").strip()
    return [_written(action, message)] if action and action not in NO_ACTIONS else []


def _is_demo(item: Item) -> bool:
    return bool(item.is_demo) or item.message_type == "demonstration"


# --- the format -------------------------------------------------------------------------------------------------------

STEPS = ({".trajectory[].action", ".trajectory[].response"}, {".trajectory[].action", ".trajectory[].state"})
ATTEMPTS = {".attempts[].trajectory[].action"}
HISTORIES = ({".history[].role", ".history[].agent"}, {".history[].role", ".history[].message_type"})


def _recognises(head: Head) -> bool:
    return any(each <= outline(head.start) for each in (*STEPS, ATTEMPTS, *HISTORIES))


FORMAT = Format("swe-agent", _recognises, lambda: Document(_read))
