"""The syntax tree. Nodes are compared by identity: stages store their results for nodes in dictionaries.

A node may have several parents (see `macros`), so the tree is a graph without cycles.
"""

from __future__ import annotations

from typing import TypeAlias

from stowplan.kube.cel.values import Value
from stowplan.kube.structs import PlainStruct


class Literal(PlainStruct, eq=False):
    offset: int
    value: Value


class Ident(PlainStruct, eq=False):
    offset: int
    name: str


class Select(PlainStruct, eq=False):
    """`operand.field`, or with `test_only` the macro `has(operand.field)`."""

    offset: int
    operand: Node
    field: str
    test_only: bool = False


class Call(PlainStruct, eq=False):
    """Operators are calls of functions such as `_+_`; `target` is the receiver of a member call."""

    offset: int
    function: str
    target: Node | None
    args: list[Node]


class ListLiteral(PlainStruct, eq=False):
    offset: int
    elements: list[Node]
    #: Indexes of the elements written `?element`.
    optional: frozenset[int] = frozenset()


class Entry(PlainStruct, eq=False):
    offset: int
    key: Node
    value: Node
    optional: bool = False


class MapLiteral(PlainStruct, eq=False):
    offset: int
    entries: list[Entry]


class StructField(PlainStruct, eq=False):
    offset: int
    name: str
    value: Node
    optional: bool = False


class StructLiteral(PlainStruct, eq=False):
    offset: int
    type_name: str
    fields: list[StructField]


class Comprehension(PlainStruct, eq=False):
    """The expansion of macros over lists and maps: a fold with an accumulator.

    `variable2` is empty with one variable, which is the element of a list or the key of a map.
    """

    offset: int
    range: Node
    variable: str
    variable2: str
    accumulator: str
    init: Node
    condition: Node
    step: Node
    result: Node


Node: TypeAlias = Literal | Ident | Select | Call | ListLiteral | MapLiteral | StructLiteral | Comprehension


def qualified_name(node: Node) -> str | None:
    """The dotted name of a chain of selections, if it is one."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(names)])
