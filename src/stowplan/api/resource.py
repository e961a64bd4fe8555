"""Dynamic resource allocation: claims, slices and device classes (`resource.k8s.io`).

The inside of these objects is a language of its own, read only by the DynamicResources plugin;
here it stays plain data.
"""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from typing import Any

from stowplan.api.meta import ApiStruct, ObjectMeta


class ResourceClaim(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ResourceSlice(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "ResourceSlice"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class DeviceClass(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "resource.k8s.io/v1"
    kind: str = "DeviceClass"
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
