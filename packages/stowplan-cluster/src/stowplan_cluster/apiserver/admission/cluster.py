"""Shared by admission plugins: their view of the cluster, and how they reject a request.

Upstream: k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stowplan.kube.api.api_errors import Forbidden, forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.quota_usage import QuotaUsage
    from stowplan_cluster.apiserver.resources import Resource
    from stowplan_cluster.apiserver.store import Stored

    #: (storage, namespace, name)
    Lookup = Callable[[str, str, str], Stored | None]
    #: (storage)
    List = Callable[[str], Sequence[Stored]]


class Plugin:
    """An admission plugin; it overrides the operations that it handles."""

    name: ClassVar[str]
    #: Storages of the kinds that it handles; None: all.
    handles: ClassVar[frozenset[str] | None]

    def __init__(self, lookup: Lookup, list_: List, quotas: QuotaUsage) -> None:
        self._lookup = lookup
        self._list = list_
        self._quotas = quotas

    def create(self, resource: Resource, obj: JsonObject) -> None:
        """Change or refuse an object that is being created."""

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        """Change or refuse an update."""

    def delete(self, resource: Resource, live: Stored) -> None:
        """Refuse a deletion."""


def refusal(resource: Resource, obj: JsonObject, why: str) -> Forbidden:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return forbidden(resource.plural, resource.group, name, why)
