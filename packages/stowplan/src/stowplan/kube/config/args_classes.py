"""Classes as types of arguments of out-of-tree plugins, other than msgspec structs.

What a configuration can set: of dataclasses and attrs classes the fields that `__init__` takes; of other classes the
parameters of `__init__`, or, without parameters, the public attributes of the class. msgspec decodes the former, and
asks a hook for the latter (plain classes). Plain classes are called with what the configuration sets, so their defaults
are their own. Types are checked where there are annotations.
"""

from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from enum import Enum
from functools import cache
from inspect import Parameter, signature
from typing import Any, ClassVar, get_origin, get_type_hints

import msgspec
from msgspec import inspect

_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def settable_fields(type_: Any) -> tuple[str, ...] | None:
    """Names of the fields that a configuration can set; None for anything but such a class."""
    if is_dataclass(type_):
        return tuple(field.name for field in dataclass_fields(type_) if field.init)
    if hasattr(type_, "__attrs_attrs__"):
        return tuple(field.name for field in type_.__attrs_attrs__ if field.init)
    mirror = mirror_of_plain(type_)
    return None if mirror is None else mirror.__struct_fields__


def undecodable(type_: Any) -> str:
    """Why configurations cannot have arguments of this type; empty if they can."""
    try:
        known = inspect.type_info(type_) if isinstance(type_, type) else None
        if not (isinstance(known, inspect.StructType | inspect.DataclassType) or (known and settable_fields(type_))):
            return f" is {type_!r}, not a msgspec.Struct, dataclass or other class with fields"
    except Exception as error:
        # Evaluating the user's annotations may raise anything.
        return f" cannot be decoded: {type(error).__name__}: {error}"
    missing = ", ".join(_without_value(type_))
    return f": fields with init=False need a default: {missing}" if missing else ""


def set_defaults(dataclass: Any) -> None:
    """Set fields with a plain default, which msgspec leaves to the class: encoders read the instance."""
    on_instance: dict[str, Any] = getattr(dataclass, "__dict__", {})
    for field in dataclass_fields(dataclass):
        if field.default is not MISSING:
            on_instance.setdefault(field.name, field.default)


def _without_value(type_: type[Any]) -> list[str]:
    """Fields of a dataclass that nothing sets: msgspec calls `__post_init__` only once all fields have a value."""
    return [
        field.name
        for field in (dataclass_fields(type_) if is_dataclass(type_) else ())
        if not field.init and field.default is MISSING and field.default_factory is MISSING
    ]


# --- plain classes


@cache
def mirror_of_plain(type_: type[Any]) -> type[msgspec.Struct] | None:
    """A struct with the fields of a plain class, to check types; defaults are not those of the class."""
    if issubclass(type_, Enum) or any(base.__module__ == "builtins" for base in type_.__mro__[:-1]):
        return None
    parameters = _parameters(type_)
    required = parameters or _attributes(type_)
    if not required:
        return None
    hints = get_type_hints(type_.__init__ if parameters else type_)
    fields = [
        (name, hints.get(name, Any), msgspec.field(default=msgspec.NODEFAULT if is_required else None))
        for name, is_required in required.items()
    ]
    return msgspec.defstruct(type_.__name__, fields, kw_only=True)


def make_plain(type_: type[Any], given: Mapping[str, Any]) -> Any:
    """An instance; raises ValueError if it does not keep its fields, as they could not be written back."""
    if _parameters(type_):
        made = type_(**given)
    else:
        made = type_()
        for name, value in given.items():
            setattr(made, name, value)
    lost = [name for name in settable_fields(type_) or () if not hasattr(made, name)]
    if lost:
        raise ValueError(f"an instance of {type_.__name__} has no attribute {', '.join(lost)}, as its parameter")
    return made


def _parameters(type_: type[Any]) -> dict[str, bool]:
    """Parameters of the class -> whether they are required."""
    try:
        parameters = signature(type_).parameters.values()
    except ValueError:  # a class of an extension module
        return {}
    return {one.name: one.default is Parameter.empty for one in parameters if one.kind in _BY_NAME}


def _attributes(type_: type[Any]) -> dict[str, bool]:
    """Public attributes of a class without parameters -> whether they are required."""
    annotated = [name for name, hint in get_type_hints(type_).items() if get_origin(hint) is not ClassVar]
    assigned = [name for base in reversed(type_.__mro__[:-1]) for name, value in vars(base).items() if _is_data(value)]
    return {name: name not in assigned for name in (*annotated, *assigned) if not name.startswith("_")}


def _is_data(value: object) -> bool:
    return not callable(value) and not hasattr(value, "__get__")
