"""Decide which nodes should run a DaemonSet's pod, from node selector, affinity and taints.

Nodes report their status often, but rarely change in what matters to a DaemonSet. So a node's facts are one object for
as long as they are equal, and answers about the node are cached by it.

A pod should run on a node if the template's node name, selector and required affinity match and it tolerates the
taints. If only a NoSchedule taint prevents that, a running pod may stay.

Upstream: pkg/controller/daemon/daemon_controller.go (NodeShouldRunDaemonPod), util/daemonset_util.go.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from stowplan.kube.api.affinity import REQUIRED_TERMS, Taint
from stowplan.kube.api.decode import convert, decode_json
from stowplan.kube.api.meta import ApiStruct, ObjectMeta
from stowplan.kube.api.node_selectors import NODE_NAME_FIELD, RequiredNodeAffinity
from stowplan.kube.api.pod import Pod as SchedulablePod
from stowplan.kube.api.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NO_EXECUTE,
    NO_SCHEDULE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
    untolerated,
)
from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject, copy_of
from stowplan_cluster.apiserver.store import Event
from stowplan_cluster.controllers.pods import Pod

NODES = "nodes"

_TOLERATED = (
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_EXECUTE),
    (DISK_PRESSURE, NO_SCHEDULE),
    (MEMORY_PRESSURE, NO_SCHEDULE),
    (PID_PRESSURE, NO_SCHEDULE),
    (UNSCHEDULABLE, NO_SCHEDULE),
)
_TOLERATED_ON_HOST_NETWORK = (NETWORK_UNAVAILABLE, NO_SCHEDULE)


class _NodeSpec(ApiStruct, frozen=True, kw_only=True):
    taints: tuple[Taint, ...] = ()


class _Node(ApiStruct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _NodeSpec = _NodeSpec()


class NodeFacts(PlainStruct, frozen=True):
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


class Nodes:
    """The facts of all nodes, updated by events."""

    def __init__(self) -> None:
        self.facts: dict[str, NodeFacts] = {}

    def follow(self, event: Event) -> bool:
        """Apply an event; return whether it can change a DaemonSet's answer."""
        stored = event.stored
        if event.type == "DELETED":
            return self.facts.pop(stored.name, None) is not None
        node = decode_json(stored.data, _Node)
        facts = NodeFacts(stored.name, node.metadata.labels, node.spec.taints)
        if self.facts.get(stored.name) == facts:
            return False
        self.facts[stored.name] = facts
        return True


class Eligibility(NamedTuple):
    should_run: bool
    #: Whether a running pod may stay.
    may_stay: bool


class Demands:
    """The node requirements of one revision of a DaemonSet's template."""

    def __init__(self, template: JsonObject) -> None:
        spec = with_daemon_tolerations(template.get("spec") or {})
        pod = convert({"spec": spec}, SchedulablePod)
        self._node_name = pod.spec.node_name
        self._affinity = RequiredNodeAffinity.from_pod(pod)
        self._tolerations = pod.spec.tolerations
        self._answers: dict[str, tuple[NodeFacts, Eligibility]] = {}

    def on(self, node: NodeFacts) -> Eligibility:
        known = self._answers.get(node.name)
        if known is not None and known[0] is node:
            return known[1]
        answer = self._judge(node)
        self._answers[node.name] = (node, answer)
        return answer

    def forget_others(self, nodes: Mapping[str, NodeFacts]) -> None:
        """Drop the answers for deleted nodes."""
        if len(self._answers) > len(nodes):
            self._answers = {name: answer for name, answer in self._answers.items() if name in nodes}

    def _judge(self, node: NodeFacts) -> Eligibility:
        if self._node_name and self._node_name != node.name:
            return Eligibility(False, False)
        if not self._affinity.matches(node.labels, node.name):
            return Eligibility(False, False)
        if untolerated(node.taints, self._tolerations) is None:
            return Eligibility(True, True)
        return Eligibility(False, untolerated(node.taints, self._tolerations, (NO_EXECUTE,)) is None)


def with_daemon_tolerations(spec: JsonObject) -> JsonObject:
    """Add the tolerations of daemon pods: for unhealthy nodes and nodes under pressure."""
    tolerated = [*_TOLERATED, *([_TOLERATED_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated]
    present = spec.get("tolerations") or []
    missing = [toleration for toleration in added if toleration not in present]
    return {**spec, "tolerations": [*present, *missing]}


def pinned_to(affinity: JsonObject | None, node: str) -> JsonObject:
    """The affinity with the node as its only required term; the others have already been checked."""
    pinned: JsonObject = copy_of(affinity) if affinity else {}
    field: dict[str, Any] = {"key": NODE_NAME_FIELD, "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node_affinity = pinned.get("nodeAffinity") or {}
    pinned["nodeAffinity"] = {**node_affinity, REQUIRED_TERMS: required}
    return pinned


def target_node(pod: Pod) -> str:
    """The node that a daemon pod is on or was created for; "" if there is none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    node_affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    for term in required.node_selector_terms if required else ():
        for field in term.match_fields:
            if field.key == NODE_NAME_FIELD and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""
