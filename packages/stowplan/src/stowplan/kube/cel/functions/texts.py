"""Strings. Upstream: common/stdlib, ext/strings.go (version 2)."""

from __future__ import annotations

from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.declarations import function, member, overload
from stowplan.kube.cel.functions.formatting import formatted
from stowplan.kube.cel.functions.operators import bounded_text
from stowplan.kube.cel.values import Value

#: What Go's strings.TrimSpace removes: Unicode's White_Space.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _out_of_range(index: int) -> ValueProblem:
    return ValueProblem(f"index out of range: {index}")


def _char_at(text: str, index: int) -> Value:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, wanted: str, offset: int = 0) -> Value:
    if not wanted:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(wanted, offset)


def _last_index_of(text: str, wanted: str) -> Value:
    return text.rfind(wanted)


def _last_index_before(text: str, wanted: str, offset: int) -> Value:
    if not wanted:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.rfind(wanted, 0, offset + len(wanted)) if offset < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> Value:
    times = text.count(old) if count < 0 else min(count, text.count(old))
    bounded_text(len(text) + times * max(0, len(new) - len(old)))
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1) -> Value:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if 0 < limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return list(text)


def _substring(text: str, start: int) -> Value:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> Value:
    if start > end:
        raise ValueProblem(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(texts: list[Value], separator: str = "") -> Value:
    for text in texts:
        if not isinstance(text, str):
            raise ValueProblem(f"join: invalid input: {text}")
    bounded_text(sum(len(str(text)) for text in texts) + len(separator) * len(texts))
    return separator.join(map(str, texts))


def _contains(text: str, part: str) -> Value:
    return part in text


def _starts_with(text: str, prefix: str) -> Value:
    return text.startswith(prefix)


def _ends_with(text: str, suffix: str) -> Value:
    return text.endswith(suffix)


FUNCTIONS = [
    function("contains", member("contains_string", "string, string -> bool", _contains), is_guarded=False),
    function("startsWith", member("starts_with_string", "string, string -> bool", _starts_with), is_guarded=False),
    function("endsWith", member("ends_with_string", "string, string -> bool", _ends_with), is_guarded=False),
    function("charAt", member("string_char_at_int", "string, int -> string", _char_at)),
    function(
        "indexOf",
        member("string_index_of_string", "string, string -> int", _index_of),
        member("string_index_of_string_int", "string, string, int -> int", _index_of),
    ),
    function(
        "lastIndexOf",
        member("string_last_index_of_string", "string, string -> int", _last_index_of),
        member("string_last_index_of_string_int", "string, string, int -> int", _last_index_before),
    ),
    function("lowerAscii", member("string_lower_ascii", "string -> string", lambda text: text.translate(_LOWER))),
    function("upperAscii", member("string_upper_ascii", "string -> string", lambda text: text.translate(_UPPER))),
    function(
        "replace",
        member("string_replace_string_string", "string, string, string -> string", _replace),
        member("string_replace_string_string_int", "string, string, string, int -> string", _replace),
    ),
    function(
        "split",
        member("string_split_string", "string, string -> list(string)", _split),
        member("string_split_string_int", "string, string, int -> list(string)", _split),
    ),
    function(
        "substring",
        member("string_substring_int", "string, int -> string", _substring),
        member("string_substring_int_int", "string, int, int -> string", _substring_range),
    ),
    function("trim", member("string_trim", "string -> string", lambda text: text.strip(_SPACES))),
    function(
        "join",
        member("list_join", "list(string) -> string", _join),
        member("list_join_string", "list(string), string -> string", _join),
    ),
    function("format", member("string_format", "string, list(dyn) -> string", formatted)),
    function(
        "strings.quote", overload("strings_quote", "string -> string", lambda text: f'"{text.translate(_QUOTED)}"')
    ),
]
