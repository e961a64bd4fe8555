"""Decode YAML into a `Scenario`, reporting all problems at once, each with its field, its line and a suggestion."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from stowplan.kube.api.yaml_text import QUOTE_BOOLEANS
from stowplan.kube.config.errors import did_you_mean
from stowplan_lab.simulation.definition.amounts import Distribution, Rate, Span, Times
from stowplan_lab.simulation.definition.schema import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T", bound=Spec)

#: A field's path: names and indexes.
Path = tuple[str | int, ...]
Problem = tuple[Path, str]

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


def path_text(path: Path) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def _problems(value: object, type_: Any, path: Path) -> Iterator[Problem]:
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


def _problems_of_fields(value: Mapping[Any, Any], struct: type[Spec], path: Path) -> Iterator[Problem]:
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
    if any(one in (Span, Rate, Distribution, Times) for one in choices):
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
