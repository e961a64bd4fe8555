"""From verdicts a topology domain to verdicts a node.

Between two pods of a workload a domain's verdict seldom changes, so the last spread-out mask is kept on the shape:
comparing the verdicts is cheap, spreading them over the nodes is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from stowplan.cluster.labels import LabelColumn
    from stowplan.cluster.pod_info import PodShape
    from stowplan.cluster.view import Nodes

    Mask = npt.NDArray[np.bool_]


def by_domain(verdicts: Mask, column: LabelColumn, nodes: Nodes, shape: PodShape, what: str) -> Mask:
    """`verdicts` (by domain code) for every node of the view; shared, not to be written to.

    `what` tells the verdicts of one pod on one label apart.
    """
    if nodes.rows is not None:
        return verdicts.take(nodes.take(column.codes))
    key = (what, column.key)
    version = (nodes.table.generation, verdicts.tobytes())
    found: Mask | None = shape.memo(key, version)
    if found is None:
        found = shape.remember(key, version, verdicts.take(nodes.take(column.codes), mode="clip"))
    return found
