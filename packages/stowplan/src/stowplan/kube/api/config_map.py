"""ConfigMap; used only for the cluster's client authentication settings."""

# ruff: noqa: RUF012 - msgspec copies a `{}` default for each instance.

from stowplan.kube.api.meta import ApiStruct, ObjectMeta


class ConfigMap(ApiStruct, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "ConfigMap"
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = {}
