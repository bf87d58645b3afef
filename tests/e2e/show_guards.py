"""`python -m tests.e2e.show_guards`: what a running daemon says, a line for each answer that is news."""

import sys
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from tests.e2e.scenarios import SCENARIOS, Answer, Scenario
from turnguard.client import Client
from turnguard_protocol.verdicts import NextStep, SessionStatus, Verdict

COLUMNS = "{:42} {:8} {:25} {:>5} {:9} {}"


def main() -> int:
    with Client.spawn() as client:
        for name, scenario in SCENARIOS.items():
            print(f"\n{name}")
            print(COLUMNS.format("sent", "action", "loopType", "count", "admitted", "userMessage"))
            for line in news(scenario(client)):
                print(line)
        return client.shutdown()


def news(scenario: Scenario) -> Iterator[str]:
    """A line for each answer that is another than the one before, counts aside, unless it repeats an earlier one."""
    before: Any = None
    printed: set[Any] = set()
    skipped = 0
    for told in scenario:
        cells = cells_of(told.answer)
        what = (*cells[:2], cells[3], "" if isinstance(told.answer, Verdict) else cells[4])
        is_said = isinstance(told.answer, Verdict) and bool(told.answer.findings) and what in printed
        is_fresh = isinstance(told.answer, Verdict) and any(finding.fresh for finding in told.answer.findings)
        if not isinstance(told.answer, SessionStatus) and (what == before or (is_said and not is_fresh)):
            skipped += 1
            continue
        yield from more(skipped)
        before, skipped = what, 0
        printed.add(what)
        yield COLUMNS.format(told.sent, *cells).rstrip()
    yield from more(skipped)


def more(skipped: int) -> Iterator[str]:
    """The line for those left out."""
    if skipped:
        yield f"  ... {skipped} more like this"


def cells_of(answer: Answer) -> tuple[str, ...]:
    """What is printed of an answer."""
    if isinstance(answer, NextStep):
        tools = "all tools" if answer.active_tools is None else f"tools {answer.active_tools}"
        state = "" if answer.state is None else f", state {answer.state}"
        return f"({answer.tool_choice})", "", "", "", f"{tools}{state}"
    if isinstance(answer, SessionStatus):
        return f"({answer.state})", "", "", "", ""
    first = answer.findings[0] if answer.findings else None
    message = "" if answer.user_message is UNSET else answer.user_message
    loop_type, count = ("", "") if first is None else (first.loop_type, str(first.count))
    return answer.action.value, loop_type, count, str(answer.admitted), message


if __name__ == "__main__":
    sys.exit(main())
