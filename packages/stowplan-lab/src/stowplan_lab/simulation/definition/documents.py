"""Read YAML or JSON into structs; all problems are reported at once, each with its field, line and a suggestion."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml

from stowplan.kube.api.yaml_text import QUOTE_BOOLEANS, HostileYamlError, StrictLoader, composed
from stowplan.kube.config.config_errors import did_you_mean
from stowplan.kube.structs import PlainStruct
from stowplan_lab.simulation.definition.amounts import Distribution, Rate, Span, Times, Usage
from stowplan_lab.simulation.definition.scenario_fields import Spec
from stowplan_lab.simulation.scenario_errors import ScenarioError

T = TypeVar("T", bound=Spec)

#: A field's path: names and indexes.
FieldPath = tuple[str | int, ...]
Problem = tuple[FieldPath, str]

_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false", "null": "nothing"}
_WORDS |= {"object": "an object", "array": "a list"}


def read_amount(type_: type, value: object) -> Any:
    """msgspec's hook for the types of `amounts`."""
    return type_.read(value)  # type: ignore[attr-defined]


def converted(value: object, type_: type[T]) -> tuple[T | None, list[Problem]]:
    """The struct, or the first error."""
    try:
        return msgspec.convert(value, type_, dec_hook=read_amount), []
    except (msgspec.ValidationError, ValueError, TypeError):
        return None, list(_problems(value, type_, ()))


def path_text(path: FieldPath) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _problems(value: object, type_: Any, path: FieldPath) -> Iterator[Problem]:
    """Problems, as close to the leaves as possible."""
    choices = [one for one in _choices(type_) if _may_be(value, one)]
    if len(choices) == 1:
        struct = choices[0]
        if isinstance(struct, type) and issubclass(struct, Spec) and isinstance(value, dict):
            yield from _problems_of_fields(value, struct, path)
            return
        if get_origin(struct) is tuple and isinstance(value, list):
            for index, element in enumerate(value):
                yield from _problems(element, get_args(struct)[0], (*path, index))
            return
    try:
        msgspec.convert(value, type_, dec_hook=read_amount)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        yield path, _in_words(str(error), choices, value)


def _problems_of_fields(value: Mapping[Any, Any], struct: type[Spec], path: FieldPath) -> Iterator[Problem]:
    fields = _fields(struct)
    for name, element in value.items():
        if name not in fields:
            hint = next(did_you_mean(str(name), fields), f"there are {', '.join(fields)}")
            yield (*path, str(name)), f"there is no such field; {hint}"
        else:
            yield from _problems(element, fields[name][0], (*path, name))
    for name, (_, required) in fields.items():
        if required and name not in value:
            yield path, f"{name} is missing"


@cache
def _fields(struct: type[Spec]) -> dict[str, tuple[Any, bool]]:
    """Name in YAML -> its type, and whether it is required."""
    hints = get_type_hints(struct)
    return {field.encode_name: (hints[field.name], field.required) for field in msgspec.structs.fields(struct)}


def _choices(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)


def _may_be(value: object, type_: Any) -> bool:
    if type_ is type(None):
        return value is None
    if get_origin(type_) is tuple:
        return isinstance(value, list)
    if get_origin(type_) is dict:
        return isinstance(value, dict)
    if isinstance(type_, type) and issubclass(type_, Spec):
        return isinstance(value, dict)
    return not isinstance(value, list) or type_ not in (Span, Rate)


def _in_words(text: str, choices: list[Any], value: object) -> str:
    if any(one in (Span, Rate, Distribution, Times, Usage) for one in choices):
        for one in choices:
            try:
                one.read(value)
            except ValueError as error:
                return str(error)
    text = text.partition(" - at ")[0]
    if text.startswith("Expected `"):
        parts = text.split("`")
        wanted = " or ".join(_WORDS.get(one, one) for one in parts[1].split(" | ") if one != "null")
        hint = f"; {QUOTE_BOOLEANS}" if parts[1] == "str" and isinstance(value, bool) else ""
        return f"want {wanted}, got {_WORDS.get(parts[3], parts[3])}{hint}" if len(parts) > 3 else f"want {wanted}"
    return text


class Document(PlainStruct, frozen=True):
    """A document, with the information to locate problems."""

    value: Any
    #: Its name in messages.
    name: str
    root: yaml.Node | None
    #: The base of its relative paths.
    folder: Path

    def read(self, type_: type[T], want: str) -> T:
        """The document as a struct; raises ScenarioError.

        `want`: what is expected, for a document that is no object.
        """
        if not isinstance(self.value, dict):
            raise ScenarioError(f"{self.name}: want {want}")
        found, problems = converted(self.value, type_)
        if found is None:
            raise self.error(problems)
        return found

    def error(self, problems: Iterable[Problem]) -> ScenarioError:
        return ScenarioError(*_error_lines(problems, self.name, self.root))


def read_document(source: str | os.PathLike[str] | Mapping[str, Any], what: str) -> Document:
    """Read a file, or a mapping with the content of one; raises ScenarioError."""
    if not isinstance(source, (str, os.PathLike)):
        return Document(dict(source), what, None, Path())
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    value, root = _read(text, str(path))
    return Document(value, str(path), root, path.parent)


def _read(text: str, name: str) -> tuple[Any, yaml.Node]:
    try:
        documents = [(loader.value(node), node) for loader, node in _documents(text)]
    except HostileYamlError as error:
        raise ScenarioError(f"{name}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ScenarioError(f"{name}: line {line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ScenarioError(f"{name}: {error}") from None
    if len(documents) != 1:
        raise ScenarioError(f"{name}: want one YAML document, got {len(documents)}")
    return documents[0]


def _documents(text: str) -> Iterator[tuple[Any, yaml.Node]]:
    return composed(text, StrictLoader)


def _error_lines(problems: Iterable[Problem], name: str, root: yaml.Node | None) -> Iterator[str]:
    for path, message in problems:
        line = f"line {_line(root, path)}: " if root is not None else ""
        where = path_text(path)
        yield f"{name}: {line}{where}: {message}" if where else f"{name}: {line}{message}"


def _line(node: yaml.Node, path: FieldPath) -> int:
    """The line of the field, or of the innermost parent that exists."""
    line = node.start_mark.line + 1
    for step in path:
        if isinstance(step, int) and isinstance(node, yaml.SequenceNode) and step < len(node.value):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
            if found is None:
                return line
            line, node = found[0].start_mark.line + 1, found[1]
            continue
        else:
            return line
        line = node.start_mark.line + 1
    return line
