"""What the pods of a namespace use of its ResourceQuotas.

Counted from the store's changes, so that it is exact between two writes: a burst of creations cannot exceed a quota.
Pods of namespaces without quotas are not looked at.

Left out: a pod that has not stopped long after its grace period counts.
"""

from __future__ import annotations

from collections.abc import Collection

from stowplan.kube.api.quotas import CountedPod, CountedQuota
from stowplan_cluster.apiserver.store import Event, Store, Stored

QUOTAS = "resourcequotas"


class QuotaUsage:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._quotas: dict[str, dict[str, CountedQuota]] = {}
        store.on_change(self._follow)
        for stored in store.list(QUOTAS):
            self._count(stored)

    def within(self, namespace: str) -> Collection[CountedQuota]:
        return self._quotas.get(namespace, {}).values()

    def of(self, namespace: str, name: str) -> CountedQuota | None:
        return self._quotas.get(namespace, {}).get(name)

    def _follow(self, event: Event) -> None:
        stored = event.stored
        deleted = event.type == "DELETED"
        if stored.resource == "pods" and stored.namespace in self._quotas:
            pod = None if deleted else CountedPod(stored.to_dict())
            for quota in self.within(stored.namespace):
                quota.count(stored.name, pod)
        elif stored.resource == QUOTAS and deleted:
            del self._quotas[stored.namespace][stored.name]
            if not self._quotas[stored.namespace]:
                del self._quotas[stored.namespace]
        elif stored.resource == QUOTAS:
            self._count(stored)

    def _count(self, stored: Stored) -> None:
        quota = CountedQuota(stored.to_dict())
        known = self.of(stored.namespace, stored.name)
        if known is not None and known.spec == quota.spec:
            return
        self._quotas.setdefault(stored.namespace, {})[stored.name] = quota
        for pod in self._store.list("pods", stored.namespace):
            quota.count(pod.name, CountedPod(pod.to_dict()))
