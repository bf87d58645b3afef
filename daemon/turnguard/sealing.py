"""Sealing: events for a file, with digests that nobody can guess an argument from.

A plain digest of something short is as good as the thing itself: whoever has it can try what it may have been. So every
key and outcome is digested once more with a salt: equal things stay equal, and without the salt nothing can be tried.
Names of tools, ids, and the program and sub-command of shell calls stay in the clear.
"""

import hmac

from msgspec.structs import replace

from turnguard_protocol.events import Call, CallRekeyed, Event, Facts, Keys, Outcomes, Result, ToolCalls, ToolResults


class Sealing:
    """Seals events with one salt. Things of two salts cannot be compared."""

    __slots__ = ("_salt",)

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def event(self, event: Event) -> Event:
        """An event of the identified form, sealed."""
        if isinstance(event, ToolCalls):
            return ToolCalls([self._call(call) for call in event.calls], event.run_id)
        if isinstance(event, CallRekeyed):
            return replace(event, key=self._key(event.key), facts=self._facts(event.facts))
        if isinstance(event, ToolResults):
            return ToolResults([self._result(result) for result in event.results], event.run_id)
        return event

    def text(self, text: str) -> str:
        """The digest of some text; nothing stays nothing."""
        return hmac.digest(self._salt, text.encode(errors="surrogatepass"), "sha256").hex() if text else text

    def _call(self, call: Call) -> Call:
        return replace(call, key=self._key(call.key), facts=self._facts(call.facts))

    def _result(self, result: Result) -> Result:
        outcome = result.outcome
        if isinstance(outcome, Outcomes):
            outcome = Outcomes(*(self._seal(each) for each in (outcome.read, outcome.rolling, outcome.progress)))
        else:
            outcome = self._seal(outcome)
        return replace(result, key=self._key(result.key), outcome=outcome)

    def _key(self, key: str | Keys | None) -> str | Keys | None:
        return Keys(self.text(key.turn), self._seal(key.rolling)) if isinstance(key, Keys) else self._seal(key)

    def _facts(self, facts: Facts | None) -> Facts | None:
        if facts is None or facts.target is None:
            return facts
        return replace(facts, target=replace(facts.target, key=self.text(facts.target.key)))

    def _seal(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)
