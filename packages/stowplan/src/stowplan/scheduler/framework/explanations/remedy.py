"""Changes that may make a pod schedulable, and remedies: the changes to try for each class of rejected nodes.

A `Change` can be applied to a copy of the pod, or temporarily to the cluster, so that suggestions are verified first. A
`Dial` is a change with a degree (maxSkew 2, 3, …): the highest degree is tried first, then lowered as far as possible.

A remedy assigns every row a class: 0 if the plugin does not reject it; `HOPELESS` if no change helps; otherwise rows of
one class need the same change (tolerate these taints, drop those requirements). Combining the classes of all plugins
shows what each node would need, without trying changes at random. Every change is verified on the cluster before it is
suggested, so a remedy may propose changes that turn out not to help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from stowplan.kube.api.types import Node, Pod, PodSpec
from stowplan.kube.structs import PlainStruct
from stowplan.scheduler.cluster.arrays import Codes, Mask, Rows, Values
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.explanations.formatting import joined
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.status import Code, Reason


class Refusal(PlainStruct, frozen=True, eq=False):
    """Nodes that one plugin rejected for the same reasons."""

    plugin: str
    code: Code
    reasons: tuple[Reason, ...]
    rows: Rows

    @property
    def text(self) -> str:
        return ", ".join(str(reason) for reason in self.reasons)


def classes(columns: Iterable[Values], length: int) -> Codes:
    """A class number per row; rows with equal values in all columns have the same."""
    ids = np.zeros(length, np.intp)
    for column in columns:
        values, of_row = np.unique(column, return_inverse=True)
        ids = np.unique(ids * len(values) + of_row.reshape(-1), return_inverse=True)[1].reshape(-1)
    return ids


def split(rows: Rows, ids: Codes) -> list[Rows]:
    """Rows by their class number, the largest class first."""
    parts = [rows[ids == i] for i in np.unique(ids).tolist()]
    return sorted(parts, key=lambda part: (-len(part), int(part[0])))


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


HOPELESS = -1


class Remedy:
    """Classes of rejected rows; by default all of them are hopeless."""

    def __init__(self, inspection: Inspection, mask: Mask) -> None:
        self.inspection = inspection
        #: The class of each row.
        self.classes = np.where(mask, HOPELESS, 0).astype(np.intp)
        self._last = 0

    def add_class(self, rows: Rows) -> int:
        """Put rows into a class of their own and return its number."""
        self._last += 1
        self.classes[rows] = self._last
        return self._last

    def alike(self, rows: Rows, columns: Iterable[Values]) -> list[Rows]:
        """Groups of rows with equal values in all columns (one value per row of the table), the largest group first."""
        return split(rows, classes([column[rows] for column in columns], len(rows)))

    def ways(self, kind: int, rows: Rows) -> Sequence[Way]:
        """Ways to resolve the rejections of one class; `rows` are the nodes to gain."""
        return ()


def one_or_all(inspection: Inspection, rows: Rows, change: Callable[[Sequence[Node]], Change]) -> list[Way]:
    """A change of nodes, once for the first node and once for all of them."""
    nodes = [inspection.node(row) for row in rows.tolist()]
    ways: list[Way] = [(change(nodes[:1]),)]
    return [*ways, (change(nodes),)] if len(nodes) > 1 else ways
