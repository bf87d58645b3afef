"""What a person can choose about the proxy on its command line, apart from the guards' settings."""

from typing import Literal, NamedTuple

StopAs = Literal["max_turn_requests", "cancelled", "error"]
"""How a halted prompt is answered: with one of these stop reasons, or with a JSON-RPC error."""

OnLoop = Literal["halt", "ask", "warn"]
"""What a halting verdict does: it ends the turn, it asks the person, or it is only told."""

StillRunning = Literal["forward", "fail"]
"""What becomes of a prompt that had to wait for a stopped turn which does not end."""


class Options(NamedTuple):
    """All of them. Times are in seconds.

    `note`: the prompt after a halt tells the model of it. `grace`: how long an agent that was told to stop has for its
    answer, before the client gets one from turnguard; claude-agent-acp itself gives up after 30 s. `hold`: how long a
    prompt then waits for the stopped turn to end. `kill_after`: how long after the grace the agent is ended if the
    turn still runs; None: never. `answer_within`: how long a person has to answer the question of `--on-loop ask`.
    """

    stop_as: StopAs = "max_turn_requests"
    on_loop: OnLoop = "halt"
    note: bool = True
    grace: float = 15.0
    hold: float = 15.0
    still_running: StillRunning = "forward"
    kill_after: float | None = None
    answer_within: float = 60.0
