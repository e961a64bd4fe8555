"""Literals of strings and bytes: remove quotes, resolve escapes. Upstream: parser/unescape.go."""

from __future__ import annotations

import re

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
