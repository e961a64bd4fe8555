"""Validate volume mounts and volume devices of containers.

Upstream: pkg/apis/core/validation (ValidateVolumeMounts, ValidateVolumeDevices).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    check_required_fields,
    check_supported,
    forbidden,
    invalid,
    not_found,
)
from stowplan_cluster.apiserver.validation.paths import check_descending_path

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")


def check_mounts(errors: Errors, path: str, container: JsonObject, volumes: dict[str, JsonObject]) -> None:
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices") or ()}
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        check_required_fields(errors, at, mount, ("name", "mountPath"))
        if name not in volumes:
            errors.append(not_found(f"{at}.name", name))
        if target in seen:
            errors.append(invalid(f"{at}.mountPath", target, "must be unique"))
        seen.add(target)
        if name in devices:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeDevices"))
        if target in devices.values():
            errors.append(invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices"))
        _check_sub_path(errors, path, at, mount)
        _check_propagation(errors, path, mount, container)


def _check_sub_path(errors: Errors, path: str, at: str, mount: JsonObject) -> None:
    # Parity: the path has no index, here and below.
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        check_descending_path(errors, f"{path}.subPath", sub_path)
    if expression:
        if sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{at}.subPathExpr", expression, detail))
        check_descending_path(errors, f"{path}.subPathExpr", expression)


def _check_propagation(errors: Errors, path: str, mount: JsonObject, container: JsonObject) -> None:
    propagation = mount.get("mountPropagation")
    check_supported(errors, f"{path}.mountPropagation", propagation, _PROPAGATIONS)
    privileged = (container.get("securityContext") or {}).get("privileged", False)
    if propagation == "Bidirectional" and not privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{path}.mountPropagation", detail))
    recursive, at = mount.get("recursiveReadOnly"), f"{path}.recursiveReadOnly"
    check_supported(errors, at, recursive, _RECURSIVE_READ_ONLY)
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden(at, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            errors.append(forbidden(at, "may only be specified when mountPropagation is None or not specified"))


def check_devices(errors: Errors, path: str, container: JsonObject, volumes: dict[str, JsonObject]) -> None:
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts") or ()}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        check_required_fields(errors, at, device, ("name", "devicePath"))
        _check_device_volume(errors, f"{at}.name", name, volumes)
        if name in seen_names:
            errors.append(invalid(f"{at}.name", name, "must be unique"))
        if target in seen_paths:
            errors.append(invalid(f"{at}.devicePath", target, "must be unique"))
        if ".." in target.split("/"):
            errors.append(invalid(f"{at}.devicePath", target, "can not contain backsteps ('..')"))
        if name in mounts:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            errors.append(invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts"))
        seen_names.add(name)
        seen_paths.add(target)


def _check_device_volume(errors: Errors, path: str, name: str, volumes: dict[str, JsonObject]) -> None:
    volume = volumes.get(name)
    if volume is None:
        errors.append(not_found(path, name))
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(invalid(path, name, detail))
