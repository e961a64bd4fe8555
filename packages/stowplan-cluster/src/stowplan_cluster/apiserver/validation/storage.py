"""Validate StorageClasses, CSI objects and VolumeAttachments.

Upstream: pkg/apis/storage/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.changes import check_immutable, check_immutable_fields
from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    byte_length,
    check_not_negative,
    check_supported,
    check_texts,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from stowplan_cluster.apiserver.validation.persistent_volumes import check_volume_spec
from stowplan_cluster.apiserver.validation.resources import check_not_negative_quantity
from stowplan_cluster.apiserver.validation.selectors import check_label_key, check_label_selector
from stowplan_cluster.apiserver.validation.volumes import check_csi_driver_name

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_MAX_PARAMETERS, _MAX_PARAMETERS_SIZE = 512, 256 * 1024
_MAX_NODE_ID = 256
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")


def check_class(errors: Errors, storage_class: JsonObject) -> None:
    provisioner = storage_class.get("provisioner", "")
    if provisioner:
        lowered = provisioner.lower()
        check_texts(errors, "provisioner", lowered, is_qualified_name_errors(lowered))
    else:
        errors.append(required("provisioner"))
    _check_parameters(errors, storage_class.get("parameters") or {})
    policy = storage_class.get("reclaimPolicy") or None
    check_supported(errors, "reclaimPolicy", policy, ("Delete", "Retain"))
    mode = storage_class.get("volumeBindingMode")
    if mode is None:
        errors.append(required("volumeBindingMode"))
    check_supported(errors, "volumeBindingMode", mode, _BINDING_MODES)
    _check_topologies(errors, storage_class.get("allowedTopologies") or [])


def _check_parameters(errors: Errors, parameters: dict[str, str]) -> None:
    if len(parameters) > _MAX_PARAMETERS:
        errors.append(too_long("parameters", _MAX_PARAMETERS))
        return
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if sum(byte_length(key) + byte_length(value) for key, value in parameters.items()) > _MAX_PARAMETERS_SIZE:
        errors.append(too_long("parameters", _MAX_PARAMETERS_SIZE))


def _check_topologies(errors: Errors, topologies: list[JsonObject]) -> None:
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(topologies):
        path, keys = f"allowedTopologies[{index}].matchLabelExpressions", dict[str, set[str]]()
        for position, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            at, key = f"{path}[{position}]", requirement.get("key", "")
            _check_topology_values(errors, f"{at}.values", requirement.get("values") or [])
            check_label_key(errors, f"{at}.key", key)
            if key in keys:
                errors.append(duplicate(f"{at}.key", key))
            keys[key] = set(requirement.get("values") or ())
        if keys in seen:
            errors.append(duplicate(path, ""))
        seen.append(keys)


def _check_topology_values(errors: Errors, path: str, values: list[str]) -> None:
    if not values:
        errors.append(required(path))
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            errors.append(duplicate(f"{path}[{index}]", value))
        seen.add(value)


def check_class_update(errors: Errors, new: JsonObject, old: JsonObject, subresource: str) -> None:
    check_class(errors, new)
    fixed = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    check_immutable_fields(errors, "", new, old, *fixed)


def check_csi_node(errors: Errors, node: JsonObject) -> None:
    seen: set[str] = set()
    for index, driver in enumerate((node.get("spec") or {}).get("drivers") or ()):
        at, name, node_id = f"spec.drivers[{index}]", driver.get("name", ""), driver.get("nodeID", "")
        check_csi_driver_name(errors, f"{at}.name", name)
        if not node_id:
            errors.append(required(f"{at}.nodeID"))
        if byte_length(node_id) > _MAX_NODE_ID:
            errors.append(invalid(f"{at}.nodeID", node_id, f"must be {_MAX_NODE_ID} characters or less"))
        check_not_negative(errors, f"{at}.allocatable.count", (driver.get("allocatable") or {}).get("count"))
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
        _check_topology_keys(errors, at, driver.get("topologyKeys") or [])


def _check_topology_keys(errors: Errors, path: str, keys: list[str]) -> None:
    for index, key in enumerate(keys):
        if not key:
            errors.append(required(path))
        if key in keys[:index]:
            errors.append(duplicate(path, key))
        check_texts(errors, path, key, is_qualified_name_errors(key))


def check_csi_node_update(errors: Errors, node: JsonObject, old: JsonObject, subresource: str) -> None:
    check_csi_node(errors, node)
    before = {driver.get("name"): driver for driver in (old.get("spec") or {}).get("drivers") or ()}
    for driver in (node.get("spec") or {}).get("drivers") or ():
        known = before.get(driver.get("name"))
        if known is not None:
            # A driver's allocatable count may change.
            check_immutable(errors, "spec.drivers", *({**d, "allocatable": None} for d in (driver, known)))


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
            errors.append(required(f"spec.{shown}"))
    check_supported(errors, "spec.fsGroupPolicy", spec.get("fsGroupPolicy"), _GROUP_POLICIES)
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in _LIFECYCLES:
            errors.append(not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        detail = "must be greater than or equal to 10 seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail))


def check_csi_driver_update(errors: Errors, driver: JsonObject, old: JsonObject, subresource: str) -> None:
    check_csi_driver(errors, driver)
    spec, old_spec = driver.get("spec") or {}, old.get("spec") or {}
    check_immutable(errors, "spec.attachedRequired", spec.get("attachRequired"), old_spec.get("attachRequired"))
    check_immutable_fields(errors, "spec", spec, old_spec, "volumeLifecycleModes")


def check_capacity(errors: Errors, capacity: JsonObject) -> None:
    """Check a CSIStorageCapacity."""
    check_label_selector(errors, "nodeTopology", capacity.get("nodeTopology"))
    storage_class = capacity.get("storageClassName", "")
    check_texts(errors, "storageClassName", storage_class, names.dns_subdomain(storage_class))
    if (amount := capacity.get("capacity")) is not None:
        check_not_negative_quantity(errors, "capacity", amount)


def check_capacity_update(errors: Errors, capacity: JsonObject, old: JsonObject, subresource: str) -> None:
    check_capacity(errors, capacity)
    check_immutable_fields(errors, "", capacity, old, "nodeTopology", "storageClassName")


def check_attachment(errors: Errors, attachment: JsonObject) -> None:
    spec = attachment.get("spec") or {}
    check_csi_driver_name(errors, "spec.attacher", spec.get("attacher", ""))
    _check_attached(errors, "spec.source", spec.get("source") or {})
    node = spec.get("nodeName", "")
    check_texts(errors, "spec.nodeName", node, names.dns_subdomain(node))


def _check_attached(errors: Errors, path: str, source: JsonObject) -> None:
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        errors.append(required(path, one))
    elif volume is not None and inline is not None:
        errors.append(forbidden(path, one))
    elif inline is not None:
        check_volume_spec(errors, f"{path}.inlineVolumeSpec", inline, inline=True)
    elif not volume:
        detail = "must specify non empty persistentVolumeName"
        errors.append(required(f"{path}.persistentVolumeName", detail))
    if volume is not None:
        check_texts(errors, f"{path}.persistentVolumeName", volume, names.dns_subdomain(volume))


def check_attachment_update(errors: Errors, attachment: JsonObject, old: JsonObject, subresource: str) -> None:
    check_attachment(errors, attachment)
    check_immutable_fields(errors, "", attachment, old, "spec")
