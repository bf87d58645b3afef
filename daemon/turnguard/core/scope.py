"""Scopes: the main conversation, and each subagent, repeats itself or does not; what one did is none of another's.

Detectors of repetition look at keys, so the keys of a subagent's calls differ from all others; budgets count all calls.
"""

from hashlib import sha256

import msgspec

from turnguard.core.identity import repeat_key_of
from turnguard_protocol.events import Event, Keys, ToolCalls, ToolResults


def of_scope(event: Event, scope: str | None) -> Event:
    """An identified event of calls or results as one of a subagent's; `scope` None: of the main conversation's."""
    if scope is None:
        return event
    if isinstance(event, ToolCalls):
        return ToolCalls([msgspec.structs.replace(call, key=scoped(call.key, scope)) for call in event.calls], scope)
    if isinstance(event, ToolResults):
        results = [msgspec.structs.replace(result, key=scoped(result.key, scope)) for result in event.results]
        return ToolResults(results, scope)
    return event


def scoped(key: str | Keys | None, scope: str) -> str | Keys | None:
    """The key of a call in a scope. What it is to OpenClaw's history stays: that goes by runs."""
    if key is None:
        return None
    turn = sha256(f"{len(scope)}:{scope}{repeat_key_of(key)}".encode(errors="surrogatepass"))
    return Keys(turn.hexdigest(), key.rolling) if isinstance(key, Keys) else turn.hexdigest()
