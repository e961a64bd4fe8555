"""The order in which a controller deletes pods that are too many: those whose loss costs less go first.

Unassigned before assigned, pending before running, not ready before ready, lower deletion cost (annotation), more
siblings on the node, ready for a shorter time, more restarts, newer.

Unlike upstream, ages are compared directly, not by logarithm with random order among equals.

Upstream: pkg/controller/controller_utils.go (ActivePodsWithRanks).
"""

from __future__ import annotations

from math import inf

from stowplan.kube.api.meta import ObjectMeta, seconds_of
from stowplan.kube.api.pod import DELETION_COST

_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_rank(
    metadata: ObjectMeta,
    *,
    node_name: str,
    phase: str,
    ready_since: float | None,
    siblings: int,
    restarts: tuple[int, int] = (0, 0),
) -> tuple[object, ...]:
    """Sorts pods, those to delete first.

    `siblings`: the pods of the same controller on the node; `ready_since`: epoch seconds, None if the pod is not ready;
    `restarts`: the most of a container, and of a sidecar.
    """
    return (
        bool(node_name),
        _PHASE_ORDER.get(phase, 0),
        ready_since is not None,
        _cost(metadata),
        -siblings,
        -(ready_since or 0.0),
        -restarts[0],
        -restarts[1],
        # A hypothetical pod is the newest.
        -seconds_of(metadata.creation_timestamp) if metadata.creation_timestamp else -inf,
    )


def _cost(metadata: ObjectMeta) -> int:
    try:
        return int(metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0
