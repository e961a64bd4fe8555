"""Fields without an owner: set by the server, or not written by the endpoint.

A write of the main resource never owns status, a write of status never owns spec.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal/stripmeta.go, GetResetFields of the
strategies in pkg/registry and of custom resources.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.managed_fields.field_sets import FieldSet
from stowplan_cluster.apiserver.schema.type_model import Struct

_OF_METADATA = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
#: Never owned by any manager.
SERVERS_OWN: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}, **{f"f:{name}": {} for name in _OF_METADATA}},
}

#: Fields besides spec that a write of status does not own, by kind.
_KEPT_BY_STATUS: dict[str, FieldSet] = {
    "Deployment": {"f:metadata": {"f:labels": {}}},
    "Pod": {"f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}},
    "PodGroup": {"f:metadata": {}},
    "ResourceClaim": {"f:metadata": {}},
    "VolumeAttachment": {"f:metadata": {}},
}


def reset_fields(type: Struct, subresource: str) -> FieldSet:
    """The fields that writes to an endpoint do not own. A custom type must have the status subresource."""
    kind = type.name.rpartition(".")[2]
    if subresource == "status":
        return {"f:spec": {}, **(_KEPT_BY_STATUS.get(kind, {}) if kind else {"f:metadata": {}})}
    return {"f:status": {}} if isinstance(type.fields.get("status"), Struct) or not kind else {}
