"""identify: the one place where raw arguments, outputs and text end.

It turns an event of the raw form into the identified form: keys in place of arguments, outcomes in place of outputs and
errors, lengths in place of text, and the few facts that guards need besides. Events in the identified form pass as they
are.
"""

from collections.abc import Callable
from hashlib import sha256

import msgspec
from msgspec import UNSET, Raw

from turnguard.core.bounds import MAX_TEXT
from turnguard.core.guard import ALL_BUT_TEXT, InvalidEventError, Needs
from turnguard.core.hint import call_hint
from turnguard.core.identity import (
    ENVELOPE_TOOL,
    is_git_overview,
    is_read_like,
    read_outcome,
    tool_call_repeat_key,
    unwrap_envelope,
)
from turnguard.core.javascript import NestingError, NotJsonError, parse, utf8
from turnguard.core.masking import progress_outcome
from turnguard.core.outcome import rolling_outcome, unknown_tool_name
from turnguard.core.rolling.identity import is_poll_call, keys_of_call, outcome_action, rolling_tool_name
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
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

CallOf = Callable[[Result], Call | None]
"""Finds the open call that a result belongs to: what a tool's result means depends on the tool."""


def nobody(result: Result) -> None:  # noqa: ARG001
    """A `CallOf` where no call is open."""
    return


def identify(event: Event, needs: Needs = ALL_BUT_TEXT, call_of: CallOf = nobody) -> Event:
    """The same event in the identified form; `needs` says what guards want to know besides the repeat key.

    With `needs.text` text stays as it is, for the guards that read it. Raises InvalidEventError.
    """
    if type(event) is ToolCalls:
        return ToolCalls([_call(call, needs, index) for index, call in enumerate(event.calls)], event.run_id)
    if type(event) is ToolResults:
        results = [_result(result, needs, index, call_of(result)) for index, result in enumerate(event.results)]
        return ToolResults(results, event.run_id)
    if type(event) is CallRekeyed:
        return _rekeyed(event, needs)
    if needs.text:
        return event
    if type(event) is Text and event.delta is not None:
        return Text(length=_utf16_length(event.delta))
    if type(event) is Thought and event.length is None:
        return Thought(length=_utf16_length(event.subject) + _utf16_length(event.description))
    return event


def _is_held(name: str | None, item_id: str | None, key: str | Keys | None) -> bool:
    """Whether name, id and key are as they are held: so they are in everything that was identified before."""
    if (name is not None and len(name) > MAX_TEXT) or (item_id is not None and len(item_id) > MAX_TEXT):
        return False
    if isinstance(key, Keys):
        return len(key.turn) <= MAX_TEXT and (key.rolling is None or len(key.rolling) <= MAX_TEXT)
    return key is None or len(key) <= MAX_TEXT


def _held(text: str) -> str:
    """A name, id or key as it is held: of a long one the beginning and its digest, which is equal where the text is."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}…{sha256(utf8(text)).hexdigest()}"


def _held_or_none(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_TEXT else _held(text)


def _held_key(key: str | Keys) -> str | Keys:
    return _held(key) if isinstance(key, str) else Keys(_held(key.turn), _held_or_none(key.rolling))


# --- calls ------------------------------------------------------------------------------------------------------------


def _call(call: Call, needs: Needs, index: int | None = None) -> Call:
    """`index`: the call's place in its batch; None: it stands alone."""
    if call.key is not None:
        if _is_held(call.name, call.id, call.key):
            return call
        return msgspec.structs.replace(
            call, name=_held_or_none(call.name), id=_held_or_none(call.id), key=_held_key(call.key)
        )
    name, args = call.name or "", NO_ARGUMENTS if call.args is UNSET else call.args
    hint = call.hint
    try:
        keys = _keys(name, args, needs)
        facts = _call_facts(name, args) if needs.facts else None
        if call.facts is not None and call.facts.blind:
            facts = msgspec.structs.replace(facts or Facts(), blind=True)
        if hint is None and needs.progress:
            hint = call_hint(name, args)
    except (NotJsonError, NestingError) as error:
        path = ".args" if index is None else f".calls[{index}].args"
        raise InvalidEventError(path, f"Arguments are {error}") from None
    return Call(_held_or_none(call.name), _held_or_none(call.id), UNSET, keys, call.fidelity, hint, facts)


def _rekeyed(event: CallRekeyed, needs: Needs) -> CallRekeyed:
    """Arguments without a name are taken for those of a call without one: who knows its name fills it in before."""
    call = _call(Call(event.name, event.id, event.args, event.key, event.fidelity, event.hint, event.facts), needs)
    return CallRekeyed(
        id=_held(event.id), name=call.name, key=call.key, fidelity=call.fidelity, hint=call.hint, facts=call.facts
    )


def _keys(name: str, args: Raw, needs: Needs) -> Keys:
    return Keys(*keys_of_call(name, args)) if needs.rolling else Keys(tool_call_repeat_key(name, args))


def _call_facts(name: str, args: Raw) -> Facts | None:
    """What else the call tells, None where that is nothing."""
    inner = unwrap_envelope(name, args) if name == ENVELOPE_TOOL else None
    target = None if inner is None else Target(*inner)
    rolling_name = rolling_tool_name(name)
    name = name if target is None else target.name
    read_like, poll = is_read_like(name), is_poll_call(rolling_name, args)
    action = outcome_action(rolling_name, args)
    git_overview = name == SHELL_TOOL and _is_git_overview(args, is_envelope=target is not None)
    if not (git_overview or read_like or poll or action or target):
        return None
    return Facts(git_overview=git_overview, read_like=read_like, poll=poll, action=action, target=target)


def _is_git_overview(args: Raw, *, is_envelope: bool) -> bool:
    value = parse(bytes(args))
    if is_envelope and isinstance(value, dict) and isinstance(value.get("arguments"), dict):
        value = value["arguments"]
    command = value.get("command") if isinstance(value, dict) else None
    return isinstance(command, str) and is_git_overview(command)


# --- results ----------------------------------------------------------------------------------------------------------


def _result(result: Result, needs: Needs, index: int, call: Call | None) -> Result:
    key, outcome, facts = result.key, result.outcome, result.facts
    if _is_identified(result) and _is_held(result.name, result.id, key):
        return result
    if result.args is not UNSET or (key is None and result.id is None and result.name is not None):
        args = NO_ARGUMENTS if result.args is UNSET else result.args
        try:
            key = _keys(result.name or "", args, needs)
        except (NotJsonError, NestingError) as error:
            raise InvalidEventError(f".results[{index}].args", f"Arguments are {error}") from None
    if outcome is None and (result.output is not UNSET or result.error is not UNSET):
        try:
            outcome = _outcome(result, needs, call)
            if facts is None and needs.facts and result.error is not UNSET:
                facts = _error_facts(result.error)
        except (NotJsonError, NestingError) as error:
            field = "output" if result.error is UNSET else "error"
            raise InvalidEventError(f".results[{index}].{field}", f"The {field} is {error}") from None
    return Result(
        id=_held_or_none(result.id),
        name=_held_or_none(result.name),
        key=None if key is None else _held_key(key),
        outcome=outcome,
        ok=result.ok if result.error is UNSET else False,
        error_type=_held_or_none(result.error_type),
        status=result.status,
        duplicate=result.duplicate,
        facts=facts,
    )


def _is_identified(result: Result) -> bool:
    """Whether nothing of a result is raw; without an id and a key, a name stands for arguments that are empty."""
    is_named_only = result.key is None and result.id is None and result.name is not None
    is_raw = result.args is not UNSET or result.output is not UNSET or result.error is not UNSET
    is_short = result.error_type is None or len(result.error_type) <= MAX_TEXT
    return not is_raw and not is_named_only and is_short


def _outcome(result: Result, needs: Needs, call: Call | None) -> Outcomes:
    """The result's identity, a form that no guard wants left out."""
    output, error = result.output, result.error
    told = output if error is UNSET else error
    return Outcomes(
        read=read_outcome(told) if needs.read and told is not UNSET else None,
        rolling=_rolling_outcome(result, call) if needs.rolling else None,
        progress=progress_outcome(output, error) if needs.progress else None,
    )


def _rolling_outcome(result: Result, call: Call | None) -> str | None:
    tool = rolling_tool_name(result.name if result.name is not None else (call and call.name) or "")
    if result.error is UNSET and result.output is not UNSET and _is_foreign(result.output):
        return rolling_outcome("", None, Raw(b'{"details":%b}' % bytes(result.output)))
    if result.args is not UNSET:
        action = outcome_action(tool, result.args)
    else:
        action = call.facts.action if call is not None and call.facts is not None else None
    return rolling_outcome(tool, action, result.output, result.error)


_MEMBERS = msgspec.json.Decoder(dict[str, Raw])


def _is_foreign(output: Raw) -> bool:
    """Whether an output is an object that no tool of OpenClaw gives, which has `content` or `details`.

    By OpenClaw's rules all such objects would be one outcome, since it looks at nothing else.
    """
    if not bytes(output).lstrip().startswith(b"{"):
        return False
    try:
        members = _MEMBERS.decode(output)
    except (msgspec.DecodeError, RecursionError):  # a lone surrogate, or deeper than can be identified
        members = parse(bytes(output))
        if not isinstance(members, dict):
            return False
    return "content" not in members and "details" not in members


def _error_facts(error: Raw) -> Facts | None:
    unknown_tool = unknown_tool_name(error)
    return None if unknown_tool is None else Facts(unknown_tool=unknown_tool)


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
