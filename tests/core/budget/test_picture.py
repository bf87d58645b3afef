"""The picture of a machine."""

from tests.core.budget.build import heard


def test_every_state_is_drawn_with_its_tools() -> None:
    states = {"A": ["read", "grep"], "S:one": ["x"], "S:two": [], "Z": ["ask"]}
    assert heard(states=states, fallback="Z").machine.to_mermaid() == (
        "stateDiagram-v2\n"
        '    state "A" as s0\n'
        "    s0 : read, grep\n"
        '    state "S" as g1 {\n'
        '        state "S#58;one" as s1\n'
        "        s1 : x\n"
        '        state "S#58;two" as s2\n'
        "        s2 : no tools\n"
        "    }\n"
        '    state "Z" as s3\n'
        "    s3 : ask\n"
        "    [*] --> s0\n"
        "    s0 --> s3 : budget used up\n"
        "    s1 --> s3 : budget used up\n"
        "    s2 --> s3 : budget used up\n"
    )


def test_no_arrow_leads_to_the_fallback_of_a_budget_that_is_off() -> None:
    assert "budget" not in heard(enabled=False, fallback="B").machine.to_mermaid()
    assert "budget" not in heard().machine.to_mermaid()


def test_names_cannot_break_the_diagram() -> None:
    picture = heard(states={'"};\n[*] --> x': ["a:b", "é"], "": []}, initial="").machine.to_mermaid()
    assert 'state "#34;#125;#59;#10;#91;#42;#93; --#62; x" as s0' in picture
    assert "s0 : a#58;b, é\n" in picture
    assert 'state " " as s1' in picture, "Mermaid cannot read an empty name"
