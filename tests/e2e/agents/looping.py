"""An ACP agent without a model: `python -m tests.e2e.agents.looping`. What it does is the text of the prompt.

loop        makes the same call with the same result until it is cancelled, 50 times at most
permission  asks for permission of something else first and does not wait for the answer, then as `loop`
report      says what it was prompted with, and every answer to its own requests so far
"""

import json
import queue
import sys
import threading
from typing import Any

CALLS = 50
PAUSE = 0.02
"""Seconds that a call takes."""

SESSION = "s"
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]


class Agent:
    """One connection, one session."""

    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.answers: list[Any] = []
        self.calls = 0

    def run(self) -> None:
        """Answers until its stdin ends."""
        threading.Thread(target=self._hear, daemon=True).start()
        while (message := self.heard.get()) is not None:
            self._take(message)

    def _hear(self) -> None:
        for line in sys.stdin.buffer:
            self.heard.put(json.loads(line))
        self.heard.put(None)

    def _take(self, message: Any) -> None:
        match message.get("method"):
            case "initialize":
                agent = {"name": "looping", "version": "1"}
                self._answer(message, {"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": agent})
            case "session/new":
                self._answer(message, {"sessionId": SESSION})
            case "session/prompt":
                self._prompted(message)
            case None:
                self.answers.append(message)
            case _:
                pass

    def _prompted(self, message: Any) -> None:
        texts = [block["text"] for block in message["params"]["prompt"]]
        if texts[0] == "report":
            self._say(json.dumps({"prompt": texts, "answers": self.answers}))
            self._answer(message, self._ending("end_turn"))
            return
        if texts[0] == "permission":
            call = {"toolCallId": "asked", "title": "Writing", "kind": "edit", "status": "pending"}
            self._update("tool_call", **call, rawInput={"path": "b"})
            params = {"sessionId": SESSION, "toolCall": call, "options": OPTIONS}
            self._send({"id": 0, "method": "session/request_permission", "params": params})
        self._answer(message, self._ending("cancelled" if self._is_cancelled_in_a_loop() else "end_turn"))

    def _is_cancelled_in_a_loop(self) -> bool:
        for _ in range(CALLS):
            self.calls += 1
            call_id = f"call {self.calls}"
            call = {"title": "Looking", "kind": "read", "status": "in_progress", "rawInput": {"path": "a"}}
            self._update("tool_call", toolCallId=call_id, **call)
            if self._is_cancelled():
                return True
            self._update("tool_call_update", toolCallId=call_id, status="completed", rawOutput="the same")
        return False

    def _is_cancelled(self) -> bool:
        try:
            message = self.heard.get(timeout=PAUSE)
        except queue.Empty:
            return False
        if message is None:
            sys.exit()
        if message.get("method") == "session/cancel":
            return True
        self._take(message)
        return self._is_cancelled()

    @staticmethod
    def _ending(stop_reason: str) -> Any:
        return {"stopReason": stop_reason, "_meta": {"looping": "kept"}}

    def _say(self, text: str) -> None:
        self._update("agent_message_chunk", content={"type": "text", "text": text})

    def _update(self, what: str, /, **members: Any) -> None:
        params = {"sessionId": SESSION, "update": {"sessionUpdate": what, **members}}
        self._send({"method": "session/update", "params": params})

    def _answer(self, request: Any, result: Any) -> None:
        self._send({"id": request["id"], "result": result})

    @staticmethod
    def _send(message: Any) -> None:
        sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    Agent().run()
