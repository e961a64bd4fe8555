"""ResourceQuota: refuse pods that exceed a quota of their namespace.

Upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.admission.cluster import Plugin, refusal
from stowplan_cluster.apiserver.objects import metadata_of

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource


class ResourceQuota(Plugin):
    name = "ResourceQuota"
    handles = frozenset({"pods"})

    def create(self, resource: Resource, obj: JsonObject) -> None:
        for quota in self._quotas.within(metadata_of(obj).get("namespace", "")):
            if why := quota.refusal(obj):
                raise refusal(resource, obj, why)
