"""Expands an event that stands for several calls or deltas.

`times: N` repeats it. With `vary: "k"`, copy number j has `args[k] = (args[k] or "") + "#" + (from + j)`; with `times`
above 1 an `id` becomes `id + "#" + (from + j)`. `split: n` joins repeated text and cuts it into deltas of n units.
"""

from collections.abc import Iterator

from msgspec import Raw, Struct

from tests.conformance.cases import Op, raw
from turnguard_protocol.events import Call, Text, Thought


class PlannedCall(Struct):
    """A call of a script. `is_invalid`: it will be rejected for its parameters."""

    tool: str
    args: Raw
    id: str | None
    is_invalid: bool

    def call(self) -> Call:
        """The call as an event carries it."""
        return Call(self.tool, self.id, self.args)


def calls_of(op: Op) -> Iterator[PlannedCall]:
    """The calls that a call event, or an entry of a batch, stands for."""
    times, first, vary = op.get("times", 1), op.get("from", 0), op.get("vary")
    call_id, args = op.get("id"), op.get("args", {})
    for number in range(first, first + times):
        numbered_id = f"{call_id}#{number}" if call_id is not None and times > 1 else call_id
        varied = args if vary is None else {**args, vary: f"{args.get(vary) or ''}#{number}"}
        yield PlannedCall(op["tool"], raw(varied), numbered_id, op.get("invalid", False))


def words_of(op: Op) -> Iterator[Text | Thought]:
    """The deltas that a content or thought event stands for."""
    times = op.get("times", 1)
    if op["op"] == "thought":
        for _ in range(times):
            yield Thought(op["subject"], op.get("description", ""))
        return
    for delta in _deltas(op["text"], times, op.get("split")):
        yield Thought(description=delta) if op.get("reasoning") else Text(delta)


def _deltas(text: str, times: int, split: int | None) -> list[str]:
    if split is None:
        return [text] * times
    joined = text * times
    return [joined[start : start + split] for start in range(0, len(joined), split)]
