"""What the plugin knows of nodes' topologies: as the API has them, or with what it has placed since.

An agent measures what is available on a node, some time after the scheduler has placed pods there. In between, the
plugin may not count what they use (`Passthrough`), not use such nodes (`DiscardReserved`), or count it in every cell
(`OverReserve`), as the kubelet's choice is not known. The last one reads the API's object again once the agent's
fingerprint says that it includes the pods known on the node.

Upstream: pkg/noderesourcetopology/cache in scheduler-plugins.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from stowplan.plugins import CustomObject, PodInfo
from stowplan_scheduler_plugins import pod_fingerprints
from stowplan_scheduler_plugins.node_topologies import (
    Amounts,
    Cell,
    attribute,
    cells_of,
    effective_request,
    is_exclusive,
    settings_of,
    zones_of,
)
from stowplan_scheduler_plugins.numa_placements import Placements, placements_of

ALL, AUTODETECT, ONLY_EXCLUSIVE, ONLY_RESOURCES = "All", "Autodetect", "OnlyExclusiveResources", "OnlyResources"

#: Node -> its object in the API.
Lookup = Callable[[str], CustomObject | None]


class Known(NamedTuple):
    """A node's topology; None if it has none. Nothing is known of one that is not fresh."""

    fresh: bool
    topology: CustomObject | None = None
    #: What pods request that are not measured yet.
    assumed: tuple[Amounts, ...] = ()

    def cells(self) -> list[Cell]:
        found = [] if self.topology is None else cells_of(self.topology)
        for cell in found:
            self._reduce(cell.available)
        return found

    def zones(self) -> dict[str, Amounts]:
        found = {} if self.topology is None else zones_of(self.topology)
        for available in found.values():
            self._reduce(available)
        return found

    def _reduce(self, available: Amounts) -> None:
        for requests in self.assumed:
            for resource, wanted in requests.items():
                if resource in available:
                    available[resource] = max(available[resource] - wanted, 0)


class Cache(Protocol):
    def known(self, node: str) -> Known: ...

    def placements(self, node: str) -> Placements:
        """The cells of the containers on the node, as far as they are known."""

    def resources(self, node: str) -> set[str]:
        """Names of resources in the node's cells."""

    def refused(self, node: str) -> None:
        """The node was refused: perhaps what is known is out of date."""

    def reserve(self, node: str, pod: PodInfo) -> None: ...

    def unreserve(self, node: str, pod: PodInfo) -> None: ...

    def bound(self, node: str, pod: PodInfo) -> None: ...

    def reservations(self) -> Any:
        """What was reserved, as JSON-able data that is independent of the cache."""

    def restore(self, reservations: Any) -> None:
        """Go back to earlier reservations."""

    def taken_changes(self) -> Collection[str]:
        """Nodes of which something else may be known than at the last call, apart from their objects in the API."""


class Passthrough:
    """What the API has."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._changed: set[str] = set()

    def known(self, node: str) -> Known:
        return Known(True, self._lookup(node))

    def placements(self, node: str) -> Placements:
        return {}

    def resources(self, node: str) -> set[str]:
        return set()

    def refused(self, node: str) -> None:
        pass

    def reserve(self, node: str, pod: PodInfo) -> None:
        pass

    def unreserve(self, node: str, pod: PodInfo) -> None:
        pass

    def bound(self, node: str, pod: PodInfo) -> None:
        pass

    def reservations(self) -> Any:
        return None

    def restore(self, reservations: Any) -> None:
        pass

    def taken_changes(self) -> Collection[str]:
        found, self._changed = self._changed, set()
        return found


class DiscardReserved(Passthrough):
    """What the API has, except for nodes with pods that are about to be bound."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(lookup)
        self.reserved: dict[str, set[str]] = {}

    def known(self, node: str) -> Known:
        return Known(False) if self.reserved.get(node) else super().known(node)

    def reserve(self, node: str, pod: PodInfo) -> None:
        self.reserved.setdefault(node, set()).add(pod.uid)
        self._changed.add(node)

    def unreserve(self, node: str, pod: PodInfo) -> None:
        self.reserved.get(node, set()).discard(pod.uid)
        self._changed.add(node)

    def bound(self, node: str, pod: PodInfo) -> None:
        self.unreserve(node, pod)

    def reservations(self) -> Any:
        return {node: sorted(pods) for node, pods in self.reserved.items()}

    def restore(self, reservations: Any) -> None:
        self._changed.update(self.reserved, reservations or ())
        self.reserved = {node: set(pods) for node, pods in (reservations or {}).items()}


class OverReserve(Passthrough):
    """What the API had at the last synchronization, less what was placed since.

    Parity: nodes whose objects appear later are never learnt.
    """

    def __init__(
        self,
        topologies: Iterable[CustomObject],
        lookup: Lookup,
        *,
        method: str = AUTODETECT,
        scope: str = ALL,
    ) -> None:
        super().__init__(lookup)
        self._method, self._scope = method, scope
        self.stored = {topology.metadata.name: topology for topology in topologies}
        #: Node -> key of a pod -> what it requests.
        self.assumed: dict[str, dict[str, Amounts]] = {}
        self.maybe_over_reserved: set[str] = set()
        self.with_foreign_pods: set[str] = set()
        self.config_changed: set[str] = set()
        #: Node -> cells of containers, as of its last synchronization.
        self._placements: dict[str, Placements] = {}
        #: Counts synchronizations that changed something.
        self.generation = 0

    @property
    def dirty(self) -> set[str]:
        """Nodes to synchronize."""
        return self.maybe_over_reserved | self.with_foreign_pods

    def known(self, node: str) -> Known:
        if node in self.with_foreign_pods:
            return Known(False)
        topology = self.stored.get(node)
        return Known(True, topology, () if topology is None else tuple(self.assumed.get(node, {}).values()))

    def placements(self, node: str) -> Placements:
        return self._placements.get(node, {})

    def refused(self, node: str) -> None:
        self.maybe_over_reserved.add(node)

    def has_foreign_pod(self, node: str) -> None:
        if node in self.stored:
            self.with_foreign_pods.add(node)
            self._changed.add(node)

    def reserve(self, node: str, pod: PodInfo) -> None:
        if node in self.stored:
            self.assumed.setdefault(node, {})[pod.key] = effective_request(pod)
            self._changed.add(node)

    def unreserve(self, node: str, pod: PodInfo) -> None:
        self.assumed.get(node, {}).pop(pod.key, None)
        self._changed.add(node)

    def reservations(self) -> Any:
        return {node: dict(pods) for node, pods in self.assumed.items()}

    def restore(self, reservations: Any) -> None:
        self._changed.update(self.assumed, reservations or ())
        self.assumed = {node: dict(pods) for node, pods in (reservations or {}).items()}

    def resources(self, node: str) -> set[str]:
        topology = self.stored.get(node)
        return set() if topology is None else {name for zone in zones_of(topology).values() for name in zone}

    def updated(self, topology: CustomObject) -> None:
        """The API's object has changed; other settings of the kubelet count without a fingerprint."""
        before = self.stored.get(topology.metadata.name)
        if self._scope != ONLY_RESOURCES and before is not None and settings_of(before) != settings_of(topology):
            self.config_changed.add(topology.metadata.name)

    def resync(self, pods: Mapping[str, list[PodInfo]]) -> None:
        """Read objects of dirty nodes again; `pods` are those that count, by node."""
        found = [topology for node in sorted(self.dirty) if (topology := self._synchronized(node, pods)) is not None]
        found += [topology for node in self.config_changed if (topology := self._lookup(node)) is not None]
        for topology in found:
            name = topology.metadata.name
            self._placements[name] = placements_of(topology, pods.get(name, ()), self.resources(name))
            self.stored[name] = topology
            self.assumed.pop(name, None)
            self._changed.add(name)
            for marks in (self.maybe_over_reserved, self.with_foreign_pods, self.config_changed):
                marks.discard(name)
        self.generation += bool(found)

    def _synchronized(self, node: str, pods: Mapping[str, list[PodInfo]]) -> CustomObject | None:
        """The API's object if its fingerprint is that of the node's pods."""
        topology = self._lookup(node)
        if topology is None or node not in pods:
            return None
        expected, exclusive = self._fingerprint(topology)
        resources = self.resources(node)
        counted = [pod for pod in pods[node] if not exclusive or is_exclusive(pod, resources)]
        matches = pod_fingerprints.fingerprint((pod.namespace, pod.name) for pod in counted) == expected
        return topology if matches else None

    def _fingerprint(self, topology: CustomObject) -> tuple[str, bool]:
        """The agent's fingerprint, and whether only pods with exclusive resources are in it."""
        found = attribute(topology.content, pod_fingerprints.ATTRIBUTE)
        if found is None:
            return topology.metadata.annotations.get(pod_fingerprints.ANNOTATION, ""), False
        told = attribute(topology.content, pod_fingerprints.METHOD) == pod_fingerprints.WITH_EXCLUSIVE_RESOURCES
        return found, self._method == ONLY_EXCLUSIVE or (self._method == AUTODETECT and told)
