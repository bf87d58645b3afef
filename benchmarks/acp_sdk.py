"""What a proxy made of the official Python SDK's models does to a line: parse, validate, serialise again.

    PYTHON -P benchmarks/acp_sdk.py [asyncio] < lines > lines

Needs `agent-client-protocol==0.12.1`. The steps are those of its connection: with `asyncio` it reads and writes through
asyncio's streams, as the connection does, though without its queues and tasks; else as turnguard's relay does.
"""

import asyncio
import importlib
import json
import os
import sys
from typing import Any

schema: Any = importlib.import_module("acp.schema")

BLOCK_BYTES = 256 * 1024
KEPT_BYTES = 4 * 1024 * 1024
LIMIT_BYTES = 50 * 1024 * 1024


def again(line: bytes) -> bytes:
    message = json.loads(line)
    if message.get("method") == "session/update":
        params = schema.SessionNotification.model_validate(message["params"])
        message["params"] = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    return (json.dumps(message, separators=(",", ":")) + "\n").encode()


async def stream() -> None:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(LIMIT_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    while line := await reader.readline():
        writer.write(again(line))
        await writer.drain()


def relay() -> None:
    bytes(KEPT_BYTES)  # as `turnguard.acp.memory`
    rest: list[bytes] = []
    while block := os.read(0, BLOCK_BYTES):
        rest.append(block)
        if b"\n" not in block:
            continue
        *lines, last = b"".join(rest).split(b"\n")
        rest = [last]
        out = memoryview(b"".join(map(again, lines)))
        while out:
            out = out[os.write(1, out) :]


if __name__ == "__main__":
    if sys.argv[1:] == ["asyncio"]:
        asyncio.run(stream())
    else:
        relay()
