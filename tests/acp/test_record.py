"""The transcript says what the guards heard, and nothing of arguments and results."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.acp.shapes import Heard, claude, codex, usage
from turnguard.core.guard import ALL_BUT_TEXT
from turnguard.core.session import EventError, SessionGuard
from turnguard.recording import RecordedSession, Transcript
from turnguard.settings.layers import Merged
from turnguard.settings.sourced import SourcedSession
from turnguard.settings.sources import Sources
from turnguard_protocol.events import (
    Call,
    CallRekeyed,
    Event,
    Facts,
    Keys,
    Outcomes,
    Result,
    StepFinished,
    Target,
    Text,
    ToolCalls,
    ToolResults,
    TurnStarted,
)
from turnguard_protocol.methods import Record

HALTING = msgspec.structs.replace(Merged([]).in_force(), progress="halt")


class File:
    """A transcript in memory."""

    def __init__(self, salt: bytes = b"salt") -> None:
        self.lines: list[bytes] = []
        self.transcript = Transcript(self.lines.append, salt)

    @property
    def records(self) -> list[Record]:
        return [msgspec.json.decode(each, type=Record) for each in self.lines]

    @property
    def events(self) -> list[Event]:
        return [event for record in self.records for event in record.events]


def test_each_line_is_what_a_record_request_takes() -> None:
    file = File()
    file.transcript.add("s", [TurnStarted(), Text("secret words")])
    assert file.lines[0].endswith(b"\n")
    assert file.lines[0].count(b"\n") == 1
    assert file.records[0].session_id == "s"
    assert file.events == [TurnStarted(), Text(length=12)]


def test_a_transcript_holds_what_guards_under_other_settings_would_look_at() -> None:
    for kind, reads_text in (("batch", False), ("stream", True)):
        chosen = ["turnguard.progress.action=off", f"turnguard.turnGuard={kind}", "model.skipLoopDetection=false"]
        sources = Sources("acp", assignments=chosen)
        assert not SourcedSession("s", sources).needs.progress
        assert RecordedSession("s", sources, File().transcript).needs == ALL_BUT_TEXT._replace(text=reads_text)


def test_calls_are_the_last_of_their_line() -> None:
    file = File()
    file.transcript.add("s", [StepFinished(), ToolCalls([Call("a", key="k")]), ToolResults([Result("1")])])
    assert [[type(event) for event in record.events] for record in file.records] == [
        [StepFinished, ToolCalls],
        [ToolResults],
    ]


@pytest.mark.parametrize("agent", [claude, codex])
def test_a_played_back_transcript_gives_the_same_verdicts(agent: Any) -> None:
    file, heard = File(), Heard("claude" if agent is claude else "codex")
    for number in range(7):
        heard.hear(*agent(f"c{number}"), usage(), usage())
    for event in heard.events:
        file.transcript.add("s", [event])
    again = SessionGuard("s", HALTING)
    findings = [finding for record in file.records for finding in again.record(record.events).findings]
    told = [(each.action, each.count) for each in heard.findings if each.fresh]
    assert [(each.action, each.count) for each in findings if each.fresh] == told
    assert heard.is_halted


def test_digests_are_keyed_with_the_salt_of_the_file() -> None:
    key, target = Keys("t" * 64, "r" * 64), Target("x", "k" * 64)
    told: list[Event] = [
        CallRekeyed("1", "a", key=key, facts=Facts(target=target)),
        ToolResults(
            [Result("1", key="plain", outcome=Outcomes("1" * 64, "2" * 64, "3" * 64)), Result(outcome="whole")]
        ),
        ToolCalls([Call("a", "1", key=key, facts=Facts(target=target, poll=True)), Call("b", key="", fidelity="none")]),
    ]
    one, same, other = File(), File(), File(b"pepper")
    for file in (one, same, other):
        file.transcript.add("s", told)
    assert one.lines == same.lines != other.lines
    written = b"".join(one.lines)
    for digest in ("t" * 64, "r" * 64, "k" * 64, "1" * 64, "2" * 64, "3" * 64, "plain", "whole"):
        assert digest.encode() not in written
    rekeyed, _, calls = one.events
    assert isinstance(rekeyed, CallRekeyed)
    assert isinstance(calls, ToolCalls)
    assert rekeyed.key == calls.calls[0].key
    assert calls.calls[1].key == ""
    assert calls.calls[0].facts is not None
    assert calls.calls[0].facts.poll


def test_raw_arguments_and_results_are_never_written() -> None:
    file = File()
    call = Call("bash", "1", Raw(b'{"command":"cat secret-file"}'))
    file.transcript.add("s", [ToolCalls([call]), ToolResults([Result("1", output=Raw(b'"secret words"'))])])
    assert b"secret" not in b"".join(file.lines)
    events = file.events
    assert isinstance(events[0], ToolCalls)
    assert (events[0].calls[0].hint, events[0].calls[0].name) == ("cat", "bash")


def test_a_recorded_session_answers_as_one_that_is_not_and_writes_what_it_took() -> None:
    file, sources = File(), Sources("acp")
    recorded, plain = RecordedSession("s", sources, file.transcript), SourcedSession("s", sources)
    told: list[Event] = [TurnStarted("t"), StepFinished(), ToolCalls([Call("a", "1", key="k")])]
    assert recorded.record(told) == plain.record(told)
    assert [type(event) for event in file.events] == [TurnStarted, StepFinished, ToolCalls]
    assert file.records[0].session_id == "s"
    assert recorded.status() == plain.status()
    with pytest.raises(EventError):
        recorded.record([ToolCalls([Call("a", "2", Raw(b"{"))])])
    assert len(file.events) == len(told)
