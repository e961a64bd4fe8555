"""Estimate the maximum cost of a device selector before it is evaluated: API servers reject too costly ones.

The estimate follows the syntax tree like an evaluation, with sizes instead of values: those of literals are known,
those of variables are declared (`Sizes`), all others are unknown, which makes the cost unlimited. Costs and sizes are
ranges. Where an evaluation charges by size (`costs.py`), the estimate charges by the maximum size.

A node with several parents (see `macros`) is estimated once: its cost does not depend on the parent.

Upstream: checker/cost.go, k8s.io/apiserver/pkg/cel/library/cost.go, ext/lists.go, ext/sets.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import field

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import syntax
from stowplan.kube.cel.checker import Checked
from stowplan.kube.cel.costs import IDENT, LIST, MAP
from stowplan.kube.cel.device_selectors import DeviceSelector
from stowplan.kube.cel.macros import ACCUMULATOR
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.validation import call_costs


class _Entries(NamedTuple):
    """The sizes of a list's or map's entries."""

    is_list: bool
    key: call_costs.Range
    value: call_costs.Range


class _Local(PlainStruct):
    """A variable of a macro."""

    path: tuple[str, ...]
    size: call_costs.Range | None
    entries: _Entries | None


def most_cost(selector: DeviceSelector) -> int:
    """The maximum cost of an evaluation, for any device; MOST if it is unlimited."""
    return _Estimator(selector.expression.checked).cost(selector.expression.root).most


class _Estimator(PlainStruct):
    _checked: Checked
    _costs: dict[syntax.Node, call_costs.Range] = field(default_factory=dict)
    _paths: dict[syntax.Node, tuple[str, ...]] = field(default_factory=dict)
    _known: dict[syntax.Node, call_costs.Range] = field(default_factory=dict)
    _entries: dict[syntax.Node, _Entries] = field(default_factory=dict)
    _locals: dict[str, list[_Local]] = field(default_factory=dict)

    def cost(self, node: syntax.Node) -> call_costs.Range:
        """Recurses directly, to use few stack frames."""
        found = self._costs.get(node)
        if found is not None:
            return found
        match node:
            case syntax.Literal():
                found = call_costs.NOTHING
            case syntax.Ident():
                local = self._local(node.name)
                self._paths[node] = local.path if local is not None else (node.name,)
                found = call_costs.exactly(IDENT)
            case syntax.Select():
                found = self._select(node)
            case syntax.Call():
                found = self._call(node)
            case syntax.ListLiteral():
                found = self._list(node)
            case syntax.MapLiteral():
                found = self._map(node)
            case syntax.StructLiteral():
                found = call_costs.NOTHING
            case syntax.Comprehension():
                found = self._bind(node) if _is_bind(node) else self._fold(node)
        self._costs[node] = found
        return found

    def _select(self, node: syntax.Select) -> call_costs.Range:
        if (name := self._checked.names.get(node)) is not None:
            # A type, or a variable with dots in its name.
            self._paths[node] = (name,)
            return call_costs.exactly(IDENT)
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        kinds = (t.TypeKind.MAP, t.TypeKind.STRUCT, t.TypeKind.PARAM)
        if self._checked.types[node.operand].kind in kinds:
            cost = cost.plus(call_costs.exactly(IDENT))
        self._paths[node] = (*self._path(node.operand), node.field)
        return cost

    # -- calls --------------------------------------------------------------------------------------------------------

    def _call(self, node: syntax.Call) -> call_costs.Range:
        if node.function == "dyn":
            (arg,) = node.args
            cost = self.cost(arg).plus(call_costs.ONE)
            self._copy(node, arg)
            return cost
        costs = [self.cost(arg) for arg in node.args]
        meaning = self._checked.calls.get(node)
        if meaning is None:
            return call_costs.NOTHING
        target, total = None, call_costs.NOTHING
        if meaning.target is not None:
            total = self.cost(meaning.target)
            target = self._argument(meaning.target)
        args = [self._argument(arg) for arg in node.args]
        found: call_costs.Range | None = None
        size: call_costs.Range | None = None
        for overload in meaning.overloads:
            of_overload = self._of_overload(node, meaning.function.name, overload.id, target, args, costs)
            found = of_overload.cost if found is None else found.union(of_overload.cost)
            if of_overload.size is not None:
                size = of_overload.size if size is None else size.union(of_overload.size)
            if overload.id in ("index_list", "index_map"):
                entries = self._entries_of(node.args[0])
                size = entries.value if entries is not None else None
                step = "@items" if overload.id == "index_list" else "@values"
                self._paths[node] = (*self._path(node.args[0]), step)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._known[node] = size
        return total.plus(found or call_costs.NOTHING)

    def _of_overload(
        self,
        node: syntax.Call,
        function: str,
        overload: str,
        target: call_costs.Argument | None,
        args: list[call_costs.Argument],
        costs: list[call_costs.Range],
    ) -> call_costs.Estimate:
        if overload in ("logical_and", "logical_or"):
            # The second may be skipped.
            first, *others = costs
            return call_costs.Estimate(call_costs.Range(first.least, _sum([first, *others]).most))
        if overload == "conditional":
            return self._conditional(node, args, costs)
        given = _sum(costs)
        if overload in ("add_string", "add_bytes", "add_list"):
            return self._addition(node, overload, args, given)
        found = call_costs.estimate_of(function, overload, target, args)
        return found._replace(cost=found.cost.plus(given))

    def _conditional(
        self, node: syntax.Call, args: list[call_costs.Argument], costs: list[call_costs.Range]
    ) -> call_costs.Estimate:
        first, second = (self._entries_of(arg) for arg in node.args[1:])
        if first is not None and second is not None:
            self._entries[node] = _joined(first, second)
        return call_costs.Estimate(costs[0].plus(costs[1].union(costs[2])), args[1].size.union(args[2].size))

    def _addition(
        self, node: syntax.Call, overload: str, args: list[call_costs.Argument], given: call_costs.Range
    ) -> call_costs.Estimate:
        first, second = (self._entries_of(arg) for arg in node.args)
        if first is not None and second is not None:
            self._entries[node] = _joined(first, second)
        size = args[0].size.plus(args[1].size)
        return call_costs.Estimate(
            given.plus(call_costs.ONE if overload == "add_list" else size.by(call_costs.TRAVERSAL)), size
        )

    # -- literals and macros ------------------------------------------------------------------------------------------

    def _list(self, node: syntax.ListLiteral) -> call_costs.Range:
        cost = call_costs.NOTHING
        for one in node.elements:
            cost = cost.plus(self.cost(one))
        self._entries[node] = _Entries(True, call_costs.ONE, self._union(node.elements))
        return cost.plus(call_costs.exactly(LIST))

    def _map(self, node: syntax.MapLiteral) -> call_costs.Range:
        cost = call_costs.NOTHING
        for entry in node.entries:
            cost = cost.plus(self.cost(entry.key)).plus(self.cost(entry.value))
        keys, values = ([getattr(entry, part) for entry in node.entries] for part in ("key", "value"))
        self._entries[node] = _Entries(False, self._union(keys), self._union(values))
        return cost.plus(call_costs.exactly(MAP))

    def _union(self, nodes: list[syntax.Node]) -> call_costs.Range:
        found = call_costs.NOTHING if not nodes else call_costs.Range(call_costs.MOST, 0)
        for node in nodes:
            found = found.union(self._size_or_unknown(node))
        return found

    def _fold(self, node: syntax.Comprehension) -> call_costs.Range:
        cost = self.cost(node.range).plus(self.cost(node.init))
        self._push(node.accumulator, _Local(self._path(node.init), self._size(node.init), self._entries_of(node.init)))
        pushed = self._push_variables(node)
        condition, step = self.cost(node.condition), self.cost(node.step)
        for name in pushed:
            self._locals[name].pop()
        cost = cost.plus(self.cost(node.result))
        self._locals[node.accumulator].pop()
        rounds = self._size_or_unknown(node.range)
        if isinstance(node.init, syntax.Literal):
            if (size := self._size(node.init)) is not None:
                self._known[node] = size
        elif isinstance(node.init, syntax.ListLiteral | syntax.MapLiteral):
            self._known[node] = rounds
            if (entries := self._entries_of(node.step)) is not None:
                self._entries[node] = entries
        return cost.plus(rounds.times(step.plus(condition)))

    def _push_variables(self, node: syntax.Comprehension) -> list[str]:
        entries, path = self._entries_of(node.range), self._path(node.range)
        sizes: tuple[call_costs.Range | None, call_costs.Range | None] = (None, None)
        if entries is not None:
            is_list, *_ = entries
            sizes = entries.key, entries.value
        else:
            is_list = self._checked.types[node.range].kind is t.TypeKind.LIST
        key = _Local((*path, "@indices" if is_list else "@keys"), sizes[0], None)
        value = _Local((*path, "@items" if is_list else "@values"), sizes[1], None)
        if node.variable2:
            if len(path) & (len(path) - 1):
                # Parity: the paths of both share one array there, unless its length is a power of two, and the second
                # overwrites the first.
                key.path = value.path
            self._push(node.variable, key)
            self._push(node.variable2, value)
            return [node.variable, node.variable2]
        self._push(node.variable, value if is_list else key)
        return [node.variable]

    def _bind(self, node: syntax.Comprehension) -> call_costs.Range:
        cost = self.cost(node.range).plus(self.cost(node.init))
        self._push(node.accumulator, _Local(self._path(node.init), self._size(node.init), self._entries_of(node.init)))
        cost = cost.plus(self.cost(node.result))
        self._copy(node, node.result)
        self._locals[node.accumulator].pop()
        return cost

    # -- sizes --------------------------------------------------------------------------------------------------------

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _path(self, node: syntax.Node) -> tuple[str, ...]:
        if isinstance(node, syntax.Ident) and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(node, ())

    def _argument(self, node: syntax.Node) -> call_costs.Argument:
        path = self._path(node)
        path = () if path[:1] == (ACCUMULATOR,) else path
        return call_costs.Argument(node, self._checked.types[node], path, self._size_or_unknown(node))

    def _at(self, path: tuple[str, ...]) -> call_costs.Range | None:
        most = call_costs.most_of_a_device(path)
        return None if most is None else call_costs.Range(0, most)

    def _size_or_unknown(self, node: syntax.Node) -> call_costs.Range:
        return self._size(node) or call_costs.UNKNOWN

    def _size(self, node: syntax.Node) -> call_costs.Range | None:
        if (known := self._known.get(node)) is not None:
            return known
        match node:
            case syntax.Literal():
                return call_costs.exactly(_length(node.value))
            case syntax.ListLiteral():
                return call_costs.exactly(len(node.elements))
            case syntax.MapLiteral():
                return call_costs.exactly(len(node.entries))
        if (found := self._at(self._path(node))) is not None:
            self._known[node] = found
            return found
        if _is_scalar(self._checked.types[node]):
            return call_costs.ONE
        local = self._local(node.name) if isinstance(node, syntax.Ident) else None
        return local.size if local is not None else None

    def _entries_of(self, node: syntax.Node) -> _Entries | None:
        found = self._entries.get(node)
        if found is None and isinstance(node, syntax.Ident) and (local := self._local(node.name)) is not None:
            return local.entries
        return found

    def _copy(self, to: syntax.Node, of: syntax.Node) -> None:
        if (size := self._size(of)) is not None:
            self._known[to] = size
        if (entries := self._entries_of(of)) is not None:
            self._entries[to] = entries


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes) else 1


def _sum(costs: Iterable[call_costs.Range]) -> call_costs.Range:
    found = call_costs.NOTHING
    for cost in costs:
        found = found.plus(cost)
    return found


def _joined(first: _Entries, second: _Entries) -> _Entries:
    return _Entries(first.is_list, first.key.union(second.key), first.value.union(second.value))


def _is_bind(node: syntax.Comprehension) -> bool:
    is_empty = isinstance(node.range, syntax.ListLiteral) and not node.range.elements
    never = isinstance(node.condition, syntax.Literal) and node.condition.value is False
    return is_empty and never and node.accumulator != ACCUMULATOR


_SCALARS = frozenset(
    (
        t.TypeKind.BOOL,
        t.TypeKind.DOUBLE,
        t.TypeKind.DURATION,
        t.TypeKind.INT,
        t.TypeKind.TIMESTAMP,
        t.TypeKind.UINT,
    )
)


def _is_scalar(type: t.Type) -> bool:
    inner = type.optional_of
    return _is_scalar(inner) if inner is not None else type.kind in _SCALARS
