"""AgentTable: how one agent's messages are read. This one fits agents that nobody knows; each other overrides a little.

Identity of a call: the tool's name, and its arguments without what differs from one equal call to the next.

    fidelity  what is known                           the arguments are
    full      `rawInput`                              that, without volatile members
    low       no `rawInput`, but signs of it          title, kind, places, the edits it proposes
    none      at most the name                        unknown: never identical to another call

Outcome of a call: what its result says, as text wherever it can be told, since only text is masked. An agent that shows
no results gives none, and the call's outcome stays unknown. Where it never shows them its table says so: `is_blind`.
"""

import json
import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from turnguard.acp.agents.merged import FAILED, TERMINAL, MergedCall, is_given
from turnguard.acp.messages import USAGE_UPDATE, Update, member, members, plain, raw_of, text
from turnguard.core.hint import SHELL_TOOLS, last_part
from turnguard.core.javascript import Json
from turnguard_protocol.events import Fidelity

NAMES_IN_META = (
    ("claudeCode", "toolName"),
    ("toolName",),
    ("tool_name",),
    ("goose", "toolCall", "toolName"),
)
"""Where in `_meta` agents put the tool's name: claude-agent-acp; qwen-code; mistral-vibe; goose."""

TRANSCRIPTS = ("formatted_output", "aggregated_output", "output", "text", "error", "message")
"""Members of a result that hold all of its text, the first that does counts."""

MAX_NAME = 64
"""Characters of a title that is a tool's name; models' providers allow no longer names."""

EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code", "exit")


class Identity(NamedTuple):
    """Who a call is. `args` UNSET: unknown."""

    name: str | None
    args: Raw | UnsetType = UNSET
    fidelity: Fidelity = "none"


class Outcome(NamedTuple):
    """What became of a call. `output` UNSET: not told; `ok` None: the agent does not say."""

    output: Raw | UnsetType = UNSET
    ok: bool | None = None


class AgentTable:
    """An agent nobody knows. All the attributes say how a known one differs."""

    key: ClassVar[str] = "generic"
    """What status reports call this table."""

    volatile: ClassVar[frozenset[str]] = frozenset()
    """Members of `rawInput` and of `rawOutput` that are never equal."""

    no_input: ClassVar[frozenset[str]] = frozenset({"cwd"})
    """Members of `rawInput` that are no arguments as long as they stand alone."""

    title_is_input: ClassVar[bool] = False
    """Whether the title is made from the arguments, and always the same way."""

    streams_input: ClassVar[bool] = False
    """Whether arguments grow while the call is already in progress."""

    permission_has_input: ClassVar[bool] = True
    """Whether a permission request gives the arguments as the call itself does."""

    marks_a_step: ClassVar[int] = 0
    """Messages that mark a step in each step; 0: there are none. The last of them ends the model's response."""

    masks: ClassVar[Sequence[re.Pattern[str]]] = ()
    """What is taken out of results besides what the core takes out of all."""

    # --- what is a call, and what ends a step -------------------------------------------------------------------------

    def is_call(self, call: MergedCall, *, has_output: bool) -> bool:
        """Whether the model made this call. `has_output`: the model has shown something in this turn before."""
        return True

    def marks_step(self, update: Update) -> bool:
        """Whether the message is one of those of `marks_a_step`."""
        return update.kind == USAGE_UPDATE

    # --- identity -----------------------------------------------------------------------------------------------------

    def has_input(self, call: MergedCall) -> bool:
        """Whether `rawInput` holds arguments."""
        return bool(self._inputs(call).keys() - self.no_input) or (
            is_given(call.raw_input) and not isinstance(plain(call.raw_input), dict)
        )

    def identity(self, call: MergedCall) -> Identity:
        """Who the call is, by all that is known of it now."""
        name = self.told_tool(call)
        mcp = self._mcp(call) if name is None else None
        if mcp is not None:
            return mcp
        name = name or self.untold_tool(call)
        if self.has_input(call):
            return Identity(name, self.arguments(call), "full")
        signs = self.signs(call)
        return Identity(name, raw_of(signs), "low") if signs else Identity(name)

    def tool(self, call: MergedCall) -> str | None:
        """The tool's name; where there is none the kind of the call."""
        return self.told_tool(call) or self.untold_tool(call)

    def told_tool(self, call: MergedCall) -> str | None:
        """The name where a member of the call gives it."""
        return call.name or next(filter(None, (call.meta_text(*path) for path in NAMES_IN_META)), None)

    def untold_tool(self, call: MergedCall) -> str | None:
        """The name where no member of the call gives one."""
        return call.tool_kind

    def named_by(self, title: str | None, call: MergedCall) -> str | None:
        """The name where a title gives it. One of several words is none: it may be a whole command, secrets and all."""
        return title if title and len(title) <= MAX_NAME and not re.search(r"[\s=/@]", title) else call.tool_kind

    def arguments(self, call: MergedCall) -> Raw:
        """`rawInput` without members that are never equal: volatile ones, and the call's own id."""
        if not is_given(call.raw_input):
            return Raw(b"{}")
        inputs = self._inputs(call)
        own_id = raw_of(call.id)
        kept = {
            name: value for name, value in inputs.items() if name not in self.volatile and bytes(value) != bytes(own_id)
        }
        return cast("Raw", call.raw_input) if len(kept) == len(inputs) else object_of(kept)

    def signs(self, call: MergedCall) -> dict[str, Json]:
        """What tells of arguments that are not given; empty where nothing does."""
        signs: dict[str, Json] = {}
        places = plain(call.locations)
        if isinstance(places, list) and places:
            named = [f"{place.get('path')}:{place.get('line')}" for place in places if isinstance(place, dict)]
            signs["locations"] = list[Json](sorted(named))
        edits = [item for item in items(call.input_content) if item.get("type") == "diff"]
        if edits:
            signs["edits"] = [{name: edit.get(name) for name in ("path", "oldText", "newText")} for edit in edits]
        if self.is_title_telling(call):
            signs["title"] = call.title
        return {**signs, "kind": call.tool_kind} if signs else {}

    def is_title_telling(self, call: MergedCall) -> bool:
        """Whether the title says something of the arguments: it is made of them, or it is all there is."""
        if call.title is None or self.title_is_input:
            return call.title is not None
        return self.told_tool(call) is None and len(call.title.split()) > 1

    def _inputs(self, call: MergedCall) -> dict[str, Raw]:
        return dict(members(call.raw_input))

    def _mcp(self, call: MergedCall) -> Identity | None:
        """A call of an MCP server's tool, as both codex agents write it."""
        inputs = self._inputs(call)
        server, tool = text(inputs.get("server", UNSET)), text(inputs.get("tool", UNSET))
        if server is None or tool is None:
            return None
        return Identity(f"mcp__{server}__{tool}", inputs.get("arguments", Raw(b"{}")), "full")

    # --- outcome ------------------------------------------------------------------------------------------------------

    def outcome(self, call: MergedCall) -> Outcome:
        """What became of a call that has ended."""
        exit_code = self.exit_code(call)
        ok = None if call.status == "cancelled" else call.status != FAILED
        if ok and exit_code is not None:
            ok = exit_code == 0
        elif ok and self.is_shell(call):
            ok = None  # it may have failed: only the exit code tells
        return Outcome(self.output(call), ok)

    def output(self, call: MergedCall) -> Raw | UnsetType:
        """What the result says; UNSET where the agent shows none."""
        told = self.transcript(call)
        if told is not None:
            return self._said(told, self.exit_code(call))
        if is_given(call.raw_output):
            result = plain(call.raw_output)
            if isinstance(result, dict):
                kept = {name: value for name, value in members(call.raw_output).items() if name not in self.volatile}
                return object_of(kept) if kept else UNSET
            return call.raw_output
        return self.content_output(call)

    def transcript(self, call: MergedCall) -> str | None:
        """The result's text, where it is in one place."""
        result = plain(call.raw_output)
        if isinstance(result, str):
            return result
        if isinstance(result, dict):
            for name in TRANSCRIPTS:
                told = result.get(name)
                if isinstance(told, str) and (told or name in TRANSCRIPTS[:3]):
                    return told
            streams = [result.get(name) for name in ("stdout", "stderr")]
            if any(isinstance(stream, str) for stream in streams):
                return "\n".join(stream for stream in streams if isinstance(stream, str))
        return call.terminal_output if not is_given(call.raw_output) and call.terminal_output else call.streamed.text()

    def content_output(self, call: MergedCall) -> Raw | UnsetType:
        """The result by the content that is shown; terminals of the client are no content."""
        told = [self.masked(item) if isinstance(item, str) else item for item in shown(call)]
        if len(told) == 1 and isinstance(told[0], str):
            return json_text(told[0])
        return raw_of(list[Json](told)) if told else UNSET

    def exit_code(self, call: MergedCall) -> int | None:
        """The exit code of a command, None where it is not told."""
        for place in (call.raw_output, member(call.raw_output, "metadata")):
            found = members(place)
            for name in EXIT_CODES:
                value = plain(found.get(name, UNSET))
                if isinstance(value, int | float) and not isinstance(value, bool):
                    return int(value)
        return call.terminal_exit

    def is_blind(self, call: MergedCall) -> bool:
        """Whether the agent never shows what the result of such a call says."""
        return False

    def is_shell(self, call: MergedCall) -> bool:
        """Whether the call runs a command."""
        return call.tool_kind == "execute" or last_part(self.tool(call) or "").lower() in SHELL_TOOLS

    def masked(self, words: str) -> str:
        """A text without what this agent is known to put into results that are equal else."""
        for mask in self.masks:
            words = mask.sub("", words)
        return words

    def _said(self, words: str, exit_code: int | None) -> Raw:
        words = self.masked(words)
        return json_text(words if exit_code is None else f"{words}\nexit code {exit_code}")


def shown(call: MergedCall) -> Sequence[str | dict[str, Json]]:
    """The items of a call's content: texts as such, and no terminals."""
    if call.texts is not None:
        return call.texts
    told: list[str | dict[str, Json]] = []
    for item in items(call.content):
        content = item.get("content")
        words = content.get("text") if isinstance(content, dict) else None
        if isinstance(words, str):
            told.append(words)
        elif item.get("type") != TERMINAL:
            told.append(item)
    return told


def items(content: Raw | UnsetType) -> list[dict[str, Json]]:
    """The items of a call's content."""
    told = plain(content)
    return [item for item in told if isinstance(item, dict)] if isinstance(told, list) else []


def object_of(kept: dict[str, Raw]) -> Raw:
    """An object of members that are JSON text."""
    return Raw(b"{%b}" % b",".join(b"%b:%b" % (json.dumps(name).encode(), bytes(kept[name])) for name in kept))


def json_text(words: str) -> Raw:
    """A string as JSON; lone surrogates stay what they are."""
    try:
        return Raw(msgspec.json.encode(words))
    except UnicodeEncodeError:
        return Raw(json.dumps(words).encode())
