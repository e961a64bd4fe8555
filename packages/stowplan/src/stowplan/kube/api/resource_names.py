"""Kinds of resource names: native, extended, hugepages, attachable volumes.

Upstream: pkg/apis/core/v1/helper/helpers.go and pkg/scheduler/util/utils.go.
"""

from __future__ import annotations

from functools import lru_cache

from stowplan.kube.api.labels import is_qualified_name_errors

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

HUGEPAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."


def is_native(name: str) -> bool:
    return "/" not in name or _NATIVE_DOMAIN in name


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith(_QUOTA_PREFIX):
        return False
    # A quota for the resource must have a valid name, too.
    return not is_qualified_name_errors(_QUOTA_PREFIX + name)


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether the scheduler counts it as an integer, in addition to cpu, memory and ephemeral storage."""
    return is_extended(name) or name.startswith((HUGEPAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX)) or _NATIVE_DOMAIN in name


def is_dra_extended(name: str) -> bool:
    """Whether a DeviceClass may serve it."""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)


def is_pod_level(name: str) -> bool:
    """Whether `spec.resources` of a pod may set it."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)
