"""Where a class's provisioner creates a volume: the topology from which it is accessible.

The keys of a topology are those that the driver lists in the node's CSINode, those of the class's allowedTopologies, or
the zone. With WaitForFirstConsumer it is the topology of the selected node. With Immediate there is none, so the
provisioner chooses: like the CSI provisioner, it iterates over the existing topologies, by the claim's name and the
number at its end, so that the claims of a StatefulSet are spread evenly.

Upstream: kubernetes-csi/external-provisioner (topology.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from zlib import crc32

from stowplan.kube.api.affinity import TopologySelectorTerm
from stowplan.kube.api.types import CSINode, StorageClass

Labels = Mapping[str, str]
#: The CSINode of a node, if it has one.
CSINodeOf = Callable[[str], CSINode | None]

ZONE = "topology.kubernetes.io/zone"


def topology_of(node: str, labels: Labels, csi_node_of: CSINodeOf, storage_class: StorageClass) -> dict[str, str]:
    """The topology of a volume that is created for a node; {}: it is accessible from everywhere."""
    keys = _keys(node, labels, csi_node_of, storage_class)
    return {key: labels[key] for key in keys if key in labels}


def is_allowed(labels: Labels, storage_class: StorageClass) -> bool:
    """Whether a node is in the allowed topologies of the class."""
    return not storage_class.allowed_topologies or _term_of(labels, storage_class) is not None


def immediate_topology(
    claim_name: str, nodes: Iterable[tuple[str, Labels]], csi_node_of: CSINodeOf, storage_class: StorageClass
) -> dict[str, str] | None:
    """The topology of a volume that is created without a selected node; None: no node is in an allowed one."""
    found = {
        tuple(topology_of(name, labels, csi_node_of, storage_class).items())
        for name, labels in nodes
        if is_allowed(labels, storage_class)
    }
    # Nodes without the labels are no topology of their own.
    choices = sorted(found - {()}) or [()]
    return dict(choices[_turn(claim_name) % len(choices)]) if found else None


def _keys(node: str, labels: Labels, csi_node_of: CSINodeOf, storage_class: StorageClass) -> Iterable[str]:
    csi_node = csi_node_of(node)
    for driver in () if csi_node is None else csi_node.spec.drivers:
        if driver.name == storage_class.provisioner and driver.topology_keys:
            return driver.topology_keys
    term = _term_of(labels, storage_class)
    return [ZONE] if term is None else [one.key for one in term.match_label_expressions]


def _term_of(labels: Labels, storage_class: StorageClass) -> TopologySelectorTerm | None:
    """The first of the allowed topologies that has a node with these labels."""
    for term in storage_class.allowed_topologies:
        if all(labels.get(one.key) in one.values for one in term.match_label_expressions):
            return term
    return None


def _turn(claim_name: str) -> int:
    name, dash, number = claim_name.rpartition("-")
    if not dash or not (number.isascii() and number.isdecimal()):
        return crc32(claim_name.encode())
    return crc32(name.encode()) + int(number)
