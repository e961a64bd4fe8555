"""Fields of built-in types that are always present, even if absent in JSON.

Upstream compares Go structs. Fields that a struct holds by value, and lists and maps that are encoded even when nil,
are always present, so setting them does not add them. So a pod's creator owns `.spec.containers[name="web"]` and
everything in it but not `.spec`, and owns `.resources` of each container though nobody set it. Custom resources are
plain JSON: absent means absent.

Upstream: the types.go of k8s.io/api; sigs.k8s.io/structured-merge-diff/v6/value (reflectcache.go).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from stowplan_cluster.apiserver.schema.types import ListType, Scalar, Struct

_EVERYWHERE = ("metadata", "spec", "status")
#: Other fields held by value, as (kind, field); required fields need no entry.
_BY_VALUE = frozenset(
    {
        ("AllocationResult", "devices"),
        ("Container", "resources"),
        ("ContainerStatus", "lastState"),
        ("ContainerStatus", "state"),
        ("CustomResourceDefinitionStatus", "acceptedNames"),
        ("DaemonSetSpec", "updateStrategy"),
        ("DeploymentSpec", "strategy"),
        ("EphemeralContainer", "resources"),
        ("Event", "deprecatedSource"),
        ("Event", "regarding"),
        ("Event", "source"),
        ("NodeDaemonEndpoints", "kubeletEndpoint"),
        ("NodeStatus", "daemonEndpoints"),
        ("NodeStatus", "nodeInfo"),
        ("PersistentVolumeClaimSpec", "resources"),
        ("PodTemplate", "template"),
        ("ReplicaSetSpec", "template"),
        ("ResourceClaimSpec", "devices"),
        ("ServiceStatus", "loadBalancer"),
        ("StatefulSetSpec", "updateStrategy"),
    }
)
#: Exceptions to `_EVERYWHERE`: pointers upstream.
_OPTIONAL = frozenset({("CustomResourceSubresources", "status")})


@lru_cache(maxsize=4096)
def never_absent(type: Struct) -> dict[str, Any]:
    """The fields of a type that are never absent, with their empty values."""
    kind = type.name.rpartition(".")[2]
    found: dict[str, Any] = {}
    for name, field in type.fields.items():
        by_value = isinstance(field, Struct) and (name in _EVERYWHERE or (kind, name) in _BY_VALUE)
        by_value = by_value and (kind, name) not in _OPTIONAL
        if kind and not isinstance(field, Scalar) and (by_value or name in type.required):
            found[name] = [] if isinstance(field, ListType) else {}
    return found
