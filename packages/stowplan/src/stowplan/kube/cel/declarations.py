"""Declarations of functions: overloads with their static types and implementations.

Signatures are written `string, list(A) -> bool`; single capital letters are type parameters.

Upstream: common/decls/decls.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel.values import Value, type_guard
from stowplan.kube.structs import PlainStruct

#: Computes a call from its arguments; raises `ValueProblem` for an error value.
Implementation = Callable[..., Value]

_NAMES = {
    "bool": t.BOOL,
    "int": t.INT,
    "uint": t.UINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "bytes": t.BYTES,
    "timestamp": t.TIMESTAMP,
    "duration": t.DURATION,
    "type": t.TYPE,
    "dyn": t.DYN,
    "Quantity": t.QUANTITY,
    "Semver": t.SEMVER,
    "URL": t.URL,
    "NamedFormat": t.NAMED_FORMAT,
    "IP": t.IP,
    "CIDR": t.CIDR,
}
_MAKERS: dict[str, Callable[..., t.Type]] = {
    "list": t.list_of,
    "map": t.map_of,
    "optional": t.optional_of,
    "type": t.type_of,
}


@dataclass(frozen=True)
class Overload:
    id: str
    #: Whether it is called on a target, which is its first parameter.
    is_member: bool
    params: tuple[t.Type, ...]
    result: t.Type
    implementation: Implementation | None = None

    @cached_property
    def type_params(self) -> frozenset[t.Type]:
        return frozenset(_type_params((*self.params, self.result)))

    @cached_property
    def guards(self) -> tuple[Callable[[Value], bool], ...]:
        return tuple(type_guard(param) for param in self.params)

    def takes(self, args: tuple[Value, ...]) -> bool:
        return len(args) == len(self.guards) and all(guard(arg) for guard, arg in zip(self.guards, args, strict=True))


class Function(PlainStruct, frozen=True):
    name: str
    overloads: tuple[Overload, ...]
    #: Implements all overloads, which then have no separate implementations.
    implementation: Implementation | None = None
    #: Whether `implementation` supports the type of the first argument; if not, there is no such overload.
    takes_first: Callable[[Value], bool] | None = None
    #: Whether arguments are checked against the parameters of the overload before the call.
    is_guarded: bool = True

    def merged_with(self, other: Function) -> Function:
        """The function with the overloads of another declaration of it."""
        return Function(
            self.name,
            (*self.overloads, *other.overloads),
            self.implementation or other.implementation,
            self.takes_first or other.takes_first,
            self.is_guarded and other.is_guarded,
        )


def function(
    name: str,
    *overloads: Overload,
    implementation: Implementation | None = None,
    takes_first: Callable[[Value], bool] | None = None,
    is_guarded: bool = True,
) -> Function:
    return Function(name, overloads, implementation, takes_first, is_guarded)


def overload(id: str, signature: str, implementation: Implementation | None = None) -> Overload:
    """An overload of calls without a target."""
    return _overload(id, False, signature, implementation)


def member(id: str, signature: str, implementation: Implementation | None = None) -> Overload:
    """An overload of calls on a target, which is its first parameter."""
    return _overload(id, True, signature, implementation)


def _overload(id: str, is_member: bool, signature: str, implementation: Implementation | None) -> Overload:
    params, _, result = signature.partition("->")
    return Overload(id, is_member, tuple(_TypeReader(params).types()), _TypeReader(result).type(), implementation)


class _TypeReader:
    def __init__(self, text: str) -> None:
        self._tokens = re.findall(r"[A-Za-z]+|[(),]", text)
        self._at = 0

    def types(self) -> list[t.Type]:
        found: list[t.Type] = []
        while self._at < len(self._tokens) and self._tokens[self._at] != ")":
            found.append(self.type())
            if self._at < len(self._tokens) and self._tokens[self._at] == ",":
                self._at += 1
        return found

    def type(self) -> t.Type:
        name = self._tokens[self._at]
        self._at += 1
        if self._at < len(self._tokens) and self._tokens[self._at] == "(":
            self._at += 1
            params = self.types()
            self._at += 1
            return _MAKERS[name](*params)
        if len(name) == 1 and name.isupper():
            return t.param(name)
        return _NAMES[name]


def _type_params(types: Iterable[t.Type]) -> Iterable[t.Type]:
    for type in types:
        if type.kind is t.TypeKind.PARAM:
            yield type
        yield from _type_params(type.params)
