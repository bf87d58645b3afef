"""A daemon that is broken in one way: `other-protocol`, `silent` or `ends`.

`silent` shakes hands and then answers nothing; `ends` does so, and ends when it is asked for a verdict.
"""

import json
import os
import sys

from turnguard.framing import FrameReader, frame

_READ_BYTES = 4096


def main() -> None:
    (way,) = sys.argv[1:]
    reader = FrameReader()
    while chunk := os.read(sys.stdin.fileno(), _READ_BYTES):
        reader.receive(chunk)
        while (body := reader.next_body()) is not None:
            message = json.loads(body)
            if message["method"] == "initialize":
                version = 2 if way == "other-protocol" else 1
                result = {"capabilities": {"experimental": {"turnguard": {"protocolVersion": version}}}}
                answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
                sys.stdout.buffer.write(frame(answer.encode()))
                sys.stdout.buffer.flush()
            elif message["method"] == "exit" or (way == "ends" and message["method"] == "turnguard/record"):
                return


if __name__ == "__main__":
    main()
