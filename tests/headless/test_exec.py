"""What `turnguard exec` understands, and the words it has."""

import pytest
from msgspec import UNSET, UnsetType

from turnguard.headless import words
from turnguard.headless.exec import LIVE_FORMATS, parser
from turnguard_protocol.verdicts import Action, Finding, Totals, Verdict


def verdict(
    action: Action,
    *,
    verdict_action: Action | None = None,
    setting: str | UnsetType = "tools.loopDetection.enabled",
    source: str | UnsetType = UNSET,
    user_message: str | UnsetType = UNSET,
) -> Verdict:
    finding = Finding(
        guard="rolling",
        action=action,
        loop_type="generic_repeat",
        tool="make",
        count=7,
        threshold=6,
        setting=setting,
        setting_source=source,
    )
    return Verdict(
        action=verdict_action or action,
        turn_id="t",
        findings=[finding],
        admitted=[],
        totals=Totals(9, 9, 3, 7),
        user_message=user_message,
    )


FACT = '"make" was called 7 times with the same arguments'
RULE = "Rule: generic_repeat of the guard rolling."


def test_what_is_not_chosen() -> None:
    chosen = vars(parser().parse_args([]))
    assert chosen == {"on_loop": "halt", "grace": 10.0, "json": False, "format": None, "set": [], "record": None}


def test_only_live_formats_are_guarded_and_each_that_can_be_resumed_is_one() -> None:
    names = {each.name for each in LIVE_FORMATS}
    assert names >= words.RESUMED_BY.keys()
    assert "claude" not in names


def test_a_stop_names_the_rule_the_setting_and_where_it_was_set() -> None:
    told = words.stopped(verdict(Action.HALT, source="/home/me/settings.json"), calls=9, has_run=True)
    assert told == (
        f"Stopped: {FACT}. The last call, number 9 of the turn, had already run. {RULE} Setting: "
        "tools.loopDetection.enabled, set in /home/me/settings.json. To go on, start the agent again or resume its "
        "session: counts begin anew."
    )


def test_a_check_that_no_setting_governs_is_told_as_such() -> None:
    told = words.stopped(verdict(Action.HALT, setting=UNSET), calls=9, has_run=True)
    assert f"{RULE} No setting governs this check. To go on" in told


@pytest.mark.parametrize(
    ("action", "is_only_told", "more"),
    [
        (Action.WARN, False, ""),
        (Action.WARN, True, ""),
        (Action.HALT, True, " It goes on, since --on-loop is warn."),
        (Action.BLOCK, False, " It goes on: a running agent's single calls cannot be refused from here."),
        (Action.RESTRICT, False, " It goes on: a running agent's single calls cannot be refused from here."),
    ],
)
def test_a_warning_says_what_becomes_of_it(action: Action, is_only_told: bool, more: str) -> None:
    told = words.warning(verdict(action), is_only_told=is_only_told)
    assert told == f"Warning: {FACT}.{more} {RULE} Setting: tools.loopDetection.enabled."


def test_what_only_watches_has_the_words_of_the_guards() -> None:
    watching = verdict(Action.HALT, verdict_action=Action.ALLOW, user_message="Would have stopped.")
    assert words.warning(watching, is_only_told=False) == "Would have stopped."


def test_lines_are_counted_in_words() -> None:
    assert words.unread(1, (3, "not JSON")).startswith("1 line of the stream could not be read")
    assert words.unread(2, (3, "not JSON")).startswith("2 lines of the stream could not be read")


def test_a_mistake_of_ours_is_told_without_what_it_was_about() -> None:
    assert "(KeyError)" in words.broken("KeyError")
