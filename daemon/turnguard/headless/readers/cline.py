"""Cline and Roo Code: `api_conversation_history.json`, the messages of one task as they went to the model.

A document, of which there are three shapes: a list of messages of Anthropic's API (both programs); that list in an
object with a `sessionId` (Cline's command line); messages of the AI SDK in an object of version 2 (Roo Code).

Calls are blocks, or else XML in the model's words. Results are blocks too, or texts that begin `[tool for ...] Result:`
and answer the calls in order. What else stands in messages of the user the program wrote, unless it is in `<task>`,
`<user_message>`, `<user_input>` or `<feedback>`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnguard.core.hint import shell_hint
from turnguard.headless.readers import written
from turnguard.headless.readers.document import Document, Parts, outline
from turnguard.headless.readers.results import result_of
from turnguard.transcript import Format, Head, Kept, Told, decoded
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
    TurnStarted,
    UserInput,
)

# --- the shapes -------------------------------------------------------------------------------------------------------


class Block(Struct):
    """A block of a message; which fields it has depends on `type`."""

    type: str = "text"
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET
    tool_use_id: str | None = None
    content: Raw | UnsetType = UNSET
    is_error: bool | None = None
    tool_call_id: str | None = msgspec.field(default=None, name="toolCallId")
    tool_name: str | None = msgspec.field(default=None, name="toolName")
    output: Raw | UnsetType = UNSET


class Message(Struct):
    """A message."""

    role: str = ""
    content: str | list[Block] | None = None
    ts: float | None = None
    is_summary: bool | None = msgspec.field(default=None, name="isSummary")
    is_truncation: bool | None = msgspec.field(default=None, name="isTruncationMarker")

    @property
    def blocks(self) -> Sequence[Block]:
        """Its blocks; a text is one."""
        return self.content if isinstance(self.content, list) else [Block(text=self.content)]


class Session(Struct):
    """An object with the messages. `session` is only there when Cline's command line wrote it."""

    messages: list[Raw]
    session: str | None = msgspec.field(default=None, name="sessionId")


class Ran(Struct):
    """What became of one of the commands, or of the files, of a call of Cline's command line."""

    result: str | None = None
    error: str | None = None
    success: bool | None = None


class Output(Struct):
    """The output of a call of the AI SDK."""

    type: str = ""
    value: Raw | UnsetType = UNSET


_list = msgspec.json.Decoder(list[Raw])
_session = msgspec.json.Decoder(Session)
_message = msgspec.json.Decoder(Message)
_members = msgspec.json.Decoder(dict[str, Raw])
_ran = msgspec.json.Decoder(list[Ran])
_output = msgspec.json.Decoder(Output)
_commands = msgspec.json.Decoder(list[str])
_texts = msgspec.json.Decoder(list[Block])


def _read(document: bytes) -> Iterator[Told]:
    document = document.strip()
    is_list = document.startswith(b"[")
    session = Session(decoded(_list, document)) if is_list else decoded(_session, document)
    conversation, parts = Conversation(ends_in_words=session.session is not None), Parts()
    for place, message in parts.read(session.messages, _message):
        at = None if message.ts is None else f"{message.ts:.0f}"
        of_model = str(place) if message.role == "assistant" else None
        for event in conversation.events(message, str(place)):
            yield Told(event, message=of_model, place=place, at=at)
    if conversation.is_completed:
        yield Told(TurnEnded())
    parts.complain()


class Conversation:
    """The messages of one task. `ends_in_words`: a message of the model's without a call ends its turn.

    `is_completed`: the turn has ended by the model's last message.
    """

    def __init__(self, *, ends_in_words: bool) -> None:
        self.is_completed = False
        self._ends_in_words = ends_in_words
        self._has_begun = False
        self._open: list[Call] = []

    def events(self, message: Message, number: str) -> Iterator[Event]:
        """What a message says."""
        if message.is_summary or message.is_truncation:
            yield Compacted()
        elif message.role == "assistant":
            yield from self._of_model(message, number)
        elif message.role in ("user", "tool"):
            yield from self._of_user(message)

    # --- the model ----------------------------------------------------------------------------------------------------

    def _of_model(self, message: Message, number: str) -> Iterator[Event]:
        calls: list[Call] = []
        words: list[str] = []
        for block in message.blocks:
            if block.type == "tool_use":
                calls.append(_call(block.name, block.id, block.input))
            elif block.type == "tool-call":
                calls.append(_call(block.tool_name, block.tool_call_id, block.input))
            elif block.type in ("thinking", "reasoning") and (block.thinking or block.text):
                yield Thought(description=block.thinking or block.text or "")
            elif block.text:
                words.append(block.text)
                yield Text(block.text)
        calls = calls or list(_written_calls("\n".join(words), number))
        self._open = list(calls)
        self.is_completed = any(call.name == COMPLETION for call in calls) or (self._ends_in_words and not calls)
        if calls:
            yield ToolCalls(calls)

    # --- the user, and the program in the user's place ----------------------------------------------------------------

    def _of_user(self, message: Message) -> Iterator[Event]:
        results: list[Result] = []
        said: list[str] = []
        for block in message.blocks:
            if block.type == "tool_result":
                results += self._settled(block.tool_use_id, _of_block(block))
                said += _spoken_in(block)
            elif block.type == "tool-result":
                results += self._settled(block.tool_call_id, _of_output(block))
            elif block.text:
                said.append(block.text)
        answers, words = _answers(said)
        results += [result for name, text in answers for result in self._answered(name, text)]
        if results:
            yield ToolResults(results)
        words += [text for name, text in answers if name in CONVERSATION or text.startswith(BY_THE_USER)]
        yield from self._words(words)

    def _settled(self, call_id: str | None, result: Result) -> Iterator[Result]:
        """The result of a call of this id."""
        call = next((call for call in self._open if call.id == call_id), None)
        if call is not None:
            self._open.remove(call)
            result.id = call_id
            yield result

    def _answered(self, name: str, text: str) -> Iterator[Result]:
        """The result of the first call that waits for one; of one of that name, where there is one."""
        call = next((call for call in self._open if call.name == name), next(iter(self._open), None))
        if call is not None:
            self._open.remove(call)
            result = _of_text(text)
            result.id = call.id
            yield result

    def _words(self, texts: Sequence[str]) -> Iterator[Event]:
        """What a person said: a prompt, or words to a turn that goes on."""
        has_feedback = any(text.lstrip().startswith(BY_THE_USER) and FEEDBACK in text for text in texts)
        is_prompt = any(_is_prompt(text) for text in texts) or (self.is_completed and has_feedback)
        if is_prompt or not self._has_begun:
            self._has_begun = True
            if self.is_completed:
                self.is_completed = False
                yield TurnEnded()
            yield TurnStarted()
        elif has_feedback:
            yield UserInput()


# --- calls ------------------------------------------------------------------------------------------------------------

COMPLETION: Final = "attempt_completion"

TOOLS: Final = (
    *(
        "execute_command",
        "read_file",
        "write_to_file",
        "replace_in_file",
        "search_files",
        "list_files",
        "browser_action",
    ),
    *("list_code_definition_names", "use_mcp_tool", "access_mcp_resource", "ask_followup_question", COMPLETION),
    *("new_task", "plan_mode_respond", "load_mcp_documentation", "web_fetch", "web_search", "condense", "new_rule"),
    *("use_subagents", "summarize_task", "report_bug", "use_skill"),
    *("apply_diff", "insert_content", "search_and_replace", "switch_mode", "fetch_instructions", "codebase_search"),
    *("update_todo_list", "run_slash_command", "generate_image", "edit_file", "apply_patch", "search_replace"),
)
"""Tools that a model may call in XML: Cline's, and those of Roo Code besides."""

CALL = re.compile(rf"<({'|'.join(TOOLS)})>(.*?)</\1>", re.DOTALL)
PARAMETER = re.compile(r"<(\w+)>\n?(.*?)\n?</\1>", re.DOTALL)
THINKING = re.compile(r"<thinking>.*?</thinking>", re.DOTALL)

DECORATION: Final = frozenset({"task_progress"})
"""A list of what is done and what is not, which stands beside the arguments of any call."""


def _call(name: str | None, call_id: str | None, arguments: Raw | UnsetType) -> Call:
    members = _members_of(arguments)
    if not DECORATION.isdisjoint(members):
        kept = {name: value for name, value in members.items() if name not in DECORATION}
        arguments = Raw(msgspec.json.encode(kept))
    return Call(name, call_id, arguments, hint=_hint(members))


def _members_of(arguments: Raw | UnsetType) -> Mapping[str, Raw]:
    if not isinstance(arguments, Raw) or not bytes(arguments).startswith(b"{"):
        return {}
    return decoded(_members, bytes(arguments))


def _hint(members: Mapping[str, Raw]) -> str | None:
    """The hint of a call that runs several commands."""
    try:
        return shell_hint("\n".join(_commands.decode(members["commands"])))
    except (KeyError, msgspec.DecodeError, UnicodeError):
        return None


def _written_calls(words: str, message: str) -> Iterator[Call]:
    """The calls that a model wrote as XML."""
    for number, call in enumerate(CALL.finditer(THINKING.sub("", words)), 1):
        arguments = {name: value for name, value in PARAMETER.findall(call[2]) if name not in DECORATION}
        yield Call(call[1], f"{message}.{number}", Raw(msgspec.json.encode(arguments)))


# --- results ----------------------------------------------------------------------------------------------------------

ANSWER = re.compile(r"\A\[(\w+)(?: for '.{0,100000}?'| [^\]\n]*)?\] Result:\n?", re.DOTALL)
"""How a text begins that is the result of a call; a command may have several lines."""

NO_ANSWER: Final = (
    *("<environment_details>", "[ERROR]", "[TASK RESUMPTION]", "<feedback>", "New instructions", "New message"),
    *("# TODO LIST", "# task_progress"),
)
"""How texts begin that are no part of the result before them."""

FAILED: Final = (
    *("The tool execution failed with the following error", "[ERROR]", '{"status":"error"', '{"error":'),
    *("The command was terminated after exceeding ", "The command was cancelled by the user."),
    *("Command failed to execute in terminal ", "Working directory '"),
)
DENIED: Final = ("The user denied this operation", '{"status":"denied"')
NOT_RUN = re.compile(r"\ATool \[\w+\] was not executed because ")
EXIT_CODE = re.compile(
    r"\ACommand (?:failed with exit code |executed\b(?:[^\n]*?\b|[^\n]* not successful, [^\n]*\n)Exit code: )(-?\d+)"
)
"""How the result of a command begins: with Cline, if it failed, and with Roo Code."""

SIGNAL = re.compile(r"\ACommand executed\b[^\n]*?\. Process terminated by signal ")


def _answers(texts: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The results among the texts of a message, each with its tool; and the other texts.

    In earlier versions a result is two texts, of which the first is only its beginning.
    """
    answers: list[tuple[str, str]] = []
    others: list[str] = []
    for text in texts:
        begins = ANSWER.match(text)
        if begins is not None:
            answers.append((begins[1], text[begins.end() :]))
        elif answers and not answers[-1][1] and not text.lstrip().startswith(NO_ANSWER):
            answers[-1] = answers[-1][0], text
        else:
            others.append(text)
    return answers, others


def _of_text(text: str) -> Result:
    """A result that is only a text."""
    if text.startswith(DENIED):
        return Result(status="cancelled", error_type="denied")
    if NOT_RUN.match(text):
        return Result(status="notStarted")
    ok = False if text.startswith(FAILED) else None
    code = EXIT_CODE.match(text)
    if code is not None:
        ok = code[1] == "0"
    elif SIGNAL.match(text):
        ok = False
    return result_of(None, written.text(text), ok=ok)


def _of_block(block: Block) -> Result:
    """A result of Anthropic's API; that of Cline's command line is a list of what became of each command or file."""
    content = block.content if isinstance(block.content, Raw) else Raw(b'""')
    ran = _each_of(content)
    if ran:
        said = written.text("\n".join(each.result or each.error or "" for each in ran))
        return result_of(None, said, ok=all(each.success for each in ran))
    texts = _texts_of(content)
    result = _of_text("\n".join(texts)) if texts else Result(output=content)
    if block.is_error and result.status == "done":
        result = result_of(None, content, ok=False)
    return result


def _each_of(content: Raw) -> Sequence[Ran]:
    try:
        ran = _ran.decode(content)
    except (msgspec.DecodeError, UnicodeError):
        return ()
    return ran if all(each.success is not None for each in ran) else ()


def _texts_of(content: Raw) -> Sequence[str]:
    if bytes(content).startswith(b'"'):
        return [written.string_of(content) or ""]
    try:
        return [block.text for block in _texts.decode(content) if block.text is not None]
    except (msgspec.DecodeError, UnicodeError):
        return ()


def _of_output(block: Block) -> Result:
    """A result of the AI SDK; what it has to be wrapped in is not always there."""
    given = block.output if isinstance(block.output, Raw) else Raw(b'""')
    output = decoded(_output, bytes(given)) if bytes(given).startswith(b"{") else Output(value=given)
    value = output.value if isinstance(output.value, Raw) else Raw(b'""')
    if output.type.startswith("error"):
        return result_of(None, value, ok=False)
    texts = _texts_of(value)
    return _of_text("\n".join(texts)) if texts else Result(output=value)


# --- what a person says -----------------------------------------------------------------------------------------------

PROMPTS: Final = ("<task>", "<user_message>", "<user_input")
FEEDBACK: Final = "<feedback>"
BY_THE_USER: Final = ("The user ", FEEDBACK)

CONVERSATION: Final = frozenset({COMPLETION, "plan_mode_respond", "ask_followup_question"})
"""Tools whose result is what the person says to it."""

CONTINUED: Final = ("[TASK RESUMPTION]", "New instructions", "New message")
"""How texts of the program's begin that may hold what a person says."""


def _is_prompt(text: str) -> bool:
    text = text.lstrip()
    return text.startswith(PROMPTS) or (text.startswith(CONTINUED) and "<user_message>" in text)


def _spoken_in(block: Block) -> Sequence[str]:
    """The texts of a result that a person may have said."""
    texts = _texts_of(block.content) if isinstance(block.content, Raw) else ()
    return [text for text in texts if text.lstrip().startswith((*PROMPTS, *BY_THE_USER))]


# --- the formats ------------------------------------------------------------------------------------------------------

MARKS: Final = (b"<task>", b"<environment_details>", b"<user_message>", b"<user_input")
"""What neither program's messages are without."""

MODE: Final = b"<slug>"
"""What Roo Code tells of its mode, and Cline does not."""

VERSION_2: Final = {".version", ".messages[].role"}
CALLS_OF_2: Final = ".messages[].content[].toolCallId"
SESSION: Final = {".sessionId", ".origin", ".messages[].role"}
LISTED: Final = {"[].role", "[].content"}


def _is_cline(head: Head) -> bool:
    shown = outline(head.start)
    return shown >= SESSION or (shown >= LISTED and any(mark in head.start for mark in MARKS))


def _is_roo(head: Head) -> bool:
    shown = outline(head.start)
    if shown >= VERSION_2 and not shown >= SESSION:
        return CALLS_OF_2 in shown or any(mark in head.start for mark in MARKS)
    return shown >= LISTED and MODE in head.start and _is_cline(head)


TASKS: Final = "tasks/*/api_conversation_history.json"
EDITORS: Final = ((None, ".config"), (None, "Library/Application Support"), ("APPDATA", "AppData/Roaming"))
"""Where VS Code and its kin have their folders, each under its name."""


def _stored(extension: str) -> Iterator[Kept]:
    """The folder of an extension in every editor."""
    storage = f"User/globalStorage/{extension}/{TASKS}"
    yield from (Kept(variable, directory, f"*/{storage}") for variable, directory in EDITORS)
    yield Kept(None, ".vscode-server/data", storage)


ROO = Format("roo", _is_roo, lambda: Document(_read), tuple(_stored("rooveterinaryinc.roo-cline")))

FORMAT = Format(
    "cline",
    _is_cline,
    lambda: Document(_read),
    (
        *_stored("saoudrizwan.claude-dev"),
        Kept("CLINE_DIR", ".cline", f"data/{TASKS}"),
        Kept("CLINE_DIR", ".cline", "data/sessions/*/*.messages.json"),
    ),
)
