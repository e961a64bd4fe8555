"""How many nodes to add so that all copies of a pod fit.

If nodes are independent of each other, the room of one new node of each kind is computed. The number of nodes follows
by division, and the cheapest mix of kinds by dynamic programming.

Otherwise numbers of nodes are tried: they are added, and all copies are placed, starting with the lowest number that
the room of nodes on their own permits. If no kind suffices alone, as with zones, a mix starts with the same number of
each, and is then reduced kind by kind, the most expensive first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from stowplan.ask.offline import Cluster
from stowplan.ask.what_if.answer_records import MixRecord, NodesToAddRecord
from stowplan.ask.what_if.copies import most_room_for, room_for
from stowplan.ask.what_if.hypothetical_nodes import MOST_NODES, NodeTemplate
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from stowplan.ask.what_if.copies import Copies
    from stowplan.ask.what_if.hypothetical_nodes import NodeKind

#: Maximum number of copies for which numbers of nodes are tried, as each trial places all of them.
MOST_TRIED = 2_000


class NodesToAdd(PlainStruct):
    each: list[NodesToAddRecord]
    #: Given kinds that are not sufficient.
    notes: list[str]
    cheapest: MixRecord | None = None
    mix: MixRecord | None = None


def room_on_new(cluster: Cluster, copies: Copies, kind: NodeKind) -> int:
    """The number of copies that fit on a new node, if nodes are independent of each other."""
    with cluster.transaction():
        (name,) = NodeTemplate.of(cluster, kind.like).add_to(cluster, 1)
        room = room_for(cluster, cluster.pod(copies.another()))
        return 0 if room is None else int(room.copies[cluster.state.table.row_of[name]])


def computed(cluster: Cluster, copies: Copies, missing: int, kinds: Sequence[NodeKind]) -> NodesToAdd:
    """Nodes for `missing` copies, if nodes are independent of each other."""
    each = {kind.name: room_on_new(cluster, copies, kind) for kind in kinds}
    found = NodesToAdd([], [f"nodes like {name} would not help" for name, taken in each.items() if not taken])
    for kind in kinds:
        if taken := each[kind.name]:
            count = -(-missing // taken)
            found.each.append(nodes_record(kind, count, taken))
    prices = {kind.name: kind.price for kind in kinds if kind.price is not None}
    if len(prices) > 1:
        found.cheapest = _cheapest(missing, each, prices)
    return found


def tried(cluster: Cluster, copies: Copies, wanted: int, already: int, kinds: Sequence[NodeKind]) -> NodesToAdd:
    """Nodes with which all of `wanted` copies fit, if nodes depend on each other; `already` fit without."""
    if wanted > MOST_TRIED:
        why = f"nodes to add were not tried: the nodes of pods like this depend on each other, and {wanted:,} pods"
        return NodesToAdd([], [f"{why} are more than {MOST_TRIED:,}"])
    trials = _Trials(cluster, copies, wanted, already, kinds)
    found = NodesToAdd([], [])
    for number, kind in enumerate(kinds):
        count = trials.fewest(number)
        if count is None:
            found.notes.append(f"nodes like {kind.name} alone would not make all of them fit")
        else:
            found.each.append(nodes_record(kind, count))
    if not found.each and len(kinds) > 1:
        found.mix = trials.mix()
    return found


def nodes_record(kind: NodeKind, count: int, each: int | None = None) -> NodesToAddRecord:
    return NodesToAddRecord(like=kind.name, count=count, each=each, price=_total([(count, kind.price)]))


def _total(nodes: Iterable[tuple[int, float | None]]) -> float | None:
    """The price of some nodes of several kinds, added in decimal, as prices are; None: one of them has none."""
    total = Decimal()
    for number, price in nodes:
        if price is None:
            return None
        total += number * Decimal(str(price))
    return float(total)


def _cheapest(missing: int, each: Mapping[str, int], prices: Mapping[str, float]) -> MixRecord | None:
    """Cover `missing` pods with whole nodes at the lowest price, by dynamic programming over 1, 2, … pods."""
    useful = [(name, each[name], price) for name, price in prices.items() if each[name]]
    if not useful:
        return None
    best: list[tuple[float, int, str]] = [(0.0, 0, "")]
    for pods in range(1, missing + 1):
        ways = ((best[max(0, pods - taken)], name, price) for name, taken, price in useful)
        best.append(min((before[0] + price, before[1] + 1, name) for before, name, price in ways))
    nodes: Counter[str] = Counter()
    left = missing
    while left > 0:
        name = best[left][2]
        nodes[name] += 1
        left -= each[name]
    return MixRecord(
        nodes=dict(sorted(nodes.items())), price=_total((nodes[name], price) for name, price in prices.items())
    )


class _Trials:
    """Places all copies next to numbers of new nodes of each kind."""

    def __init__(self, cluster: Cluster, copies: Copies, wanted: int, already: int, kinds: Sequence[NodeKind]) -> None:
        self._cluster = cluster
        self._copies = copies
        self._wanted = wanted
        self._already = already
        self._kinds = kinds
        self._templates = [NodeTemplate.of(cluster, kind.like) for kind in kinds]
        # With more than that, each new node would have one of them.
        self._most = min(wanted, MOST_NODES)

    def fewest(self, kind: int) -> int | None:
        """The lowest sufficient number of nodes of one kind."""
        least = self._least(kind)
        return None if least is None else self._search(lambda nodes: self._placed({kind: nodes}), least)

    def mix(self) -> MixRecord | None:
        """Nodes of several kinds, none of which can be left out."""
        every = range(len(self._kinds))
        even = self._search(lambda nodes: self._placed(dict.fromkeys(every, nodes)), 1)
        if even is None:
            return None
        counts = dict.fromkeys(every, even)
        for kind in sorted(every, key=lambda kind: -(self._kinds[kind].price or 0.0)):
            counts[kind] = self._reduced(counts, kind)
        used = {kind: number for kind, number in counts.items() if number}
        return MixRecord(
            nodes={self._kinds[kind].name: number for kind, number in used.items()},
            price=_total((number, self._kinds[kind].price) for kind, number in used.items()),
        )

    def _search(self, placed: Callable[[int], int], least: int) -> int | None:
        """The lowest sufficient number of nodes; fewer than `least` are known not to suffice.

        Each guess assumes that every node takes as many copies as those of the guess before.
        """
        low, guess = least - 1, least
        while guess <= self._most:
            gained = placed(guess) - self._already
            if gained >= self._wanted - self._already:
                return _lowest(low, guess, lambda nodes: placed(nodes) >= self._wanted)
            low = guess
            proportional = -(-guess * (self._wanted - self._already) // gained) if gained > 0 else 2 * guess
            guess = max(low + 1, min(proportional, self._most))
        return None

    def _reduced(self, counts: Mapping[int, int], kind: int) -> int:
        """The lowest sufficient number of nodes of one kind next to those of the others."""
        return _lowest(-1, counts[kind], lambda nodes: self._placed({**counts, kind: nodes}) >= self._wanted)

    def _placed(self, nodes: Mapping[int, int]) -> int:
        with self._cluster.transaction():
            for kind, number in nodes.items():
                self._templates[kind].add_to(self._cluster, number)
            return len(self._copies.place(self._wanted).nodes)

    def _least(self, kind: int) -> int | None:
        """A lower bound, from the room of nodes on their own; None if no number suffices."""
        with self._cluster.transaction():
            (name,) = self._templates[kind].add_to(self._cluster, 1)
            first = self._copies.another()
            room = most_room_for(self._cluster, self._cluster.pod(first)) if self._copies.are_alike(first) else None
            if room is None:
                return 1
            new = int(room[self._cluster.state.table.row_of[name]])
        missing = self._wanted - (int(room.sum()) - new)
        if missing <= 0:
            return 1
        return -(-missing // new) if new else None


def _lowest(low: int, high: int, suffices: Callable[[int], bool]) -> int:
    """The lowest sufficient number above `low`, up to `high`, which suffices; most likely `high`."""
    if high - low == 1 or not suffices(high - 1):
        return high
    return bisect_left(range(high - 1), True, low + 1, key=suffices)
