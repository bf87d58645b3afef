import json
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from turnguard.framing import FrameReader, frame
from turnguard.service.dispatch import Dispatcher
from turnguard.service.loop import PORTION_BYTES, Loop
from turnguard.service.output import Output
from turnguard.service.sessions import Sessions

REQUESTS = 300


def always() -> bool:
    return True


class Kept(Output):
    """Keeps what is written. `room` says whether there is any, each time it is asked."""

    def __init__(self, room: Callable[[], bool] = always) -> None:
        self.pieces: list[bytes] = []
        self.room = room

    def write(self, data: bytes) -> None:
        if data:
            self.pieces.append(data)

    @property
    def is_broken(self) -> bool:
        return False

    def wait_for_room(self, timeout: float | None) -> bool:
        return self.room()

    def flush(self, timeout: float) -> bool:
        return True

    def ids(self) -> list[object]:
        reader = FrameReader()
        reader.receive(b"".join(self.pieces))
        return [json.loads(body)["id"] for body in iter(reader.next_body, None)]


class Served:
    """A loop that finds all its input in one read: many requests, and `exit`."""

    def __init__(self, fd_in: int, fd_out: int) -> None:
        self.answered = 0
        self.output = Kept()
        self.dispatcher = Dispatcher(Sessions())
        initialize = {"processId": None, "capabilities": {}}
        messages: list[dict[str, object]] = [
            {"id": "initialize", "method": "initialize", "params": initialize},
            *({"id": n, "method": "turnguard/status", "params": {"sessionId": "s"}} for n in range(REQUESTS)),
            {"method": "exit"},
        ]
        data = b"".join(frame(json.dumps({"jsonrpc": "2.0", **message}).encode()) for message in messages)
        assert os.write(fd_out, data) == len(data)
        self.loop = Loop(fd_in, self.output, self.dispatcher)

    def run(self, answer: Callable[[], object]) -> int:
        def status(params: object) -> object:
            self.answered += 1
            return answer()

        self.dispatcher.handlers["turnguard/status"] = status
        return self.loop.run()


@pytest.fixture
def served() -> Iterator[Served]:
    fds = os.pipe()
    yield Served(*fds)
    for fd in fds:
        os.close(fd)


def test_answers_are_handed_over_in_portions_and_in_order(served: Served) -> None:
    answer = "x" * (PORTION_BYTES // 3)
    assert served.run(lambda: answer) == 1
    assert served.output.ids() == ["initialize", *range(REQUESTS)]
    assert len(served.output.pieces) > REQUESTS // 4
    assert max(map(len, served.output.pieces)) < PORTION_BYTES + 2 * len(answer)


def test_nothing_is_answered_while_there_is_no_room(served: Served) -> None:
    """A client that takes a piece each time the daemon has asked for room in vain."""
    taken = 0

    def room() -> bool:
        nonlocal taken
        has_room = len(served.output.pieces) - taken <= 3
        taken += not has_room
        return has_room

    def answer() -> object:
        assert len(served.output.pieces) - taken <= 3
        return "x" * PORTION_BYTES

    served.output.room = room
    assert served.run(answer) == 1
    assert served.output.ids() == ["initialize", *range(REQUESTS)]
    assert taken > REQUESTS - 5


def test_a_signal_is_looked_at_between_messages(served: Served) -> None:
    def answer() -> object:
        if served.answered == 3:
            served.loop.stop(signal.SIGTERM, None)
        return None

    assert served.run(answer) == 1
    assert served.output.ids() == ["initialize", 0, 1, 2]
