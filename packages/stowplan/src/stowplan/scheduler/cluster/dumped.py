"""Nodes and placed pods in a dump, as encodable values.

It includes everything that decisions depend on and that cannot be computed from the objects: orders and sizes that
depend on history.
"""

from __future__ import annotations

import msgspec

from stowplan.kube.api.types import Node, Pod


class DumpedNodes(msgspec.Struct, frozen=True, kw_only=True):
    #: By row; None for rows without a node.
    rows: list[Node | None]
    #: Rows without a node, in the order in which they were freed; the last one is reused first.
    free_rows: list[int]
    #: (region, zone) -> rows; zones and rows in order of appearance.
    zones: list[tuple[tuple[str, str], list[int]]]
    #: Image -> its size when it was first reported.
    image_sizes: dict[str, int]
    #: By index.
    resources: list[str]


class DumpedPod(msgspec.Struct, frozen=True, array_like=True):
    pod: Pod
    node: str
    assumed: bool


class DumpedPlacements(msgspec.Struct, frozen=True, kw_only=True):
    nodes: DumpedNodes
    #: In the order in which they were placed.
    pods: list[DumpedPod]
