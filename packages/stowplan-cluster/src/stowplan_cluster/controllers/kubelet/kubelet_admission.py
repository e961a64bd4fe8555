"""Kubelet admission: repeat the scheduler's node checks for a bound pod.

This reveals a scheduler that overcommits a node, or two that compete for it: the pod fails with reason OutOfcpu or the
like, as on a real node. Checked are the number of pods, requests against allocatable, node selector and required node
affinity. Extended resources that the node does not have are ignored; a node without capacity and allocatable accepts
everything.

Left out: host ports, NoExecute taints (see `taint_eviction.py`), operating systems.

Upstream: pkg/kubelet/lifecycle/predicate.go, fitsRequest in pkg/scheduler/framework/plugins/noderesources.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from stowplan.kube.api.meta import ResourceList
from stowplan.kube.api.node_selectors import RequiredNodeAffinity
from stowplan.kube.api.pod import Pod
from stowplan.kube.api.pod_requests import pod_requests, to_vector
from stowplan.kube.api.quantity import QuantityError, parse_quantity, value
from stowplan.kube.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended
from stowplan.kube.kubernetes_versions import V1_36
from stowplan.kube.structs import PlainStruct

_FIRST = (CPU, MEMORY, EPHEMERAL_STORAGE)


class Refusal(PlainStruct, frozen=True):
    reason: str
    message: str


def requests_of(pod: Pod) -> dict[str, int]:
    """A pod's requests as integers: milli-CPU, bytes, counts."""
    return to_vector(pod_requests(pod, resize_rules=V1_36, pod_level_resize=True))


def allocatable_of(resources: ResourceList) -> dict[str, int]:
    amounts = {}
    for name, text in resources.items():
        try:
            amounts[name] = parse_quantity(text)
        except QuantityError:
            continue
    vector = to_vector(amounts)
    if PODS in amounts:
        vector[PODS] = value(amounts[PODS])
    return vector


class Room(PlainStruct):
    """The resources used by a node's accepted pods, by uid, until they end or are deleted."""

    used: dict[str, int] = field(default_factory=dict)
    _pods: dict[str, Mapping[str, int]] = field(default_factory=dict)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def add(self, uid: str, requests: Mapping[str, int]) -> None:
        self.remove(uid)
        self._pods[uid] = requests
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def remove(self, uid: str) -> None:
        for name, amount in self._pods.pop(uid, {}).items():
            self.used[name] -= amount

    def refusal(self, requests: Mapping[str, int], allocatable: Mapping[str, int]) -> Refusal | None:
        """The reason why the pod does not fit; None if it does."""
        if not allocatable:
            return None
        count = len(self._pods)
        if PODS in allocatable and count + 1 > allocatable[PODS]:
            return _out_of(PODS, 1, count, allocatable[PODS])
        for name in sorted(requests, key=lambda name: (name not in _FIRST, name)):
            amount, used = requests[name], self.used.get(name, 0)
            if is_extended(name) and name not in allocatable:
                continue
            if amount > 0 and used + amount > allocatable.get(name, 0):
                return _out_of(name, amount, used, allocatable.get(name, 0))
        return None


def _out_of(name: str, requested: int, used: int, capacity: int) -> Refusal:
    return Refusal(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}",
    )


def affinity_refusal(pod: Pod, labels: Mapping[str, str], node: str) -> Refusal | None:
    if RequiredNodeAffinity.from_pod(pod).matches(labels, node):
        return None
    why = "node(s) didn't match Pod's node affinity/selector"
    return Refusal("NodeAffinity", f"Predicate NodeAffinity failed: {why}")
