"""Assemble the embedded API: store, catalogue and registry.

Owned by one thread. In process it is used directly (`registry`) or through `EmbeddedApi`; over HTTP through the front.

A new server already has the namespaces and priority classes of every cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random, SystemRandom

import msgspec

from stowplan.kube.api.api_errors import AlreadyExists
from stowplan.kube.api.policy import SYSTEM_PRIORITIES
from stowplan.kube.kubernetes_versions import DEFAULT_VERSION, KubernetesVersion
from stowplan_cluster.apiserver.admission import PLUGINS, Admission
from stowplan_cluster.apiserver.conversion import GROUP_STORAGES, from_storage
from stowplan_cluster.apiserver.custom_resources import DEFINITIONS, CustomResources
from stowplan_cluster.apiserver.journal import Journal
from stowplan_cluster.apiserver.metadata import Names
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.quota_usage import QuotaUsage
from stowplan_cluster.apiserver.registry import ALL_STAGES, Options, Registry, Stages
from stowplan_cluster.apiserver.resources import served_in
from stowplan_cluster.apiserver.selection import kept_fields
from stowplan_cluster.apiserver.store import Event, Store

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_DESCRIPTIONS = {
    "system-cluster-critical": "Pods that the cluster needs, on whichever node.",
    "system-node-critical": "Pods that their node needs.",
}


class ApiServer:
    """The server, from construction to `close()`; `state` is the file to load from and to save to."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        random: Random | None = None,
        state: Path | None = None,
        stages: Stages = ALL_STAGES,
        version: KubernetesVersion = DEFAULT_VERSION,
    ) -> None:
        """`version`: of Kubernetes."""
        self.clock = clock
        self._stages = stages
        self.catalogue = served_in(version)
        self.store = Store()
        self.custom_resources = CustomResources(self.catalogue, clock=clock)
        for resource in self.catalogue:
            if self.catalogue.of_storage(resource.storage) is resource:
                self.store.select_fields(resource.storage, kept_fields(resource))
        self._journal = Journal(state, self.store) if state is not None else None
        self._quotas = QuotaUsage(self.store)
        self.registry = Registry(
            store=self.store,
            catalogue=self.catalogue,
            admission=self._admission(),
            quotas=self._quotas,
            custom_resources=self.custom_resources,
            names=Names(random or SystemRandom()),
            clock=clock,
            stages=stages,
        )
        self.store.on_change(self._follow_definitions)
        self._convert_loaded_groups()
        self._register_loaded()
        self._create_system_objects()

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def set_admission(self, *, enabled: frozenset[str] = frozenset(), disabled: frozenset[str] = frozenset()) -> None:
        """Enable or disable admission plugins, by their upstream names, against their defaults."""
        self.registry.admission = self._admission(enabled=enabled, disabled=disabled)

    def _admission(self, *, enabled: frozenset[str] = frozenset(), disabled: frozenset[str] = frozenset()) -> Admission:
        left_out = frozenset() if self._stages.admission else frozenset(PLUGINS)
        on, off = enabled - left_out, disabled | left_out
        return Admission(self.store.get, self.store.list, self._quotas, enabled=on, disabled=off)

    def create_all(self, objects: Iterable[JsonObject], *, dry_run: bool = False) -> None:
        """Create objects that do not exist yet, to fill a new cluster. Unknown fields are refused."""
        for obj in objects:
            # Copy through JSON: the registry modifies its input, which belongs to the caller.
            self._create_unless_there(msgspec.json.decode(msgspec.json.encode(obj)), dry_run=dry_run)

    def _convert_loaded_groups(self) -> None:
        """The state file can be of a cluster of another version."""
        for storage in GROUP_STORAGES:
            resource = self.registry.of_storage(storage)
            for stored in self.store.list(storage):
                obj = stored.to_dict()
                if obj["apiVersion"] != resource.api_version:
                    self.registry.replace(resource, from_storage(resource, obj))

    def _create_system_objects(self) -> None:
        for name in NAMESPACES:
            self._create_unless_there({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, value in SYSTEM_PRIORITIES.items():
            self._create_unless_there(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                    "description": _DESCRIPTIONS[name],
                }
            )

    def _create_unless_there(self, obj: JsonObject, *, dry_run: bool = False) -> None:
        resource = self.catalogue.of_kind(obj["apiVersion"], obj["kind"])
        if resource is None:
            raise ValueError(f"kind {obj['kind']!r} of apiVersion {obj['apiVersion']!r} is not served here")
        namespace = (obj["metadata"].get("namespace") or "default") if resource.namespaced else ""
        try:
            options = Options(field_manager="kube-apiserver", field_validation="Strict", dry_run=dry_run)
            self.registry.create(resource, namespace, obj, options=options)
        except AlreadyExists:
            return

    # Custom resources are served from when their definition is stored until it is deleted.

    def _register_loaded(self) -> None:
        self.custom_resources.restore(stored.to_dict() for stored in self.store.list(DEFINITIONS))
        self._select_custom_fields()

    def _follow_definitions(self, event: Event) -> None:
        if event.stored.resource != DEFINITIONS:
            return
        definition = event.stored.to_dict()
        if event.type != "DELETED":
            self._register(definition)
            return
        for instance in self.store.list(f"{definition['spec']['names']['plural']}.{definition['spec']['group']}"):
            self.store.remove(instance)
        for name in self.custom_resources.unregister(definition):
            freed = self.store.get(DEFINITIONS, "", name)
            if freed is not None:
                self._register(freed.to_dict())

    def _register(self, definition: JsonObject) -> None:
        status = self.custom_resources.register(definition)
        self._select_custom_fields()
        if status is not None:
            definition["status"] = status
            self.registry.replace(self.registry.of_storage(DEFINITIONS), definition)

    def _select_custom_fields(self) -> None:
        for resource in self.catalogue:
            if resource.custom and self.catalogue.of_storage(resource.storage) is resource:
                self.store.select_fields(resource.storage, kept_fields(resource))
