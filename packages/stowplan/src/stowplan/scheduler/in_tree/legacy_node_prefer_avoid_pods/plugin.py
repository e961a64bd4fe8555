"""Avoid nodes whose annotation names the pod's controller: NodePreferAvoidPods of Kubernetes up to 1.22.

In the default profile of those releases its weight is 10,000, so it takes precedence over everything else. Hardly any
node has the annotation: the nodes that have it, and the controllers they name, are cached until a node changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from stowplan.kube.api.meta import controller_of
from stowplan.scheduler.cluster.arrays import Ints
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, SignPlugin
from stowplan.scheduler.framework.interface import MAX_SCORE, ScorePlugin
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.in_tree.common.annotations import PREFER_AVOID_PODS
from stowplan.scheduler.in_tree.legacy_node_prefer_avoid_pods.declaration import DECLARATION

#: Pods of other controllers are never avoided.
_KINDS = ("ReplicationController", "ReplicaSet")

#: (kind, uid) of a controller.
Controller = tuple[str, str]


class LegacyNodePreferAvoidPods(ScorePlugin, SignPlugin, ReadsNoObjects):
    declaration = DECLARATION
    short_name = "avoid"
    reads = Reads.NODES

    def score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Ints | Status:
        table, controller = nodes.table, _controller(pod)
        avoiding = table.memo(PREFER_AVOID_PODS, lambda: _avoided(table))
        if controller is None or controller not in avoiding:
            return np.full(len(nodes), MAX_SCORE, np.int64)
        scores = np.full(table.n, MAX_SCORE, np.int64)
        scores[avoiding[controller]] = 0
        taken: Ints = nodes.take(scores)
        return taken

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any] | Status:
        # A pod's shape has its controller's name, but not the UID.
        return {"controller": _controller(pod)}


def _controller(pod: PodInfo) -> Controller | None:
    owner = controller_of(pod.pod.metadata)
    return (owner.kind, owner.uid) if owner is not None and owner.kind in _KINDS else None


def _avoided(table: NodeTable) -> dict[Controller, list[int]]:
    """Controller -> rows of the nodes that avoid its pods."""
    avoided: dict[Controller, list[int]] = {}
    for row, node in enumerate(table.nodes):
        text = node.metadata.annotations.get(PREFER_AVOID_PODS) if node is not None else None
        for controller in _named_by(text) if text else ():
            avoided.setdefault(controller, []).append(row)
    return avoided


class _Controller(msgspec.Struct):
    kind: str = ""
    uid: str = ""


class _Signature(msgspec.Struct, rename="camel"):
    pod_controller: _Controller | None = None


class _Entry(msgspec.Struct, rename="camel"):
    pod_signature: _Signature = msgspec.field(default_factory=_Signature)


class _Annotation(msgspec.Struct, rename="camel"):
    prefer_avoid_pods: list[_Entry] = msgspec.field(default_factory=list)


def _named_by(text: str) -> list[Controller]:
    try:
        found = msgspec.json.decode(text, type=_Annotation)
    except (msgspec.DecodeError, RecursionError):
        # Parity: an annotation that does not parse is ignored.
        return []
    signed = (entry.pod_signature.pod_controller for entry in found.prefer_avoid_pods)
    return [(controller.kind, controller.uid) for controller in signed if controller is not None]
