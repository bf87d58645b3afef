"""What a session hears through its hooks and answers, with each call in a process of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, Raw
from tests.headless.hook_calls import (
    CAP,
    QUIET,
    Hooks,
    after,
    before,
    context,
    failed,
    is_refused,
    is_stopped,
    prompt,
    run,
    said,
)

from turnguard import __version__
from turnguard.core.identity import tool_call_repeat_key
from turnguard.core.masking import progress_outcome
from turnguard.settings.places import user_file
from turnguard.settings.regular_file import RefusedFileError


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_an_allowed_call_is_not_answered(kept: Path) -> None:
    assert Hooks(kept).all([prompt(), *run(1), said("Stop"), said("SessionEnd")]) == [{}] * 5


def test_a_loop_is_warned_of_then_refused_and_the_turn_is_over(kept: Path) -> None:
    hooks = Hooks(kept)
    hooks.hear(prompt())
    answers = [hooks.all(run(number))[0] for number in range(1, 7)]
    assert answers[:4] == [{}] * 4
    assert list(answers[4]) == ["hookSpecificOutput"]
    assert "same result 4 times" in (context(answers[4]) or "")
    halted = answers[5]
    assert is_refused(halted)
    assert is_stopped(halted)


def test_who_reads_what_of_a_halt(kept: Path) -> None:
    """The person reads the rule, the tool, the count, the setting and the way on; the model reads no setting."""
    hooks = Hooks(kept, CAP, QUIET)
    hooks.hear(prompt())
    answer = hooks.all([each for number in range(4) for each in run(number)])[6]
    for_person = answer["systemMessage"]
    for part in ("4 tool calls", "the cap that was set is 3", "turn_tool_call_cap", "model.maxToolCallsPerTurn"):
        assert part in for_person
    assert "Send another message to go on" in for_person
    for for_model in (answer["stopReason"], answer["hookSpecificOutput"]["permissionDecisionReason"]):
        assert "4 tool calls" in for_model
        assert "maxToolCallsPerTurn" not in for_model


def test_the_rule_tool_and_count_of_a_stuck_turn(kept: Path) -> None:
    hooks = Hooks(kept)
    answers = hooks.all([prompt(), *(each for number in range(6) for each in run(number))])
    for_person = answers[11]["systemMessage"]
    assert '"Bash" has now given this same result 5 times' in for_person
    assert "Rule: no_new_evidence of the guard progress." in for_person
    assert "Setting: turnguard.progress.action" in for_person


def test_a_halted_turn_stays_halted_until_the_next_prompt(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET)
    hooks.all([prompt(), *(before(number) for number in range(4))])
    for number in range(4, 7):
        assert is_refused(hooks.hear(before(number, f"make {number}")))
    assert is_stopped(hooks.hear(after(1)))
    assert hooks.hear(said("Stop")) == {}
    assert is_refused(hooks.hear(before(8)))
    assert hooks.hear(prompt(turn="p2")) == {}
    assert hooks.hear(before(9)) == {}


def test_the_person_is_told_of_a_halt_once(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET)
    answers = hooks.all([prompt(), *(before(number) for number in range(6)), after(1)])
    assert [number for number, answer in enumerate(answers) if "systemMessage" in answer] == [4]


def test_a_blocked_call_is_refused_and_the_turn_goes_on(kept: Path) -> None:
    hooks = Hooks(kept, "loopShield.enabled=true", "loopShield.maxConsecutiveTools=2", "loopShield.admission=call")
    hooks.all([prompt(), *run(1), *run(2, command="make")])
    answer = hooks.hear(before(3, "make test"))
    assert is_refused(answer)
    assert not is_stopped(answer)
    assert "Refused a call" in answer["systemMessage"]
    assert "loopShield.maxConsecutiveTools" in answer["systemMessage"]


def test_a_used_up_budget_refuses_the_next_step(kept: Path) -> None:
    hooks = Hooks(kept, "loopShield.enabled=true", "loopShield.maxConsecutiveTools=2")
    assert hooks.all([prompt(), *run(1), *run(2, command="make")]) == [{}] * 5
    refused, again = hooks.hear(before(3, "ls")), hooks.hear(before(4, "ls"))
    assert is_refused(refused)
    assert is_refused(again)
    assert not is_stopped(refused)
    assert "systemMessage" in refused
    assert "systemMessage" not in again


def test_a_used_up_budget_leaves_the_tools_of_the_state_it_falls_back_to(kept: Path) -> None:
    states = 'loopShield.states={"work":["Bash","Read"],"ask":["Read"]}'
    fallback = ("loopShield.initialState=work", "loopShield.fallbackState=ask")
    hooks = Hooks(kept, "loopShield.enabled=true", "loopShield.maxConsecutiveTools=2", states, *fallback)
    hooks.all([prompt(), *run(1), *run(2, command="make")])
    read = said("PreToolUse", tool_name="Read", tool_input={"file_path": "a"}, tool_use_id="t3")
    allowed = hooks.hear(read)
    assert not is_refused(allowed)
    assert "2 tool calls came in a row" in (context(allowed) or "")
    assert "systemMessage" not in allowed

    other = Hooks(kept.with_name("other"), *hooks.assignments)
    other.all([prompt(), *run(1), *run(2, command="make")])
    assert is_refused(other.hear(before(3, "ls")))


def test_shadow_only_tells(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET, "turnguard.shadow=true")
    answers = hooks.all([prompt(), *(before(number) for number in range(6))])
    assert not any(is_refused(answer) or is_stopped(answer) for answer in answers)
    assert [number for number, answer in enumerate(answers) if answer] == [4]
    assert list(answers[4]) == ["systemMessage"]


def test_a_warning_is_told_once(kept: Path) -> None:
    hooks = Hooks(kept, "turnguard.progress.action=warn")
    answers = hooks.all([prompt(), *(each for number in range(6) for each in run(number))])
    told = [context(answer) for answer in answers if answer]
    assert len(told) == 2
    assert len(set(told)) == 2


def test_where_the_model_cannot_be_told_before_a_call_it_is_told_after_it(kept: Path) -> None:
    hooks = Hooks(kept, named="gemini")
    hooks.hear({"session_id": "s", "hook_event_name": "BeforeAgent", "prompt": "Go on."})
    call = {"session_id": "s", "tool_name": "run_shell_command", "tool_input": {"command": "ls"}}
    response = {"llmContent": "Output: a\nProcess Group PGID: %d", "returnDisplay": "a"}
    answers: list[dict[str, Any]] = []
    for number in range(6):
        result = {**response, "llmContent": response["llmContent"] % number}
        answers.append(hooks.hear({**call, "hook_event_name": "BeforeTool"}))
        answers.append(hooks.hear({**call, "hook_event_name": "AfterTool", "tool_response": result}))
    assert answers[:9] == [{}] * 9
    assert "same result 4 times" in (context(answers[9]) or "")
    assert answers[10]["decision"] == "deny"
    assert answers[10]["continue"] is False


def test_words_that_wait_do_not_reach_the_next_turn(kept: Path) -> None:
    hooks = Hooks(kept, named="qwen")
    hooks.all([prompt(), *(each for number in range(4) for each in run(number))])
    assert hooks.hear(before(5)) == {}
    assert hooks.all([prompt(turn="p2"), *run(6)]) == [{}] * 3


# --- steps and scopes -------------------------------------------------------------------------------------------------


def test_parallel_calls_are_one_step(kept: Path) -> None:
    hooks = Hooks(kept, "turnguard.maxStepsPerTurn=2", QUIET)
    hooks.hear(prompt())
    for number in range(2):
        calls = range(number * 3, number * 3 + 3)
        answers = hooks.all([*(before(call) for call in calls), *(after(call) for call in calls)])
        assert len(answers) == 6
        assert not any(is_refused(answer) for answer in answers)
    assert is_refused(hooks.hear(before(9)))


def test_what_a_subagent_repeats_is_none_of_the_others(kept: Path) -> None:
    hooks = Hooks(kept)
    hooks.hear(prompt())
    for number in range(3):
        for agent in (None, "a", "b"):
            answers = hooks.all(run(f"{number}{agent}", agent=agent))
            assert answers == [{}, {}]


def test_a_subagent_that_loops_is_stopped_and_with_it_the_turn(kept: Path) -> None:
    hooks = Hooks(kept)
    answers = hooks.all([prompt(), *(each for number in range(8) for each in run(number, agent="a"))])
    assert any(is_refused(answer) for answer in answers)
    assert not any("systemMessage" in answer for answer in answers)
    stopped = hooks.hear(after("x", command="other"))
    assert is_stopped(stopped)
    assert "systemMessage" not in stopped
    told = hooks.hear(prompt(turn="p2"))["systemMessage"]
    assert told.startswith("turnguard: Stopped: ")
    assert hooks.hear(prompt(turn="p3")) == {}


def test_the_words_for_the_person_come_with_the_end_of_the_turn_where_they_are_shown(kept: Path) -> None:
    hooks = Hooks(kept, named="vscode")
    hooks.all([prompt(), *(each for number in range(8) for each in run(number, agent="a"))])
    assert "turnguard: Stopped: " in hooks.hear(after("x", command="other"))["systemMessage"]
    assert "systemMessage" not in hooks.hear(after("y", command="other"))


def test_what_a_subagent_is_asked_is_no_prompt(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET)
    hooks.all([prompt(), *(before(number) for number in range(4))])
    assert hooks.hear(prompt(agent="a", turn="p9")) == {}
    assert is_refused(hooks.hear(before(5)))


def test_a_compaction_is_heard(kept: Path) -> None:
    on = ("tools.loopDetection.enabled=true", QUIET, "tools.loopDetection.detectors.genericRepeat=false")
    with_it, without = Hooks(kept, *on), Hooks(kept.with_name("other"), *on)
    steps = [each for number in range(4) for each in run(number)]
    answers = with_it.all([prompt(), said("PreCompact", trigger="auto"), *steps])
    assert is_refused(answers[-2])
    assert not any(map(is_refused, without.all([prompt(), *steps])))


def test_failures_are_heard(kept: Path) -> None:
    hooks = Hooks(kept, "turnguard.repeatedFailures=enforce", QUIET)
    hooks.hear(prompt())
    answers = [hooks.all([before(n, f"cat {n}"), failed(n, command=f"cat {n}")]) for n in range(12)]
    assert any(is_stopped(answer) for pair in answers for answer in pair)


def test_a_call_that_nobody_can_identify_counts(kept: Path) -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    hooks = Hooks(kept, CAP, QUIET)
    hooks.hear(prompt())
    answers = [hooks.hear(said("PreToolUse", tool_name="Bash", tool_input=deep, tool_use_id=f"t{n}")) for n in range(4)]
    assert [is_refused(answer) for answer in answers] == [False, False, False, True]


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_sessions_do_not_mix(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET)
    one = [hooks.hear(before(number, session="one")) for number in range(4)]
    other = [hooks.hear(before(number, session="other")) for number in range(3)]
    assert is_refused(one[3])
    assert not any(map(is_refused, other))
    assert len(list(kept.glob("*.json"))) == 2


def test_sessions_of_two_agents_do_not_mix(kept: Path) -> None:
    claude = Hooks(kept, CAP, QUIET)
    codex = Hooks(kept, CAP, QUIET, named="codex")
    assert is_refused([claude.hear(before(number)) for number in range(4)][3])
    assert not is_refused(codex.hear(before(5)))


def test_nothing_that_was_said_is_kept_and_no_digest_of_it(kept: Path) -> None:
    hooks = Hooks(kept, "tools.loopDetection.enabled=true", "turnguard.repeatedFailures=enforce")
    secret = {"command": "hunter2 --token"}
    call = {"tool_name": "Bash", "tool_input": secret, "tool_use_id": "t1"}
    hooks.all([prompt("hunter2"), said("PreToolUse", **call), said("PostToolUse", **call, tool_response="hunter2")])
    written = hooks.file.read_text()
    other = Hooks(kept.with_name("other"), *hooks.assignments)
    other.all([prompt("hunter2"), said("PreToolUse", **call), said("PostToolUse", **call, tool_response="hunter2")])
    assert other.file.read_text() == written
    plain = tool_call_repeat_key("Bash", Raw(json.dumps(secret).encode()))
    outcome = progress_outcome(Raw(b'"hunter2"'), UNSET)
    for digest in (plain, outcome):
        assert digest[:16] not in written
        assert f"{int(digest[:32], 16):x}" not in written
    assert "--token" not in written


def test_the_name_of_a_file_tells_nothing(kept: Path) -> None:
    hooks = Hooks(kept)
    hooks.hear(before(1, session="known-session"))
    assert "known" not in hooks.file.name
    assert len(hooks.file.stem) == 32


BROKEN = {
    "nothing": b"",
    "half": b'{"form": "',
    "no JSON": b"\x00\xff",
    "another kind": b"[]",
    "no members": json.dumps({"form": f"{__version__} 2"}).encode(),
    "wrong members": json.dumps({"form": f"{__version__} 2", "cwd": "/", "waiting": {}, "session": 7}).encode(),
    "deep": b"[" * 100_000,
    "another version": b'{"form": "0.0.0 1", "session": {}}',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_snapshot_that_cannot_be_used_starts_the_session_anew_and_is_told_once(kept: Path, data: bytes) -> None:
    hooks = Hooks(kept, CAP, QUIET)
    hooks.all([prompt(), *(before(number) for number in range(3))])
    hooks.file.write_bytes(data)
    first, second = hooks.hear(before(4)), hooks.hear(before(5))
    assert not is_refused(first)
    assert "counts this session from here on" in first["systemMessage"]
    assert len(hooks.said) == 1
    assert second == {}
    assert is_refused(hooks.all([before(6), before(7)])[1])


def test_a_snapshot_of_another_version_starts_the_session_anew(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET)
    hooks.all([prompt(), *(before(number) for number in range(3))])
    hooks.file.write_text(hooks.file.read_text().replace(__version__, "0.0.0", 1))
    answer = hooks.hear(before(4))
    assert not is_refused(answer)
    assert "of another version of turnguard" in answer["systemMessage"]


def test_a_snapshot_with_one_wrong_value_starts_the_session_anew(kept: Path) -> None:
    hooks = Hooks(kept)
    hooks.all([prompt(), *run(1)])
    state = json.loads(hooks.file.read_bytes())
    state["session"]["guard"]["guards"]["turn"]["counter"]["total"] = "many"
    hooks.file.write_text(json.dumps(state))
    assert "from here on" in hooks.hear(before(2))["systemMessage"]
    assert hooks.hear(after(2)) == {}


def test_a_snapshot_that_is_gone_is_told_once(kept: Path) -> None:
    hooks = Hooks(kept)
    hooks.all([prompt(), *run(1)])
    hooks.file.unlink()
    answers = hooks.all(run(2))
    assert "nothing was kept" in answers[0]["systemMessage"]
    assert answers[1] == {}


def test_a_new_session_has_nothing_to_tell(kept: Path) -> None:
    assert Hooks(kept).all([prompt(), before(1)]) == [{}, {}]


def test_the_end_of_a_session_that_is_not_known_keeps_nothing(kept: Path) -> None:
    assert Hooks(kept).all([said("SessionEnd"), said("Stop"), said("PreCompact")]) == [{}] * 3
    assert list(kept.glob("*.json")) == []


def test_where_nothing_can_be_kept_no_call_is_refused_and_it_is_told_once_a_turn(kept: Path) -> None:
    kept.write_text("a file where the directory should be")
    hooks = Hooks(kept, CAP, QUIET)
    answers = hooks.all([prompt(), *(before(number) for number in range(6))])
    assert "cannot keep this session" in answers[0]["systemMessage"]
    assert answers[1:] == [{}] * 6
    assert len(hooks.said) == 7


def test_a_halt_that_cannot_be_written_down_is_answered_all_the_same(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET)
    hooks.all([prompt(), *(before(number) for number in range(3))])
    hooks.file.with_suffix(".new").mkdir()
    for number in (4, 5):
        assert is_refused(hooks.hear(before(number)))
    assert len(hooks.said) == 2


def test_without_a_salt_that_lasts_nothing_is_guarded(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET)

    def refused() -> bytes:
        raise RefusedFileError("others may read it")

    hooks.salt = refused
    answers = hooks.all([prompt(), *(before(number) for number in range(6))])
    assert "others may read it" in answers[0]["systemMessage"]
    assert answers[1:] == [{}] * 6
    assert not kept.exists()


def test_an_event_that_is_not_known_is_not_answered(kept: Path) -> None:
    hooks = Hooks(kept)
    assert hooks.all([said("Notification"), said("SubagentStop"), {}, {"hook_event_name": "PreToolUse"}]) == [{}] * 4
    assert not kept.exists()


# --- settings ---------------------------------------------------------------------------------------------------------


def write_cap(file: Path, cap: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"model": {"maxToolCallsPerTurn": cap}}))


def test_a_stricter_setting_holds_from_the_next_call_on(kept: Path) -> None:
    write_cap(user_file(), 9)
    hooks = Hooks(kept, QUIET)
    hooks.all([prompt(), *(before(number) for number in range(3))])
    write_cap(user_file(), 3)
    answer = hooks.hear(before(4))
    assert is_refused(answer)
    assert "Settings have changed" in answer["systemMessage"]


def test_a_looser_setting_of_a_file_waits_for_a_turn_of_the_users(kept: Path) -> None:
    write_cap(user_file(), 3)
    hooks = Hooks(kept, QUIET)
    hooks.all([prompt(), *(before(number) for number in range(2))])
    write_cap(user_file(), 9)
    assert hooks.hear(before(2)) == {}
    hooks.hear(NOTIFICATION)
    assert is_refused(hooks.hear(before(10)))
    assert "Settings have changed" in hooks.hear(prompt(turn="p3"))["systemMessage"]
    assert not any(is_refused(hooks.hear(before(number))) for number in range(20, 29))
    assert is_refused(hooks.hear(before(30)))


def test_a_projects_file_only_tightens(kept: Path, tmp_path: Path) -> None:
    write_cap(user_file(), 5)
    project = tmp_path / "project"
    write_cap(project / ".turnguard/settings.json", 2)
    hooks = Hooks(kept, QUIET)
    answers = hooks.all([each | {"cwd": str(project)} for each in (prompt(), *map(before, range(3)))])
    assert [is_refused(answer) for answer in answers] == [False, False, False, True]

    write_cap(project / ".turnguard/settings.json", 99)
    hooks = Hooks(kept.with_name("other"), QUIET)
    answers = hooks.all([each | {"cwd": str(project)} for each in (prompt(), *map(before, range(6)))])
    assert [number for number, answer in enumerate(answers) if is_refused(answer)] == [6]
    assert "turnguard trust" in answers[0]["systemMessage"]
    assert not any("systemMessage" in answer for answer in answers[1:6])


def test_an_agent_that_leaves_the_project_does_not_leave_its_settings(kept: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_cap(project / ".turnguard/settings.json", 2)
    hooks = Hooks(kept, QUIET)
    hooks.hear(prompt() | {"cwd": str(project)})
    answers = [hooks.hear(before(number) | {"cwd": str(tmp_path)}) for number in range(3)]
    assert [is_refused(answer) for answer in answers] == [False, False, True]
    assert not any("Settings have changed" in answer.get("systemMessage", "") for answer in answers)


def test_an_agent_that_goes_into_another_project_keeps_the_settings_of_its_own(kept: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_cap(project / ".turnguard/settings.json", 2)
    hooks = Hooks(kept, QUIET)
    hooks.hear(prompt() | {"cwd": str(tmp_path)})
    assert hooks.all([before(number) | {"cwd": str(project)} for number in range(4)]) == [{}] * 4
    hooks.hear(prompt(turn="p2") | {"cwd": str(project)})
    answers = hooks.all([before(number) | {"cwd": str(project)} for number in range(4, 7)])
    assert [is_refused(answer) for answer in answers] == [False, False, True]


def test_a_link_that_an_agent_puts_in_the_way_leads_to_no_other_project(kept: Path, tmp_path: Path) -> None:
    here, there, link = tmp_path / "here", tmp_path / "there", tmp_path / "link"
    write_cap(here / ".turnguard/settings.json", 2)
    write_cap(there / ".turnguard/settings.json", 1)
    link.symlink_to(here)
    hooks = Hooks(kept, QUIET)
    hooks.hear(prompt() | {"cwd": str(link)})
    link.unlink()
    link.symlink_to(there)
    answers = [hooks.hear(before(number) | {"cwd": str(link)}) for number in range(3)]
    assert [is_refused(answer) for answer in answers] == [False, False, True]


def test_mistakes_in_settings_are_told_once_and_refuse_nothing(kept: Path) -> None:
    user_file().parent.mkdir(parents=True)
    user_file().write_text('{"model": {"maxToolCallsPerTurn": "many"}}')
    answers = Hooks(kept).all([prompt(), *run(1)])
    assert "maxToolCallsPerTurn" in answers[0]["systemMessage"]
    assert answers[1:] == [{}, {}]


NOTIFICATION = prompt("<task-notification>\n<task-id>a</task-id>", turn="p2")


@pytest.mark.parametrize("named", ["claude", "codex"])
def test_a_prompt_that_no_person_wrote_lifts_no_halt(kept: Path, named: str) -> None:
    hooks = Hooks(kept, CAP, QUIET, named=named)
    hooks.all([prompt(), *(before(number) for number in range(4))])
    assert is_stopped(hooks.hear(NOTIFICATION)) == (named == "claude")
    assert is_refused(hooks.hear(before(5)))
    hooks.all([said("Stop"), NOTIFICATION])
    assert is_refused(hooks.hear(before(6)))
    hooks.hear(prompt(turn="p3"))
    assert hooks.hear(before(7)) == {}


def test_a_prompt_that_no_person_wrote_leaves_the_counts(kept: Path) -> None:
    hooks = Hooks(kept, CAP, QUIET)
    hooks.all([prompt(), *(before(number) for number in range(3))])
    assert hooks.hear(NOTIFICATION) == {}
    assert is_refused(hooks.hear(before(4)))


# --- ids --------------------------------------------------------------------------------------------------------------


def test_an_id_that_comes_again_is_another_call(kept: Path) -> None:
    hooks = Hooks(kept)
    hooks.hear(prompt())
    for number in range(12):
        assert hooks.all(run(0, f"{number} percent")) == [{}, {}]


def test_the_same_ids_in_each_turn_are_other_calls(kept: Path) -> None:
    hooks = Hooks(kept)
    for turn in range(4):
        assert hooks.all([prompt(turn=f"p{turn}"), *run(0), *run(1, command="make"), said("Stop")]) == [{}] * 6


def test_a_loop_under_one_id_ends(kept: Path) -> None:
    hooks = Hooks(kept)
    hooks.hear(prompt())
    refused = [is_refused(hooks.all(run(0))[0]) for _ in range(6)]
    assert refused == [False] * 5 + [True]


def test_ids_of_subagents_are_their_own(kept: Path) -> None:
    hooks = Hooks(kept, "turnguard.repeatedFailures=enforce", QUIET)
    hooks.all([prompt(), before(0), before(0, agent="a"), after(0, agent="a"), after(0)])
    assert json.loads(hooks.file.read_bytes())["ids"] == {"count": 2, "open": {}}


def test_ids_of_calls_without_a_result_are_kept_until_the_next_prompt(kept: Path) -> None:
    hooks = Hooks(kept, QUIET)
    hooks.all([prompt(), before("x" * 10_000), before(1)])
    assert len(json.loads(hooks.file.read_bytes())["ids"]["open"]) == 2
    hooks.hear(prompt(turn="p2"))
    assert json.loads(hooks.file.read_bytes())["ids"] == {"count": 2, "open": {}}


@pytest.mark.parametrize("ids", [True, False])
def test_what_a_model_says_of_a_command_is_no_part_of_it(kept: Path, ids: bool) -> None:
    hooks = Hooks(kept)
    hooks.hear(prompt())
    refused = 0
    for number in range(8):
        args = {"command": "npm test", "description": f"Try number {number}"}
        call = {"tool_name": "Bash", "tool_input": args, **({"tool_use_id": f"t{number}"} if ids else {})}
        refused += bool(hooks.hear(said("PreToolUse", **call)).get("hookSpecificOutput", {}).get("permissionDecision"))
        hooks.hear(said("PostToolUse", **call, tool_response={"stdout": "1 failing", "stderr": ""}))
    assert refused == 3
