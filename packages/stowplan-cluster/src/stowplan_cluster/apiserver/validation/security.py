"""Validate security contexts of pods and containers.

Left out: windowsOptions, and the annotations that preceded the AppArmor and seccomp fields.

Upstream: pkg/apis/core/validation (validatePodSpecSecurityContext, ValidateSecurityContext).
"""

from __future__ import annotations

import re

from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation.field_errors import Errors, between
from stowplan_cluster.apiserver.validation.names import check_descending_path

_MAX_ID = 2**31 - 1
_MAX_PROFILE = 4095
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")

_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}"
_SYSCTL_RE = re.compile(_SYSCTL)
_MAX_SYSCTL = 253
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def check_pod_security(errors: Errors, path: str, context: JsonObject, spec: JsonObject) -> None:
    _check_ids(errors, path, context, ("fsGroup", "runAsUser", "runAsGroup"))
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        _check_id(errors, f"{path}.supplementalGroups[{index}]", group)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.invalid(f"{path}.shareProcessNamespace", True, detail)
    _check_sysctls(errors, f"{path}.sysctls", context.get("sysctls") or [], spec)
    errors.check_supported(
        f"{path}.fsGroupChangePolicy", context.get("fsGroupChangePolicy"), ("Always", "OnRootMismatch")
    )
    _check_profiles(errors, path, context)
    errors.check_supported(
        f"{path}.supplementalGroupsPolicy", context.get("supplementalGroupsPolicy"), ("Merge", "Strict")
    )
    errors.check_supported(
        f"{path}.seLinuxChangePolicy", context.get("seLinuxChangePolicy"), ("MountOption", "Recursive")
    )


def check_container_security(errors: Errors, path: str, context: JsonObject, *, host_users: bool) -> None:
    _check_ids(errors, path, context, ("runAsUser", "runAsGroup"))
    mount = context.get("procMount")
    errors.check_supported(f"{path}.procMount", mount, ("Default", "Unmasked"))
    if host_users and mount == "Unmasked":
        errors.invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    _check_profiles(errors, path, context)
    if context.get("allowPrivilegeEscalation") is not False:
        return
    if context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.invalid(path, context, detail)
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errors.invalid(path, context, detail)


def _check_ids(errors: Errors, path: str, context: JsonObject, fields: tuple[str, ...]) -> None:
    for name in fields:
        if name in context:
            _check_id(errors, f"{path}.{name}", context[name])


def _check_id(errors: Errors, path: str, value: int) -> None:
    if not 0 <= value <= _MAX_ID:
        errors.invalid(path, value, between(0, _MAX_ID))


def _check_sysctls(errors: Errors, path: str, sysctls: list[JsonObject], spec: JsonObject) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        at, name = f"{path}[{index}].name", sysctl.get("name", "")
        if not name:
            errors.required(at)
        elif len(name) > _MAX_SYSCTL or not _SYSCTL_RE.fullmatch(name):
            errors.invalid(at, name, f"must have at most {_MAX_SYSCTL} characters and match regex ^{_SYSCTL}$")
        elif name in seen:
            errors.duplicate(at, name)
        seen.add(name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.invalid(at, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and dotted.startswith(_IPC_SYSCTLS):
            errors.invalid(at, name, "may not be specified when 'hostIPC' is true")


def _check_profiles(errors: Errors, path: str, context: JsonObject) -> None:
    if (profile := context.get("seccompProfile")) is not None:
        _check_profile(errors, f"{path}.seccompProfile", profile, what="seccomp", field="seccompProfile")
        if profile.get("type") == "Localhost" and "localhostProfile" in profile:
            check_descending_path(errors, f"{path}.seccompProfile.localhostProfile", profile["localhostProfile"])
    if (profile := context.get("appArmorProfile")) is not None:
        _check_profile(errors, f"{path}.appArmorProfile", profile, what="AppArmor", field="appArmorProfile")
        _check_app_armor_name(errors, f"{path}.appArmorProfile.localhostProfile", profile)


def _check_profile(errors: Errors, path: str, profile: JsonObject, *, what: str, field: str) -> None:
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.required(f"{path}.type", f"type is required when {field} is set")
    elif kind not in _PROFILES:
        errors.not_supported(f"{path}.type", kind, _PROFILES)
    if kind == "Localhost":
        if local is None:
            errors.required(f"{path}.localhostProfile", f"must be set when {what} type is Localhost")
    elif local is not None:
        shown = local if what == "AppArmor" else profile
        errors.invalid(f"{path}.localhostProfile", shown, f"can only be set when {what} type is Localhost")


def _check_app_armor_name(errors: Errors, path: str, profile: JsonObject) -> None:
    name = profile.get("localhostProfile")
    if profile.get("type") != "Localhost" or name is None:
        return
    if name != name.strip():
        errors.invalid(path, name, "must not be padded with whitespace")
    elif not name:
        errors.required(path, "must be set when AppArmor type is Localhost")
    errors.check_length(path, name, _MAX_PROFILE)
