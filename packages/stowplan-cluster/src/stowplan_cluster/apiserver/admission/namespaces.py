"""NamespaceLifecycle: reject objects in missing or terminating namespaces.

Upstream: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stowplan.kube.api.api_errors import forbidden, not_found
from stowplan.kube.api.status import StatusCause
from stowplan_cluster.apiserver.admission.cluster import Plugin, refusal

if TYPE_CHECKING:
    from stowplan.kube.api.api_errors import Forbidden
    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource
    from stowplan_cluster.apiserver.store import Stored

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle(Plugin):
    name = "NamespaceLifecycle"
    handles = None

    def create(self, resource: Resource, obj: JsonObject) -> None:
        if not resource.namespaced or resource.plural == "localsubjectaccessreviews":
            return
        namespace = obj["metadata"].get("namespace", "")
        stored = self._lookup("namespaces", "", namespace)
        if stored is None:
            raise not_found("namespaces", "", namespace)
        if stored.field("status.phase") == "Terminating":
            raise _terminating(resource, obj, namespace)

    def update(self, resource: Resource, obj: JsonObject, old: JsonObject) -> None:
        if resource.namespaced:
            namespace = obj["metadata"].get("namespace", "")
            if self._lookup("namespaces", "", namespace) is None:
                raise not_found("namespaces", "", namespace)

    def delete(self, resource: Resource, live: Stored) -> None:
        if resource.storage == "namespaces" and live.name in IMMORTAL:
            raise forbidden("namespaces", "", live.name, "this namespace may not be deleted")


def _terminating(resource: Resource, obj: JsonObject, namespace: str) -> Forbidden:
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    error = refusal(resource, obj, why)
    cause = StatusCause(
        reason="NamespaceTerminating",
        message=f"namespace {namespace} is being terminated",
        field="metadata.namespace",
    )
    details = error.status.details
    if details is not None:
        error.status = msgspec.structs.replace(
            error.status, details=msgspec.structs.replace(details, causes=(*details.causes, cause))
        )
    return error
