"""One call of a hook: what an agent says on stdin, in our words, and what is to be answered.

moment      what has happened                           what is told to the guards
prompt      a person has sent a prompt                  the turn before is over, another begins
again       the same turn goes on to the model, also    nothing
            by a prompt that no person wrote
before      a call is about to run                      a batch of one; after results, another step
after       a call has run                              its result
failed      a call has failed                           its result, as the error
compacted   the context is about to be compacted        that
ended       the agent has answered, or was left         the turn is over
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET, Raw, Struct, UnsetType, field

from turnguard.prose import bare
from turnguard_protocol.events import (
    Call,
    Compacted,
    Event,
    Result,
    StepFinished,
    ToolCalls,
    ToolResults,
    TurnEnded,
    TurnStarted,
)

Moment = Literal["prompt", "again", "before", "after", "failed", "compacted", "ended"]

NOTIFICATION: Final = b'"<task-notification>'
"""How a prompt begins, in JSON, that Claude Code and Codex write themselves: something in the background is done."""


class Input(Struct):
    """What agents say, as far as it is looked at; who says what is in their files."""

    event: str | None = field(default=None, name="hook_event_name")
    session_id: str | None = None
    agent_id: str | None = None
    turn_id: str | None = None
    prompt_id: str | None = None
    cwd: str | None = None
    prompt: Raw | UnsetType = UNSET
    tool_name: str | None = None
    tool_input: Raw | UnsetType = UNSET
    tool_response: Raw | UnsetType = UNSET
    tool_use_id: str | None = None
    tool_call_id: str | None = None
    error: Raw | UnsetType = UNSET
    is_interrupt: bool | None = None
    timestamp: Raw | UnsetType = UNSET
    session_in_camel_case: str | None = field(default=None, name="sessionId")
    event_in_camel_case: str | None = field(default=None, name="hookEventName")


class Heard(NamedTuple):
    """What a call of a hook says. `session_id`: the conversation. `scope`: the subagent that it is about."""

    session_id: str
    moment: Moment
    name: str
    events: tuple[Event, ...] = ()
    scope: str | None = None
    cwd: str | None = None
    tool: str | None = None


class Answer(NamedTuple):
    """What is to be answered. All None: nothing.

    `refusal`: why the call must not run, for the model. `stop`: why the turn is over. `context`: what else the model
    should know. `person`: what the person should.
    """

    refusal: str | None = None
    stop: str | None = None
    context: str | None = None
    person: str | None = None


NOTHING = Answer()


class Place(NamedTuple):
    """Where an agent's hooks are configured, and how.

    `file`: relative to a person's home and to a project alike; `within` a person's home `variable` may name another
    directory instead. `is_for_projects_only`: there is no such file of a person's own. `is_grouped`: hooks stand in
    groups, each with a matcher. `with_matcher`: the events whose groups have one. `after`: what is left to do.
    """

    file: str
    events: tuple[str, ...]
    variable: str | None = None
    within: str = ""
    is_for_projects_only: bool = False
    is_grouped: bool = True
    with_matcher: tuple[str, ...] = ()
    after: str = ""


def _never(given: Input) -> bool:  # noqa: ARG001
    return False


def _whole(response: Raw) -> Raw:
    return response


class Agent(NamedTuple):
    """One agent.

    `moments`: of its names of events. `answer`: the answer in its form. `output`: what of a tool's response is the
    result. `is_sure`: whether nobody else says what this says. `goes_on`: whether what has the name of a prompt is
    none. `hears_before`: whether `context` may be told to it before a call. `shows_after`: whether it shows the words
    for the person that come with the end of the turn after a call. `is_failure_known`: whether it says which calls
    failed.
    """

    name: str
    moments: Mapping[str, Moment]
    answer: Callable[[Heard, Answer], dict[str, Any]]
    place: Place
    output: Callable[[Raw], Raw] = _whole
    is_sure: Callable[[Input], bool] = _never
    goes_on: Callable[[Input], bool] = _never
    hears_before: bool = True
    shows_after: bool = True
    is_failure_known: bool = True


def heard(agent: Agent, given: Input) -> Heard | None:
    """What the agent says; None when it is nothing that the guards need to know."""
    name = given.event or given.event_in_camel_case or ""
    moment = agent.moments.get(name)
    session_id = given.session_id or given.session_in_camel_case
    if moment is None or not session_id:
        return None
    if moment == "prompt" and given.agent_id is not None:  # what a subagent is asked
        return None
    if moment == "prompt" and (_is_notification(given) or agent.goes_on(given)):
        moment = "again"
    events = _events(agent, given, moment)
    return Heard(session_id, moment, name, events, given.agent_id, given.cwd, given.tool_name)


def _is_notification(given: Input) -> bool:
    """Whether no person has written the prompt."""
    return given.prompt is not UNSET and bytes(given.prompt).startswith(NOTIFICATION)


def _events(agent: Agent, given: Input, moment: Moment) -> tuple[Event, ...]:
    call_id = given.tool_use_id or given.tool_call_id
    match moment:
        case "prompt":
            started = TurnStarted(given.turn_id or given.prompt_id)
            return started, StepFinished()  # by which the guards know that calls alone do not make a step
        case "before":
            return (ToolCalls([Call(given.tool_name, call_id, _args(given))]),)
        case "after" | "failed":
            return (ToolResults([_result(agent, given, call_id, has_failed=moment == "failed")]),)
        case "compacted":
            return (Compacted(),)
        case "ended":
            return (TurnEnded(),)
        case "again":
            return ()


def _args(given: Input) -> Raw | UnsetType:
    args = given.tool_input
    return bare(given.tool_name or "", args) if isinstance(args, Raw) else args


def _result(agent: Agent, given: Input, call_id: str | None, *, has_failed: bool) -> Result:
    result = Result(call_id, given.tool_name)
    if call_id is None:
        result.args = _args(given)
    if has_failed:
        result.ok, result.error = False, given.error
        result.error_type = "cancelled" if given.is_interrupt else "execution"
        return result
    result.ok = True if agent.is_failure_known else None
    if isinstance(given.tool_response, Raw):
        result.output = agent.output(given.tool_response)
    return result
