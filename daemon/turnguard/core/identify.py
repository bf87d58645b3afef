"""identify: the one place where raw arguments, outputs and text end.

It turns an event of the raw form into the identified form: keys in place of arguments, outcomes in place of outputs and
errors, lengths in place of text, and the few facts that guards need besides. Events in the identified form pass as they
are.
"""

from typing import cast

from msgspec import UNSET, Raw

from turnguard.core.guard import Needs
from turnguard.core.identity import (
    ENVELOPE_TOOL,
    is_git_overview,
    is_read_like,
    read_outcome,
    tool_call_repeat_key,
    unwrap_envelope,
)
from turnguard.core.javascript import NestingError, NotJsonError, parse
from turnguard_protocol.events import (
    Call,
    Event,
    Facts,
    Keys,
    Outcomes,
    Result,
    Target,
    Text,
    Thought,
    ToolCalls,
    ToolResults,
)

SHELL_TOOL = "run_shell_command"
"""The one tool whose commands the git-inspection guard looks at."""

NO_ARGUMENTS = Raw(b"{}")
"""Absent arguments count as empty ones, as in Qwen Code's daemon."""

NOTHING_KNOWN = Facts()


class IdentityError(ValueError):
    """An event has arguments or an output that cannot be identified. `path` is where, from the event."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{message} - at `{path}`")
        self.path = path
        self.message = message


def identify(event: Event, needs: Needs = ~Needs.TEXT) -> Event:
    """The same event in the identified form; `needs` says what guards want to know besides the repeat key.

    With `Needs.TEXT` text stays as it is, for the guards that read it. Raises IdentityError.
    """
    if type(event) is ToolCalls:
        return ToolCalls([_call(call, needs, index) for index, call in enumerate(event.calls)], event.run_id)
    if type(event) is ToolResults:
        return ToolResults([_result(result, needs, index) for index, result in enumerate(event.results)], event.run_id)
    if Needs.TEXT in needs:
        return event
    if type(event) is Text and event.delta is not None:
        return Text(length=_utf16_length(event.delta))
    if type(event) is Thought and event.length is None:
        return Thought(length=_utf16_length(event.subject) + _utf16_length(event.description))
    return event


def _call(call: Call, needs: Needs, index: int) -> Call:
    if call.key is not None:
        return call
    name, args = call.name or "", NO_ARGUMENTS if call.args is UNSET else call.args
    try:
        key = tool_call_repeat_key(name, args)
        facts = _call_facts(name, args) if Needs.FACTS in needs else None
    except (NotJsonError, NestingError) as error:
        raise IdentityError(f".calls[{index}].args", f"Arguments are {error}") from None
    return Call(call.name, call.id, UNSET, Keys(key), call.fidelity, call.hint, facts)


def _call_facts(name: str, args: Raw) -> Facts | None:
    """What else the call tells, None where that is nothing."""
    inner = unwrap_envelope(name, args) if name == ENVELOPE_TOOL else None
    target = None if inner is None else Target(*inner)
    name = name if target is None else target.name
    facts = Facts(
        git_overview=name == SHELL_TOOL and _is_git_overview(args, is_envelope=target is not None),
        read_like=is_read_like(name),
        target=target,
    )
    return None if facts == NOTHING_KNOWN else facts


def _is_git_overview(args: Raw, *, is_envelope: bool) -> bool:
    value = parse(bytes(args))
    if is_envelope and isinstance(value, dict) and isinstance(value.get("arguments"), dict):
        value = value["arguments"]
    command = value.get("command") if isinstance(value, dict) else None
    return isinstance(command, str) and is_git_overview(command)


def _result(result: Result, needs: Needs, index: int) -> Result:
    ok = False if result.error is not UNSET else result.ok
    key, outcome = result.key, result.outcome
    if result.args is not UNSET or (key is None and result.name is not None):
        key = _result_key(result, index)
    if outcome is None and (result.output is not UNSET or result.error is not UNSET):
        outcome = _outcome(result, needs, index)
    return Result(
        id=result.id,
        name=result.name,
        key=key,
        outcome=outcome,
        ok=ok,
        error_type=result.error_type,
        status=result.status,
        duplicate=result.duplicate,
        facts=result.facts,
    )


def _result_key(result: Result, index: int) -> Keys:
    try:
        return Keys(tool_call_repeat_key(result.name or "", NO_ARGUMENTS if result.args is UNSET else result.args))
    except (NotJsonError, NestingError) as error:
        raise IdentityError(f".results[{index}].args", f"Arguments are {error}") from None


def _outcome(result: Result, needs: Needs, index: int) -> Outcomes:
    """The result's identity; one that no guard wants is None, though there is a result."""
    if Needs.READ not in needs:
        return Outcomes()
    output = result.output if result.error is UNSET else result.error
    try:
        return Outcomes(read=read_outcome(cast("Raw", output)))
    except (NotJsonError, NestingError) as error:
        field = "output" if result.error is UNSET else "error"
        raise IdentityError(f".results[{index}].{field}", f"The {field} is {error}") from None


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
