"""DaemonSets in what-if questions: their pods come and go with the nodes.

All that is known of a DaemonSet are its pods. Any of them is its template, except for the required node affinity, which
the controller replaces by the pod's node. So a DaemonSet that has no pod on a node that it seems to want gets none on
others, either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from stowplan.ask.loading.daemon_sets import node_of, tied_to, untied, wanted_on
from stowplan.ask.what_if.claims import release_claims, with_own_claims
from stowplan.ask.what_if.pods import named, recreated
from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.taints import NO_EXECUTE
from stowplan.kube.structs import PlainStruct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stowplan.ask.offline import Cluster
    from stowplan.kube.api.types import Node, Pod
    from stowplan.scheduler.cluster.pod_info import PodInfo


class _Daemons(PlainStruct):
    """The pods of a DaemonSet, by node."""

    template: Pod
    pods: dict[str, PodInfo] = field(default_factory=dict)


def daemons_waiting_for(cluster: Cluster, node: str) -> Iterator[Pod]:
    """Pods of DaemonSets that have not found room on their node."""
    for info in cluster.state.pending.values():
        if _is_daemon(info.pod) and node_of(info.pod) == node:
            yield info.pod


class DaemonSets:
    """Those of a cluster before a change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._everywhere = {
            name
            for name, daemons in self._found().items()
            if all(node.metadata.name in daemons.pods for node in self._nodes() if wanted_on(daemons.template, node))
        }

    def follow(self) -> None:
        """After the change: remove pods whose node is gone or no longer wanted, and add missing ones."""
        for name, daemons in self._found().items():
            nodes = {node.metadata.name: node for node in self._nodes()}
            for node_name, info in daemons.pods.items():
                if node_name not in nodes or not _may_stay(daemons.template, nodes[node_name]):
                    self._cluster.remove(info.pod)
                    release_claims(self._cluster, [info.pod])
            if name in self._everywhere:
                for node_name, node in nodes.items():
                    if node_name not in daemons.pods and wanted_on(daemons.template, node):
                        self._add(daemons.template, node_name)

    def _add(self, template: Pod, node: str) -> None:
        fresh = tied_to(named(recreated(template), f"{template.metadata.name}-on-{node}"), node)
        self._cluster.add(with_own_claims(self._cluster, fresh, template))

    def _nodes(self) -> list[Node]:
        return [node for node in self._cluster.state.table.nodes if node is not None]

    def _found(self) -> dict[tuple[str, str], _Daemons]:
        found: dict[tuple[str, str], _Daemons] = {}
        state = self._cluster.state
        # Of all pods of the cluster, few have such an owner.
        owned = [
            (info, owner)
            for infos in (state.placed_pods(), state.pending.values())
            for info in infos
            for owner in info.pod.metadata.owner_references
            if owner.kind == "DaemonSet" and owner.controller
        ]
        for info, owner in owned:
            if node := info.node_name or node_of(info.pod):
                key = info.namespace, owner.name
                if key not in found:
                    found[key] = _Daemons(untied(info.pod))
                found[key].pods[node] = info
        return found


def _is_daemon(pod: Pod) -> bool:
    owner = controller_of(pod.metadata)
    return owner is not None and owner.kind == "DaemonSet"


def _may_stay(template: Pod, node: Node) -> bool:
    """Whether a pod may stay on its node; a taint that only keeps new ones off does not matter."""
    taints = tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)
    return wanted_on(template, replace(node, spec=replace(node.spec, taints=taints)))
