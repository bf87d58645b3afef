"""A picture of states and their tools, as a Mermaid state diagram."""

from collections.abc import Mapping, Sequence

PLAIN_CHARACTERS = frozenset(" _-.,")
"""Besides letters and digits; all others are written by number, since most of them mean something in a diagram."""


def mermaid(states: Mapping[str, Sequence[str]], initial: str, fallback: str | None) -> str:
    """The diagram: sub-states (`GROUP:name`) inside their group, an arrow to each move the budget makes by itself."""
    names = {state: f"s{number}" for number, state in enumerate(states)}
    groups: dict[str, list[str]] = {}
    for state in states:
        group, colon, _ = state.partition(":")
        groups.setdefault(group + colon, []).append(state)
    lines = ["stateDiagram-v2"]
    for number, (group, members) in enumerate(groups.items()):
        drawn = [line for state in members for line in _state(names[state], state, states[state])]
        if group.endswith(":"):
            drawn = [f'state "{_text(group[:-1])}" as g{number} {{', *("    " + line for line in drawn), "}"]
        lines += drawn
    lines.append(f"[*] --> {names[initial]}")
    if fallback is not None:
        others = [name for state, name in names.items() if state != fallback]
        lines += [f"{name} --> {names[fallback]} : budget used up" for name in others]
    return "\n    ".join(lines) + "\n"


def _state(name: str, state: str, tools: Sequence[str]) -> list[str]:
    return [f'state "{_text(state)}" as {name}', f"{name} : {_text(', '.join(tools) or 'no tools')}"]


def _text(text: str) -> str:
    """The text as a diagram takes it; Mermaid cannot read an empty one."""
    return "".join(each if each.isalnum() or each in PLAIN_CHARACTERS else f"#{ord(each)};" for each in text or " ")
