"""Static types, for the checker and for `type(x)` at run time.

Upstream: common/types/types.go, checker/types.go, checker/mapping.go, checker/format.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

from stowplan.kube.structs import PlainStruct


class TypeKind(Enum):
    BOOL = auto()
    INT = auto()
    UINT = auto()
    DOUBLE = auto()
    STRING = auto()
    BYTES = auto()
    NULL = auto()
    TIMESTAMP = auto()
    DURATION = auto()
    LIST = auto()
    MAP = auto()
    #: The type of a type.
    TYPE = auto()
    #: Objects with fields.
    STRUCT = auto()
    #: Any other named type, optionally with parameters.
    OPAQUE = auto()
    #: Only known at run time. `ANY` is for external values, `DYN` for what the checker cannot determine.
    DYN = auto()
    ANY = auto()
    #: A type parameter of a function, or a free variable of the checker.
    PARAM = auto()
    #: The type of an expression with a reported error; assignable to everything.
    ERROR = auto()


class Type(PlainStruct, frozen=True):
    kind: TypeKind
    #: The name at run time.
    name: str
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        """As in `type not …` messages."""
        name = f"<{self.name}>" if self.kind is TypeKind.PARAM else self.name
        return _with_params(name, [str(param) for param in self.params])

    @property
    def shown(self) -> str:
        """As in the checker's messages."""
        return _with_params(_SHOWN.get(self.kind, self.name), [param.shown for param in self.params])

    @property
    def is_dynamic(self) -> bool:
        return self.kind in (TypeKind.DYN, TypeKind.ANY)

    @property
    def optional_of(self) -> Type | None:
        """The type inside an optional, None for other types."""
        return self.params[0] if self.kind is TypeKind.OPAQUE and self.name == OPTIONAL_NAME else None


_SHOWN = {
    TypeKind.ANY: "any",
    TypeKind.DURATION: "duration",
    TypeKind.TIMESTAMP: "timestamp",
    TypeKind.NULL: "null",
    TypeKind.ERROR: "!error!",
}


def _with_params(name: str, params: list[str]) -> str:
    return f"{name}({', '.join(params)})" if params else name


OPTIONAL_NAME = "optional_type"

BOOL = Type(TypeKind.BOOL, "bool")
INT = Type(TypeKind.INT, "int")
UINT = Type(TypeKind.UINT, "uint")
DOUBLE = Type(TypeKind.DOUBLE, "double")
STRING = Type(TypeKind.STRING, "string")
BYTES = Type(TypeKind.BYTES, "bytes")
NULL = Type(TypeKind.NULL, "null_type")
TIMESTAMP = Type(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
DURATION = Type(TypeKind.DURATION, "google.protobuf.Duration")
TYPE = Type(TypeKind.TYPE, "type")
DYN = Type(TypeKind.DYN, "dyn")
ANY = Type(TypeKind.ANY, "google.protobuf.Any")
ERROR = Type(TypeKind.ERROR, "*error*")
QUANTITY = Type(TypeKind.STRUCT, "kubernetes.Quantity")
SEMVER = Type(TypeKind.STRUCT, "kubernetes.Semver")
URL = Type(TypeKind.STRUCT, "kubernetes.URL")
NAMED_FORMAT = Type(TypeKind.STRUCT, "kubernetes.NamedFormat")
IP = Type(TypeKind.OPAQUE, "net.IP")
CIDR = Type(TypeKind.OPAQUE, "net.CIDR")


def list_of(element: Type) -> Type:
    return Type(TypeKind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(TypeKind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type(TypeKind.OPAQUE, OPTIONAL_NAME, (value,))


def type_of(value: Type) -> Type:
    return Type(TypeKind.TYPE, "type", (value,))


def param(name: str) -> Type:
    return Type(TypeKind.PARAM, name)


#: The types that type parameters are bound to.
Substitutions = dict[Type, Type]

_LEGACY_NULLABLE = frozenset(
    {TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.ANY, TypeKind.DURATION, TypeKind.TIMESTAMP, TypeKind.NULL}
)
_WITH_PARTS = frozenset({TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP})


def assignable(known: Substitutions, pairs: Iterable[tuple[Type, Type]]) -> Substitutions | None:
    """The substitutions after assigning each first type to its second; None if one is not assignable.

    `known` is unchanged.
    """
    found = dict(known)
    return found if all(_fits(found, given, wanted) for given, wanted in pairs) else None


def _fits(known: Substitutions, given: Type, wanted: Type) -> bool:
    if wanted.kind is TypeKind.PARAM:
        fits, had_substitution = _substitute_param(known, given, wanted)
        if fits or had_substitution:
            return fits
    if given.kind is TypeKind.PARAM:
        return _substitute_param(known, wanted, given)[0]
    if TypeKind.ERROR in (given.kind, wanted.kind) or given.is_dynamic or wanted.is_dynamic:
        return True
    if TypeKind.NULL in (given.kind, wanted.kind):
        return given.kind in _LEGACY_NULLABLE and wanted.kind in _LEGACY_NULLABLE
    if given.kind is TypeKind.TYPE:
        return wanted.kind is TypeKind.TYPE
    if given.kind in _WITH_PARTS:
        return (
            given.kind is wanted.kind
            and given.name == wanted.name
            and len(given.params) == len(wanted.params)
            and all(_fits(known, *pair) for pair in zip(given.params, wanted.params, strict=True))
        )
    return given == wanted


def _substitute_param(known: Substitutions, given: Type, parameter: Type) -> tuple[bool, bool]:
    """Whether `given` can stand for the parameter, and whether it already stood for something."""
    if given == parameter:
        return True, True
    before = known.get(parameter)
    if before is not None:
        if given == before:
            return True, True
        if not _fits(known, given, before):
            return False, True
        wider = most_general(given, before)
        if not _refers_to(known, parameter, wider):
            known[parameter] = wider
        return True, True
    if _refers_to(known, parameter, given):
        return False, False
    known[parameter] = given
    return True, False


def _refers_to(known: Substitutions, parameter: Type, within: Type) -> bool:
    if parameter == within:
        return True
    if within.kind is TypeKind.PARAM:
        substitution = known.get(within)
        return substitution is not None and _refers_to(known, parameter, substitution)
    return any(_refers_to(known, parameter, part) for part in within.params)


def most_general(first: Type, second: Type) -> Type:
    return first if _is_as_general(first, second) else second


def _is_as_general(first: Type, second: Type) -> bool:
    if first.is_dynamic or first.kind is TypeKind.PARAM:
        return True
    if second.is_dynamic or second.kind is TypeKind.PARAM or first.kind is not second.kind:
        return False
    if first.kind in _WITH_PARTS:
        return (
            first.name == second.name
            and len(first.params) == len(second.params)
            and all(_is_as_general(*pair) for pair in zip(first.params, second.params, strict=True))
        )
    return first.kind is TypeKind.TYPE or first == second


def substituted(known: Substitutions, type: Type, *, free_is_dyn: bool = False) -> Type:
    """The type with its parameters replaced; free ones stay or become `dyn`."""
    substitution = known.get(type)
    if substitution is not None:
        return substituted(known, substitution, free_is_dyn=free_is_dyn)
    if type.kind is TypeKind.PARAM and free_is_dyn:
        return DYN
    if not type.params:
        return type
    params = tuple(substituted(known, part, free_is_dyn=free_is_dyn) for part in type.params)
    return Type(type.kind, type.name, params)
