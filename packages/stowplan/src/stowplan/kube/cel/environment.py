"""Kubernetes' base environment, and what its users add: variables, fields of their types, functions.

It has all libraries that Kubernetes 1.36 supports for stored expressions, except for the authorizer's, whose values
only exist in admission policies.

Upstream: k8s.io/apiserver/pkg/cel/environment/base.go, cel/program.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel.cel_errors import NOWHERE, CompileError, Issues, ValueProblem
from stowplan.kube.cel.checker import Checked, Declarations, checked
from stowplan.kube.cel.compiler import Program, compiled
from stowplan.kube.cel.declarations import Function
from stowplan.kube.cel.functions import (
    conversions,
    formats,
    lists,
    networks,
    operators,
    optionals,
    quantities,
    regexes,
    semvers,
    texts,
    times,
    urls,
)
from stowplan.kube.cel.functions.formatting import Clause, OfType, clauses
from stowplan.kube.cel.parser import parsed
from stowplan.kube.cel.syntax import Call, Comprehension, ListLiteral, Literal, MapLiteral, Node, Select, StructLiteral
from stowplan.kube.cel.time_text import read_duration, read_timestamp
from stowplan.kube.cel.values import Duration, Quantity, Timestamp, UInt, Value
from stowplan.kube.structs import PlainStruct

_LIBRARIES = (
    operators,
    conversions,
    times,
    optionals,
    texts,
    regexes,
    lists,
    quantities,
    semvers,
    networks,
    urls,
    formats,
)

_TYPE_NAMES = {
    "bool": t.BOOL,
    "bytes": t.BYTES,
    "double": t.DOUBLE,
    "google.protobuf.Duration": t.DURATION,
    "int": t.INT,
    "list": t.list_of(t.param("A")),
    "map": t.map_of(t.param("A"), t.param("B")),
    "null_type": t.NULL,
    "string": t.STRING,
    "google.protobuf.Timestamp": t.TIMESTAMP,
    "type": t.TYPE,
    "uint": t.UINT,
}

_Functions = dict[str, Function]


class CompiledExpression(PlainStruct, frozen=True):
    root: Node
    checked: Checked
    program: Program
    type: t.Type


class Environment(PlainStruct, frozen=True):
    declarations: Declarations

    def compiled(self, text: str, *, results: Iterable[t.Type] | None = None) -> CompiledExpression:
        """Compile an expression. Raises a `CompileError`, also if its type is not among `results`."""
        root = parsed(text)
        issues = Issues(text)
        try:
            return self._checked_and_compiled(root, issues, results)
        except RecursionError:
            # The reference's stack grows. Ours may overflow before the parser's limit if the caller's is deep.
            issues.report(NOWHERE, "max recursion depth exceeded")
            issues.raise_if_any()
            raise

    def _checked_and_compiled(self, root: Node, issues: Issues, results: Iterable[t.Type] | None) -> CompiledExpression:
        types = checked(root, self.declarations, issues)
        issues.raise_if_any()
        _validate(root, types, issues)
        issues.raise_if_any()
        type = types.types[root]
        if results is not None and type not in results:
            raise CompileError(f"must evaluate to {t.BOOL} or the unknown type, not {type}")
        return CompiledExpression(root, types, compiled(root, types, tuple(self.declarations.variables)), type)


def environment(
    variables: Mapping[str, t.Type],
    fields: Mapping[str, Mapping[str, t.Type]],
    functions: Iterable[Function] = (),
) -> Environment:
    declarations = Declarations(_merged(_base_functions(), functions), variables, _TYPE_NAMES, fields)
    return Environment(declarations)


@cache
def _base_functions() -> _Functions:
    return _merged({}, (function for library in _LIBRARIES for function in library.FUNCTIONS))


def _merged(base: _Functions, functions: Iterable[Function]) -> _Functions:
    merged = dict(base)
    for function in functions:
        known = merged.get(function.name)
        merged[function.name] = known.merged_with(function) if known else function
    return merged


# --- validation of literals


def _validate(root: Node, types: Checked, issues: Issues) -> None:
    formatted_nodes = _parts_of_format_calls(root)
    for node in walked(root):
        match node:
            case Call(
                function="duration" | "timestamp" | "matches", args=[*_, Literal(value=str() as text) as literal]
            ):
                if _is_wrong_literal(node.function, text):
                    issues.report(literal.offset, f"invalid {node.function} argument")
            case Call(function="format", target=Literal(value=str() as text), args=[ListLiteral() as args]):
                _validate_format(node, text, args, types, issues)
            case ListLiteral() if node not in formatted_nodes:
                elements = [(element, index in node.optional) for index, element in enumerate(node.elements)]
                _check_same_type(elements, types, issues, all_of_them=False)
            case MapLiteral() if node not in formatted_nodes:
                _check_same_type([(entry.key, False) for entry in node.entries], types, issues)
                _check_same_type([(entry.value, entry.optional) for entry in node.entries], types, issues)


def _is_wrong_literal(function: str, text: str) -> bool:
    if function == "matches":
        return regexes.pattern_problem(text) is not None
    return (read_duration if function == "duration" else read_timestamp)(text) is None


def _parts_of_format_calls(root: Node) -> set[Node]:
    """The nodes inside `"…".format(…)`, where aggregates may mix types."""
    calls = [node for node in walked(root) if isinstance(node, Call) and node.function == "format"]
    return {part for call in calls for part in walked(call)}


def _check_same_type(
    parts: list[tuple[Node, bool]], types: Checked, issues: Issues, *, all_of_them: bool = True
) -> None:
    """The parts of a literal must have the type of the first; for a list, only the first violation is reported."""
    wanted: t.Type | None = None
    for node, is_optional in parts:
        type = types.types[node]
        if is_optional:
            type = type.optional_of or type
        if wanted is None:
            wanted = type
        elif type != wanted:
            issues.report(node.offset, f"expected type '{wanted.shown}' but found '{type.shown}'")
            if not all_of_them:
                return


#: A sample value of each type that the checker may determine, to try the clauses of a format with.
_SAMPLES: dict[str, Value | OfType] = {
    "bool": True,
    "int": 1,
    "uint": UInt(1),
    "double": 1.0,
    "string": "",
    "bytes": b"",
    "null_type": None,
    "list": [],
    "map": {},
    "type": t.INT,
    t.DURATION.name: Duration(0),
    t.TIMESTAMP.name: Timestamp(0),
    t.QUANTITY.name: Quantity(0),
}


def _validate_format(call: Call, text: str, args: ListLiteral, types: Checked, issues: Issues) -> None:
    """Try the clauses of a constant format with values of its arguments' types, where those are known."""
    try:
        used = 0
        for index, clause in enumerate(clauses(text)):
            used += 1
            if index >= len(args.elements):
                raise ValueProblem(f"index {index} out of range")
            for part in _formatted_parts(clause, args.elements[index]):
                type = types.types[part]
                sample = _SAMPLES.get(type.name, OfType(type.name))
                problem = None if type == t.DYN else clause.problem_with(sample)
                if problem is not None:
                    issues.report(part.offset, problem)
                    return
        if used < len(args.elements):
            given = len(args.elements)
            raise ValueProblem(f"too many arguments supplied to string.format (expected {used}, got {given})")
    except ValueProblem as error:
        issues.report(call.offset, str(error))


def _formatted_parts(clause: Clause, node: Node) -> Iterator[Node]:
    """The nodes that a clause formats, including elements of list and map literals, which may be strings."""
    yield node
    if clause.verb == "s" and isinstance(node, ListLiteral | MapLiteral):
        for part in _parts(node):
            yield from _formatted_parts(clause, part)


def walked(root: Node) -> Iterator[Node]:
    """Every node once; a node may have several parents."""
    seen: set[Node] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        pending.extend(reversed(_parts(node)))


def _parts(node: Node) -> list[Node]:
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [*([node.target] if node.target is not None else []), *node.args]
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructLiteral():
            return [field.value for field in node.fields]
        case Comprehension():
            return [node.range, node.init, node.condition, node.step, node.result]
    return []
