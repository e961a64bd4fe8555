"""Validate PersistentVolumes, StorageClasses, CSI objects and VolumeAttachments.

Upstream: pkg/apis/storage/validation.
"""

from __future__ import annotations

import posixpath

from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.quantity import value as whole
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names, volumes
from stowplan_cluster.apiserver.validation.claims import VOLUME_MODES, check_access_modes, check_class_name
from stowplan_cluster.apiserver.validation.field_errors import (
    IMMUTABLE,
    NOT_POSITIVE,
    Errors,
    byte_length,
    difference,
    same,
)
from stowplan_cluster.apiserver.validation.resources import check_not_negative_quantity
from stowplan_cluster.apiserver.validation.selectors import check_label_key, check_label_selector, check_node_selector

# Validate PersistentVolumes: exactly one source, capacity, node affinity.
#
# Upstream: pkg/apis/core/validation (ValidatePersistentVolume and below).

_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_GA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def _check_csi(errors: Errors, path: str, source: JsonObject) -> None:
    volumes.check_csi_driver_name(errors, f"{path}.driver", source.get("driver", ""))
    if not source.get("volumeHandle"):
        errors.required(f"{path}.volumeHandle")
    for name in _SECRETS:
        if (secret := source.get(name)) is not None:
            _check_secret(errors, f"{path}.{name}", secret)


def _check_secret(errors: Errors, path: str, secret: JsonObject) -> None:
    for field, rule in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
        if value := secret.get(field):
            errors.check_texts(f"{path}.{field}", value, rule(value))
        else:
            errors.required(f"{path}.{field}")


_SOURCES = {
    "hostPath": volumes.check_host_path,
    **volumes.SIMPLE_SOURCES,
    "nfs": volumes.check_nfs,
    "local": volumes.check_local,
    "csi": _check_csi,
}


def check_volume(errors: Errors, volume: JsonObject) -> None:
    check_volume_spec(errors, "spec", volume.get("spec") or {}, inline=False)


def check_volume_spec(errors: Errors, path: str, spec: JsonObject, *, inline: bool) -> None:
    """Validate a volume's spec; `inline` ones (of a VolumeAttachment) allow fewer fields."""
    if inline:
        _check_inline(errors, path, spec)
    modes = spec.get("accessModes") or []
    if not modes:
        errors.required(f"{path}.accessModes")
    check_access_modes(errors, f"{path}.accessModes", modes)
    if not inline:
        _check_capacity(errors, f"{path}.capacity", spec.get("capacity") or {})
        policy = spec.get("persistentVolumeReclaimPolicy") or None
        errors.check_supported(f"{path}.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
        _check_node_affinity(errors, f"{path}.nodeAffinity", spec.get("nodeAffinity"))
    source = volumes.check_one_source(errors, path, spec, _SOURCES)
    if source == "local" and spec.get("nodeAffinity") is None:
        errors.required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    _check_recycling(errors, path, spec)
    if not inline:
        check_class_name(errors, f"{path}.storageClassName", spec.get("storageClassName"))
        errors.check_supported(f"{path}.volumeMode", spec.get("volumeMode"), VOLUME_MODES)
    _check_attributes_class(errors, path, spec)


def _check_inline(errors: Errors, path: str, spec: JsonObject) -> None:
    for name in ("claimRef", "capacity", "nodeAffinity", "storageClassName"):
        if spec.get(name):
            errors.forbidden(f"{path}.{name}", "may not be specified in the context of inline volumes")
    if "csi" not in spec:
        errors.required(f"{path}.csi", "has to be specified in the context of inline volumes")
    if spec.get("persistentVolumeReclaimPolicy", "Retain") != "Retain":
        detail = "may only be Retain in the context of inline volumes"
        errors.forbidden(f"{path}.persistentVolumeReclaimPolicy", detail)
    if spec.get("volumeMode") not in (None, "Filesystem"):
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        errors.forbidden(f"{path}.volumeMode", detail)


def _check_capacity(errors: Errors, path: str, capacity: JsonObject) -> None:
    if not capacity:
        errors.required(path)
    if "storage" not in capacity or len(capacity) > 1:
        errors.not_supported(path, capacity or None, ("storage",))
    for name, value in capacity.items():
        if (nano := parse_quantity(value)) < 0:
            errors.invalid(f"{path}[{name}]", whole(nano), "must be a valid resource quantity")
        if nano <= 0:
            errors.invalid(f"{path}[{name}]", value, NOT_POSITIVE)


def _check_node_affinity(errors: Errors, path: str, affinity: JsonObject | None) -> None:
    if affinity is None:
        return
    if (selector := affinity.get("required")) is not None:
        check_node_selector(errors, f"{path}.required", selector)
    else:
        errors.required(f"{path}.required", "must specify required node constraints")


def _check_recycling(errors: Errors, path: str, spec: JsonObject) -> None:
    target = (spec.get("hostPath") or {}).get("path")
    recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if target and recycled and posixpath.normpath(target).strip("/") == "":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.forbidden(f"{path}.persistentVolumeReclaimPolicy", detail)


def _check_attributes_class(errors: Errors, path: str, spec: JsonObject) -> None:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        errors.required(f"{path}.volumeAttributesClassName", "an empty string is disallowed")
    check_class_name(errors, f"{path}.volumeAttributesClassName", name)
    if "csi" not in spec:
        errors.required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


def check_volume_update(errors: Errors, volume: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        return
    check_volume(errors, volume)
    spec, old_spec = volume.get("spec") or {}, old.get("spec") or {}
    source, before = _source(spec), _source(old_spec)
    if "csi" in source and "csi" in before and "controllerExpandSecretRef" not in before["csi"]:
        source["csi"] = {name: value for name, value in source["csi"].items() if name != "controllerExpandSecretRef"}
    if not same(source, before):
        detail = f"spec.persistentvolumesource is immutable after creation\n{difference(source, before)}"
        errors.forbidden("spec.persistentvolumesource", detail)
    errors.check_immutable("volumeMode", spec.get("volumeMode"), old_spec.get("volumeMode"))
    affinity, old_affinity = spec.get("nodeAffinity"), old_spec.get("nodeAffinity")
    if old_affinity is not None and not same(affinity, _with_ga_labels(old_affinity, affinity)):
        detail = f"{IMMUTABLE}, except for updating from beta label to GA"
        errors.invalid("nodeAffinity", affinity, detail)
    attributes = "volumeAttributesClassName"
    if old_spec.get(attributes) is not None and spec.get(attributes) is None:
        errors.forbidden(f"spec.{attributes}", "update from non-nil value to nil is forbidden")


def _source(spec: JsonObject) -> JsonObject:
    return {name: spec[name] for name in _SOURCES if name in spec}


def _with_ga_labels(old: JsonObject, new: JsonObject | None) -> JsonObject:
    """The old affinity, with beta labels replaced by GA ones where the new one did so."""
    old_terms, new_terms = _terms(old), _terms(new or {})
    if len(old_terms) != len(new_terms):
        return old
    terms = []
    for before, after in zip(old_terms, new_terms, strict=True):
        renamed = [
            entry | ({"key": now["key"]} if _GA_LABELS.get(entry.get("key", "")) == now.get("key") else {})
            for entry, now in zip(
                before.get("matchExpressions") or (), after.get("matchExpressions") or (), strict=False
            )
        ]
        rest = (before.get("matchExpressions") or [])[len(renamed) :]
        terms.append(before | {"matchExpressions": [*renamed, *rest]})
    return old | {"required": (old.get("required") or {}) | {"nodeSelectorTerms": terms}}


def _terms(affinity: JsonObject) -> list[JsonObject]:
    return (affinity.get("required") or {}).get("nodeSelectorTerms") or []


_MAX_PARAMETERS, _MAX_PARAMETERS_SIZE = 512, 256 * 1024
_MAX_NODE_ID = 256
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")


def check_class(errors: Errors, storage_class: JsonObject) -> None:
    provisioner = storage_class.get("provisioner", "")
    if provisioner:
        lowered = provisioner.lower()
        errors.check_texts("provisioner", lowered, is_qualified_name_errors(lowered))
    else:
        errors.required("provisioner")
    _check_parameters(errors, storage_class.get("parameters") or {})
    policy = storage_class.get("reclaimPolicy") or None
    errors.check_supported("reclaimPolicy", policy, ("Delete", "Retain"))
    mode = storage_class.get("volumeBindingMode")
    if mode is None:
        errors.required("volumeBindingMode")
    errors.check_supported("volumeBindingMode", mode, _BINDING_MODES)
    _check_topologies(errors, storage_class.get("allowedTopologies") or [])


def _check_parameters(errors: Errors, parameters: dict[str, str]) -> None:
    if len(parameters) > _MAX_PARAMETERS:
        errors.too_long("parameters", _MAX_PARAMETERS)
        return
    if "" in parameters:
        errors.invalid("parameters", "", "field can not be empty.")
    if sum(byte_length(key) + byte_length(value) for key, value in parameters.items()) > _MAX_PARAMETERS_SIZE:
        errors.too_long("parameters", _MAX_PARAMETERS_SIZE)


def _check_topologies(errors: Errors, topologies: list[JsonObject]) -> None:
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(topologies):
        path, keys = f"allowedTopologies[{index}].matchLabelExpressions", dict[str, set[str]]()
        for position, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            at, key = f"{path}[{position}]", requirement.get("key", "")
            _check_topology_values(errors, f"{at}.values", requirement.get("values") or [])
            check_label_key(errors, f"{at}.key", key)
            if key in keys:
                errors.duplicate(f"{at}.key", key)
            keys[key] = set(requirement.get("values") or ())
        if keys in seen:
            errors.duplicate(path, "")
        seen.append(keys)


def _check_topology_values(errors: Errors, path: str, values: list[str]) -> None:
    if not values:
        errors.required(path)
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            errors.duplicate(f"{path}[{index}]", value)
        seen.add(value)


def check_class_update(errors: Errors, new: JsonObject, old: JsonObject, subresource: str) -> None:
    check_class(errors, new)
    fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    errors.check_immutable_fields("", new, old, *fixed)


def check_csi_node(errors: Errors, node: JsonObject) -> None:
    seen: set[str] = set()
    for index, driver in enumerate((node.get("spec") or {}).get("drivers") or ()):
        at, name, node_id = f"spec.drivers[{index}]", driver.get("name", ""), driver.get("nodeID", "")
        volumes.check_csi_driver_name(errors, f"{at}.name", name)
        if not node_id:
            errors.required(f"{at}.nodeID")
        if byte_length(node_id) > _MAX_NODE_ID:
            errors.invalid(f"{at}.nodeID", node_id, f"must be {_MAX_NODE_ID} characters or less")
        errors.check_not_negative(f"{at}.allocatable.count", (driver.get("allocatable") or {}).get("count"))
        if name in seen:
            errors.duplicate(f"{at}.name", name)
        seen.add(name)
        _check_topology_keys(errors, at, driver.get("topologyKeys") or [])


def _check_topology_keys(errors: Errors, path: str, keys: list[str]) -> None:
    for index, key in enumerate(keys):
        if not key:
            errors.required(path)
        if key in keys[:index]:
            errors.duplicate(path, key)
        errors.check_texts(path, key, is_qualified_name_errors(key))


def check_csi_node_update(errors: Errors, node: JsonObject, old: JsonObject, subresource: str) -> None:
    check_csi_node(errors, node)
    before = {driver.get("name"): driver for driver in (old.get("spec") or {}).get("drivers") or ()}
    for driver in (node.get("spec") or {}).get("drivers") or ():
        known = before.get(driver.get("name"))
        if known is not None:
            # A driver's allocatable count may change.
            errors.check_immutable("spec.drivers", *({**d, "allocatable": None} for d in (driver, known)))


def check_csi_driver(errors: Errors, driver: JsonObject) -> None:
    spec = driver.get("spec") or {}
    # Parity: the first path is misspelled.
    for name, shown in (
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
        ("seLinuxMount", "seLinuxMount"),
    ):
        if spec.get(name) is None:
            errors.required(f"spec.{shown}")
    errors.check_supported("spec.fsGroupPolicy", spec.get("fsGroupPolicy"), _GROUP_POLICIES)
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLES:
            errors.not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        detail = "must be greater than or equal to 10 seconds"
        errors.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail)


def check_csi_driver_update(errors: Errors, driver: JsonObject, old: JsonObject, subresource: str) -> None:
    check_csi_driver(errors, driver)
    spec, old_spec = driver.get("spec") or {}, old.get("spec") or {}
    errors.check_immutable("spec.attachedRequired", spec.get("attachRequired"), old_spec.get("attachRequired"))
    errors.check_immutable_fields("spec", spec, old_spec, "volumeLifecycleModes")


def check_capacity(errors: Errors, capacity: JsonObject) -> None:
    """Check a CSIStorageCapacity."""
    check_label_selector(errors, "nodeTopology", capacity.get("nodeTopology"))
    storage_class = capacity.get("storageClassName", "")
    errors.check_texts("storageClassName", storage_class, names.dns_subdomain(storage_class))
    if (amount := capacity.get("capacity")) is not None:
        check_not_negative_quantity(errors, "capacity", amount)


def check_capacity_update(errors: Errors, capacity: JsonObject, old: JsonObject, subresource: str) -> None:
    check_capacity(errors, capacity)
    errors.check_immutable_fields("", capacity, old, "nodeTopology", "storageClassName")


def check_attachment(errors: Errors, attachment: JsonObject) -> None:
    spec = attachment.get("spec") or {}
    volumes.check_csi_driver_name(errors, "spec.attacher", spec.get("attacher", ""))
    _check_attached(errors, "spec.source", spec.get("source") or {})
    node = spec.get("nodeName", "")
    errors.check_texts("spec.nodeName", node, names.dns_subdomain(node))


def _check_attached(errors: Errors, path: str, source: JsonObject) -> None:
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        errors.required(path, one)
    elif volume is not None and inline is not None:
        errors.forbidden(path, one)
    elif inline is not None:
        check_volume_spec(errors, f"{path}.inlineVolumeSpec", inline, inline=True)
    elif not volume:
        detail = "must specify non empty persistentVolumeName"
        errors.required(f"{path}.persistentVolumeName", detail)
    if volume is not None:
        errors.check_texts(f"{path}.persistentVolumeName", volume, names.dns_subdomain(volume))


def check_attachment_update(errors: Errors, attachment: JsonObject, old: JsonObject, subresource: str) -> None:
    check_attachment(errors, attachment)
    errors.check_immutable_fields("", attachment, old, "spec")
