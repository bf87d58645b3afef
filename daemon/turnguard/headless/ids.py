"""Ids of calls that never come twice, for agents whose own may.

Guards take an id that comes again for a message that was delivered again, and refuse it. Who sees calls that really run
knows better: an id that comes again is another call. So each call gets an id of its own, and its result the same.
"""

from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from turnguard_protocol.events import Call, CallRekeyed, Event, Result, ToolCalls, ToolResults

MAX_OPEN: Final = 1_000
"""Calls without a result that are held at once; the oldest are then taken to have none. Refused ones never get one."""


class CallIds(Struct):
    """The ids of one conversation. `count`: how many were given. `open`: by place, those of calls without a result."""

    count: int = 0
    open: dict[str, str] = {}

    def told(self, event: Event, scope: str | None = None) -> Event:
        """The event with the ids that guards are to hear. `scope`: the subagent whose it is; its ids are its own."""
        if isinstance(event, ToolCalls):
            return ToolCalls([self._call(call, scope) for call in event.calls], event.run_id)
        if isinstance(event, ToolResults):
            return ToolResults([self._result(result, scope) for result in event.results], event.run_id)
        if isinstance(event, CallRekeyed):
            return replace(event, id=self.open.get(_place(event.id, scope), event.id))
        return event

    def forget(self) -> None:
        """No call of before will have a result any more."""
        self.open.clear()

    def _call(self, call: Call, scope: str | None) -> Call:
        if call.id is None:
            return call
        place, given = _place(call.id, scope), self._next(call.id)
        self.open.pop(place, None)
        self.open[place] = given
        if len(self.open) > MAX_OPEN:
            del self.open[next(iter(self.open))]
        return replace(call, id=given)

    def _result(self, result: Result, scope: str | None) -> Result:
        if result.id is None:
            return result
        # A result of no call that is known must not be taken for that of another one.
        return replace(result, id=self.open.pop(_place(result.id, scope), None) or self._next(result.id))

    def _next(self, call_id: str) -> str:
        self.count += 1
        return f"{call_id}#{self.count}"


def _place(call_id: str, scope: str | None) -> str:
    """A call by its agent and its id, which may be of any length."""
    whose = "" if scope is None else f"{len(scope)}:{scope}:"
    return sha256(f"{whose}{call_id}".encode(errors="surrogatepass")).hexdigest()[:32]
