"""The file of turns: what an agent did in one turn, as digests, and what a careful reader said of it."""

import gzip
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

LABELS = ("productive", "stuck", "recovered", "unreviewed", "unclear")
"""`stuck` turns that got out by themselves are `recovered` here."""


class RecordedCall(Struct, frozen=True):
    """A call and what it returned. `status` None: the agent's log does not say."""

    tool: str
    args: str
    result_normalised: str | None = None
    status: Literal["ok", "failed"] | None = None
    hint: str | None = None


class RecordedTurn(Struct, frozen=True):
    """A turn. `stuck_from` is the number of the call at which a careful person would have stopped it."""

    id: str
    label: str
    steps: list[list[RecordedCall]]
    stuck_from: int | None = None
    recovered: bool = False

    @property
    def group(self) -> str:
        """The label under which the turn is counted."""
        return "recovered" if self.recovered else self.label

    @property
    def calls(self) -> int:
        """How many calls the turn made."""
        return sum(map(len, self.steps))


def read_turns(path: Path) -> list[RecordedTurn]:
    """The turns of a file, one JSON object a line; packed with gzip when its name ends in .gz."""
    data = path.read_bytes()
    lines = gzip.decompress(data) if path.suffix == ".gz" else data
    return msgspec.json.Decoder(RecordedTurn).decode_lines(lines)
