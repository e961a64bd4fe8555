"""Static types of all nodes, and the possible overloads of each call.

Upstream: checker/checker.go, checker/env.go, and the validators of literals in cel/validator.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from msgspec import field

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import syntax
from stowplan.kube.cel.cel_errors import Issues
from stowplan.kube.cel.declarations import Function, Overload
from stowplan.kube.cel.values import type_of
from stowplan.kube.structs import PlainStruct


class Declarations(PlainStruct, frozen=True):
    """What an expression may refer to."""

    functions: Mapping[str, Function]
    variables: Mapping[str, t.Type]
    #: Names of types, as values.
    type_names: Mapping[str, t.Type]
    #: Fields of struct types by name; types that are missing have no selectable fields.
    fields: Mapping[str, Mapping[str, t.Type]]
    #: Overloads that do not exist in this environment.
    hidden_overloads: frozenset[str] = frozenset()


class Resolution(PlainStruct, frozen=True):
    """The meaning of a call: a function, and its overloads that match the types of the arguments."""

    function: Function
    overloads: tuple[Overload, ...]
    #: None also for a member call whose target is a namespace, as in `optional.of(1)`.
    target: syntax.Node | None


class Checked(PlainStruct):
    """The checker's results for each node."""

    types: dict[syntax.Node, t.Type] = field(default_factory=dict)
    calls: dict[syntax.Call, Resolution] = field(default_factory=dict)
    #: Identifiers and selections that name a variable or a type.
    names: dict[syntax.Node, str] = field(default_factory=dict)
    #: The subset that names a type.
    type_values: dict[syntax.Node, t.Type] = field(default_factory=dict)


def checked(root: syntax.Node, declarations: Declarations, issues: Issues) -> Checked:
    checker = _Checker(declarations, issues)
    checker.check(root)
    found = checker.found
    for node, type in found.types.items():
        found.types[node] = t.substituted(checker.known, type, free_is_dyn=True)
    return found


class _Checker:
    def __init__(self, declarations: Declarations, issues: Issues) -> None:
        self.found = Checked()
        self.known: t.Substitutions = {}
        self._declarations = declarations
        self._issues = issues
        self._scopes: list[dict[str, t.Type]] = []
        self._free = 0

    def check(self, node: syntax.Node) -> t.Type:
        """The type of a node, cached. Recurses directly, to use few stack frames."""
        type = self.found.types.get(node)
        if type is not None:
            return type
        match node:
            case syntax.Literal():
                type = type_of(node.value)
            case syntax.Ident():
                type = self._ident(node)
            case syntax.Select():
                type = self._select(node)
            case syntax.Call():
                type = self._call(node)
            case syntax.ListLiteral():
                type = self._list(node)
            case syntax.MapLiteral():
                type = self._map(node)
            case syntax.StructLiteral():
                type = self._struct(node)
            case syntax.Comprehension():
                type = self._comprehension(node)
        self.found.types[node] = type
        return type

    # --- Names and fields.

    def _lookup(self, node: syntax.Node, name: str) -> t.Type | None:
        is_absolute = name.startswith(".")
        name = name.removeprefix(".")
        if not is_absolute:
            for scope in reversed(self._scopes):
                if name in scope:
                    self.found.names[node] = name
                    return scope[name]
        type = self._declarations.variables.get(name)
        if type is not None:
            self.found.names[node] = name
            return type
        value = self._declarations.type_names.get(name)
        if value is None:
            return None
        self.found.names[node] = name
        self.found.type_values[node] = value
        return t.type_of(value)

    def _ident(self, node: syntax.Ident) -> t.Type:
        type = self._lookup(node, node.name)
        if type is None:
            self._undeclared(node.offset, node.name)
            return t.ERROR
        return type

    def _undeclared(self, offset: int, name: str) -> None:
        self._issues.report(offset, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: syntax.Select) -> t.Type:
        name = syntax.qualified_name(node)
        if name is not None:
            type = self._lookup(node, name)
            if type is not None:
                return type
        result = self._field(node, node.operand, node.field, optional=False)
        return t.BOOL if node.test_only else self._now(result)

    def _field(self, node: syntax.Node, operand: syntax.Node, name: str, *, optional: bool) -> t.Type:
        operand_type = self._now(self.check(operand))
        inner = operand_type.optional_of
        target = inner or operand_type
        result = self._field_type(node, target, name)
        return t.optional_of(result) if inner or optional else result

    def _field_type(self, node: syntax.Node, target: t.Type, name: str) -> t.Type:
        match target.kind:
            case t.TypeKind.MAP:
                return target.params[1]
            case t.TypeKind.STRUCT:
                fields = self._declarations.fields.get(target.name)
                if fields is None:
                    self._issues.report(node.offset, f"unexpected failed resolution of '{target.name}'")
                    return t.ERROR
                if name not in fields:
                    self._issues.report(node.offset, f"undefined field '{name}'")
                return fields.get(name, t.ERROR)
            case t.TypeKind.PARAM:
                self._assign(t.DYN, target)
            case t.TypeKind.DYN | t.TypeKind.ANY | t.TypeKind.ERROR:
                pass
            case _:
                self._issues.report(node.offset, f"type '{target.shown}' does not support field selection")
        return t.DYN

    # --- Calls.

    def _call(self, node: syntax.Call) -> t.Type:
        if node.function == "_?._":
            return self._optional_select(node)
        for arg in node.args:
            self.check(arg)
        target = node.target
        if target is not None:
            namespace = syntax.qualified_name(target)
            function = self._function(f"{namespace}.{node.function}") if namespace is not None else None
            if function is not None:
                return self._resolved(node, function, None)
            self.check(target)
        function = self._function(node.function)
        if function is None:
            self._undeclared(node.offset, node.function)
            return t.ERROR
        return self._resolved(node, function, target)

    def _function(self, name: str) -> Function | None:
        return self._declarations.functions.get(name.removeprefix("."))

    def _optional_select(self, node: syntax.Call) -> t.Type:
        operand, field = node.args
        name = field.value if isinstance(field, syntax.Literal) else ""
        result = self._field(node, operand, str(name), optional=True)
        function = self._declarations.functions["_?._"]
        self.found.types[field] = t.STRING
        self.found.calls[node] = Resolution(function, function.overloads, None)
        return self._now(result)

    def _resolved(self, node: syntax.Call, function: Function, target: syntax.Node | None) -> t.Type:
        args = node.args if target is None else [target, *node.args]
        given = [self.found.types[arg] for arg in args]
        if function.name in ("_&&_", "_||_"):
            return self._logical(node, function, args, given)
        result: t.Type | None = None
        fitting: list[Overload] = []
        for overload in function.overloads:
            if overload.is_member != (target is not None) or overload.id in self._declarations.hidden_overloads:
                continue
            overload_result = self._result_if_it_fits(overload, given)
            if overload_result is None:
                continue
            fitting.append(overload)
            if result is None:
                result = overload_result
            elif not result.is_dynamic and overload_result != result:
                result = t.DYN
        if result is None:
            shown = [t.substituted(self.known, type, free_is_dyn=True).shown for type in given]
            signature = f"{shown.pop(0)}." if target is not None else ""
            signature += f"({', '.join(shown)})"
            self._issues.report(
                node.offset, f"found no matching overload for '{function.name}' applied to '{signature}'"
            )
            return t.ERROR
        self.found.calls[node] = Resolution(function, tuple(fitting), target)
        return result

    def _result_if_it_fits(self, overload: Overload, given: list[t.Type]) -> t.Type | None:
        if len(given) != len(overload.params):
            return None
        fresh = {param: self._new_free() for param in sorted(overload.type_params, key=str)}
        params = [t.substituted(fresh, param) for param in overload.params] if fresh else overload.params
        if not self._assign_all(list(zip(given, params, strict=True))):
            return None
        return self._now(t.substituted(fresh, overload.result))

    def _logical(self, node: syntax.Call, function: Function, args: list[syntax.Node], given: list[t.Type]) -> t.Type:
        fits = True
        for arg, type in zip(args, given, strict=True):
            if not self._assign(type, t.BOOL):
                self._mismatch(arg, t.BOOL, type)
                fits = False
        self.found.calls[node] = Resolution(function, function.overloads, None)
        return t.BOOL if fits else t.ERROR

    # --- Literals of aggregates.

    def _list(self, node: syntax.ListLiteral) -> t.Type:
        joined: t.Type | None = None
        for index, element in enumerate(node.elements):
            type = self.check(element)
            joined = self._joined(joined, self._given(element, type) if index in node.optional else type)
        return t.list_of(joined or self._new_free())

    def _map(self, node: syntax.MapLiteral) -> t.Type:
        keys: t.Type | None = None
        values: t.Type | None = None
        for entry in node.entries:
            keys = self._joined(keys, self.check(entry.key))
            type = self.check(entry.value)
            values = self._joined(values, self._given(entry.value, type) if entry.optional else type)
        return t.map_of(keys or self._new_free(), values or self._new_free())

    def _given(self, node: syntax.Node, type: t.Type) -> t.Type:
        """The type that `?node` adds to an aggregate."""
        inner = type.optional_of
        if inner is None and not type.is_dynamic:
            self._mismatch(node, t.optional_of(type), type)
        return inner or type

    def _joined(self, previous: t.Type | None, current: t.Type) -> t.Type:
        """The element type of an aggregate. Whether all are equal is checked for literals later."""
        if previous is None:
            return current
        return t.most_general(previous, current) if self._assign(previous, current) else t.DYN

    def _struct(self, node: syntax.StructLiteral) -> t.Type:
        """Kubernetes' environments have no message types to construct; well-known ones are not supported either."""
        name = node.type_name.removeprefix(".")
        if name in self._declarations.type_names:
            self._issues.report(node.offset, f"'{name}' is not a message type")
        else:
            self._undeclared(node.offset, node.type_name)
        for struct_field in node.fields:
            self.check(struct_field.value)
        return t.ERROR

    # --- Comprehensions.

    def _comprehension(self, node: syntax.Comprehension) -> t.Type:
        range_type = self.check(node.range)
        accumulator = self.check(node.init)
        range_type = self._now(range_type)
        with self._scope({node.accumulator: accumulator}):
            with self._scope(self._variables(node, range_type)):
                self._expect(node.condition, t.BOOL)
                self._expect(node.step, accumulator)
            result = self.check(node.result)
        return self._now(result)

    def _variables(self, node: syntax.Comprehension, range_type: t.Type) -> dict[str, t.Type]:
        match range_type.kind:
            case t.TypeKind.LIST:
                element = range_type.params[0]
                first, second = (t.INT, element) if node.variable2 else (element, element)
            case t.TypeKind.MAP:
                first, second = range_type.params
            case t.TypeKind.DYN | t.TypeKind.ERROR | t.TypeKind.PARAM:
                self._assign(t.DYN, range_type)
                first = second = t.DYN
            case _:
                self._issues.report(
                    node.range.offset,
                    f"expression of type '{range_type.shown}' cannot be range of a comprehension"
                    " (must be list, map, or dynamic)",
                )
                first = second = t.ERROR
        return {node.variable: first} | ({node.variable2: second} if node.variable2 else {})

    @contextmanager
    def _scope(self, names: dict[str, t.Type]) -> Iterator[None]:
        self._scopes.append(names)
        yield
        self._scopes.pop()

    # --- Types.

    def _expect(self, node: syntax.Node, wanted: t.Type) -> None:
        type = self.check(node)
        if not self._assign(wanted, type):
            self._mismatch(node, wanted, type)

    def _mismatch(self, node: syntax.Node, wanted: t.Type, type: t.Type) -> None:
        self._issues.report(node.offset, f"expected type '{wanted.shown}' but found '{type.shown}'")

    def _assign(self, given: t.Type, wanted: t.Type) -> bool:
        return self._assign_all([(given, wanted)])

    def _assign_all(self, pairs: list[tuple[t.Type, t.Type]]) -> bool:
        known = t.assignable(self.known, pairs)
        if known is None:
            return False
        self.known = known
        return True

    def _now(self, type: t.Type) -> t.Type:
        return t.substituted(self.known, type)

    def _new_free(self) -> t.Type:
        self._free += 1
        return t.param(f"_var{self._free - 1}")
