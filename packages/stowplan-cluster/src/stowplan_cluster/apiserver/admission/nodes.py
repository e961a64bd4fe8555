"""TaintNodesByCondition: taint new nodes as not ready.

Upstream: plugin/pkg/admission/nodetaint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.taints import NOT_READY
from stowplan_cluster.apiserver.admission.cluster import Plugin

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource


class TaintNodesByCondition(Plugin):
    name = "TaintNodesByCondition"
    handles = frozenset({"nodes"})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        taints = spec.get("taints") or []
        if any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            return
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
