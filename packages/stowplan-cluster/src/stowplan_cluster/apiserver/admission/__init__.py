"""Admission plugins: cluster-wide policy for writes, beyond the rules of the kind.

Each plugin has its upstream name and can be disabled by it. Some belong to a controller, as they add a finalizer or a
taint that only it removes again. They are off by default; `controllers/controller_manager.py` enables those whose
controller runs.

Left out: ServiceAccount, PodSecurity, PodGroupProtection and the webhooks.
Topology labels of pods come with the binding (`binding.py`).

Upstream: pkg/kubeapiserver/options/plugins.go gives the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.admission.plugins import (
    DefaultStorageClass,
    DefaultTolerationSeconds,
    LimitRanger,
    NamespaceLifecycle,
    PersistentVolumeClaimResize,
    PodGroupWorkloadExists,
    Priority,
    ResourceQuota,
    RuntimeClass,
    StorageObjectInUseProtection,
    TaintNodesByCondition,
)
from stowplan_cluster.apiserver.admission.service_addresses import allocate_addresses
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.resources import Resource

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.admission.plugins import List, Lookup, Plugin
    from stowplan_cluster.apiserver.quota_usage import QuotaUsage
    from stowplan_cluster.apiserver.store import Stored

__all__ = ["OFF_BY_DEFAULT", "PLUGINS", "Admission"]

_PLUGINS: tuple[type[Plugin], ...] = (
    NamespaceLifecycle,
    LimitRanger,
    TaintNodesByCondition,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PersistentVolumeClaimResize,
    RuntimeClass,
    PodGroupWorkloadExists,
    ResourceQuota,
)
PLUGINS = tuple(plugin.name for plugin in _PLUGINS)
OFF_BY_DEFAULT = frozenset({StorageObjectInUseProtection.name, ResourceQuota.name})


class Admission:
    """All enabled plugins, in order; the first one that refuses raises."""

    def __init__(
        self,
        lookup: Lookup,
        list_: List,
        quotas: QuotaUsage,
        *,
        disabled: frozenset[str] = frozenset(),
        enabled: frozenset[str] = frozenset(),
    ) -> None:
        unknown = sorted((disabled | enabled) - set(PLUGINS))
        if unknown:
            raise ValueError(f"no admission plugin is called {', '.join(unknown)}; there are {', '.join(PLUGINS)}")
        off = disabled | (OFF_BY_DEFAULT - enabled)
        self._list = list_
        self._plugins = [plugin(lookup, list_, quotas) for plugin in _PLUGINS if plugin.name not in off]
        #: Plugins that handle a kind, by its storage.
        self._by_storage: dict[str, Sequence[Plugin]] = {}

    def create(self, resource: Resource, obj: JsonObject) -> None:
        for plugin in self._plugins_for(resource):
            plugin.create(resource, obj)
        if resource.storage == "services":
            allocate_addresses(obj, self._list)

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject, subresource: str = "") -> None:
        if subresource:
            return
        for plugin in self._plugins_for(resource):
            plugin.update(resource, obj, old)
        if resource.storage == "services":
            allocate_addresses(obj, self._list)

    def delete(self, resource: Resource, live: Stored) -> None:
        for plugin in self._plugins_for(resource):
            plugin.delete(resource, live)

    def _plugins_for(self, resource: Resource) -> Sequence[Plugin]:
        found = self._by_storage.get(resource.storage)
        if found is None:
            found = [plugin for plugin in self._plugins if plugin.handles is None or resource.storage in plugin.handles]
            self._by_storage[resource.storage] = found
        return found
