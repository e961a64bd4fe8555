"""Struct classes of the sources as native classes, which compiled code reads without looking a field up.

A class statement such as

    @mypyc_attr(native_class=True)
    class Attempt(PlainStruct, kw_only=True, eq=False):
        \"\"\"A popped pod on its way to a node.\"\"\"

        queued: QueuedPod
        evaluated: int = 0

becomes a plain class with the `__init__` that the struct has. What is added takes the place of an empty line, so that
all lines keep their numbers. Without `eq=False`, structs are compared by value, which native classes are not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple


class Field(NamedTuple):
    name: str
    type: str
    #: The expression of its default, or what makes one; "" if it has none.
    default: str = ""
    factory: str = ""

    @property
    def parameter(self) -> str:
        if self.factory:
            return f"{self.name}: {self.type} | None = None"
        return f"{self.name}: {self.type} = {self.default}" if self.default else f"{self.name}: {self.type}"

    @property
    def assignment(self) -> str:
        made = f"{self.factory}() if {self.name} is None else " if self.factory else ""
        return f"self.{self.name} = {made}{self.name}"


def with_native_classes(source: str, known: dict[str, list[Field]]) -> str:
    """The source with native classes; `known`: those of all files so far, which others may inherit from."""
    lines = source.split("\n")
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and any(
            "native_class=True" in ast.unparse(one) for one in node.decorator_list
        ):
            _rewrite(node, lines, known)
    return "\n".join(lines)


def _rewrite(node: ast.ClassDef, lines: list[str], known: dict[str, list[Field]]) -> None:
    [base] = [ast.unparse(one) for one in node.bases]
    options = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
    if options.get("eq") is not False or base not in {"PlainStruct", *known}:
        raise ValueError(f"class {node.name}: a native class is a PlainStruct, or inherits from one, with eq=False")
    lines[node.lineno - 1] = f"class {node.name}:" if base == "PlainStruct" else f"class {node.name}({base}):"
    own = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    for one in own:
        lines[one.lineno - 1 : one.end_lineno] = [
            f"    {ast.unparse(one.target)}: {ast.unparse(one.annotation)}",
            *[""] * ((one.end_lineno or 0) - one.lineno),
        ]
    fields = known[node.name] = [*known.get(base, ()), *map(_field, own)]
    star = "*, " if options.get("kw_only") else ""
    parameters = ", ".join(one.parameter for one in fields)
    values = ", ".join(f"{one.name}=self.{one.name}" for one in fields)
    empty = _empty_lines(node, lines)
    lines[next(empty)] = f"    def __init__(self, {star}{parameters}) -> None: " + "; ".join(
        one.assignment for one in fields
    )
    lines[next(empty)] = f'    def __copy__(self) -> "{node.name}": return {node.name}({values})'


def _field(node: ast.AnnAssign) -> Field:
    name, type_ = ast.unparse(node.target), ast.unparse(node.annotation)
    if isinstance(node.annotation, ast.Constant):
        type_ = node.annotation.value
    if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "field":
        factory = ast.unparse(node.value.keywords[0].value)
        return Field(name, type_, factory=f"({factory})" if factory.startswith("lambda") else factory)
    return Field(name, type_, default="" if node.value is None else ast.unparse(node.value))


def _empty_lines(node: ast.ClassDef, lines: list[str]) -> Iterator[int]:
    """Between the statements of the class, and the one after it."""
    for one in node.body:
        after = one.end_lineno or 0
        if after < len(lines) and not lines[after].strip():
            yield after
