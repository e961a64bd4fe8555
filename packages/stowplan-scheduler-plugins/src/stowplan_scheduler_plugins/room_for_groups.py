"""What nodes lack for a group of pods, as if it could be divided in any way.

What is free is subtracted node by node; a resource is met once nothing is left of it. Free amounts may be negative on
overcommitted nodes. Amounts are in nano-units.
"""

from collections.abc import Collection, Mapping

import numpy as np

from stowplan.plugins import Ints, Nodes, PodInfo
from stowplan.plugins.objects import QuantityValue, parse_quantity

_NANO = 10**9


def gap(wanted: Mapping[str, QuantityValue], nodes: Nodes, own: Collection[PodInfo]) -> dict[str, int]:
    """The rest of each resource that all nodes together lack. What the group's own pods use counts as free."""
    missing = {}
    for resource, amount in wanted.items():
        rest = parse_quantity(amount)
        unit = _NANO // 1000 if resource == "cpu" else _NANO
        # Whole units: a fraction of one needs all of it. Sums may exceed 64 bits in nano-units.
        needed, free = -(-rest // unit), np.cumsum(_free(resource, nodes, own))
        if len(free) == 0 or int(free.max()) < needed:
            missing[resource] = rest - unit * (int(free[-1]) if len(free) else 0)
    return missing


def _free(resource: str, nodes: Nodes, own: Collection[PodInfo]) -> Ints:
    """Per node, in milli-CPU, bytes or units."""
    table = nodes.table
    if resource == "pods":
        free = table.allowed_pods[: table.n] - nodes.pod_count()
    elif resource in table.resources:
        column = table.resources[resource]
        free = nodes.allocatable(column) - nodes.requested(column)
    else:
        return np.zeros(table.n, np.int64)
    for pod in own:
        row = table.row_of.get(pod.pod.spec.node_name)
        if row is not None:
            free[row] += 1 if resource == "pods" else pod.shape.used.get(resource, 0)
    return free


def shown_gap(missing: Mapping[str, int], wanted: Mapping[str, QuantityValue]) -> str:
    """Parity: a map of structs as Go prints them, with value, scale and format of each quantity."""
    shown = []
    for resource, rest in sorted(missing.items()):
        value, scale = (rest // _NANO, 0) if rest % _NANO == 0 else (rest // (_NANO // 1000), -3)
        form = "BinarySI" if str(wanted.get(resource, "")).endswith("i") else "DecimalSI"
        shown.append(f"{resource}:{{{{{value} {scale}}} {{<nil>}}  {form}}}")
    return f"map[{' '.join(shown)}]"
