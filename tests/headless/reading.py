"""Reading transcripts that are made by hand, the way the commands do."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from turnguard.headless.files import Problem, open_transcript
from turnguard.headless.readers import FORMATS
from turnguard.transcript import Told

Line = dict[str, Any] | str


def text_of(lines: Iterable[Line]) -> str:
    """The file that these lines are; an object is written as JSON."""
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)


def read(folder: Path, text: str, format_name: str) -> tuple[list[dict[str, Any]], list[Problem]]:
    """What a file says, each as a plain object without what is not there, and what of it could not be read.

    It must be recognised as one of the format of this name.
    """
    path = folder / "transcript"
    path.write_text(text)
    transcript = open_transcript(path, FORMATS)
    assert transcript.format.name == format_name
    told = [plain(each) for each in transcript]
    assert transcript.unread == len(transcript.problems)
    return told, transcript.problems


def plain(told: Told) -> dict[str, Any]:
    """An event with whose it is and where it stands."""
    fields = {name: value for name, value in told._asdict().items() if name != "event" and value is not None}
    return {**json.loads(msgspec.json.encode(told.event)), **fields}
