"""Reject nodes that do not declare a kubelet feature that the pod needs.

The pod's needs are inferred from its spec. A node's features are in `status.declaredFeatures`; the lists are interned,
as a cluster has about as many distinct ones as kubelet versions.

Upstream: pkg/scheduler/framework/plugins/nodedeclaredfeatures, k8s.io/component-helpers/nodedeclaredfeatures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.kube.api.types import Node, Pod, PodSpec
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.arrays import Mask
from stowplan.scheduler.cluster.node_table import NodeTable
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState, NotFoundError
from stowplan.scheduler.framework.declarations import Reads, ReadsNoObjects, TemplateSigned
from stowplan.scheduler.framework.diagnosis import Rejections
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, Hint, on, pod_events, queue_if
from stowplan.scheduler.framework.interface import EnqueueExtensions, FilterPlugin, PreFilterPlugin, PreFilterResult
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, error
from stowplan.scheduler.in_tree.common.pod_hints import same_pod
from stowplan.scheduler.in_tree.node_declared_features.declaration import DECLARATION

MISSING_FEATURES = Reason("MissingNodeFeatures", "node(s) didn't match Pod's required features")
PRE_FILTER_STATE = "PreFilterNodeDeclaredFeatures"

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
BIND_MOUNT_OPTIONS = "VolumeBindMountOptions"
#: Features that the reference knows, sorted; the first three do not affect scheduling.
KNOWN_FEATURES = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_ON_HOST_NETWORK,
)
#: Since 1.37. Those of the first line do not affect scheduling, either.
KNOWN_FEATURES_SINCE_1_37 = tuple(
    sorted(
        (
            *(
                "DRANodeAllocatableResources",
                "DRAOptionalNodeOperations",
                "InPlacePodVerticalScalingMemoryBackedVolumes",
            ),
            *KNOWN_FEATURES,
            BIND_MOUNT_OPTIONS,
        )
    )
)


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin, TemplateSigned, ReadsNoObjects, EnqueueExtensions):
    declaration = DECLARATION
    reads = Reads.NODES

    @property
    def _enabled(self) -> bool:
        return self.handle.features.enabled("NodeDeclaredFeatures")

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        required = self._required(pod.pod.spec) if self._enabled else frozenset()
        if not required:
            return SKIP
        state.write(PRE_FILTER_STATE, required)
        return None

    def filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | Status | None:
        if not self._enabled:
            return None
        try:
            required = state.read(PRE_FILTER_STATE)
        except NotFoundError as e:
            return error(f'error reading "{PRE_FILTER_STATE}" from cycle-state: {e}')
        table = nodes.table
        mask = nodes.take(table.memo((self.name, required), lambda: _lacking(table, required, self._known)))
        return Rejections.where(mask, MISSING_FEATURES, Code.UnschedulableAndUnresolvable) if mask.any() else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        if not self._enabled:
            return ()
        pods = pod_events(self.handle.features.emulated_version)
        return (
            on(NODE, Action.Add | Action.UpdateNodeDeclaredFeature, _after_node_change, by_shape=True),
            on(pods.own, Action.Update, self._after_pod_update, by_shape=True),
        )

    @property
    def _known(self) -> Sequence[str]:
        return KNOWN_FEATURES if self.handle.features.emulated_version < V1_37 else KNOWN_FEATURES_SINCE_1_37

    def _required(self, spec: PodSpec) -> frozenset[str]:
        required = required_features(spec)
        if self.handle.features.emulated_version >= V1_37 and _has_bind_mount_options(spec):
            required |= {BIND_MOUNT_OPTIONS}
        return required

    def _after_pod_update(self, pod: PodInfo, old: Pod, new: Pod) -> Hint:
        return queue_if(same_pod(pod, new) and self._required(old.spec) != self._required(new.spec))


def required_features(spec: PodSpec) -> frozenset[str]:
    """The features that a node needs to run the pod."""
    found = set()
    rules = (rule for c in (*spec.containers, *spec.init_containers) for rule in c.restart_policy_rules)
    if any(rule.action == "RestartAllContainers" for rule in rules):
        found.add(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        found.add(USER_NAMESPACES_ON_HOST_NETWORK)
    return frozenset(found)


def _has_bind_mount_options(spec: PodSpec) -> bool:
    for container in (*spec.containers, *spec.init_containers):
        for mount in container.volume_mounts:
            if mount.bind_mount_options:
                return True
    return False


def recognized(declared: tuple[str, ...], features: Sequence[str] = KNOWN_FEATURES) -> frozenset[str]:
    """The known features among those that a node declares."""
    found = set()
    known = iter(features)
    candidate = next(known, None)
    for feature in declared:
        # Parity: both lists are merged as if sorted, so an entry out of order may be missed.
        while candidate is not None and candidate < feature:
            candidate = next(known, None)
        if feature == candidate:
            found.add(feature)
            candidate = next(known, None)
    return frozenset(found)


def _lacking(table: NodeTable, required: frozenset[str], known: Sequence[str]) -> Mask:
    lacking = [not required <= recognized(declared, known) for declared in table.feature_sets.values]
    mask: Mask = np.array(lacking, np.bool_)[table.feature_set[: table.n]]
    return mask


def _after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    return queue_if(old is None or old.status.declared_features != new.status.declared_features)
