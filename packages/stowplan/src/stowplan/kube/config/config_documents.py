"""Parse one JSON object, or the first document of a YAML file.

The content decides, not the file name: a text that begins with `{` is JSON, anything else YAML. Both readers keep
duplicate keys, which plain dictionaries lose and the strict decoder reports. The YAML reader follows the reference's
library (YAML 1.1 without dates and base-60 numbers), including its error messages.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json, sigs.k8s.io/yaml.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import yaml

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.yaml_text import MAX_DEPTH, HostileYamlError, composed, repeated_keys
from stowplan.kube.config.config_errors import ConfigError, ConfigFileError, os_error_text


class JsonObject(dict[str, Any]):
    """A JSON object with all of its members, including duplicates."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.members = members


def members_of(value: dict[str, Any]) -> list[tuple[str, Any]]:
    return value.members if isinstance(value, JsonObject) else list(value.items())


@dataclass(frozen=True)
class Document:
    #: The source text; some messages quote it.
    text: str
    value: Any
    #: Errors of YAML's strict reading; JSON's duplicates are found while decoding.
    strict_errors: tuple[str, ...] = ()


def parse_document(text: str) -> Document:
    document = _parse_json(text) if text.lstrip().startswith("{") else _parse_yaml(text)
    _check_numbers(document.value, "")
    return document


def _check_numbers(value: Any, path: str) -> None:
    """Refuse what JSON has no number for, such as 1e400: it could only be passed on as another value."""
    if isinstance(value, dict):
        for key, item in members_of(value):
            _check_numbers(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_numbers(item, f"{path}[{number}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{path or 'document'}: the number is too large, or not finite: the largest is about 1.8e308")


def _parse_json(text: str) -> Document:
    try:
        value = _JSON.decode(text)
        _check_json_depth(value)
    except json.JSONDecodeError as error:
        raise _json_refused(_json_error(error)) from None
    except RecursionError:
        raise _json_refused(_TOO_DEEP) from None
    if "\\u" in text:
        _check_characters(value)
    return Document(text, value)


def _check_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _json_refused("a string has half of a surrogate pair") from None


_TOO_DEEP = f"exceeded max depth of {MAX_DEPTH} levels"


def _json_refused(reason: str) -> ConfigError:
    return ConfigError(f"couldn't get version/kind; json parse error: {reason}")


def _refuse_constant(name: str) -> NoReturn:
    sign, letter = name[:-1] == "-Infinit", name.lstrip("-")[0]
    place = "in numeric literal" if sign else "looking for beginning of value"
    raise _json_refused(f"invalid character '{letter}' {place}")


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        # Python refuses thousands of digits.
        return math.inf


_JSON = json.JSONDecoder(object_pairs_hook=JsonObject, parse_constant=_refuse_constant, parse_int=_integer)


def _check_json_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _json_children(parent)]
        if not level:
            return
    raise _json_refused(_TOO_DEEP)


def _json_children(value: Any) -> Iterable[Any]:
    if isinstance(value, JsonObject):
        return (element for _, element in value.members)
    return value if isinstance(value, list) else ()


_PLACES = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Expecting value": "looking for beginning of value",
    "Illegal trailing comma before end of array": "looking for beginning of value",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
}


def _json_error(error: json.JSONDecodeError) -> str:
    # From 3.13 on, Python reports the comma before the bracket; before that, like Go, the bracket.
    at_comma = error.msg.startswith("Illegal trailing comma")
    rest = error.doc[error.pos + at_comma :].lstrip()
    if not rest or error.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    return f"invalid character {_go_character(rest[0])} {_PLACES.get(error.msg, _after_value(error))}"


def _go_character(character: str) -> str:
    return {"'": r"'\''", '"': "'\"'"}.get(character) or f"'{go_quote(character)[1:-1]}'"


def _after_value(error: json.JSONDecodeError) -> str:
    """Distinguish an object from an array by the last open bracket where a comma was expected."""
    text = re.sub(r'"(\\.|[^"\\])*"', "", error.doc[: error.pos])
    open_brackets: list[str] = []
    for character in text:
        if character in "{[":
            open_brackets.append(character)
        elif character in "}]" and open_brackets:
            open_brackets.pop()
    return "after object key:value pair" if open_brackets[-1:] == ["{"] else "after array element"


# --- YAML


def _parse_yaml(text: str) -> Document:
    duplicates: tuple[str, ...] = ()
    value = None
    try:
        for loader, node in composed(text):
            duplicates = tuple(_duplicates(node))
            value = loader.construct_document(node)
            break
    except yaml.MarkedYAMLError as error:
        _raise_yaml(error)
    except yaml.reader.ReaderError as error:
        # The full text has a second line with a meaningless file name.
        raise ConfigError(f"yaml: {error.reason}") from None
    except (yaml.YAMLError, HostileYamlError) as error:
        raise ConfigError(f"yaml: {error}") from None
    return Document(text, _as_json(value), _strict(duplicates))


def _strict(duplicates: tuple[str, ...]) -> tuple[str, ...]:
    return ("\n".join(("yaml: unmarshal errors:", *duplicates)),) if duplicates else ()


def _raise_yaml(error: yaml.MarkedYAMLError) -> NoReturn:
    line = 0
    if error.problem_mark is not None and error.problem_mark.line:
        # Both libraries are ports of libyaml, in which only scanner errors count lines from zero.
        line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    where = f"line {line}: " if line else ""
    raise ConfigError(f"yaml: {where}{error.problem}") from None


def _duplicates(node: yaml.Node) -> Iterator[str]:
    """Duplicate keys of mappings, inner mappings first."""
    if isinstance(node, yaml.SequenceNode):
        for element in node.value:
            yield from _duplicates(element)
    if not isinstance(node, yaml.MappingNode):
        return
    repeated = {id(value): key for key, value in repeated_keys(node)}
    for key, value in node.value:
        yield from _duplicates(value)
        if repeated.get(id(value)) is key and isinstance(key, yaml.ScalarNode):
            yield f"  line {value.start_mark.line + 1}: key {go_quote(key.value)} already set in map"


def _as_json(value: Any) -> Any:
    """Convert YAML data to JSON: keys become strings and are sorted, whole floats become integers."""
    if isinstance(value, dict):
        members = sorted(((_key(key), element) for key, element in value.items()), key=itemgetter(0))
        return {key: _as_json(element) for key, element in members}
    if isinstance(value, list):
        return [_as_json(element) for element in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


def _key(key: object) -> str:
    return json.dumps(key) if key is None or isinstance(key, bool) else str(key)


# Configuration text from a file or a mapping.

GivenSource = Mapping[str, Any] | str | os.PathLike[str]


def read_source(source: GivenSource) -> str:
    if isinstance(source, Mapping):
        return _mapping_as_json(source)
    if not isinstance(source, str | os.PathLike):
        raise ConfigError(f"the configuration: want a mapping or a path, got {source!r}")
    path = os.fspath(source)
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigFileError(f"read {path}: not UTF-8 text") from None
    except IsADirectoryError as error:
        # One can be opened.
        raise ConfigFileError(os_error_text("read", path, error)) from None
    except OSError as error:
        raise ConfigFileError(os_error_text("open", path, error)) from None


def _mapping_as_json(source: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(source), separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the configuration cannot be written as JSON: {error}") from None
