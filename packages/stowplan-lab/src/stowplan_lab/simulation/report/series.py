"""Time series of a simulation: resources used and requested, pending pods, fragmentation, cost, nodes.

Samples are taken at multiples of an interval. A scenario may set it; otherwise it doubles, and every second sample is
dropped, whenever there are more than a chart can show, so that memory is bounded.

Fragmentation (`inspection.room`) is about the sizes of pods that arrived, weighted by their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stowplan.scheduler.inspection.room import fragmentation
from stowplan_lab.simulation.nodes.fleet import Fleet
from stowplan_lab.simulation.results.ledger import Ledger
from stowplan_lab.simulation.results.simulation_records import SampleRow
from stowplan_lab.simulation.simulation_context import SimulationContext

if TYPE_CHECKING:
    import numpy.typing as npt

    from stowplan_lab.simulation.nodes.modelled_use import ModelledUse
    from stowplan_lab.simulation.workloads.horizontal_pod_autoscalers import HorizontalPodAutoscalers


_MOST_SAMPLES = 512
_FIRST_INTERVAL = 1.0
#: Number of pod sizes that represent all of them.
_TYPICAL = 32
#: Heat map value for a missing node.
ABSENT = 255
_SHARE_DIGITS = 6


class Heat(NamedTuple):
    """The utilization of each node at one time: percent of its scarcest resource, by the index of its name."""

    time: float
    percent: npt.NDArray[np.uint8]


class _Part(NamedTuple):
    """A zone or group: rows of the table, and the total of their nodes, by the index of the resource."""

    rows: npt.NDArray[np.intp]
    allocatable: list[int]


class _Nodes(NamedTuple):
    """What samples read of the nodes, besides their pods."""

    #: Resources of any node.
    resources: dict[str, int]
    allocatable: dict[str, int]
    zones: dict[str, _Part]
    groups: dict[str, _Part]
    #: The rows of all nodes, and their indices in heat maps.
    rows: npt.NDArray[np.intp]
    indices: npt.NDArray[np.intp]


class Sampler:
    def __init__(
        self, context: SimulationContext, fleet: Fleet, ledger: Ledger, *, every: float | None, duration: float | None
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._ledger = ledger
        self._is_fixed = every is not None
        self.every = every if every is not None else _interval(duration)
        self.rows: list[SampleRow] = []
        self.heat: list[Heat] = []
        self.autoscalers: HorizontalPodAutoscalers | None = None
        #: If the scenario says what workloads use.
        self.use: ModelledUse | None = None
        #: Node -> its index in heat maps; names in order of appearance.
        self.nodes: dict[str, int] = {}
        #: The group of each, or "".
        self.groups: list[str] = []
        self._known: tuple[int, _Nodes] | None = None
        self._typical_of = -1
        self._sizes: list[tuple[float, Mapping[str, int]]] = []

    @property
    def next(self) -> float:
        """When the next sample is due, in seconds since the beginning."""
        return self.rows[-1].time + self.every if self.rows else 0.0

    def take(self) -> None:
        time = round(self._context.now - self._context.start, 6)
        if self.rows and self.rows[-1].time == time:
            return
        self.rows.append(self._row(time))
        self.heat.append(Heat(time, self._percent()))
        if len(self.rows) > _MOST_SAMPLES and not self._is_fixed:
            self.every *= 2
            del self.rows[1::2], self.heat[1::2]

    def _row(self, time: float) -> SampleRow:
        fleet, ledger, table = self._fleet, self._ledger, self._context.state.table
        fleet.account()
        nodes = self._nodes_now()
        resources = nodes.resources
        sums = table.requested[:, : table.n].sum(axis=1).tolist()
        used = {name: sums[index] for name, index in resources.items()}
        return SampleRow(
            time=time,
            nodes=table.count,
            running=ledger.running,
            pending=sum(ledger.pending.values()),
            pending_by=dict(sorted(ledger.pending.items())),
            allocatable=nodes.allocatable,
            used=used,
            asked={name: amount + ledger.asked.get(name, 0) for name, amount in used.items()},
            zones=self._shares(nodes.zones, resources),
            groups=self._shares(nodes.groups, resources),
            nodes_by_group={name: len(group.names) for name, group in fleet.groups.items()},
            fragmentation=fragmentation(table, self._typical()),
            replicas={} if self.autoscalers is None else self.autoscalers.replicas,
            busiest={} if self.use is None else self.use.busiest(),
            cost=round(sum(fleet.costs.values()), 6),
        )

    def _nodes_now(self) -> _Nodes:
        """Cached until a node changes."""
        table = self._context.state.table
        if self._known is None or self._known[0] != table.generation:
            have = table.allocatable[:, : table.n]
            resources = {name: index for name, index in table.resources.items() if have[index].any()}
            for name in table.row_of:
                if name not in self.nodes:
                    self.nodes[name] = len(self.nodes)
                    self.groups.append(self._fleet.group_of.get(name, ""))
            self._known = (
                table.generation,
                _Nodes(
                    resources=resources,
                    allocatable={name: int(have[index].sum()) for name, index in resources.items()},
                    zones=self._parts(self._zones()),
                    groups=self._parts(self._groups()),
                    rows=np.array(list(table.row_of.values()), np.intp),
                    indices=np.array([self.nodes[name] for name in table.row_of], np.intp),
                ),
            )
        return self._known[1]

    def _parts(self, parts: dict[str, list[int]]) -> dict[str, _Part]:
        table, found = self._context.state.table, {}
        for name, of_part in sorted(parts.items()):
            rows = np.array(of_part, np.intp)
            found[name] = _Part(rows, table.allocatable[:, rows].sum(axis=1).tolist())
        return found

    def _zones(self) -> dict[str, list[int]]:
        fleet, rows = self._fleet, self._context.state.table.row_of
        found: dict[str, list[int]] = {}
        for name in fleet.nodes:
            zone = fleet.zone_of(name)
            if zone and name in rows:
                found.setdefault(zone, []).append(rows[name])
        return found

    def _groups(self) -> dict[str, list[int]]:
        rows = self._context.state.table.row_of
        return {
            name: [rows[node] for node in group.names if node in rows] for name, group in self._fleet.groups.items()
        }

    def _shares(self, parts: Mapping[str, _Part], resources: Mapping[str, int]) -> dict[str, dict[str, float]]:
        requested, found = self._context.state.table.requested, {}
        for name, part in parts.items():
            used, have = requested[:, part.rows].sum(axis=1).tolist(), part.allocatable
            found[name] = {
                resource: round(used[index] / have[index], _SHARE_DIGITS)
                for resource, index in resources.items()
                if have[index]
            }
        return found

    def _percent(self) -> npt.NDArray[np.uint8]:
        table = self._context.state.table
        n = table.n
        have, used = table.allocatable[:, :n], table.requested[:, :n]
        shares = np.where(have > 0, used / np.maximum(have, 1), 0.0).max(axis=0) if n else np.zeros(0)
        nodes = self._nodes_now()
        percent = np.full(len(self.nodes), ABSENT, np.uint8)
        percent[nodes.indices] = np.minimum(np.rint(shares[nodes.rows] * 100), 100)
        return percent

    def _typical(self) -> list[tuple[float, Mapping[str, int]]]:
        shapes = self._ledger.shapes
        if self._ledger.arrived != self._typical_of:
            self._typical_of = self._ledger.arrived
            self._sizes = [(float(number), dict(shape)) for shape, number in shapes.most_common(_TYPICAL)]
        return self._sizes

    def mean(self, name: str) -> Iterator[tuple[str, float]]:
        """Resource -> its mean over the samples, for a mapping of shares."""
        sums: dict[str, list[float]] = {}
        for row in self.rows:
            for resource, share in getattr(row, name).items():
                sums.setdefault(resource, []).append(share)
        for resource, shares in sorted(sums.items()):
            yield resource, round(sum(shares) / len(shares), _SHARE_DIGITS)


def _interval(duration: float | None) -> float:
    return _FIRST_INTERVAL if duration is None else max(_FIRST_INTERVAL, float(round(duration / 288)))
