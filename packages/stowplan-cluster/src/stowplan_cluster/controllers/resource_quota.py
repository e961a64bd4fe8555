"""Write what is used of each ResourceQuota into its status.

Admission counts by itself (`apiserver/quota_usage.py`): a status may be late, what is allowed is not.

Upstream: pkg/controller/resourcequota.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.quotas import as_text
from stowplan_cluster.apiserver.quota_usage import QUOTAS
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event
from stowplan_cluster.controllers.client import ControllerClient
from stowplan_cluster.controllers.pods_by_node import key_of
from stowplan_cluster.reconcile.pods import PODS
from stowplan_cluster.reconcile.views import Key


class ResourceQuotaController:
    def __init__(self, registry: Registry) -> None:
        self.name = "resourcequota-controller"
        self.watches = (QUOTAS, PODS)
        self._usage = registry.quotas
        self._client = ControllerClient(registry, "resourcequota-controller")

    def keys_of(self, event: Event) -> Sequence[Key]:
        if event.stored.resource == QUOTAS:
            return [key_of(event.stored)]
        return [key_of(quota) for quota in self._client.store.list(QUOTAS, event.stored.namespace)]

    def reconcile(self, key: Any) -> None:
        stored, quota = self._client.find(QUOTAS, key), self._usage.of(key.namespace, key.name)
        if stored is not None and quota is not None:
            used = {name: as_text(name, quota.used[name]) for name in quota.hard}
            self._client.update_status(stored, {"hard": quota.spec.get("hard") or {}, "used": used})
