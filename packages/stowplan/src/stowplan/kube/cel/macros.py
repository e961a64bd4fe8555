"""Macros: calls that the parser replaces by other expressions, mostly by comprehensions.

Where the reference copies an argument, here the node has two parents, so that chains of `optMap` do not grow.

Upstream: parser/macro.go, ext/bindings.go, ext/comprehensions.go, ext/lists.go, cel/library.go (optional types).
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.kube.cel.cel_errors import Issues
from stowplan.kube.cel.syntax import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select
from stowplan.kube.structs import PlainStruct

ACCUMULATOR = "@result"
_OTHER_ACCUMULATOR = "__result__"
_UNUSED = "#unused"


class _MacroError(Exception):
    def __init__(self, at: Node, message: str) -> None:
        super().__init__(message)
        self.offset = at.offset


def expanded(offset: int, function: str, target: Node | None, args: list[Node], issues: Issues) -> Node | None:
    """The expansion of a call, or None if it is not a macro."""
    expand = _MACROS.get((function, len(args), target is not None))
    if expand is None:
        return None
    try:
        return expand(_Maker(offset), target or Literal(offset, None), args)
    except _MacroError as error:
        issues.report(error.offset, str(error))
        return Literal(offset, None)


class _Maker(PlainStruct, frozen=True):
    """Creates nodes of an expansion, at the macro's position."""

    offset: int

    def constant(self, value: bool | int) -> Node:
        return Literal(self.offset, value)

    def ident(self, name: str) -> Node:
        return Ident(self.offset, name)

    def accumulator(self) -> Node:
        return Ident(self.offset, ACCUMULATOR)

    def call(self, function: str, *args: Node) -> Node:
        return Call(self.offset, function, None, list(args))

    def member_call(self, function: str, target: Node, *args: Node) -> Node:
        return Call(self.offset, function, target, list(args))

    def new_list(self, *elements: Node) -> Node:
        return ListLiteral(self.offset, list(elements))

    def fold(self, range: Node, variables: list[str], *, init: Node, condition: Node, step: Node, result: Node) -> Node:
        first, second = (*variables, "")[:2]
        return Comprehension(self.offset, range, first, second, ACCUMULATOR, init, condition, step, result)

    def all(self, range: Node, variables: list[str], predicate: Node) -> Node:
        return self.fold(
            range,
            variables,
            init=self.constant(True),
            condition=self.call("@not_strictly_false", self.accumulator()),
            step=self.call("_&&_", self.accumulator(), predicate),
            result=self.accumulator(),
        )

    def exists(self, range: Node, variables: list[str], predicate: Node) -> Node:
        return self.fold(
            range,
            variables,
            init=self.constant(False),
            condition=self.call("@not_strictly_false", self.call("!_", self.accumulator())),
            step=self.call("_||_", self.accumulator(), predicate),
            result=self.accumulator(),
        )

    def exists_one(self, range: Node, variables: list[str], predicate: Node) -> Node:
        one_more = self.call("_+_", self.accumulator(), self.constant(1))
        return self.fold(
            range,
            variables,
            init=self.constant(0),
            condition=self.constant(True),
            step=self.call("_?_:_", predicate, one_more, self.accumulator()),
            result=self.call("_==_", self.accumulator(), self.constant(1)),
        )

    def gather(self, range: Node, variables: list[str], *, init: Node, step: Node, only_if: Node | None) -> Node:
        """A fold that adds to its accumulator, for some elements or for all."""
        if only_if is not None:
            step = self.call("_?_:_", only_if, step, self.accumulator())
        return self.fold(
            range, variables, init=init, condition=self.constant(True), step=step, result=self.accumulator()
        )

    def bind(self, name: str, value: Node, result: Node) -> Node:
        """`result` with a name for `value`: a fold over an empty list, whose accumulator has that name."""
        return Comprehension(
            self.offset, self.new_list(), _UNUSED, "", name, value, self.constant(False), self.ident(name), result
        )


def _has(make: _Maker, _target: Node, args: list[Node]) -> Node:
    selection = args[0]
    if not isinstance(selection, Select):
        raise _MacroError(selection, "invalid argument to has() macro")
    return Select(make.offset, selection.operand, selection.field, test_only=True)


def _quantifier(make_one: Callable[[_Maker, Node, list[str], Node], Node]) -> Callable[..., Node]:
    def expand(make: _Maker, target: Node, args: list[Node]) -> Node:
        return make_one(make, target, _variables(args[:-1]), args[-1])

    return expand


def _map(make: _Maker, target: Node, args: list[Node]) -> Node:
    variables = _variables(args[:1], wrong="argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.new_list(args[-1]))
    return make.gather(target, variables, init=make.new_list(), step=step, only_if=args[1] if len(args) == 3 else None)


def _filter(make: _Maker, target: Node, args: list[Node]) -> Node:
    variables = _variables(args[:1], wrong="argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.new_list(args[0]))
    return make.gather(target, variables, init=make.new_list(), step=step, only_if=args[1])


def _transform_list(make: _Maker, target: Node, args: list[Node]) -> Node:
    step = make.call("_+_", make.accumulator(), make.new_list(args[-1]))
    return make.gather(target, _variables(args[:2]), init=make.new_list(), step=step, only_if=_condition(args))


def _transform_map(make: _Maker, target: Node, args: list[Node]) -> Node:
    variables = _variables(args[:2])
    step = make.call("cel.@mapInsert", make.accumulator(), make.ident(variables[0]), args[-1])
    return make.gather(target, variables, init=MapLiteral(make.offset, []), step=step, only_if=_condition(args))


def _transform_map_entry(make: _Maker, target: Node, args: list[Node]) -> Node:
    step = make.call("cel.@mapInsert", make.accumulator(), args[-1])
    empty = MapLiteral(make.offset, [])
    return make.gather(target, _variables(args[:2]), init=empty, step=step, only_if=_condition(args))


def _condition(args: list[Node]) -> Node | None:
    return args[2] if len(args) == 4 else None


def _bind(make: _Maker, target: Node, args: list[Node]) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    name = _simple_name(args[0], "cel.bind() variable names must be simple identifiers")
    return make.bind(name, args[1], args[2])


def _opt_map(make: _Maker, target: Node, args: list[Node]) -> Node:
    name = _simple_name(args[0], "optMap() variable name must be a simple identifier")
    mapped = make.bind(name, make.member_call("value", target), args[1])
    return _if_present(make, target, make.call("optional.of", mapped))


def _opt_flat_map(make: _Maker, target: Node, args: list[Node]) -> Node:
    name = _simple_name(args[0], "optFlatMap() variable name must be a simple identifier")
    return _if_present(make, target, make.bind(name, make.member_call("value", target), args[1]))


def _if_present(make: _Maker, target: Node, then: Node) -> Node:
    return make.call("_?_:_", make.member_call("hasValue", target), then, make.call("optional.none"))


_SORTED = "@__sortBy_input__"


def _sort_by(make: _Maker, target: Node, args: list[Node]) -> Node:
    """`list.sortBy(x, key)`: collects the keys first, then sorts the list by them."""
    if not isinstance(target, ListLiteral | Select | Ident | Comprehension | Call):
        raise _MacroError(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = _map(make, make.ident(_SORTED), args)
    return make.bind(_SORTED, target, make.member_call("@sortByAssociatedKeys", make.ident(_SORTED), keys))


def _variables(args: list[Node], wrong: str = "argument must be a simple name") -> list[str]:
    names = [_simple_name(arg, wrong) for arg in args]
    if len(names) == 2 and names[0] == names[1]:
        raise _MacroError(args[1], f"duplicate variable name: {names[0]}")
    for name, arg in zip(names, args, strict=True):
        if name in (ACCUMULATOR, _OTHER_ACCUMULATOR):
            raise _MacroError(arg, "iteration variable overwrites accumulator variable")
    return names


def _simple_name(node: Node, wrong: str) -> str:
    if not isinstance(node, Ident):
        raise _MacroError(node, wrong)
    return node.name


#: By name, number of arguments, and whether it is called on a target.
_MACROS: dict[tuple[str, int, bool], Callable[[_Maker, Node, list[Node]], Node | None]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier(_Maker.all),
    ("all", 3, True): _quantifier(_Maker.all),
    ("exists", 2, True): _quantifier(_Maker.exists),
    ("exists", 3, True): _quantifier(_Maker.exists),
    ("exists_one", 2, True): _quantifier(_Maker.exists_one),
    ("exists_one", 3, True): _quantifier(_Maker.exists_one),
    ("existsOne", 3, True): _quantifier(_Maker.exists_one),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
}
