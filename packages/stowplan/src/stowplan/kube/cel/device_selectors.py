"""Device selectors: the environment with the variable `device`, and its value for a device.

A selector is compiled once per text. A `Device` is created once per device and used by every selector; two with equal
content are equal, so that callers can evaluate once per distinct content.

Upstream: k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TypeAlias

from stowplan.kube.api.quantity import NANO, QuantityError
from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import CompileError, EvaluationError, EvaluationStopped, Interrupted, ValueProblem
from stowplan.kube.cel.declarations import function, member
from stowplan.kube.cel.environment import CompiledExpression, Environment, environment, walked
from stowplan.kube.cel.functions import quantities
from stowplan.kube.cel.functions.semvers import Semver, read_semver
from stowplan.kube.cel.syntax import Call, Literal, Node, Select
from stowplan.kube.cel.values import DomainMap, Quantity, Value
from stowplan.kube.structs import PlainStruct

__all__ = [
    "AttributeValue",
    "CompileError",
    "Device",
    "DeviceSelector",
    "Evaluation",
    "EvaluationError",
    "Read",
    "Version",
    "attribute_of",
    "compile_attribute",
    "compile_selector",
    "device_environment",
]

#: The cost limit of an evaluation.
MAX_COST = 1_000_000
#: The maximum length of a list on which `includes` is called.
_MAX_INCLUDES = 48
#: Many more than selectors in use; the reference caches ten.
_CACHED = 1024


class Version(PlainStruct, frozen=True):
    """The text of a version attribute."""

    text: str


_Scalar: TypeAlias = bool | int | str | Version
#: None is an attribute whose value is of no supported type.
AttributeValue: TypeAlias = _Scalar | tuple[_Scalar, ...] | None


class Device:
    """A device as seen by a selector. Creating one never fails: an invalid value fails each evaluation."""

    __slots__ = ("__dict__", "_key", "allow_multiple_allocations", "attributes", "capacity", "driver")

    def __init__(
        self,
        *,
        driver: str,
        attributes: Mapping[str, AttributeValue],
        capacity: Mapping[str, str | int],
        allow_multiple_allocations: bool = False,
    ) -> None:
        """Capacities are strings as in a slice, or nano-units as returned by `kube.api.quantity.parse_quantity`.

        Only for a string it is known what the reference treats as an integer: not "1000m", nor "1.5Gi".
        """
        self.driver = driver
        self.attributes = attributes
        self.capacity = capacity
        self.allow_multiple_allocations = allow_multiple_allocations
        self._key = (
            driver,
            allow_multiple_allocations,
            frozenset((name, type(value), _typed(value)) for name, value in attributes.items()),
            frozenset(capacity.items()),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def variable(self) -> dict[Value, Value]:
        """The value of `device`. Raises a `ValueProblem` if an attribute has an unsupported value."""
        return self._variable(lists=False)

    @cached_property
    def variable_with_lists(self) -> dict[Value, Value]:
        """The value of `device` if attributes may be lists."""
        return self._variable(lists=True)

    def _variable(self, *, lists: bool) -> dict[Value, Value]:
        attributes = {name: _attribute(name, value, lists=lists) for name, value in self.attributes.items()}
        capacity: dict[str, Value] = {name: _quantity(name, value) for name, value in self.capacity.items()}
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": self._by_domain(attributes),
            "capacity": self._by_domain(capacity),
        }

    def _by_domain(self, values: Mapping[str, Value]) -> DomainMap:
        domains: dict[str, dict[Value, Value]] = {}
        for name, value in values.items():
            domain, slash, id = name.partition("/")
            if not slash:
                domain, id = self.driver, name
            domains.setdefault(domain, {})[id] = value
        return DomainMap(domains)


def _quantity(name: str, value: str | int) -> Value:
    if isinstance(value, int):
        return Quantity(value, 0 if value % NANO == 0 else -9)
    try:
        return quantities.read(value)
    except QuantityError as error:
        raise ValueProblem(f"capacity {name}: {error}") from None


def _typed(value: AttributeValue) -> Value:
    """A value that differs from equal values of other types, as True differs from 1 here."""
    return tuple((type(part), part) for part in value) if isinstance(value, tuple) else value


def _attribute(name: str, value: AttributeValue, *, lists: bool) -> Value:
    if isinstance(value, tuple) and lists:
        return [_scalar(name, part) for part in value]
    if value is None or isinstance(value, tuple):
        raise ValueProblem(f"attribute {name}: unsupported attribute value")
    return _scalar(name, value)


def _scalar(name: str, value: _Scalar) -> Value:
    if not isinstance(value, Version):
        return value
    try:
        return read_semver(value.text)
    except ValueProblem as error:
        raise ValueProblem(f"attribute {name}: parse semantic version: {error}") from None


class Evaluation(PlainStruct, frozen=True):
    value: Value
    cost: int


class Read(PlainStruct, frozen=True):
    """An attribute or a capacity that an expression accesses with constants."""

    #: "attributes" or "capacity".
    kind: str
    domain: str
    name: str


@dataclass(frozen=True)
class DeviceSelector:
    """A compiled selector."""

    text: str
    expression: CompiledExpression
    _has_lists: bool

    def matches(self, device: Device, *, interrupted: Callable[[int], bool] | None = None) -> bool:
        """Whether the device matches. Raises an `EvaluationError` if evaluation fails.

        `interrupted` is called periodically with the cost so far, and returns whether to stop.
        """
        return self.boolean(self.evaluate(device, interrupted=interrupted).value)

    @staticmethod
    def boolean(value: Value) -> bool:
        """The value as a bool; an `EvaluationError` for other types."""
        if not isinstance(value, bool):
            name = v.type_name(value)
            raise EvaluationError(f"CEL result of type {name} could not be converted to bool: {_no_bool(value)}")
        return value

    def evaluate(
        self, device: Device, *, interrupted: Callable[[int], bool] | None = None, limit: int = MAX_COST
    ) -> Evaluation:
        try:
            variable = device.variable_with_lists if self._has_lists else device.variable
            value, cost = self.expression.program.run({"device": variable}, limit=limit, interrupted=interrupted)
        except (ValueProblem, EvaluationStopped) as problem:
            error = EvaluationError(str(problem))
            error.interrupted = isinstance(problem, Interrupted)
            raise error from None
        return Evaluation(value, cost)

    @cached_property
    def reads(self) -> frozenset[Read]:
        """The attributes and capacities that are accessed with constants, whose values explanations show."""
        return frozenset(_reads(self.expression.root))


def _no_bool(value: Value) -> str:
    """The reference's message, which depends on the type."""
    if isinstance(value, list):
        return "type conversion error from list to 'bool'"
    if isinstance(value, dict):
        return "type conversion error from map to 'bool'"
    name = v.type_name(value)
    return _NO_BOOL.get(type(value), f"unsupported native conversion from {name} to 'bool'")


_NO_BOOL: dict[type, str] = {
    int: "unsupported type conversion from 'int' to bool",
    str: "unsupported native conversion from string to 'bool'",
}


def compile_selector(text: str, *, list_type_attributes: bool = False) -> DeviceSelector:
    """The selector of a text, cached. Raises a `CompileError`, with the reference's details."""
    return _compiled(text, list_type_attributes)


@lru_cache(maxsize=_CACHED)
def _compiled(text: str, has_lists: bool) -> DeviceSelector:
    results = (t.BOOL, t.ANY, t.DYN) if has_lists else (t.BOOL, t.ANY)
    return DeviceSelector(text, device_environment(has_lists).compiled(text, results=results), has_lists)


@lru_cache(maxsize=_CACHED)
def compile_attribute(text: str) -> DeviceSelector:
    """The expression of a derived attribute, whose value is that of an attribute. Raises a `CompileError`."""
    return DeviceSelector(text, device_environment(True).compiled(text), True)


def attribute_of(value: Value, *, lists: bool) -> AttributeValue:
    """The value of a derived attribute; an `EvaluationError` for types that attributes do not have."""
    found = [_scalar_of(part) for part in value] if isinstance(value, list) and lists else [_scalar_of(value)]
    if None in found or len({type(part) for part in found}) > 1:
        raise EvaluationError(f"unsupported result of type {v.type_name(value)}")
    scalars = tuple(part for part in found if part is not None)
    return scalars if isinstance(value, list) else scalars[0]


def _scalar_of(value: Value) -> _Scalar | None:
    if isinstance(value, Semver):
        return Version(value.text)
    return value if isinstance(value, bool | int | str) else None


@cache
def device_environment(has_lists: bool) -> Environment:
    """The environment of selectors; `has_lists` is the reference's gate DRAListTypeAttributes."""
    attribute = t.DYN if has_lists else t.ANY
    device = t.Type(t.TypeKind.STRUCT, "kubernetes.DRADevice")
    fields = {
        "driver": t.STRING,
        "allowMultipleAllocations": t.BOOL,
        "attributes": t.map_of(t.STRING, t.map_of(t.STRING, attribute)),
        "capacity": t.map_of(t.STRING, t.map_of(t.STRING, t.QUANTITY)),
    }
    includes = function("includes", member("dra_includes_dyn_dyn", "dyn, dyn -> bool", _includes))
    return environment({"device": device}, {device.name: fields}, [includes] if has_lists else [])


def _includes(target: Value, wanted: Value) -> Value:
    """`x.includes(y)`: membership of a list, equality with anything else."""
    if not isinstance(target, list):
        return v.is_equal(target, wanted)
    if v.member(wanted, target[:_MAX_INCLUDES]):
        return True
    if len(target) > _MAX_INCLUDES:
        raise ValueProblem(f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDES} values")
    return False


def _reads(root: Node) -> list[Read]:
    found: list[Read] = []
    for node in walked(root):
        path = _path(node)
        if len(path) == 4 and path[0] == "device" and path[1] in ("attributes", "capacity"):
            found.append(Read(path[1], path[2], path[3]))
    return found


def _path(node: Node) -> list[str]:
    """`device.attributes["domain"].name` as its four parts; empty unless it consists of constants."""
    words: list[str] = []
    while True:
        match node:
            case Select():
                words.append(node.field)
                node = node.operand
            case Call(function="_[_]" | "_[?_]" | "_?._", args=[operand, Literal(value=str() as word)]):
                words.append(word)
                node = operand
            case _:
                name = getattr(node, "name", None)
                return [name, *reversed(words)] if isinstance(name, str) else []
