"""The syntax tree. Nodes are compared by identity: stages store their results for nodes in dictionaries.

A node may have several parents (see `macros`), so the tree is a graph without cycles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from stowplan.cel.values import Value


@dataclass(slots=True, eq=False)
class Literal:
    offset: int
    value: Value


@dataclass(slots=True, eq=False)
class Ident:
    offset: int
    name: str


@dataclass(slots=True, eq=False)
class Select:
    """`operand.field`, or with `test_only` the macro `has(operand.field)`."""

    offset: int
    operand: Node
    field: str
    test_only: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """Operators are calls of functions such as `_+_`; `target` is the receiver of a member call."""

    offset: int
    function: str
    target: Node | None
    args: list[Node]


@dataclass(slots=True, eq=False)
class ListLiteral:
    offset: int
    elements: list[Node]
    #: Indexes of the elements written `?element`.
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    offset: int
    key: Node
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral:
    offset: int
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class StructField:
    offset: int
    name: str
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class StructLiteral:
    offset: int
    type_name: str
    fields: list[StructField]


@dataclass(slots=True, eq=False)
class Comprehension:
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
