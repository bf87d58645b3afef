"""The prompt after a halt: a block of text for the model is added to what the person wrote."""

import msgspec
from msgspec import Raw

from turnguard.acp.outgoing import encoded, json_of, members_of

COMMAND = "/"
"""A prompt that begins with it is a command of the agent's, and what is added could be taken for its arguments."""


def with_note(line: bytes, note: str) -> bytes | None:
    """The line of a `session/prompt` with the note as its last block; None where there is no place for it now."""
    try:
        message = members_of(line)
        params = members_of(message["params"])
        blocks = msgspec.json.decode(params["prompt"], type=list[Raw])
        if not blocks or _is_command(blocks[0]):
            return None
    except (KeyError, ValueError):
        return None
    params["prompt"] = json_of([*blocks, {"type": "text", "text": note}])
    message["params"] = json_of(params)
    return encoded(message)


def _is_command(block: Raw) -> bool:
    text = members_of(block).get("text")
    return text is not None and msgspec.json.decode(text, type=str).lstrip().startswith(COMMAND)
