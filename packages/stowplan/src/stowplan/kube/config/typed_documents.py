"""Read YAML or JSON into structs; all problems are reported at once, each with its field, line and a suggestion."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml

from stowplan.kube.api.yaml_text import QUOTE_BOOLEANS, HostileYamlError, StrictLoader, composed
from stowplan.kube.config.config_errors import did_you_mean
from stowplan.kube.structs import PlainStruct

T = TypeVar("T", bound=msgspec.Struct)

#: A field's path: names and indexes.
FieldPath = tuple[str | int, ...]
Problem = tuple[FieldPath, str]

_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false", "null": "nothing"}
_WORDS |= {"object": "an object", "array": "a list"}
_BOUNDS = {">=": ", {} or more", "<=": ", {} or less"}
_ERRORS = (msgspec.ValidationError, ValueError, TypeError)


class ScalarTypes(PlainStruct, frozen=True):
    """Types that are read from one value, such as `10m`: each has a class method `read`, which raises ValueError."""

    types: tuple[type, ...] = ()
    #: Those of them that a list can be, too.
    lists: tuple[type, ...] = ()

    def read(self, type_: type, value: object) -> Any:
        """msgspec's hook."""
        return type_.read(value)  # type: ignore[attr-defined]

    def converted(self, value: object, type_: type[T]) -> tuple[T | None, list[Problem]]:
        """The struct, or all problems, as close to the leaves as possible."""
        try:
            return msgspec.convert(value, type_, dec_hook=self.read), []
        except _ERRORS:
            return None, list(self._problems(value, type_, ()))

    def _problems(self, value: object, type_: Any, path: FieldPath) -> Iterator[Problem]:
        choices = [one for one in _choices(type_) if self._may_be(value, one)]
        if len(choices) == 1:
            struct = choices[0]
            if _is_strict(struct) and isinstance(value, dict):
                yield from self._problems_of_fields(value, struct, path)
                return
            if get_origin(struct) is tuple and isinstance(value, list):
                for index, element in enumerate(value):
                    yield from self._problems(element, get_args(struct)[0], (*path, index))
                return
        try:
            msgspec.convert(value, type_, dec_hook=self.read)
        except _ERRORS as error:
            yield path, self._in_words(str(error), choices, value)

    def _problems_of_fields(
        self, value: Mapping[Any, Any], struct: type[msgspec.Struct], path: FieldPath
    ) -> Iterator[Problem]:
        fields = _fields(struct)
        for name, element in value.items():
            if name not in fields:
                hint = next(did_you_mean(str(name), fields), f"there are {', '.join(fields)}")
                yield (*path, str(name)), f"there is no such field; {hint}"
            else:
                yield from self._problems(element, fields[name][0], (*path, name))
        for name, (_, required) in fields.items():
            if required and name not in value:
                yield path, f"{name} is missing"

    def _may_be(self, value: object, type_: Any) -> bool:
        if type_ is type(None):
            return value is None
        if get_origin(type_) is tuple:
            return isinstance(value, list)
        if get_origin(type_) is dict:
            return isinstance(value, dict)
        if _is_strict(type_):
            return isinstance(value, dict)
        return not isinstance(value, list) or type_ not in self.types or type_ in self.lists

    def _in_words(self, text: str, choices: list[Any], value: object) -> str:
        if any(one in self.types for one in choices):
            for one in choices:
                try:
                    one.read(value)
                except ValueError as error:
                    return str(error)
        text = text.partition(" - at ")[0]
        if text.startswith("Expected `"):
            parts = text.split("`")
            wanted = " or ".join(_WORDS.get(one, one) for one in parts[1].split(" | ") if one != "null")
            if len(parts) <= 3:
                sign, _, bound = parts[2].strip().partition(" ")
                return f"want {wanted}{_BOUNDS[sign].format(bound)}" if sign in _BOUNDS else f"want {wanted}"
            hint = f"; {QUOTE_BOOLEANS}" if parts[1] == "str" and isinstance(value, bool) else ""
            return f"want {wanted}, got {_WORDS.get(parts[3], parts[3])}{hint}"
        return text


def path_text(path: FieldPath) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _is_strict(type_: Any) -> bool:
    """Whether it is a struct whose unknown fields are errors, so that its fields are judged one by one."""
    is_struct = isinstance(type_, type) and issubclass(type_, msgspec.Struct)
    return is_struct and type_.__struct_config__.forbid_unknown_fields


@cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, tuple[Any, bool]]:
    """Name in YAML -> its type, and whether it is required."""
    hints = get_type_hints(struct, include_extras=True)
    return {field.encode_name: (hints[field.name], field.required) for field in msgspec.structs.fields(struct)}


def _choices(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)


class Document(PlainStruct, frozen=True):
    """A document, with the information to locate problems."""

    value: Any
    #: Its name in messages.
    name: str
    root: yaml.Node | None
    #: The base of its relative paths.
    folder: Path
    scalars: ScalarTypes
    #: Made of one line per problem.
    error_type: Callable[..., Exception]

    def read(self, type_: type[T], want: str) -> T:
        """The document as a struct; raises its error type.

        `want`: what is expected, for a document that is no object.
        """
        if not isinstance(self.value, dict):
            raise self.error_type(f"{self.name}: want {want}")
        found, problems = self.scalars.converted(self.value, type_)
        if found is None:
            raise self.error(problems)
        return found

    def error(self, problems: Iterable[Problem]) -> Exception:
        return self.error_type(*_error_lines(problems, self.name, self.root))


def read_document(
    source: str | os.PathLike[str] | Mapping[str, Any],
    what: str,
    error_type: Callable[..., Exception],
    scalars: ScalarTypes = ScalarTypes(),  # noqa: B008 - it is frozen
) -> Document:
    """Read a file, or a mapping with the content of one; raises the error type."""
    if not isinstance(source, (str, os.PathLike)):
        return Document(dict(source), what, None, Path(), scalars, error_type)
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise error_type(f"{path}: not UTF-8 text") from None
    except OSError as error:
        raise error_type(f"{path}: {error.strerror}") from None
    value, root = _read(text, str(path), error_type)
    return Document(value, str(path), root, path.parent, scalars, error_type)


def _read(text: str, name: str, error_type: Callable[..., Exception]) -> tuple[Any, yaml.Node]:
    try:
        documents = [(loader.value(node), node) for loader, node in composed(text, StrictLoader)]
    except HostileYamlError as error:
        raise error_type(f"{name}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise error_type(f"{name}: line {line}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise error_type(f"{name}: {error}") from None
    if len(documents) != 1:
        raise error_type(f"{name}: want one YAML document, got {len(documents)}")
    return documents[0]


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
