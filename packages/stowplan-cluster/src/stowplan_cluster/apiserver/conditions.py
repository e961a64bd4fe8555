"""Status conditions: lookup by type; lastTransitionTime changes only with the status.

Upstream: k8s.io/apimachinery/pkg/api/meta/conditions.go, pkg/api/v1/pod/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject


def condition_of(status: JsonObject, type_: str) -> JsonObject | None:
    return next((one for one in status.get("conditions") or () if one.get("type") == type_), None)


def is_true(status: JsonObject, type_: str) -> bool:
    condition = condition_of(status, type_)
    return condition is not None and condition.get("status") == "True"


def set_condition(status: JsonObject, condition: JsonObject, *, now: str, probed: bool = False) -> bool:
    """Set a condition; return whether that changed anything. Pods' conditions also carry a `lastProbeTime`."""
    condition = {**({"lastProbeTime": None} if probed else {}), **condition}
    conditions: list[JsonObject] = status.setdefault("conditions", [])
    for index, known in enumerate(conditions):
        if known.get("type") == condition["type"]:
            same = known.get("status") == condition["status"]
            condition["lastTransitionTime"] = known.get("lastTransitionTime", now) if same else now
            conditions[index] = condition
            return known != condition
    conditions.append({**condition, "lastTransitionTime": now})
    return True
