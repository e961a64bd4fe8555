"""Changes to a pod, or to nodes and other pods, that may make it schedulable.

A `Change` can be applied to a copy of the pod, or temporarily to the cluster, so that suggestions are verified first. A
`Dial` is a change with a degree (maxSkew 2, 3, …): the highest degree is tried first, then lowered as far as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from stowplan.kube.api.types import Node, Pod, PodSpec
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.explanations.formatting import joined

replace = msgspec.structs.replace


class Change(PlainStruct, frozen=True):
    """One change: as text, as data for JSON, and as a function of the pod or of nodes."""

    kind: str
    text: str
    data: dict[str, Any]
    on_pod: Callable[[Pod], Pod] | None = None
    on_node: Callable[[Node], Node] | None = None
    #: The nodes that `on_node` changes.
    nodes: tuple[str, ...] = ()
    #: Pods that the change removes.
    leaving: tuple[PodInfo, ...] = ()
    #: Lookup objects that the change adds or replaces.
    objects: tuple[Any, ...] = ()
    #: Additional information about the change, and the node that it refers to.
    note: str = ""
    about: str = ""
    #: Number of single edits; cheaper changes are suggested first.
    cost: int = 1
    #: Whether the pod goes without something that it asks for, such as a device; such changes are suggested last.
    gives_up: bool = False


class Dial(PlainStruct, frozen=True):
    """A change with a degree: if one degree helps, so does every higher one."""

    low: int
    high: int
    at: Callable[[int], Change]


Step = Change | Dial
#: One way to make a node feasible: all steps together.
Way = tuple[Step, ...]


def with_spec(pod: Pod, **fields: Any) -> Pod:
    """The pod with changed fields in its spec."""
    spec: PodSpec = replace(pod.spec, **fields)
    return replace(pod, spec=spec)


def with_labels(pod: Pod, **labels: str) -> Pod:
    """The pod with added or changed labels."""
    return replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, **labels}))


def move(pods: Sequence[PodInfo]) -> Change:
    """Remove placed pods from their nodes."""
    keys = [info.key for info in pods]
    nodes = sorted({info.node_name for info in pods})
    text = f"move {joined(keys)} off {joined(nodes)}"
    return Change("otherPods", text, {"move": keys}, leaving=tuple(pods), cost=len(keys))
