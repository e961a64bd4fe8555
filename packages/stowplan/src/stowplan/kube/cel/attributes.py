"""Attributes: a value followed by fields, keys and indexes.

An attribute costs 1, and so does each of its qualifiers, even if it fails. From the first optional qualifier on, a
missing value makes the result an empty optional; those qualifiers only cost if they find a value.

Upstream: interpreter/attributes.go.
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.cel import costs
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import ValueProblem
from stowplan.kube.cel.frames import Closure, Frame
from stowplan.kube.cel.values import ABSENT, NONE, Optional, Value
from stowplan.kube.structs import PlainStruct


class Qualifier(PlainStruct, frozen=True):
    """A step of an attribute: a field, a key or an index."""

    #: None if `key` is constant.
    compute: Closure | None
    key: Value = None
    is_optional: bool = False
    only_tests: bool = False


class Attribute(PlainStruct, frozen=True):
    base: Closure
    qualifiers: tuple[Qualifier, ...] = ()
    #: Its own cost, without its parts.
    own_cost: int = costs.IDENT
    #: The slot of the base if it is a variable other than an accumulator.
    slot: int | None = None

    def with_(self, qualifier: Qualifier) -> Attribute:
        return Attribute(self.base, (*self.qualifiers, qualifier), self.own_cost, self.slot)


def evaluated(attribute: Attribute) -> Closure:
    resolve, own_cost = resolved(attribute), attribute.own_cost
    if attribute.qualifiers and attribute.qualifiers[-1].only_tests:
        return lambda frame: _presence(resolve(frame))
    if not own_cost:
        return resolve

    def evaluate(frame: Frame) -> Value:
        frame.cost += own_cost
        return resolve(frame)

    if attribute.slot is None or not attribute.qualifiers or not all(map(_is_name, attribute.qualifiers)):
        return evaluate
    return _at_path(attribute.slot, [str(q.key) for q in attribute.qualifiers], own_cost, otherwise=evaluate)


def _is_name(qualifier: Qualifier) -> bool:
    is_plain = qualifier.compute is None and not qualifier.is_optional and not qualifier.only_tests
    return is_plain and type(qualifier.key) is str


def _at_path(slot: int, names: list[str], own_cost: int, *, otherwise: Closure) -> Closure:
    """Fast path for `device.attributes["domain"].name` if all of it exists, which dominates the time of selectors."""
    cost = own_cost + len(names)

    def evaluate(frame: Frame) -> Value:
        value: Any = frame.slots[slot]
        try:
            for name in names:
                value = value[name]
        except (KeyError, TypeError):
            return otherwise(frame)
        frame.cost += cost
        return value

    return evaluate


def _presence(value: Value) -> Value:
    return value is not NONE if type(value) is Optional else value


def resolved(attribute: Attribute) -> Closure:
    """The value of an attribute; adds all costs except its own."""
    base, qualifiers = attribute.base, attribute.qualifiers
    if not qualifiers:
        return base
    if all(q.compute is None and not q.is_optional and not q.only_tests for q in qualifiers):
        return _resolved_by_constants(base, [q.key for q in qualifiers])

    def resolve(frame: Frame) -> Value:
        value = base(frame)
        is_optional = type(value) is Optional
        if is_optional:
            if value is NONE:
                return NONE
            value = value.value  # type: ignore[attr-defined]
        for qualifier in qualifiers:
            is_optional = is_optional or qualifier.is_optional
            value = _qualified(frame, value, qualifier, is_optional)
            if value is ABSENT:
                return NONE
        return Optional(value) if is_optional else value

    return resolve


def _resolved_by_constants(base: Closure, keys: list[Value]) -> Closure:
    """The common case `device.attributes["domain"].name`."""

    def resolve(frame: Frame) -> Value:
        value = base(frame)
        if type(value) is Optional:
            return _resolved_in_optional(frame, value, keys)
        for key in keys:
            frame.cost += 1
            value = _get(value, key)
        return value

    return resolve


def _resolved_in_optional(frame: Frame, optional: Optional, keys: list[Value]) -> Value:
    if optional is NONE:
        return NONE
    value = optional.value
    for key in keys:
        value = _get_if_present(value, key)
        if value is ABSENT:
            return NONE
        frame.cost += 1
    return Optional(value)


def _qualified(frame: Frame, value: Value, qualifier: Qualifier, is_optional: bool) -> Value:
    """The value after one more qualifier; `ABSENT` if an optional one finds nothing."""
    if not is_optional:
        frame.cost += 1
    key = qualifier.key if qualifier.compute is None else qualifier.compute(frame)
    if qualifier.only_tests:
        is_present = _get_if_present(value, key) is not ABSENT
        if not is_optional:
            return is_present
        frame.cost += 1
        return None if is_present else ABSENT
    if not is_optional:
        return _get(value, key)
    value = _get_if_present(value, key)
    if value is not ABSENT:
        frame.cost += 1
    return value


def _get(value: Value, key: Value) -> Value:
    if isinstance(value, dict):
        found = v.find(value, key)
        if found is ABSENT:
            raise ValueProblem(f"no such key: {v.shown(key)}")
        return found
    if isinstance(value, list):
        index = _index(key)
        if not 0 <= index < len(value):
            raise ValueProblem(f"index out of bounds: {v.shown(key)}")
        return value[index]
    raise ValueProblem(f"no such key: {v.shown(key)}")


def _get_if_present(value: Value, key: Value) -> Value:
    if isinstance(value, dict):
        return v.find(value, key)
    if isinstance(value, list):
        index = _index(key)
        return value[index] if 0 <= index < len(value) else ABSENT
    return ABSENT


def _index(key: Value) -> int:
    if type(key) is int or type(key) is v.UInt:
        return int(key)
    if type(key) is float:
        if key.is_integer() and v.INT_MIN <= key <= v.INT_MAX:
            return int(key)
        raise ValueProblem(f"unsupported index value {v.shown(key)} in list")
    raise ValueProblem(f"unsupported index type '{v.type_name(key)}' in list")
