"""Qwen Code, whose hooks are Claude Code's with other ends. Seen with version 0.24.

`continue: false` ends nothing. But the event of a prompt comes again, with no words, before each request of the same
turn to the model, and `block` there does end it: so a halted turn ends after the call that was refused.
"""

from typing import Any

from turnguard.headless.hooks.agents import claude, gemini
from turnguard.headless.hooks.call import Agent, Answer, Heard, Input, Place


def answer(heard: Heard, said: Answer) -> dict[str, Any]:
    """The answer in Qwen Code's form."""
    told = claude.answer(heard, said._replace(stop=None))
    if heard.moment == "again" and said.stop is not None:
        told |= {"decision": "block", "reason": said.stop}
    return told


def is_sure(given: Input) -> bool:
    """It alone has two ids for a call."""
    return given.tool_call_id is not None or (given.prompt_id is not None and "########" in given.prompt_id)


def goes_on(given: Input) -> bool:
    """Whether the prompt is none: it has no words."""
    return bytes(given.prompt or b"") == b'""'


AGENT = Agent(
    "qwen",
    claude.MOMENTS,
    answer,
    Place(
        ".qwen/settings.json",
        tuple(claude.MOMENTS),
        variable="QWEN_HOME",
        within="settings.json",
        with_matcher=claude.TOOLS,
    ),
    output=gemini.output,
    is_sure=is_sure,
    hears_before=False,
    goes_on=goes_on,
)
