"""Steps: when a step is over, of all the calls of one ACP session.

A step is one response of the model and the calls it asked for, which no message of the protocol tells. Some agents mark
it by the usage they report with each response; of the others a step is over when a call is first heard of after a
result of the same scope. A scope is the main conversation or one subagent.

    the step ends                              where the agent marks steps      where it does not
    at the mark that ends the response         unless calls still run           -
    when the model says something              -                                after a result, unless calls still run
    at a result                                the last one after that mark     -
    before a call of the main conversation     after that mark                  after a result of the main conversation
    before a call of a subagent                after a result of that subagent  after a result of that subagent

All scopes share one step, and what of a scope still runs when that ends its step has no outcome. While calls of other
scopes run an end is put off, `MAX_PUT_OFF` times. Results are told with the end of their step, since the guards take a
call that follows a result for the next step; only where nothing runs and nothing marks steps they are told at once.
"""

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from turnguard_protocol.events import Event, Result, StepFinished, Text, ToolResults

MAX_ROUNDS = 8
"""Calls that begin after a result without a mark in between; then the agent is taken not to mark steps any more."""

MAX_PUT_OFF = 3

Scope = str | None
ROOT: Scope = None
"""The main conversation; a subagent's scope is the id of the call that started it."""

Running = Mapping[str, Scope]
"""The calls that run: the scope of each id."""

NOTHING: Sequence[Event] = ()


class Steps:
    """The step at hand. `marks_a_step`: how many messages of the agent mark a step, the last of them its end; 0: none.

    `held`: results that are to be told, by scope. `answered`: scopes with a result since their last call began.
    `rounds`: calls of the main conversation that began after a result. `is_told`: the guards have heard a result.
    """

    __slots__ = (
        "answered",
        "has_calls",
        "held",
        "is_over",
        "is_told",
        "is_trusted",
        "marks",
        "marks_a_step",
        "put_off",
        "rounds",
    )

    def __init__(self, marks_a_step: int) -> None:
        self.marks_a_step = marks_a_step
        self.is_trusted = marks_a_step > 0
        self.begin()

    def begin(self) -> None:
        """Nothing of a step has been seen yet."""
        self.held: list[tuple[Scope, Result]] = []
        self.answered: set[Scope] = set()
        self.rounds = self.marks = self.put_off = 0
        self.has_calls = self.is_over = self.is_told = False

    def call_begins(self, scope: Scope, running: Running) -> Sequence[Event]:
        """What is to be told before a call of this scope."""
        wants_end = self.is_told or self._ends_before(scope)
        self.answered.discard(scope)
        events = self._end(scope, running) if wants_end else NOTHING
        self.has_calls = True
        return events

    def call_ended(self, scope: Scope, result: Result, running: Running) -> Sequence[Event]:
        """What is to be told when a call has ended. `running`: without it."""
        self.held.append((scope, result))
        self.answered.add(scope)
        if self.is_trusted:
            return self._end(ROOT, running) if self.is_over and ROOT not in running.values() else NOTHING
        if running:
            return NOTHING
        self.is_told = True
        return self.results()

    def mark(self, running: Running) -> Sequence[Event]:
        """What is to be told when the agent has marked the step once more."""
        self.is_trusted = True
        self.marks += 1
        if self.marks < self.marks_a_step:
            return NOTHING
        self.marks, self.is_over = 0, True
        return NOTHING if ROOT in running.values() else self._end(ROOT, running)

    def words_begin(self, running: Running) -> Sequence[Event]:
        """What is to be told when the model says something: after results that is another response."""
        return NOTHING if self.is_trusted or running or not self.answered else self._end(ROOT, running)

    def results(self) -> Sequence[Event]:
        """The results that were not told yet, of one scope after the other."""
        by_scope: dict[Scope, list[Result]] = {}
        for scope, result in self.held:
            by_scope.setdefault(scope, []).append(result)
        self.held = []
        return [ToolResults(told, UNSET if scope is ROOT else scope) for scope, told in by_scope.items()]

    def _ends_before(self, scope: Scope) -> bool:
        if scope is not ROOT or not self.is_trusted:
            return scope in self.answered
        self.rounds += ROOT in self.answered
        if self.rounds >= MAX_ROUNDS:
            self.is_trusted = False
        return self.is_over or not self.is_trusted

    def _end(self, scope: Scope, running: Running) -> Sequence[Event]:
        """Ends the step for the sake of a scope. The call that started a subagent is none of another's."""
        if any(other != scope and call_id != scope for call_id, other in running.items()):
            self.put_off += 1
            if self.put_off <= MAX_PUT_OFF:
                return NOTHING
        response: Sequence[Event] = NOTHING if self.has_calls else [Text(length=0)]  # the guards count responses
        events = [*response, *self.results(), StepFinished()]
        is_over = self.is_over and ROOT in running.values()  # a subagent's step ends no other
        self.begin()
        self.is_over = is_over
        return events
