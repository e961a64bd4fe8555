"""Changes to a pod, or to the nodes and pods around it, that may let it be placed.

A `Change` can be carried out on a copy of the pod, or for the length of an evaluation on the cluster, so that what is
suggested was tried first. A `Dial` is a change with a degree (maxSkew 2, 3, …): the highest degree is tried first, then
lowered as far as it still helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from stowplan.framework.explanations.formatting import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan.api.types import Node, Pod, PodSpec
    from stowplan.cluster.pod_info import PodInfo

replace = msgspec.structs.replace


@dataclass(frozen=True)
class Change:
    """One thing to do: in words, as data for JSON, and as a function of the pod or of nodes."""

    kind: str
    text: str
    data: dict[str, Any]
    on_pod: Callable[[Pod], Pod] | None = None
    on_node: Callable[[Node], Node] | None = None
    #: The nodes that `on_node` changes.
    nodes: tuple[str, ...] = ()
    #: Pods that would leave.
    leaving: tuple[PodInfo, ...] = ()
    #: Lookup objects that would come, or be changed to these.
    objects: tuple[Any, ...] = ()
    #: What to know beside the change itself, and the node that this is about.
    note: str = ""
    about: str = ""
    #: Single edits that it consists of; cheaper changes are suggested first.
    cost: int = 1


@dataclass(frozen=True)
class Dial:
    """A change in degrees: what helps at one degree helps at every higher one."""

    low: int
    high: int
    at: Callable[[int], Change]


Step = Change | Dial
#: One way to get a node accepted: all steps together.
Way = tuple[Step, ...]


def with_spec(pod: Pod, **fields: Any) -> Pod:
    """The pod with other values in its spec."""
    spec: PodSpec = replace(pod.spec, **fields)
    return replace(pod, spec=spec)


def with_labels(pod: Pod, **labels: str) -> Pod:
    """The pod with more labels, or with other values of them."""
    return replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, **labels}))


def move(pods: Sequence[PodInfo]) -> Change:
    """Placed pods leave their nodes."""
    keys = [info.key for info in pods]
    nodes = sorted({info.node_name for info in pods})
    text = f"move {joined(keys)} off {joined(nodes)}"
    return Change("otherPods", text, {"move": keys}, leaving=tuple(pods), cost=len(keys))
