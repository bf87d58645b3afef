"""OpenHands: the events of its conversations, of version 0 and of the SDK (version 1).

A file has an event a line, is a list of events (the export of a trajectory), or has a whole conversation a line, with
its events as `history` (`output.jsonl` of an evaluation; the oldest of these as pairs of action and observation).

              version 0                                         version 1
    event     `action` or `observation`                         `kind`
    prompt    `action` `message` of the user                    `MessageEvent` of the user
    call      an `action` of the agent; the oldest have         `ActionEvent`
              all fields side by side and no source
    batch     the response in `tool_call_metadata`              `llm_response_id`
    result    an `observation`, by `cause`, or in order         `ObservationEvent` and others, by `tool_call_id`
    subagent  between action and observation `delegate`         a conversation of its own
    end       `finish`; `agent_state_changed`                   `finish`; `execution_status`
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.core.hint import SHELL_TOOLS
from turnguard.headless.readers import written
from turnguard.headless.readers.document import Document, Parts, outline
from turnguard.headless.readers.results import result_of
from turnguard.transcript import Format, Head, Kept, Told, UnreadableError, decoded
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Result,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
)

STILL_RUNS: Final = -1
"""The exit code of a command that has not ended."""

FINISH: Final = "finish"

NOT_EXECUTED: Final = "AGENT_ERROR$ERROR_ACTION_NOT_EXECUTED"
"""How the id of the error begins that stands for the result of an action that was stopped before it ran."""

TRUE: Final = Raw(b"true")

# --- version 0 --------------------------------------------------------------------------------------------------------

NO_CALLS: Final = frozenset(
    {"message", "recall", "system", "change_agent_state", "condensation", "condensation_request", "null", "initialize"}
    | {"start", "pause", "resume", "stop", "loop_recovery", "summarize"}
)
"""Actions that are no calls of the model's."""

ABOUT_THE_EVENT: Final = frozenset(
    {"action", "id", "timestamp", "source", "message", "cause", "tool_call_metadata", "llm_metrics", "timeout", "args"}
)
DECORATION: Final = frozenset(
    {"thought", "is_confirmed", "confirmation_state", "security_risk", "action_risk", "keep_prompt", "hidden"}
    | {"blocking", "kernel_init_code", "images_urls", "image_urls", "wait_for_response"}
)
"""What stands beside the arguments of an action."""

STATES: Final[Mapping[str, TurnOutcome]] = {
    "finished": "completed",
    "awaiting_user_input": "completed",
    "stopped": "cancelled",
    "rejected": "failed",
    "error": "failed",
}
"""Agent states in which a turn is over."""


class Function(Struct):
    """What the model called."""

    arguments: str | None = None


class ToolCall(Struct):
    """A call in a response of the model."""

    id: str | None = None
    function: Function = msgspec.field(default_factory=Function)


class Answer(Struct):
    """A message of a response."""

    tool_calls: list[ToolCall] | None = None


class Choice(Struct):
    """One of the messages of a response."""

    message: Answer = msgspec.field(default_factory=Answer)


class Response(Struct):
    """A response of the model."""

    id: str | None = None
    choices: list[Choice] | None = None


class Metadata(Struct):
    """Of which call an event is."""

    function_name: str | None = None
    tool_call_id: str | None = None
    model_response: Response | None = None

    @property
    def written(self) -> str | None:
        """The arguments as the model wrote them."""
        response = self.model_response or Response()
        calls = [call for choice in response.choices or () for call in choice.message.tool_calls or ()]
        return next((call.function.arguments for call in calls if call.id == self.tool_call_id), None)


class CommandMetadata(Struct):
    """What is known of a command that ran."""

    exit_code: int | None = None


class Extras(Struct):
    """What an observation has besides its content."""

    exit_code: int | None = None
    metadata: CommandMetadata | None = None
    agent_state: str | None = None
    error: Raw | UnsetType = UNSET
    error_id: str | None = None

    @property
    def code(self) -> int | None:
        """The exit code."""
        return self.exit_code if self.metadata is None else self.metadata.exit_code


class OldEvent(Struct):
    """An event of version 0."""

    id: int | None = None
    timestamp: str | None = None
    source: str | None = None
    cause: int | None = None
    action: str | None = None
    observation: str | None = None
    args: dict[str, Raw] | None = None
    content: Raw | UnsetType = UNSET
    thought: str | None = None
    extras: Extras | None = None
    exit_code: int | None = None
    success: bool | None = None
    metadata: Metadata | None = msgspec.field(default=None, name="tool_call_metadata")


# --- version 1 --------------------------------------------------------------------------------------------------------

STATUSES: Final[Mapping[str, TurnOutcome]] = {"finished": "completed", "error": "failed", "stuck": "failed"}
"""Values of the execution status with which a turn is over."""

STATUS_KEYS: Final = frozenset({"execution_status", "agent_status"})


class Words(Struct):
    """A piece of text."""

    text: str | None = None


class LlmMessage(Struct):
    """A message to or from the model."""

    content: list[Words] | None = None


class Observed(Struct):
    """What a tool gave. Earlier versions have `output` in place of `content`."""

    content: Raw | UnsetType = UNSET
    output: Raw | UnsetType = UNSET
    is_error: bool | None = None
    exit_code: int | None = None
    metadata: CommandMetadata | None = None

    @property
    def code(self) -> int | None:
        """The exit code."""
        return self.exit_code if self.exit_code is not None or self.metadata is None else self.metadata.exit_code


class NewEvent(Struct):
    """An event of version 1; which fields it has depends on `kind`."""

    kind: str
    id: str | None = None
    timestamp: str | None = None
    source: str | None = None
    llm_message: LlmMessage | None = None
    llm_response_id: str | None = None
    thought: list[Words] | None = None
    reasoning_content: str | None = None
    action: Raw | UnsetType = UNSET
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_call: Raw | UnsetType = UNSET
    observation: Observed | None = None
    error: Raw | UnsetType = UNSET
    key: str | None = None
    value: Raw | UnsetType = UNSET
    status: str | None = None
    tool_kind: str | None = None
    raw_input: Raw | UnsetType = UNSET
    raw_output: Raw | UnsetType = UNSET


class Asked(Struct):
    """A call as the model asked for it."""

    arguments: str = ""


class _Kind(Struct):
    """What tells the versions apart."""

    kind: str | None = None


_kind = msgspec.json.Decoder(_Kind)
_old = msgspec.json.Decoder(OldEvent)
_new = msgspec.json.Decoder(NewEvent)
_asked = msgspec.json.Decoder(Asked)
_members = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


class Conversation:
    """The events of one conversation. `is_open`: its last turn has not ended."""

    def __init__(self, session: str | None = None) -> None:
        self.is_open = False
        self._session = session
        self._number = 0
        self._open: dict[int, str] = {}
        self._delegates: list[str] = []

    def told(self, event: bytes, place: int | None = None) -> Iterator[Told]:
        """What an event says."""
        self._number += 1
        kind = decoded(_kind, event).kind
        told = self._old(decoded(_old, event), event) if kind is None else self._new(decoded(_new, event))
        for each in told:
            self.is_open = not isinstance(each.event, TurnEnded)
            yield each._replace(session=self._session, place=place)

    # --- version 0 ----------------------------------------------------------------------------------------------------

    def _old(self, event: OldEvent, written_event: bytes) -> Iterator[Told]:
        if event.observation is not None:
            yield from self._observed(event, event.observation)
        elif event.action == "message":
            yield from self._said(event, written_event)
        elif event.action == "condensation":
            yield Told(Compacted(), at=event.timestamp)
        elif event.action is not None and event.action not in NO_CALLS and event.source in ("agent", None):
            yield from self._acted(event, event.action, written_event)

    def _said(self, event: OldEvent, written_event: bytes) -> Iterator[Told]:
        is_first = event.source is None and self._number == 1  # the oldest have no source
        if event.source == "user" or is_first:
            yield Told(TurnStarted(), at=event.timestamp)
            return
        words = _text(_arguments(event, written_event).get("content", UNSET))
        if words:
            yield Told(Text(words), self._scope, f"event {self._number}", at=event.timestamp)

    def _acted(self, event: OldEvent, action: str, written_event: bytes) -> Iterator[Told]:
        arguments = _arguments(event, written_event)
        metadata = event.metadata or Metadata()
        response = metadata.model_response
        message = f"event {self._number}" if response is None or response.id is None else response.id
        thought = _text(arguments.get("thought", UNSET))
        if thought:
            yield Told(Text(thought), self._scope, message, at=event.timestamp)
        call = _call(metadata, action, arguments)
        call.id = metadata.tool_call_id or f"event {self._number}"
        self._open[self._number if event.id is None else event.id] = call.id
        yield Told(ToolCalls([call]), self._scope, message, at=event.timestamp)
        if action == "delegate":
            self._delegates.append(call.id)
        elif action == FINISH and not self._delegates:
            yield Told(TurnEnded(), at=event.timestamp)

    def _observed(self, event: OldEvent, observation: str) -> Iterator[Told]:
        if observation == "agent_state_changed":
            state = None if event.extras is None else event.extras.agent_state
            if state in STATES and not self._delegates:
                yield Told(TurnEnded(STATES[state]), at=event.timestamp)
            return
        call_id = self._answered(event, observation)
        if call_id is None:
            return
        if self._delegates and self._delegates[-1] == call_id:
            self._delegates.pop()
        yield Told(ToolResults([_old_result(event, observation, call_id)]), self._scope, at=event.timestamp)

    def _answered(self, event: OldEvent, observation: str) -> str | None:
        """The call that an observation is of, which waits no longer.

        What a delegate came to has no cause, and of the oldest nothing has: there the order tells.
        """
        cause = event.cause
        if cause is None and observation == "delegate" and self._delegates:
            cause = next((number for number, call_id in self._open.items() if call_id == self._delegates[-1]), None)
        elif cause is None and event.id is None:
            cause = next(iter(self._open), None)
        return None if cause is None else self._open.pop(cause, None)

    @property
    def _scope(self) -> str | None:
        return self._delegates[-1] if self._delegates else None

    # --- version 1 ----------------------------------------------------------------------------------------------------

    def _new(self, event: NewEvent) -> Iterator[Told]:
        message = event.llm_response_id or event.id
        for each in _new_events(event):
            yield Told(each, message=message, at=event.timestamp)


# --- version 0 --------------------------------------------------------------------------------------------------------


def _arguments(event: OldEvent, written_event: bytes) -> Mapping[str, Raw]:
    """The fields of an action: in `args`, or side by side with those of the event."""
    if event.args is not None:
        return event.args
    return {name: value for name, value in decoded(_members, written_event).items() if name not in ABOUT_THE_EVENT}


def _call(metadata: Metadata, action: str, arguments: Mapping[str, Raw]) -> Call:
    """The call of an action: as the model wrote it, or else as it was understood."""
    asked = metadata.written
    if metadata.function_name and asked is not None:
        return Call(metadata.function_name, None, written.arguments(asked))
    tool = _text(arguments.get("name", UNSET)) if action in ("mcp", "call_tool_mcp") else None
    if tool is not None:
        return Call(tool, None, arguments.get("arguments", UNSET))
    kept = {name: value for name, value in arguments.items() if name not in DECORATION}
    return Call(metadata.function_name or action, None, Raw(msgspec.json.encode(kept)))


def _old_result(event: OldEvent, observation: str, call_id: str) -> Result:
    if observation == "user_rejected":
        return Result(call_id, status="cancelled", error_type="denied")
    extras = event.extras or Extras()
    if extras.error_id is not None and extras.error_id.startswith(NOT_EXECUTED):
        return Result(call_id, status="notStarted")
    code = event.exit_code if extras.code is None else extras.code
    ok = None if code is None or code == STILL_RUNS else code == 0
    has_failed = event.success is False and code != STILL_RUNS  # it says so of a command that still runs, too
    if observation == "error" or has_failed or extras.error == TRUE:
        ok = False
    return result_of(call_id, event.content if isinstance(event.content, Raw) else Raw(b'""'), ok=ok)


# --- version 1 --------------------------------------------------------------------------------------------------------


def _new_events(event: NewEvent) -> Iterator[Event]:
    match event.kind:
        case "MessageEvent":
            if event.source == "user":
                yield TurnStarted()
            elif event.source == "agent" and event.llm_message is not None:
                yield from _texts(event.llm_message.content)
        case "ActionEvent":
            if event.reasoning_content:
                yield Thought(description=event.reasoning_content)
            yield from _texts(event.thought)
            yield ToolCalls([Call(event.tool_name, event.tool_call_id, _new_arguments(event))])
        case "ObservationEvent":
            yield ToolResults([_new_result(event)])
            if event.tool_name == FINISH:
                yield TurnEnded()
        case "AgentErrorEvent":
            yield ToolResults([Result(event.tool_call_id, ok=False, error=event.error)])
        case "UserRejectObservation":
            yield ToolResults([Result(event.tool_call_id, status="cancelled", error_type="denied")])
        case "ACPToolCallEvent":
            yield from _foreign(event)
        case "Condensation":
            yield Compacted()
        case "InterruptEvent":
            yield TurnEnded("cancelled")
        case "ConversationErrorEvent":
            yield TurnEnded("failed")
        case "ConversationStateUpdateEvent":
            status = _text(event.value)
            if event.key in STATUS_KEYS and status in STATUSES:
                yield TurnEnded(STATUSES[status])
        case _:
            pass


def _texts(words: Sequence[Words] | None) -> Iterator[Text]:
    return (Text(each.text) for each in words or () if each.text)


def _new_arguments(event: NewEvent) -> Raw | UnsetType:
    """The action as it was understood; the model's own arguments hold a summary, in new words each time."""
    if written.is_given(event.action):
        return event.action
    return written.arguments(decoded(_asked, bytes(event.tool_call)).arguments) if event.tool_call else UNSET


def _new_result(event: NewEvent) -> Result:
    observed = event.observation or Observed()
    said = observed.content if isinstance(observed.content, Raw) else observed.output
    code = observed.code
    if observed.is_error:
        ok = False
    elif code is not None:
        ok = None if code == STILL_RUNS else code == 0
    else:
        ok = None if observed.is_error is None or event.tool_name in SHELL_TOOLS else True
    return result_of(event.tool_call_id, said if isinstance(said, Raw) else Raw(b'""'), ok=ok)


def _foreign(event: NewEvent) -> Iterator[Event]:
    """A call of an agent behind ACP, which is told again and again; the last time it is told as a whole."""
    if event.status in ("completed", "failed"):
        arguments = event.raw_input if written.is_given(event.raw_input) else UNSET
        yield ToolCalls([Call(event.tool_kind, event.tool_call_id, arguments)])
        said = event.raw_output if isinstance(event.raw_output, Raw) else Raw(b"null")
        yield ToolResults([result_of(event.tool_call_id, said, ok=False if event.status == "failed" else None)])


def _text(value: Raw | UnsetType) -> str | None:
    """A value that is a string."""
    if not isinstance(value, Raw) or not bytes(value).startswith(b'"'):
        return None
    return decoded(_string, bytes(value))


# --- files ------------------------------------------------------------------------------------------------------------


class Row(Struct):
    """A conversation in a line. `error`: why the evaluation gave up on it."""

    history: list[Raw]
    instance_id: str | None = None
    error: Raw | UnsetType = UNSET


class Export(Struct):
    """A list of events in an object, as the server answers it."""

    trajectory: list[Raw]


_row = msgspec.json.Decoder(Row)
_export = msgspec.json.Decoder(Export)
_list = msgspec.json.Decoder(list[Raw])


class Reader:
    """Reads lines of events, of lists or of conversations; what does not begin with a whole one is one document."""

    def __init__(self) -> None:
        self._conversation = Conversation()
        self._rows = 0
        self._document: Document | None = None
        self._has_begun = False

    def line(self, line: bytes) -> Iterable[Told]:
        """What a line says."""
        if not self._has_begun:
            self._has_begun = True
            self._document = None if _is_whole(line) else Document(self._value)
        return self._value(line) if self._document is None else self._document.line(line)

    def end(self) -> Iterable[Told]:
        """A document."""
        return () if self._document is None else self._document.end()

    def _value(self, value: bytes) -> Iterator[Told]:
        value = value.strip()
        if value.startswith(b"["):
            yield from self._list(decoded(_list, value))
            return
        members = decoded(_members, value)
        if "history" in members:
            yield from self._row(decoded(_row, value))
        elif "trajectory" in members:
            yield from self._list(decoded(_export, value).trajectory)
        else:
            yield from self._conversation.told(value)

    def _list(self, events: Sequence[Raw]) -> Iterator[Told]:
        parts = Parts()
        for place, event in enumerate(events, 1):
            yield from _read(self._conversation, event, place, parts)
        parts.complain()

    def _row(self, row: Row) -> Iterator[Told]:
        self._rows += 1
        session = row.instance_id or f"conversation {self._rows}"
        conversation, parts = Conversation(session), Parts()
        for place, event in enumerate(_flat(row.history), 1):
            for told in _read(conversation, event, place, parts):
                yield told._replace(place=None)  # the row's line says more
        if conversation.is_open:
            yield Told(TurnEnded("failed" if written.is_given(row.error) else "completed"), session=session)
        parts.complain()


def _read(conversation: Conversation, event: Raw, place: int, parts: Parts) -> Iterator[Told]:
    try:
        yield from conversation.told(bytes(event), place)
    except UnreadableError as error:
        parts.note(error, place)


def _flat(history: Sequence[Raw]) -> Sequence[Raw]:
    """The events of a history, which may be pairs."""
    if not history or not bytes(history[0]).lstrip().startswith(b"["):
        return history
    return [event for pair in history for event in decoded(_list, bytes(pair))]


def _is_whole(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=Raw)
    except (msgspec.DecodeError, UnicodeError):
        return False
    except RecursionError:  # that is told when it is read
        return True
    return True


HISTORIES: Final = (".history[]", ".history[][]")
LISTS: Final = ("", "[]", ".trajectory[]", *HISTORIES)
"""Where events may be in a file: one a line, a list of them, and those of a conversation."""

ROW: Final = frozenset({".instruction", ".instance_id"})


def _recognises(head: Head) -> bool:
    shown = outline(head.start)
    if any(_has_events(shown, place) for place in LISTS):
        return True
    return not ROW.isdisjoint(shown) and any(
        {f"{place}.action", f"{place}.observation"} <= shown for place in HISTORIES
    )


def _has_events(shown: frozenset[str], place: str) -> bool:
    if not {f"{place}.source", f"{place}.timestamp", f"{place}.id"} <= shown:
        return False
    return any(f"{place}.{name}" in shown for name in ("kind", "action", "observation"))


FORMAT = Format(
    "openhands",
    _recognises,
    Reader,
    (
        Kept("OPENHANDS_PERSISTENCE_DIR", ".openhands", "conversations/**/events"),
        Kept("OPENHANDS_CONVERSATIONS_DIR", ".openhands/conversations", "**/events"),
        *(
            Kept(variable, directory, pattern)
            for variable, directory in (("FILE_STORE_PATH", ".openhands"), (None, ".openhands-state"))
            for pattern in ("sessions/*/events", "users/*/conversations/*/events")
        ),
    ),
)
