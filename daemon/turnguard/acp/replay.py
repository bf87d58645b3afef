"""The past of a session that is shown again: what of its updates is history although a turn may run.

    a session is loaded or resumed        what comes is history
    outside of any turn                   at once
    while a turn may run                  from the first words of the user on: a past begins with them, and until it is
                                          shown the turn goes on. Not history is what asks for a permission, and how a
                                          call ends that runs

It is over when the request is answered. That the client takes the request back ends nothing, since most agents do not
know how that is said and go on; but then it is over with the next prompt. A prompt before the answer begins a turn, in
which the past begins with words of the user as in any other: agents do one thing after the other.

For a request that is never answered it is over, too, with a call that nobody has heard of, once the past has come to
the calls of the turn that runs: they are the newest there are. One that does not come to them is over after `MAX_SHOWN`
calls.
"""

from turnguard.acp.calls import Calls
from turnguard.acp.messages import TOOL_CALL, TOOL_CALLS, RequestId, Update
from turnguard.core.thresholds import ADAPTIVE_CAP_HARD_MULTIPLIER, DEFAULT_MAX_TOOL_CALLS_PER_TURN

USER_CHUNK = "user_message_chunk"

MAX_SHOWN = DEFAULT_MAX_TOOL_CALLS_PER_TURN * ADAPTIVE_CAP_HARD_MULTIPLIER
"""As many calls as a turn can make at all by default."""


class Replays:
    """The requests of the client for one session's past.

    `is_asked`: one of them is not answered. `is_shown`: what the agent tells now is history.
    """

    __slots__ = ("_calls", "_has_come_to_turn", "_requests", "_shown", "_taken_back", "is_asked", "is_shown")

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._requests: set[RequestId] = set()
        self._taken_back: set[RequestId] = set()
        self._clear()

    def began(self, request_id: RequestId, *, in_turn: bool) -> None:
        """The client asks for the past. `in_turn`: while a turn may run."""
        self._requests.add(request_id)
        self._taken_back.discard(request_id)
        self.is_asked = True
        self.is_shown = self.is_shown or not in_turn

    def ended(self, request_id: RequestId) -> None:
        """The request was answered, by a result or by an error."""
        self._requests.discard(request_id)
        self._taken_back.discard(request_id)
        if not self._requests:
            self._clear()

    def taken_back(self, request_id: RequestId) -> None:
        """The client does not want an answer any more; there may be one all the same."""
        if request_id in self._requests:
            self._taken_back.add(request_id)

    def prompted(self) -> None:
        """The client prompts, and what comes may be of that turn."""
        self._requests -= self._taken_back
        self._taken_back.clear()
        self.is_shown = self._has_come_to_turn = False
        if not self._requests:
            self._clear()

    def _clear(self) -> None:
        """No answer is waited for any more."""
        self._requests.clear()
        self._taken_back.clear()
        self.is_asked = self.is_shown = self._has_come_to_turn = False
        self._shown = 0

    def look(self, update: Update) -> None:
        """Takes notice of an update before anybody else does, while a request is not answered."""
        if update.kind == USER_CHUNK:
            self.is_shown = True
        elif self.is_shown and update.kind in TOOL_CALLS and update.tool_call_id:
            self._look_at_call(update.tool_call_id, update)

    def _look_at_call(self, call_id: str, update: Update) -> None:
        if self._calls.is_of_turn(call_id):
            self._has_come_to_turn = self._has_come_to_turn or update.kind == TOOL_CALL
        elif self._calls.is_new(call_id, update):
            self._shown += 1
            if self._has_come_to_turn or self._shown > MAX_SHOWN:
                self._clear()
