"""JSON5 as people write it in a settings file: what it says, and the line on which it says it.

Every member is kept, also one whose name stands twice. Reading takes time in proportion to the text, whatever the text.
"""

import re
from typing import Any, NamedTuple, NoReturn

MAX_DEPTH = 32
"""Lists and objects within each other. Settings need eight."""

MAX_SAFE = 2**53
"""Up to here a floating point number that is whole is exactly that integer."""

_MAX_EXACT_DIGITS = 20
_MAX_SHOWN = 20

_TOKEN = re.compile(
    r"""
    (?P<space> (?: [\t-\r\x20\xa0\ufeff\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]
                 | //[^\n\r\u2028\u2029]* | /\*(?s:.*?)\*/ )++ )
  | (?P<mark> [{}\[\]:,] )
  | (?P<string> "(?:[^"\\\n\r]|\\\r\n|\\(?s:.))*+" | '(?:[^'\\\n\r]|\\\r\n|\\(?s:.))*+' )
  | (?P<number> [+-]? (?: Infinity | NaN | 0[xX][0-9a-fA-F]+
                | (?: (?:0|[1-9][0-9]*+) (?:\.[0-9]*+)? | \.[0-9]++ ) (?:[eE][+-]?[0-9]+)? ) (?![\w$\\.]) )
  | (?P<name> (?: [^\W\d] | \$ | \\u[0-9a-fA-F]{4} ) (?: [\w$\u200c\u200d] | \\u[0-9a-fA-F]{4} )*+ )
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|0[0-9]|\r\n|.)", re.DOTALL)
_LINE_ENDS = ("\r\n", "\n", "\r", "\u2028", "\u2029")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"} | dict.fromkeys(_LINE_ENDS, "")
_NO_ESCAPES = frozenset("123456789ux")
"""What may follow a backslash only in a longer form."""

_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_MISSING_END = {'"': "a string without its end", "'": "a string without its end", "/": "a comment without its end"}


class DocumentError(ValueError):
    """A text is not JSON5. `line`: where, from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


class Node(NamedTuple):
    """A value and its line. `value`: a string, a number, a boolean, None, Items or Members."""

    value: Any
    line: int

    @property
    def plain(self) -> Any:
        """The value without lines, as JSON has it; of a name that stands twice, the first."""
        if isinstance(self.value, Members):
            values: dict[str, Any] = {}
            for member in self.value:
                if member.name not in values:
                    values[member.name] = member.node.plain
            return values
        if isinstance(self.value, Items):
            return [node.plain for node in self.value]
        return self.value


class Items(tuple[Node, ...]):
    """A list: what it holds."""

    __slots__ = ()


class Member(NamedTuple):
    """A name in an object, the line of that name, and what stands under it."""

    name: str
    line: int
    node: Node


class Members(tuple[Member, ...]):
    """An object: its members in their order."""

    __slots__ = ()


def parse(text: str) -> Node | None:
    """What a text says; None where it holds nothing but space and comments. Raises DocumentError."""
    reader = _Reader(text)
    if reader.kind == "end":
        return None
    node = reader.value(0)
    if reader.kind != "end":
        reader.refuse("nothing more")
    return node


class _Reader:
    """Reads values off a text. `kind` and `word` are what stands next."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self._counted = 0
        self.kind: str = ""
        self.word: str = ""
        self.advance()

    def advance(self) -> None:
        """Moves on to the next token that is more than space."""
        self.at += len(self.word)
        match = _TOKEN.match(self.text, self.at)
        if match is not None and match.lastgroup == "space":
            self.at = match.end()
            match = _TOKEN.match(self.text, self.at)
        self.line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        if match is not None:
            self.kind, self.word = match.lastgroup or "", match[0]
        elif self.at == len(self.text):
            self.kind, self.word = "end", ""
        else:
            self.kind, self.word = "nothing", self.text[self.at :][:_MAX_SHOWN]

    def refuse(self, expected: str) -> NoReturn:
        """Raises for what stands next."""
        found = repr(self.word[:_MAX_SHOWN])
        if self.kind == "end":
            found = "the end"
        elif self.kind == "nothing":
            found = _MISSING_END.get(self.word[0], found)
        raise DocumentError(self.line, f"expected {expected}, found {found}")

    def value(self, depth: int) -> Node:
        """Reads one value."""
        line = self.line
        if depth > MAX_DEPTH:
            raise DocumentError(line, f"lists and objects are more than {MAX_DEPTH} deep")
        if self.word == "{":
            return Node(self._object(depth), line)
        if self.word == "[":
            return Node(self._list(depth), line)
        if self.kind == "string":
            value: Any = self._string()
        elif self.kind == "number":
            value = _number(self.word)
        elif self.kind == "name" and self.word in _WORDS:
            value = _WORDS[self.word]
        else:
            self.refuse("a value")
        self.advance()
        return Node(value, line)

    def _list(self, depth: int) -> Items:
        nodes: list[Node] = []
        self.advance()
        while self.word != "]":
            nodes.append(self.value(depth + 1))
            self._separator("]")
        self.advance()
        return Items(nodes)

    def _object(self, depth: int) -> Members:
        members: list[Member] = []
        self.advance()
        while self.word != "}":
            line = self.line
            name = self._name()
            if self.word != ":":
                self.refuse('":"')
            self.advance()
            members.append(Member(name, line, self.value(depth + 1)))
            self._separator("}")
        self.advance()
        return Members(members)

    def _separator(self, end: str) -> None:
        if self.word == ",":
            self.advance()
        elif self.word != end:
            self.refuse(f'"," or "{end}"')

    def _name(self) -> str:
        # `Infinity` and `NaN` are names here.
        if self.kind not in ("string", "name") and self.word not in ("Infinity", "NaN"):
            self.refuse("a name")
        name = self._string() if self.kind == "string" else self._unescaped(self.word)
        self.advance()
        return name

    def _string(self) -> str:
        return self._unescaped(self.word[1:-1])

    def _unescaped(self, text: str) -> str:
        if "\\" not in text:
            return text
        text = _ESCAPE.sub(self._escaped, text)
        # Two halves of one character are one; half a character is none, and no UTF-8 can say it.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def _escaped(self, match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1 and escape[0] in "ux":
            return chr(int(escape[1:], 16))
        if escape in _NO_ESCAPES or (len(escape) == 2 and escape[0] == "0"):
            raise DocumentError(self.line, f"\\{escape} in a string means nothing; a backslash is written \\\\")
        return _ESCAPED.get(escape, escape)


def _number(text: str) -> int | float:
    """A number; one that is whole is an integer however it is written, except where that is beyond exactness."""
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
    if digits[:2] in ("0x", "0X"):
        return sign * int(digits, 16) if len(digits) <= _MAX_EXACT_DIGITS else sign * float("inf")
    if digits.isdecimal() and len(digits) <= _MAX_EXACT_DIGITS:
        return sign * int(digits)
    number = sign * float(digits)
    return int(number) if abs(number) <= MAX_SAFE and number.is_integer() else number
