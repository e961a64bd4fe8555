"""Hypothetical pods: copies, and pods that controllers would recreate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count as counted_from

from msgspec.structs import replace

from stowplan.ask.loading.workloads import belongs_to
from stowplan.kube.api.pod import PodStatus
from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.state import ClusterState

#: Maximum number of pods that a question may be about.
MOST_REPLICAS = 100_000


def recreated(pod: Pod) -> Pod:
    """The pod as its controller would recreate it: without a node or status."""
    metadata = replace(
        pod.metadata,
        uid=f"{pod.metadata.uid or f'{pod.metadata.namespace}/{pod.metadata.name}'}, recreated",
        resource_version="",
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
    )
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=PodStatus())


def compiled_copies(state: ClusterState, infos: Iterable[PodInfo]) -> list[PodInfo]:
    """Placed pods without claims of their own, recreated."""
    # Whatever a recreated pod differs in, pods of one shape differ in it equally.
    shapes: dict[PodShape, PodShape] = {}
    copies = []
    for info in infos:
        pod, shape = recreated(info.pod), shapes.get(info.shape)
        copy = state.pod_info(pod) if shape is None else PodInfo(pod, shape)
        shapes[info.shape] = copy.shape
        copies.append(copy)
    return copies


def pods_of(state: ClusterState, kind: str, namespace: str, name: str) -> list[PodInfo]:
    """The pods of a controller, placed ones first; those of a StatefulSet by their ordinals."""
    everybody = (*state.placed_pods(), *state.pending.values())
    found = [info for info in everybody if info.namespace == namespace and belongs_to(info.pod, kind, name)]
    return sorted(found, key=lambda info: ordinal_of(info.pod)) if kind == "StatefulSet" else found


def ordinal_names(name: str, pods: Iterable[PodInfo]) -> Iterator[str]:
    """The names of the next pods of a StatefulSet, on which their claims depend."""
    taken = {ordinal_of(info.pod) for info in pods}
    return (f"{name}-{number}" for number in counted_from(min(taken, default=0)) if number not in taken)


def ordinal_of(pod: Pod) -> int:
    """The ordinal of a StatefulSet's pod."""
    digits = pod.metadata.name.rpartition("-")[2]
    return int(digits) if digits.isdecimal() else 0


def named(pod: Pod, name: str) -> Pod:
    """The same pod as another pod of this name."""
    return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"{pod.metadata.namespace}/{name}, a copy"))


def copy_of(pod: Pod, name: str) -> Pod:
    """An equal pod under another name, which only needs a node, and does not preempt."""
    fresh = named(recreated(pod), name)
    return replace(fresh, spec=replace(fresh.spec, scheduling_gates=(), preemption_policy="Never"))


def on_node(pod: Pod, node_name: str, name: str) -> Pod:
    """An equal pod that belongs to another node."""
    fresh = copy_of(pod, name)
    return replace(fresh, spec=replace(fresh.spec, node_name=node_name))
