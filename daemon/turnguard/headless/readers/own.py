"""turnguard's own: what `--record` writes, params of `turnguard/record` requests in the identified form, one a line.

The events are what the guards heard, in batches as they heard them; scopes are in keys and runs already.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from turnguard.transcript import Format, Head, Told, decoded
from turnguard_protocol.methods import Record

_record = msgspec.json.Decoder(Record)


class Reader:
    """Reads the lines."""

    def line(self, line: bytes) -> Iterator[Told]:
        """The events of a request."""
        record = decoded(_record, line)
        for event in record.events:
            yield Told(event, session=record.session_id)

    def end(self) -> Iterator[Told]:
        """Nothing."""
        yield from ()


def _recognises(head: Head) -> bool:
    return any(_is_record(each) for each in head.objects)


def _is_record(line: Mapping[str, Any]) -> bool:
    events: Any = line.get("events")
    return isinstance(line.get("sessionId"), str) and isinstance(events, list)


FORMAT = Format("turnguard", _recognises, Reader)
