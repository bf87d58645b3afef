"""A daemon that is broken in one way: `other-protocol`, `no-protocol`, `silent`, `ends`, `deaf`, `chatters` or
`mumbles`.

`silent` shakes hands and then answers nothing; `ends` does so, and ends when it is asked for a verdict. `deaf` does not
even shake hands; `chatters` writes what is no message, and reads nothing; `mumbles` answers with what is no JSON.
"""

import json
import os
import sys

from turnguard.framing import FrameReader, frame

_READ_BYTES = 4096


def main() -> None:
    (way,) = sys.argv[1:]
    while way == "chatters":
        sys.stdout.write("all is well\n" * 1000)
    reader = FrameReader()
    while chunk := os.read(sys.stdin.fileno(), _READ_BYTES):
        reader.receive(chunk)
        while (body := reader.next_body()) is not None:
            message = json.loads(body)
            if message["method"] == "initialize" and way != "deaf":
                version = 2 if way == "other-protocol" else 1
                ours = {} if way == "no-protocol" else {"turnguard": {"protocolVersion": version}}
                result = {"capabilities": {"experimental": ours}}
                answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
                sys.stdout.buffer.write(frame(b"{" if way == "mumbles" else answer.encode()))
                sys.stdout.buffer.flush()
            elif message["method"] == "exit" or (way == "ends" and message["method"] == "turnguard/record"):
                return


if __name__ == "__main__":
    main()
