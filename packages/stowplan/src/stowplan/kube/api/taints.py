"""Match tolerations against taints.

Upstream: ToleratesTaint in k8s.io/api/core/v1, and k8s.io/component-helpers/scheduling/corev1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from stowplan.kube.api.affinity import Taint, Toleration
from stowplan.kube.api.label_selectors import parse_int64

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

#: Keys of the taints that the control plane adds to nodes.
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE = "node.kubernetes.io/disk-pressure"
PID_PRESSURE = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE = "node.kubernetes.io/network-unavailable"

DO_NOT_SCHEDULE_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))

_CANONICAL_INTEGER_RE = re.compile(r"0|-?[1-9][0-9]*")


def tolerates(toleration: Toleration, taint: Taint, comparison_operators: bool = False) -> bool:
    """Whether the toleration tolerates the taint; Lt and Gt only count with their feature gate."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    # Parity: an empty key with an empty operator still compares the values.
    if operator in ("", "Equal"):
        return toleration.value == taint.value
    if operator == "Exists":
        return True
    return comparison_operators and _compares(operator, toleration.value, taint.value)


def tolerated_seconds(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> float | None:
    """How long a pod may stay on a node with these NoExecute taints; None: forever.

    Upstream: pkg/controller/tainteviction, getMinTolerationTime.
    """
    shortest: float | None = None
    for taint in taints:
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            seconds = max(float(used.toleration_seconds), 0.0)
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest


def eviction_due(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], *, scheduled: float | None, now: float
) -> float | None:
    """When a pod is evicted from a node with these NoExecute taints; None: never.

    `scheduled`: as it was after the last change, which stays while the taints are tolerated for a time, whichever.
    """
    seconds = tolerated_seconds(taints, tolerations)
    if not seconds or scheduled is None:
        return None if seconds is None else now + seconds
    return scheduled


def _compares(operator: str, tolerated: str, tainted: str) -> bool:
    bound, value = _canonical_int64(tolerated), _canonical_int64(tainted)
    if bound is None or value is None:
        return False
    return value < bound if operator == "Lt" else operator == "Gt" and value > bound


def _canonical_int64(text: str) -> int | None:
    return parse_int64(text) if _CANONICAL_INTEGER_RE.fullmatch(text) else None


def untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    effects: Collection[str] = DO_NOT_SCHEDULE_EFFECTS,
    comparison_operators: bool = False,
) -> Taint | None:
    """The first taint with one of the effects that no toleration tolerates."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not any(tolerates(t, taint, comparison_operators) for t in tolerations):
            return taint
    return None
