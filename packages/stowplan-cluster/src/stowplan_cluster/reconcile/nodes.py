"""Nodes: when one counts as unhealthy, the taints that follow from its conditions, and its pods once it is gone.

A node is healthy while its kubelet gives signs of life. If there is none for the grace period, its conditions become
Unknown. Taints follow conditions: NoSchedule for each problem, also NoExecute if the node is not ready; a cordoned node
has a taint of its own. A node may be recreated under its name, so pods of a missing node are kept for a while.

Left out: zones (no rate limit on NoExecute taints, no reduced eviction when a whole zone is down), and the intervals
at which kube-controller-manager looks at nodes.

Upstream: pkg/controller/nodelifecycle, pkg/controller/podgc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from stowplan.kube.api import taints
from stowplan.kube.api.affinity import Taint
from stowplan.kube.api.node import NodeCondition

#: Without a sign of life; the latter for a node that never had a status.
MONITOR_GRACE_SECONDS = 50.0
STARTUP_GRACE_SECONDS = 60.0
#: How long pods of a missing node are kept.
QUARANTINE_SECONDS = 40.0

#: Of a drain: seconds until evictions that a budget has refused are tried again, and until pods that leave are gone.
EVICT_AGAIN, CHECK_AGAIN = 5.0, 1.0

READY = "Ready"
UNKNOWN = "Unknown"
#: The conditions that become Unknown.
MONITORED = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")

_TAINTS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        (READY, "False"): taints.NOT_READY,
        (READY, UNKNOWN): taints.UNREACHABLE,
        ("MemoryPressure", "True"): taints.MEMORY_PRESSURE,
        ("DiskPressure", "True"): taints.DISK_PRESSURE,
        ("PIDPressure", "True"): taints.PID_PRESSURE,
        ("NetworkUnavailable", "True"): taints.NETWORK_UNAVAILABLE,
    }
)
_OWN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        taints.NO_SCHEDULE: frozenset({*_TAINTS.values(), taints.UNSCHEDULABLE}),
        taints.NO_EXECUTE: frozenset({taints.NOT_READY, taints.UNREACHABLE}),
    }
)


def unhealthy_at(seen: float, *, has_status: bool, grace: float = MONITOR_GRACE_SECONDS) -> float:
    """When the conditions of a node become Unknown whose last sign of life was seen then."""
    return seen + (grace if has_status else STARTUP_GRACE_SECONDS)


def with_taints(
    have: Sequence[Taint], conditions: Sequence[NodeCondition], *, unschedulable: bool, now: str
) -> tuple[Taint, ...]:
    """The taints of a node in this condition: those of others, and our own."""
    wanted = _wanted(conditions, unschedulable=unschedulable)
    kept = [one for one in have if one.key not in _OWN.get(one.effect, ()) or (one.key, one.effect) in wanted]
    there = {(one.key, one.effect) for one in kept}
    added = (Taint(key=key, effect=effect, time_added=now) for key, effect in wanted if (key, effect) not in there)
    return (*kept, *added)


def _wanted(conditions: Sequence[NodeCondition], *, unschedulable: bool) -> list[tuple[str, str]]:
    keys = [key for one in conditions if (key := _TAINTS.get((one.type, one.status))) is not None]
    if unschedulable:
        keys.append(taints.UNSCHEDULABLE)
    runs_nothing = _OWN[taints.NO_EXECUTE]
    return [
        *((key, taints.NO_SCHEDULE) for key in keys),
        *((key, taints.NO_EXECUTE) for key in keys if key in runs_nothing),
    ]
