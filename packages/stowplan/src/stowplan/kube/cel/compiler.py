"""Compile a checked tree to nested closures, which count costs like the reference.

Constants cost nothing, and neither do lists and conversions of constants, which are computed at compile time. A
variable has a slot in the frame of an evaluation; that of an accumulator is initialized on first read.

Upstream: interpreter/planner.go, interpretable.go, decorators.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stowplan.kube.cel import costs
from stowplan.kube.cel import values as v
from stowplan.kube.cel.attributes import Attribute, Qualifier, evaluated, resolved
from stowplan.kube.cel.calls import SPECIAL, binary, costing, dispatched, n_ary, unary
from stowplan.kube.cel.cel_errors import CompileError, EvaluationStopped, ValueProblem
from stowplan.kube.cel.checker import Checked, Resolution
from stowplan.kube.cel.frames import Closure, Frame
from stowplan.kube.cel.functions.regexes import pattern_problem
from stowplan.kube.cel.syntax import Call, Comprehension, Ident, ListLiteral, Literal, MapLiteral, Node, Select
from stowplan.kube.cel.values import ABSENT, NONE, Optional, Value
from stowplan.kube.structs import PlainStruct


class _Unset:
    __slots__ = ()


_UNSET = _Unset()


class _GrowingList(list[Value]):
    """The accumulator of `map` and similar macros, which is modified in place, as in the reference."""

    __slots__ = ()


class _GrowingMap(dict[Value, Value]):
    __slots__ = ()


v.register(_GrowingList, v.type_of([]))
v.register(_GrowingMap, v.type_of({}))


#: Functions that are computed at compile time if their argument is constant.
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})


class Program(PlainStruct, frozen=True):
    closure: Closure
    slots: int
    variables: tuple[str, ...]

    def run(
        self, variables: Mapping[str, Value], *, limit: int, interrupted: Callable[[int], bool] | None = None
    ) -> tuple[Value, int]:
        """The value and its cost. Raises a `ValueProblem` or `EvaluationStopped` if there is no value."""
        frame = Frame([_UNSET] * self.slots, limit, interrupted)
        frame.slots[: len(self.variables)] = [variables[name] for name in self.variables]
        try:
            value = self.closure(frame)
        except ValueProblem:
            frame.check_limit()
            raise
        except RecursionError:
            raise EvaluationStopped("max recursion depth exceeded") from None
        frame.check_limit()
        return value, frame.cost


def compiled(root: Node, checked: Checked, variables: Sequence[str]) -> Program:
    compiler = _Compiler(checked, variables)
    closure = compiler.closure(root)
    return Program(closure, compiler.slots, tuple(variables))


class _Compiler:
    def __init__(self, checked: Checked, variables: Sequence[str]) -> None:
        self._checked = checked
        self._slot_of = {name: index for index, name in enumerate(variables)}
        self._accumulators: dict[str, Closure] = {}
        self.slots = len(variables)
        #: Nodes with several parents have them in one scope: see `macros`.
        self._closures: dict[Node, Closure] = {}

    def closure(self, node: Node) -> Closure:
        made = self._closures.get(node)
        if made is None:
            made = self._closures[node] = self._closure(node)
        return made

    def _closure(self, node: Node) -> Closure:
        constant = self._constant(node)
        if constant is not ABSENT:
            return lambda _frame: constant
        attribute = self._attribute(node)
        if attribute is not None:
            return evaluated(attribute)
        match node:
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        raise CompileError(f"unsupported expression: {type(node).__name__}")

    # --- Constants.

    def _constant(self, node: Node) -> Value:
        """The constant value of a node, `ABSENT` if it is not constant."""
        match node:
            case Literal():
                return node.value
            case Ident() | Select() if node in self._checked.type_values:
                return self._checked.type_values[node]
            case ListLiteral() if not node.optional:
                elements = [self._constant(element) for element in node.elements]
                return ABSENT if any(element is ABSENT for element in elements) else elements
            case MapLiteral() if not any(entry.optional for entry in node.entries):
                entries = [(self._constant(entry.key), self._constant(entry.value)) for entry in node.entries]
                if any(key is ABSENT or value is ABSENT for key, value in entries):
                    return ABSENT
                return {_checked_key(key): value for key, value in entries}
            case Call() if node.function in _CONVERSIONS and len(node.args) == 1 and node.target is None:
                return self._constant_conversion(node)
        return ABSENT

    def _constant_conversion(self, node: Call) -> Value:
        value = self._constant(node.args[0])
        if value is ABSENT:
            return ABSENT
        try:
            return dispatched(self._checked.calls[node])((value,))
        except ValueProblem as error:
            raise CompileError(f"program instantiation failed: {error}") from None

    # --- Attributes.

    def _attribute(self, node: Node) -> Attribute | None:
        match node:
            case Ident() | Select() if node in self._checked.names:
                name = self._checked.names[node]
                slot = None if name in self._accumulators else self._slot_of[name]
                return Attribute(self._variable(name), slot=slot)
            case Select():
                return self._base(node.operand).with_(Qualifier(None, node.field, only_tests=node.test_only))
            case Call(function="_?_:_"):
                return self._conditional(node)
            case Call(function="_[_]" | "_[?_]" | "_?._"):
                operand, index = node.args
                return self._base(operand).with_(self._qualifier(index, is_optional=node.function != "_[_]"))
        return None

    def _base(self, node: Node) -> Attribute:
        attribute = None if self._constant(node) is not ABSENT else self._attribute(node)
        # A presence test ends the attribute: further qualifiers apply to its result.
        if attribute is None or (attribute.qualifiers and attribute.qualifiers[-1].only_tests):
            return Attribute(self.closure(node))
        return attribute

    def _qualifier(self, index: Node, *, is_optional: bool) -> Qualifier:
        constant = self._constant(index)
        if constant is not ABSENT:
            return Qualifier(None, constant, is_optional)
        attribute = self._attribute(index)
        return Qualifier(resolved(attribute) if attribute else self.closure(index), None, is_optional)

    def _variable(self, name: str) -> Closure:
        slot = self._slot_of[name]
        initial = self._accumulators.get(name)
        if initial is None:
            return lambda frame: frame.slots[slot]

        def accumulator(frame: Frame) -> Value:
            value = frame.slots[slot]
            if value is _UNSET:
                value = _initialized(initial, frame)
                frame.slots[slot] = value
            if isinstance(value, ValueProblem):
                raise value
            return value

        return accumulator

    def _conditional(self, node: Call) -> Attribute:
        condition = self.closure(node.args[0])
        then, otherwise = (self._branch(branch) for branch in node.args[1:])

        def choose(frame: Frame) -> Value:
            chosen = condition(frame)
            if chosen is True:
                return then(frame)
            if chosen is False:
                return otherwise(frame)
            raise ValueProblem("no such overload")

        return Attribute(choose, own_cost=0)

    def _branch(self, node: Node) -> Closure:
        """A branch of a conditional, in which an attribute only costs its qualifiers."""
        attribute = None if self._constant(node) is not ABSENT else self._attribute(node)
        return resolved(attribute) if attribute else self.closure(node)

    # --- Calls.

    def _call(self, node: Call) -> Closure:
        resolution = self._checked.calls[node]
        nodes = node.args if resolution.target is None else [resolution.target, *node.args]
        name = resolution.function.name
        if name == "@in":
            optimized = self._in_constant_list(nodes, resolution)
            if optimized is not None:
                return optimized
        args = [self.closure(arg) for arg in nodes]
        special = SPECIAL.get(name)
        if special is not None:
            return special(*args)
        overload = resolution.overloads[0].id if len(resolution.overloads) == 1 else ""
        cost = costs.call_cost(name, overload)
        if name in ("matches", "find", "findAll"):
            self._check_pattern(nodes[1])
        compute = dispatched(resolution)
        if len(args) == 1:
            return unary(compute, args[0], cost)
        if len(args) == 2:
            return binary(compute, args[0], args[1], cost)
        return n_ary(compute, args, cost)

    def _in_constant_list(self, nodes: list[Node], resolution: Resolution) -> Closure | None:
        """`x in [1, 2]`: the list becomes a set, and the test is free."""
        elements = self._constant(nodes[1])
        if len(resolution.overloads) != 1 or not isinstance(elements, list):
            return None
        if not elements:
            return lambda _frame: False
        if not all(isinstance(element, bool | int | float | str) for element in elements):
            return None
        keys = frozenset(v.map_key(element) for element in elements)
        element = self.closure(nodes[0])

        def is_in(frame: Frame) -> Value:
            value = element(frame)
            if isinstance(value, list | dict):
                return False
            if type(value) in v.UNHASHABLE:
                # Parity: the reference also uses a hash table, and Go cannot hash this value.
                raise EvaluationStopped(
                    f"internal error: runtime error: hash of unhashable type {v.UNHASHABLE[type(value)]}"
                )
            return v.map_key(value) in keys

        return is_in

    def _check_pattern(self, node: Node) -> None:
        """Check constant patterns at compile time."""
        pattern = self._constant(node)
        problem = pattern_problem(pattern) if isinstance(pattern, str) else None
        if problem is not None:
            raise CompileError(f"program instantiation failed: {problem}")

    # --- Aggregates.

    def _list(self, node: ListLiteral) -> Closure:
        elements = [self.closure(element) for element in node.elements]
        optional = node.optional

        def make(frame: Frame) -> Value:
            made: list[Value] = []
            for index, element in enumerate(elements):
                value = element(frame)
                if index in optional:
                    if type(value) is not Optional:
                        raise ValueProblem(
                            f"cannot initialize optional list element from non-optional value {v.shown(value)}"
                        )
                    if value is NONE:
                        continue
                    value = value.value
                made.append(value)
            return made

        return costing(costs.LIST, make)

    def _map(self, node: MapLiteral) -> Closure:
        entries = [(self.closure(entry.key), self.closure(entry.value), entry.optional) for entry in node.entries]

        def make(frame: Frame) -> Value:
            made: dict[Value, Value] = {}
            for key_closure, value_closure, is_optional in entries:
                key = _checked_key(key_closure(frame))
                value = value_closure(frame)
                if is_optional:
                    if type(value) is not Optional:
                        raise ValueProblem(
                            f"cannot initialize optional entry '{v.shown(v.key_value(key))}'"
                            f" from non-optional value {v.shown(value)}"
                        )
                    if value is NONE:
                        made.pop(key, None)
                        continue
                    value = value.value
                made[key] = value
            return made

        return costing(costs.MAP, make)

    # --- Comprehensions.

    def _comprehension(self, node: Comprehension) -> Closure:
        range_closure = self.closure(node.range)
        initial = self.closure(node.init)
        outer = self._slot_of, self._accumulators
        accumulator = self._new_slot()
        self._slot_of = {**self._slot_of, node.accumulator: accumulator}
        self._accumulators = {**self._accumulators, node.accumulator: initial}
        inner = self._slot_of, self._accumulators
        variables = self._variable_slots(node)
        condition, step = self.closure(node.condition), self.closure(node.step)
        self._slot_of, self._accumulators = inner
        result = self.closure(node.result)
        self._slot_of, self._accumulators = outer

        def fold(frame: Frame) -> Value:
            elements = _elements(range_closure(frame), len(variables) == 2)
            slots = frame.slots
            slots[accumulator] = _UNSET
            for element in elements:
                if len(variables) == 2:
                    slots[variables[0]], slots[variables[1]] = element  # type: ignore[misc] # pairs, by `_elements`
                else:
                    slots[variables[0]] = element
                try:
                    if condition(frame) is False:
                        break
                except ValueProblem:
                    pass  # anything but strictly false continues the fold
                try:
                    slots[accumulator] = step(frame)
                except ValueProblem as error:
                    slots[accumulator] = error
                frame.step()
            return _settled(result(frame))

        return fold

    def _variable_slots(self, node: Comprehension) -> list[int]:
        names = [node.variable, node.variable2] if node.variable2 else [node.variable]
        slots = [self._new_slot() for _ in names]
        self._slot_of = {**self._slot_of, **dict(zip(names, slots, strict=True))}
        self._accumulators = {name: init for name, init in self._accumulators.items() if name not in names}
        return slots

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1


# --- Comprehensions and aggregates at run time.


def _initialized(initial: Closure, frame: Frame) -> Value:
    """The initial value of an accumulator, or its error."""
    try:
        value = initial(frame)
    except ValueProblem as error:
        return error
    if isinstance(value, list) and not value:
        return _GrowingList()
    if type(value) is dict and not value:
        return _GrowingMap()
    return value


def _settled(value: Value) -> Value:
    """The result of a comprehension, which is no longer modified."""
    if type(value) is _GrowingList:
        return list(value)
    if type(value) is _GrowingMap:
        return dict(value)
    return value


def _elements(value: Value, in_pairs: bool) -> Iterable[Value]:
    if isinstance(value, dict):
        pairs = [(v.key_value(key), item) for key, item in value.items()]
        return pairs if in_pairs else [key for key, _item in pairs]
    if isinstance(value, list):
        return list(enumerate(value)) if in_pairs else list(value)
    go_name = _GO_NAMES.get(type(value), v.type_name(value))
    if in_pairs:
        raise ValueProblem(f"unsupported comprehension range type: {go_name}")
    raise ValueProblem(f"got '{go_name}', expected iterable type")


_GO_NAMES: dict[type, str] = {
    bool: "types.Bool",
    int: "types.Int",
    v.UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    Optional: "*types.Optional",
    v.Duration: "types.Duration",
    v.Timestamp: "types.Timestamp",
    v.Quantity: "cel.Quantity",
}


def _checked_key(key: Value) -> Value:
    if isinstance(key, list | dict):
        raise ValueProblem(f"unsupported key type: {v.type_name(key)}")
    return v.map_key(key)
