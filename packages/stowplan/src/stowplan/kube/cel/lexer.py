"""Text to tokens. Upstream: parser/gen/CEL.g4.

Invalid input is reported and skipped like in the reference's lexer: the longest prefix of a possible token.
"""

from __future__ import annotations

import re
from enum import Enum

from stowplan.kube.cel.cel_errors import Issues
from stowplan.kube.structs import PlainStruct

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_STRING = rf"""
    [rR](?:\"\"\"(?s:.)*?\"\"\"|'''(?s:.)*?'''|"[^"\n\r]*"|'[^'\n\r]*')
    |\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"
    |'''(?:{_ESCAPE}|[^\\])*?'''
    |"(?:{_ESCAPE}|[^\\"\n\r])*"
    |'(?:{_ESCAPE}|[^\\'\n\r])*'
"""
_TOKEN_RE = re.compile(
    rf"""
    (?P<hidden>[\t \r\n\f]+|//[^\n]*)
    |(?P<bytes>[bB](?:{_STRING}))
    |(?P<string>{_STRING})
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<escaped>`[A-Za-z0-9_.\-/\ ]+`)
    |(?P<symbol>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
#: The start of a string that becomes invalid at its last character.
_BROKEN_STRING_RE = re.compile(
    rf"""[bB]?(?:[rR](?:"[^"\n\r]*|'[^'\n\r]*)|"(?:{_ESCAPE}|[^\\"\n\r])*|'(?:{_ESCAPE}|[^\\'\n\r])*)"""
)
#: An escape up to the point where it becomes invalid.
_ESCAPE_START_RE = re.compile(r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?")


class Kind(Enum):
    STRING = "STRING"
    BYTES = "BYTES"
    FLOAT = "NUM_FLOAT"
    INT = "NUM_INT"
    UINT = "NUM_UINT"
    NAME = "IDENTIFIER"
    ESCAPED = "ESC_IDENTIFIER"
    #: Operators, punctuation and the words `in`, `true`, `false`, `null`; distinguished by their text.
    SYMBOL = "SYMBOL"
    END = "<EOF>"


_KINDS = {
    "bytes": Kind.BYTES,
    "string": Kind.STRING,
    "float": Kind.FLOAT,
    "uint": Kind.UINT,
    "int": Kind.INT,
    "name": Kind.NAME,
    "escaped": Kind.ESCAPED,
    "symbol": Kind.SYMBOL,
}
_WORDS = frozenset({"in", "true", "false", "null"})


class Token(PlainStruct, frozen=True):
    kind: Kind
    text: str
    offset: int

    def is_symbol(self, text: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text == text


def tokens(text: str, issues: Issues) -> list[Token]:
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN_RE.match(text, position)
        if match is None:
            skipped = _unrecognized(text, position)
            issues.report(position, f"Syntax error: token recognition error at: '{_escaped(skipped)}'")
            position += len(skipped)
            continue
        group = match.lastgroup or "hidden"
        if group != "hidden":
            kind = Kind.SYMBOL if match[0] in _WORDS else _KINDS[group]
            found.append(Token(kind, match[0], position))
        position = match.end()
    found.append(Token(Kind.END, "<EOF>", len(text)))
    return found


def _unrecognized(text: str, position: int) -> str:
    match = _BROKEN_STRING_RE.match(text, position)
    if match is None:
        # `&&`, `||` and `==` are two characters: the first one is skipped with the next.
        end = position + (2 if text[position] in "=&|" else 1)
        return text[position:end]
    end = match.end()
    # The first character that cannot continue a string is skipped as well, except for a line end.
    escape = _ESCAPE_START_RE.match(text, end)
    if escape is not None:
        end = escape.end()
    if end < len(text) and text[end] not in "\r\n":
        end += 1
    return text[position:end]


def _escaped(text: str) -> str:
    return text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


# Literals of strings and bytes: remove quotes, resolve escapes. Upstream: parser/unescape.go.

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE_RE = re.compile(
    r"\\(?:[xX](?P<byte>[0-9a-fA-F]{2})|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})"
    r"|(?P<simple>.))",
    re.DOTALL,
)
_QUOTES = ('"""', "'''", '"', "'")


class LiteralError(ValueError):
    """An invalid literal; has the reference's message."""


def string_value(token: str) -> str:
    """The value of a string token."""
    body, raw = _body(token)
    if raw:
        return body
    return _ESCAPE_RE.sub(_character, body)


def bytes_value(token: str) -> bytes:
    """The bytes of a bytes token, including its `b`."""
    body, raw = _body(token[1:])
    if raw:
        return body.encode()
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE_RE.finditer(body):
        parts.append(body[position : match.start()].encode())
        parts.append(_byte(match))
        position = match.end()
    parts.append(body[position:].encode())
    return b"".join(parts)


def _body(token: str) -> tuple[str, bool]:
    token = token.replace("\r\n", "\n").replace("\r", "\n")
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    quotes = next(quotes for quotes in _QUOTES if token.startswith(quotes) and len(token) >= 2 * len(quotes))
    return token[len(quotes) : -len(quotes)], raw


def _character(match: re.Match[str]) -> str:
    if match["simple"] is not None:
        return _SIMPLE.get(match["simple"], match["simple"])
    code = int(match["octal"], 8) if match["octal"] else int(match["byte"] or match["u4"] or match["u8"], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def _byte(match: re.Match[str]) -> bytes:
    if match["simple"] is not None:
        return _SIMPLE.get(match["simple"], match["simple"]).encode()
    if match["u4"] or match["u8"]:
        raise LiteralError("unable to unescape string")
    return bytes([int(match["octal"], 8) if match["octal"] else int(match["byte"], 16)])
