"""Defaults of pod volumes, PersistentVolumes and PersistentVolumeClaims.

Upstream: pkg/apis/core/v1/defaults.go, zz_generated.defaults.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.defaults.images import pull_policy
from stowplan_cluster.apiserver.defaults.quantities import round_amounts

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_FILE_MODE = 0o644

#: Defaults of volume sources, shared by pod volumes and PersistentVolumes.
_SOURCE_DEFAULTS: dict[str, dict[str, str | bool]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def _default_source(holder: JsonObject) -> None:
    for name, defaults in _SOURCE_DEFAULTS.items():
        source = holder.get(name)
        if source is None:
            continue
        for field, value in defaults.items():
            if source.get(field) is None or (value and source[field] == ""):
                source[field] = value


def default_pod_volume(volume: JsonObject) -> None:
    if not any(name != "name" and source is not None for name, source in volume.items()):
        volume["emptyDir"] = {}
        return
    _default_source(volume)
    for name in _WITH_MODE:
        source = volume.get(name)
        if source is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _FILE_MODE
    _default_downward(volume.get("downwardAPI"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        _default_downward(source.get("downwardAPI"))
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        default_claim_spec(template.setdefault("spec", {}))
    _default_image(volume.get("image"))


def _default_downward(source: JsonObject | None) -> None:
    for item in (source or {}).get("items") or ():
        field = item.get("fieldRef")
        if field is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"


def _default_image(image: JsonObject | None) -> None:
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference") or "")


def default_claim_spec(spec: JsonObject) -> None:
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    resources = spec.setdefault("resources", {})
    round_amounts(resources.get("limits"))
    round_amounts(resources.get("requests"))


def default_claim(claim: JsonObject) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"
    round_amounts(status.get("capacity"))
    round_amounts(status.get("allocatedResources"))


def default_persistent_volume(volume: JsonObject) -> None:
    spec, status = volume.setdefault("spec", {}), volume.setdefault("status", {})
    if not status.get("phase"):
        status["phase"] = "Pending"
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    round_amounts(spec.get("capacity"))
    _default_source(spec)
