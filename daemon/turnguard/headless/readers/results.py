"""What became of a call, as formats tell it: something said, and perhaps whether it succeeded."""

from msgspec import Raw, UnsetType

from turnguard_protocol.events import Result


def result_of(call_id: str | None, said: Raw | UnsetType, *, ok: bool | None) -> Result:
    """The result that says this; where `ok` is False, as the error."""
    return Result(call_id, ok=False, error=said) if ok is False else Result(call_id, ok=ok, output=said)
