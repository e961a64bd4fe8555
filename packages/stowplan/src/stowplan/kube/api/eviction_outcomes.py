"""What happens to pods that leave their nodes.

Upstream: k8s.io/kubectl/pkg/drain, kubernetes/autoscaler, cluster-autoscaler/simulator.
"""

from __future__ import annotations

from enum import Enum

from stowplan.kube.api.meta import controller_of
from stowplan.kube.api.pod import MIRROR, Pod

#: Kinds of controllers whose pods belong to a node.
_OF_NODES = ("DaemonSet", "Node")


class EvictionOutcome(Enum):
    """What happens to a pod that leaves its node."""

    #: Its controller creates another one, which can go to any node.
    RECREATED = "comes back"
    #: A DaemonSet pod or a static pod.
    BELONGS_TO_NODE = "belongs to the node"
    #: It has no controller.
    LOST = "lost"
    #: It is already being deleted.
    LEAVING = "leaving"


def eviction_outcome(pod: Pod) -> EvictionOutcome:
    if belongs_to_node(pod):
        return EvictionOutcome.BELONGS_TO_NODE
    if pod.metadata.deletion_timestamp is not None:
        return EvictionOutcome.LEAVING
    return EvictionOutcome.LOST if controller_of(pod.metadata) is None else EvictionOutcome.RECREATED


def belongs_to_node(pod: Pod) -> bool:
    """Whether that is its outcome; asked for every pod of a cluster."""
    metadata = pod.metadata
    for owner in metadata.owner_references:
        if owner.controller and owner.kind in _OF_NODES:
            return True
    return MIRROR in metadata.annotations
