"""Gemini CLI. Documented at geminicli.com/docs/hooks/reference; the rest was seen with version 0.61.

`continue: false` ends the turn before a call as after one, and the call does not run. Calls have no ids. PreCompress is
no sign of a compaction: it comes before every request to the model, so it is not listened to. Before a call there is no
place for words to the model; they wait for the result of that call.
"""

import re
from typing import Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType, field, json

from turnguard.headless.hooks.call import Agent, Answer, Heard, Input, Moment, Place

MOMENTS: dict[str, Moment] = {
    "BeforeAgent": "prompt",
    "BeforeTool": "before",
    "AfterTool": "after",
    "AfterAgent": "ended",
    "SessionEnd": "ended",
}

PROCESS_GROUP: Final = re.compile(rb"(?:\\n)?Process Group PGID: [^\\\"]*+")
"""A line of a command's result, in JSON, that is never twice the same."""


class _Response(Struct):
    """What the model is told."""

    content: Raw | UnsetType = field(default=UNSET, name="llmContent")


_response = json.Decoder(_Response)


def output(response: Raw) -> Raw:
    """What the model is told, without the number of a command's processes."""
    if not bytes(response).startswith(b"{"):
        return response
    content = _response.decode(response).content
    return response if content is UNSET else Raw(PROCESS_GROUP.sub(b"", bytes(content)))


def answer(heard: Heard, said: Answer) -> dict[str, Any]:
    """The answer in Gemini's form."""
    told: dict[str, Any] = {}
    if said.refusal is not None:
        told |= {"decision": "deny", "reason": said.refusal}
    if said.stop is not None:
        told |= {"continue": False, "stopReason": said.stop}
    if said.person is not None:
        told["systemMessage"] = said.person
    if said.context is not None:
        told["hookSpecificOutput"] = {"hookEventName": heard.name, "additionalContext": said.context}
    return told


def is_sure(given: Input) -> bool:
    """Its names of events are its own."""
    return given.event in MOMENTS and given.event != "SessionEnd"


AGENT = Agent(
    "gemini",
    MOMENTS,
    answer,
    Place(
        ".gemini/settings.json",
        tuple(MOMENTS),
        variable="GEMINI_CLI_HOME",
        within=".gemini/settings.json",
        with_matcher=("BeforeTool", "AfterTool"),
    ),
    output=output,
    is_sure=is_sure,
    hears_before=False,
    is_failure_known=False,
)
