"""DefaultTolerationSeconds: tolerate not-ready and unreachable nodes for five minutes.

Upstream: plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.taints import NOT_READY, UNREACHABLE
from stowplan_cluster.apiserver.admission.cluster import Plugin

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

_KEYS = (NOT_READY, UNREACHABLE)
_SECONDS = 300


class DefaultTolerationSeconds(Plugin):
    name = "DefaultTolerationSeconds"
    handles = frozenset({"pods"})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        _tolerate(obj)

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        if obj.get("spec") != old.get("spec"):
            # Only for creates and updates of the pod: a status write must not change the spec.
            _tolerate(obj)


def _tolerate(pod: JsonObject) -> None:
    spec = pod["spec"]
    given = spec.get("tolerations") or []
    tolerated = {entry.get("key") or "" for entry in given if entry.get("effect") in (None, "", "NoExecute")}
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for key in _KEYS
        if key not in tolerated and "" not in tolerated
    ]
    if added:
        spec["tolerations"] = [*given, *added]
