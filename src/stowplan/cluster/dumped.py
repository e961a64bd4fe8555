"""Nodes and placed pods in a dump, as encodable values.

Everything that a decision depends on is in it and cannot be worked out of the objects: orders and sizes that only
history knows.
"""

from __future__ import annotations

import msgspec

from stowplan.api.types import Node, Pod


class DumpedNodes(msgspec.Struct, frozen=True, kw_only=True):
    #: By row; None: no node there.
    rows: list[Node | None]
    #: Rows without a node, in the order in which they were left; the last is the first to be given again.
    free_rows: list[int]
    #: (region, zone) -> rows; zones and rows in the order of appearance.
    zones: list[tuple[tuple[str, str], list[int]]]
    #: Image -> its size as first reported.
    image_sizes: dict[str, int]
    #: By index.
    resources: list[str]


class DumpedPod(msgspec.Struct, frozen=True, array_like=True):
    pod: Pod
    node: str
    assumed: bool


class DumpedPlacements(msgspec.Struct, frozen=True, kw_only=True):
    nodes: DumpedNodes
    #: In the order in which they came to their nodes.
    pods: list[DumpedPod]
