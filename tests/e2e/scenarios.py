"""What the guards say to a host, scenario by scenario: told to a running daemon, and what it answered.

`python -m tests.e2e.show_guards` prints them, `test_guards_on_the_wire.py` says what must come out.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from tests.build import call, raw
from turnguard.client import Client
from turnguard_protocol.events import Call, Compacted, Event, Result, StepFinished, Text, ToolCalls, ToolResults
from turnguard_protocol.verdicts import NextStep, OverrideAction, SessionStatus, Verdict

Settings = dict[str, Any]
Answer = Verdict | NextStep | SessionStatus

GREP = call("grep", {"pattern": "TODO"})
LOOP_DETECTION: Settings = {"tools": {"loopDetection": {"enabled": True}}}
"""OpenClaw's detectors as a person switches them on, everything else as it is by default."""

WORK = {"states": {"work": ["grep", "edit"], "wrap": ["answer"]}, "initialState": "work"}
TWO_CALLS: Settings = {"enabled": True, "maxConsecutiveTools": 2}


class Told(NamedTuple):
    """What a host told or asked, in words, and the answer."""

    sent: str
    answer: Answer


Scenario = Iterator[Told]


class Host:
    """A host that runs what it may, in a session of its own."""

    def __init__(self, client: Client, settings: Settings | None = None) -> None:
        self.client = client
        self.session_id: str = client.request("turnguard/openSession", {"settings": settings or {}})["sessionId"]
        self.calls = 0

    def tell(self, *events: Event) -> Verdict:
        """The verdict on some events."""
        return self.client.record(self.session_id, events)

    def ask(self, *batch: Call, run_id: str | UnsetType | None = UNSET) -> Verdict:
        """The verdict on a batch; its calls get ids."""
        self.batch = [Call(each.name, f"{self.calls + number}", each.args) for number, each in enumerate(batch)]
        self.calls += len(batch)
        self.run_id = run_id
        return self.tell(ToolCalls(self.batch, run_id))

    def finish(self, admitted: list[int], output: Any = "nothing found") -> Verdict:
        """The verdict on the outcomes of the calls that may run, and on the end of their step."""
        results = [Result(self.batch[index].id, output=raw(output)) for index in admitted]
        told: list[Event] = [ToolResults(results, self.run_id)] if results else []
        return self.tell(*told, StepFinished())

    def step(self, *batch: Call, output: Any = "nothing found", run_id: str | UnsetType | None = UNSET) -> Verdict:
        """The verdict on a batch, which then runs as far as it may."""
        asked = self.ask(*batch, run_id=run_id)
        if asked.action != "halt":
            self.finish(asked.admitted, output)
        return asked

    def outcome(self, *batch: Call, output: Any = "nothing found") -> Verdict:
        """The verdict on the outcomes of a batch, all of whose calls may run."""
        asked = self.ask(*batch)
        return asked if len(asked.admitted) < len(batch) else self.finish(asked.admitted, output)

    def prepare(self) -> NextStep:
        """What the next step may use."""
        return self.client.prepare_step(self.session_id)

    def override(self, action: OverrideAction, calls: int | None = None) -> SessionStatus:
        """How the session stands after an override."""
        return self.client.override(self.session_id, action, calls=calls)


# --- OpenClaw's guards ------------------------------------------------------------------------------------------------


def compaction(client: Client, settings: Settings | None = None) -> Scenario:
    """A compaction, and then three equal calls with equal outcomes."""
    host = Host(client, settings)
    yield Told("compacted", host.tell(Compacted()))
    for number in range(1, 4):
        yield Told(f"outcome {number} of grep TODO, the same", host.outcome(GREP))


def repeat(client: Client, settings: Settings = LOOP_DETECTION, times: int = 23) -> Scenario:
    """One call over and over, with one and the same outcome."""
    host = Host(client, settings)
    for number in range(1, times + 1):
        yield Told(f"call {number} of grep TODO", host.step(GREP))


def pair(client: Client) -> Scenario:
    """Two calls that take turns, neither of which gets anywhere."""
    host = Host(client, alone(LOOP_DETECTION))
    both = (call("read_file", {"path": "a"}), call("run_tests"))
    for number in range(1, 22):
        each = both[(number - 1) % 2]
        yield Told(f"call {number}, of {each.name}", host.step(each, output="as before"))


def poll(client: Client) -> Scenario:
    """A process that is asked again and again and says the same."""
    host = Host(client, alone(LOOP_DETECTION))
    asking = call("process", {"action": "poll", "sessionId": "p1"})
    output = {"content": [{"type": "text", "text": "running"}], "details": {"status": "running"}}
    for number in range(1, 23):
        yield Told(f"poll {number} of process p1", host.step(asking, output=output))


def runs(client: Client) -> Scenario:
    """Two runs that take turns with the same call: each has its own count."""
    host = Host(client, alone(LOOP_DETECTION))
    for run_id, first, last in (("one", 1, 9), ("two", 1, 9), ("one", 10, 11), ("two", 10, 11)):
        for number in range(first, last + 1):
            yield Told(f"call {number} of run {run_id}", host.step(GREP, run_id=run_id))


# --- loopShield -------------------------------------------------------------------------------------------------------


def shield(client: Client, **block: Any) -> Scenario:
    """A budget of two calls, used up by two steps of one, and then a step of text alone."""
    host = Host(client, {"loopShield": {**TWO_CALLS, **block}})
    yield Told("prepareStep", host.prepare())
    for number in (1, 2):
        yield Told(f"outcome of step {number}", host.outcome(call("grep", {"n": number})))
    yield Told("prepareStep", host.prepare())
    host.tell(Text("Done."), StepFinished())
    yield Told("prepareStep after a step of text alone", host.prepare())


def shield_by_call(client: Client, admission: str = "call") -> Scenario:
    """Four parallel calls where two are left."""
    host = Host(client, {"loopShield": {"enabled": True, "maxConsecutiveTools": 4, "admission": admission}})
    host.outcome(call("grep", {"n": 1}), call("grep", {"n": 2}))
    asked = host.ask(*(call("grep", {"n": number}) for number in range(3, 7)))
    yield Told("four parallel calls, two left of four", asked)
    yield Told("outcomes of those admitted", host.finish(asked.admitted))
    yield Told("prepareStep", host.prepare())


# --- ours -------------------------------------------------------------------------------------------------------------


def progress(client: Client, settings: Settings | None = None, times: int = 30) -> Scenario:
    """One call over and over with one outcome, until the turn is over."""
    host = Host(client, settings)
    for number in range(1, times + 1):
        verdict = host.outcome(GREP)
        yield Told(f"outcome {number} of grep TODO, the same", verdict)
        if verdict.action == "halt":
            return


def shadow(client: Client) -> Scenario:
    """Everything that could stop the turn is on, and shadow is too."""
    everything: Settings = {
        **LOOP_DETECTION,
        "model": {"maxToolCallsPerTurn": 3},
        "loopShield": {**TWO_CALLS, "admission": "call"},
        "turnguard": {"shadow": True, "maxStepsPerTurn": 22, "progress": {"action": "halt"}},
    }
    host = Host(client, everything)
    for number in range(1, 25):
        asked = host.ask(GREP)
        yield Told(f"call {number} of grep TODO", asked)
        yield Told(f"outcome {number}, the same", host.finish(asked.admitted))
    yield Told("prepareStep", host.prepare())


def steps(client: Client, most: int = 3) -> Scenario:
    """Different calls, one a step, one step more than the turn may take."""
    host = Host(client, {"turnguard": {"maxStepsPerTurn": most}})
    for number in range(1, most + 2):
        yield Told(f"step {number}, a call like no other", host.step(call("grep", {"n": number}), output=number))


# --- overrides --------------------------------------------------------------------------------------------------------


def overridden(client: Client, settings: Settings, action: OverrideAction, before: int, after: int = 1) -> Scenario:
    """One call over and over until it is stopped, an override, and the same call on."""
    host = Host(client, settings)
    for _ in range(1, before):
        host.outcome(GREP)
    yield Told(f"call {before} of grep TODO", host.step(GREP))
    yield Told("status", client.status(host.session_id))
    yield Told(f"override {action}", host.override(action))
    for number in range(before + 1, before + 1 + after):
        yield Told(f"call {number} of grep TODO", host.step(GREP))


def alone(settings: Settings | None = None, **ours: Any) -> Settings:
    """The same without the progress guard and the limit of blocked batches, which would speak up as well."""
    return {**(settings or {}), "turnguard": {"progress": {"action": "off"}, "maxBlocksPerTurn": 0, **ours}}


SCENARIOS: dict[str, Callable[[Client], Scenario]] = {
    "after a compaction, default settings": compaction,
    "the same, tools.loopDetection.enabled false": lambda client: compaction(
        client, {"tools": {"loopDetection": {"enabled": False}}}
    ),
    "tools.loopDetection.enabled, one call": lambda client: repeat(client, alone(LOOP_DETECTION)),
    "the same, an A/B pair": pair,
    "the same, a poll": poll,
    "the same, two runs": runs,
    "the same, maxBlocksPerTurn as by default (3)": lambda client: repeat(
        client, {**LOOP_DETECTION, "turnguard": {"progress": {"action": "off"}}}, times=24
    ),
    "loopShield, two calls, no fallback": shield,
    "loopShield, two calls, with a fallback": lambda client: shield(client, **WORK, fallbackState="wrap"),
    "loopShield.admission call": shield_by_call,
    "loopShield.admission batch": lambda client: shield_by_call(client, "batch"),
    "progress, as by default (warn)": progress,
    "progress halt": lambda client: progress(client, {"turnguard": {"progress": {"action": "halt"}}}),
    "turnguard.shadow, everything on": shadow,
    "turnguard.maxStepsPerTurn 3": steps,
    "continueOnce after a veto": lambda client: overridden(client, alone(LOOP_DETECTION), "continueOnce", 21),
    "continueOnce after maxBlocksPerTurn": lambda client: overridden(
        client, alone(LOOP_DETECTION, maxBlocksPerTurn=1), "continueOnce", 21
    ),
    "continueOnce after a halt for no progress": lambda client: overridden(
        client, {"turnguard": {"progress": {"action": "halt"}}}, "continueOnce", 6
    ),
    "continueOnce after maxStepsPerTurn": lambda client: overridden(
        client, alone(maxStepsPerTurn=2), "continueOnce", 3, after=2
    ),
    "continueOnce after a call past the loopShield budget": lambda client: overridden(
        client, alone({"loopShield": {**TWO_CALLS, "admission": "call"}}), "continueOnce", 3, after=3
    ),
    "continueOnce after the cap": lambda client: overridden(client, capped(2), "continueOnce", 3, after=2),
    "raiseCap after the cap": lambda client: overridden(client, capped(2), "raiseCap", 3, after=3),
    "disable after the cap": lambda client: overridden(client, capped(2), "disable", 3, after=3),
}


def capped(calls: int) -> Settings:
    """An explicit cap."""
    return {**alone(), "model": {"maxToolCallsPerTurn": calls}}
