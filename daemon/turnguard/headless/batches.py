"""The batches of a transcript that is over: all calls of one message of the model, and then what became of them.

A file may write a message in pieces (Claude Code writes a line for each call), with results of the first calls between
them. So the calls of a message are held until its scope says something else; then they are told as one batch, followed
by their results and the end of the step. Calls of which the file does not say the message are told as they come.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from turnguard.transcript import Told
from turnguard_protocol.events import Call, Result, StepFinished, Text, Thought, ToolCalls, ToolResults


class _Message:
    """A message of the model's that may go on, with what is known of its calls."""

    __slots__ = ("calls", "first", "places", "results")

    def __init__(self, first: Told) -> None:
        self.first = first
        self.calls: list[Call] = []
        self.places: list[int | None] = []
        self.results: list[Result] = []


class Batch(NamedTuple):
    """Something to tell the guards: an event of a scope of a session. `places`: of each call of a batch."""

    told: Told
    places: tuple[int | None, ...] = ()


def batches(told: Iterable[Told]) -> Iterator[Batch]:
    """The same events, with the calls of one message together. Of each scope and session the order stays."""
    open_messages: dict[tuple[str | None, str | None], _Message] = {}
    for each in told:
        where, event = (each.session, each.scope), each.event
        message, kind = open_messages.get(where), type(event)
        if type(event) is ToolCalls and each.message is not None:
            if message is None or message.first.message != each.message:
                yield from _closed(open_messages.pop(where, None))
                message = open_messages[where] = _Message(each)
            message.calls += event.calls
            message.places += [each.place] * len(event.calls)
        elif type(event) is ToolResults:
            if message is None:
                yield Batch(each)
            else:
                message.results += event.results
        elif kind is Text or kind is Thought:
            if message is not None and each.message != message.first.message:
                yield from _closed(open_messages.pop(where))
            yield Batch(each)
        elif type(event) is ToolCalls:
            yield from _closed(open_messages.pop(where, None))
            yield Batch(each, (each.place,) * len(event.calls))
        else:  # it is about the whole turn
            for other in [other for other in open_messages if other[0] == each.session]:
                yield from _closed(open_messages.pop(other))
            yield Batch(each)
    for message in open_messages.values():
        yield from _closed(message)


def _closed(message: _Message | None) -> Sequence[Batch]:
    if message is None:
        return ()
    _, scope, name, session, place, at = message.first
    told = [Batch(Told(ToolCalls(message.calls), scope, name, session, place, at), tuple(message.places))]
    if message.results:
        told.append(Batch(Told(ToolResults(message.results), scope, name, session, place, at)))
    told.append(Batch(Told(StepFinished(), scope, name, session, place, at)))
    return told
