"""Validate regular, init and ephemeral containers.

Upstream: pkg/apis/core/validation (validateContainers, validateInitContainers, validateEphemeralContainers).
"""

from __future__ import annotations

from stowplan.kube.structs import PlainStruct
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.downward_api import (
    ENVIRONMENT_FIELDS,
    check_field_reference,
    check_resource_reference,
)
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.names import check_descending_path, check_no_backsteps
from stowplan_cluster.apiserver.validation.probes import PROBES, check_lifecycle, check_probes
from stowplan_cluster.apiserver.validation.resources import check_container_resource_name, check_requirements
from stowplan_cluster.apiserver.validation.security import check_container_security

# Validate volume mounts and volume devices of containers.
#
# Upstream: pkg/apis/core/validation (ValidateVolumeMounts, ValidateVolumeDevices).

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_MOUNT_OPTIONS = ("nodev", "noexec", "nosuid")


def check_mounts(errors: Errors, path: str, container: JsonObject, volumes: dict[str, JsonObject]) -> None:
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices") or ()}
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        errors.check_required_fields(at, mount, ("name", "mountPath"))
        if name not in volumes:
            errors.not_found(f"{at}.name", name)
        if target in seen:
            errors.invalid(f"{at}.mountPath", target, "must be unique")
        seen.add(target)
        if name in devices:
            errors.invalid(f"{at}.name", name, "must not already exist in volumeDevices")
        if target in devices.values():
            errors.invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices")
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
            errors.invalid(f"{at}.subPathExpr", expression, detail)
        check_descending_path(errors, f"{path}.subPathExpr", expression)


def _check_propagation(errors: Errors, path: str, mount: JsonObject, container: JsonObject) -> None:
    propagation = mount.get("mountPropagation")
    errors.check_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
    privileged = (container.get("securityContext") or {}).get("privileged", False)
    if propagation == "Bidirectional" and not privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        errors.forbidden(f"{path}.mountPropagation", detail)
    options, at = mount.get("bindMountOptions") or [], f"{path}.bindMountOptions"
    for index, option in enumerate(options):
        errors.check_enum(f"{at}[{index}]", option, _MOUNT_OPTIONS)
        if option in options[:index]:
            errors.duplicate(f"{at}[{index}]", option)
    recursive, at = mount.get("recursiveReadOnly"), f"{path}.recursiveReadOnly"
    errors.check_supported(at, recursive, _RECURSIVE_READ_ONLY)
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.forbidden(at, "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            errors.forbidden(at, "may only be specified when mountPropagation is None or not specified")


def check_devices(errors: Errors, path: str, container: JsonObject, volumes: dict[str, JsonObject]) -> None:
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts") or ()}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        errors.check_required_fields(at, device, ("name", "devicePath"))
        _check_device_volume(errors, f"{at}.name", name, volumes)
        if name in seen_names:
            errors.invalid(f"{at}.name", name, "must be unique")
        if target in seen_paths:
            errors.invalid(f"{at}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            errors.invalid(f"{at}.devicePath", target, "can not contain backsteps ('..')")
        if name in mounts:
            errors.invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if target in mounts.values():
            errors.invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts")
        seen_names.add(name)
        seen_paths.add(target)


def _check_device_volume(errors: Errors, path: str, name: str, volumes: dict[str, JsonObject]) -> None:
    volume = volumes.get(name)
    if volume is None:
        errors.not_found(path, name)
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.invalid(path, name, detail)


# Environment variables of containers.
#
# Upstream: pkg/apis/core/validation (ValidateEnv, ValidateEnvFrom).

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def check_environment(errors: Errors, path: str, variables: list[JsonObject]) -> None:
    for index, variable in enumerate(variables):
        at, name = f"{path}[{index}]", variable.get("name", "")
        if not name:
            errors.required(f"{at}.name")
        else:
            errors.check_texts(f"{at}.name", name, names.environment_name(name))
        if (source := variable.get("valueFrom")) is not None:
            _check_source(errors, f"{at}.valueFrom", source, has_value=bool(variable.get("value")))


def _check_source(errors: Errors, path: str, source: JsonObject, *, has_value: bool) -> None:
    if (field := source.get("fieldRef")) is not None:
        check_field_reference(errors, f"{path}.fieldRef", field, ENVIRONMENT_FIELDS)
    if (resource := source.get("resourceFieldRef")) is not None:
        check_resource_reference(errors, f"{path}.resourceFieldRef", resource, in_volume=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if (key := source.get(name)) is not None:
            _check_key(errors, f"{path}.{name}", key)
    if (file := source.get("fileKeyRef")) is not None:
        _check_file(errors, f"{path}.fileKeyRef", file)
    count = sum(name in source for name in _SOURCES)
    if count == 0:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        errors.invalid(path, "", detail)
    elif has_value:
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        errors.invalid(path, "", "may not have more than one field specified at a time")


def _check_key(errors: Errors, path: str, reference: JsonObject) -> None:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors.check_texts(f"{path}.name", name, names.dns_subdomain(name))
    if key:
        errors.check_texts(f"{path}.key", key, names.config_key(key))
    else:
        errors.required(f"{path}.key")


def _check_file(errors: Errors, path: str, reference: JsonObject) -> None:
    key, volume, target = (reference.get(name, "") for name in ("key", "volumeName", "path"))
    for name, value in (("key", key), ("volumeName", volume), ("path", target)):
        if not value:
            errors.required(f"{path}.{name}")
    if key:
        errors.check_texts(f"{path}.key", key, names.environment_name(key))
    if volume:
        errors.check_texts(f"{path}.volumeName", volume, names.dns_label(volume))
    check_no_backsteps(errors, f"{path}.path", target)


def check_environment_from(errors: Errors, path: str, sources: list[JsonObject]) -> None:
    for index, source in enumerate(sources):
        at, prefix = f"{path}[{index}]", source.get("prefix", "")
        if prefix:
            errors.check_texts(f"{at}.prefix", prefix, names.environment_name(prefix))
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            _check_bag(errors, f"{at}.{name}.name", source[name].get("name", ""))
        # Parity: the path has no index.
        if not given:
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            errors.invalid(path, "", "may not have more than one field specified at a time")


def _check_bag(errors: Errors, path: str, name: str) -> None:
    if name:
        errors.check_texts(path, name, names.dns_subdomain(names.mask_trailing_dash(name)))
    else:
        errors.required(path)


_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_MAX_RESTART_RULES, _MAX_EXIT_CODES = 20, 255
_EPHEMERAL_FIELDS = frozenset(
    {
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "envFrom",
        "env",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
    }
)


class PodContext(PlainStruct, frozen=True, kw_only=True):
    """The parts of a pod that its containers refer to."""

    volumes: dict[str, JsonObject]
    #: Names in spec.resourceClaims.
    claims: frozenset[str]
    grace: int | None
    restart_policy: str
    host_users: bool
    #: Whether this is a pod rather than a template of one.
    is_pod: bool


def check_containers(errors: Errors, path: str, containers: list[JsonObject], pod: PodContext) -> None:
    if not containers:
        errors.required(path)
    seen: set[str] = set()
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        _check_common(errors, at, container, pod)
        _check_unique(errors, at, container.get("name", ""), seen)
        _check_long_running(errors, at, container, pod)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _check_restart_policy(errors, at, container)
    check_host_ports(errors, path, containers)


def check_init_containers(
    errors: Errors, path: str, containers: list[JsonObject], pod: PodContext, *, others: set[str]
) -> None:
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        _check_common(errors, at, container, pod)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _check_restart_policy(errors, at, container)
        _check_unique(errors, at, container.get("name", ""), others)
        # Parity: the reference reports these with index 0.
        check_host_ports(errors, path, [container])
        if container.get("restartPolicy") == "Always":
            _check_long_running(errors, at, container, pod)
        else:
            _check_short_lived(errors, at, container)


def check_ephemeral_containers(
    errors: Errors, path: str, containers: list[JsonObject], pod: PodContext, *, others: set[str]
) -> None:
    seen = set(others)
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        _check_common(errors, at, container, pod)
        _check_unique(errors, at, container.get("name", ""), seen)
        target = container.get("targetContainerName", "")
        if target and target not in others:
            errors.not_found(f"{at}.targetContainerName", target)
        for name, value in container.items():
            if name not in _EPHEMERAL_FIELDS and value:
                errors.forbidden(f"{at}.{name}", "cannot be set for an Ephemeral Container")
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            for name in ("subPath", "subPathExpr"):
                if mount.get(name):
                    where = f"{at}.volumeMounts[{position}].{name}"
                    errors.forbidden(where, "cannot be set for an Ephemeral Container")


def _check_unique(errors: Errors, path: str, name: str, seen: set[str]) -> None:
    if name in seen:
        errors.duplicate(f"{path}.name", name)
    elif name:
        seen.add(name)


def _check_common(errors: Errors, path: str, container: JsonObject, pod: PodContext) -> None:
    name = container.get("name", "")
    if not name:
        errors.required(f"{path}.name")
    elif complaints := names.dns_label(name):
        errors.check_texts(f"{path}.name", name, complaints)
    _check_image(errors, f"{path}.image", container.get("image", ""), pod)
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        errors.check_enum(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if ports := container.get("ports"):
        _check_ports(errors, f"{path}.ports", ports)
    if env := container.get("env"):
        check_environment(errors, f"{path}.env", env)
    if sources := container.get("envFrom"):
        check_environment_from(errors, f"{path}.envFrom", sources)
    if container.get("volumeMounts"):
        check_mounts(errors, f"{path}.volumeMounts", container, pod.volumes)
    if container.get("volumeDevices"):
        check_devices(errors, f"{path}.volumeDevices", container, pod.volumes)
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        errors.check_enum(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    if resources := container.get("resources"):
        check_requirements(
            errors,
            f"{path}.resources",
            resources,
            name_rule=check_container_resource_name,
            claims=pod.claims,
        )
    if policies := container.get("resizePolicy"):
        _check_resize_policies(errors, f"{path}.resizePolicy", policies, pod.restart_policy)
    if context := container.get("securityContext"):
        check_container_security(errors, f"{path}.securityContext", context, host_users=pod.host_users)


def _check_image(errors: Errors, path: str, image: str, pod: PodContext) -> None:
    if not image:
        errors.required(path)
    elif pod.is_pod and image != image.strip():
        errors.invalid(path, image, "must not have leading or trailing whitespace")


def _check_long_running(errors: Errors, path: str, container: JsonObject, pod: PodContext) -> None:
    if lifecycle := container.get("lifecycle"):
        check_lifecycle(errors, f"{path}.lifecycle", lifecycle, pod.grace)
    check_probes(errors, path, container, pod.grace)


def _check_short_lived(errors: Errors, path: str, container: JsonObject) -> None:
    for name in ("lifecycle", *PROBES):
        if container.get(name) is not None:
            detail = "may not be set for init containers without restartPolicy=Always"
            errors.forbidden(f"{path}.{name}", detail)
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        if policy.get("restartPolicy") == "RestartContainer":
            at = f"{path}.resizePolicy[{index}].restartPolicy"
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            errors.invalid(at, "RestartContainer", detail)


def _check_ports(errors: Errors, path: str, ports: list[JsonObject]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name", "")
        if name:
            if complaints := names.port_name(name):
                errors.check_texts(f"{at}.name", name, complaints)
            else:
                _check_unique(errors, at, name, seen)
        number, host = port.get("containerPort", 0), port.get("hostPort", 0)
        if not number:
            errors.required(f"{at}.containerPort")
        elif complaints := names.port_number(number):
            errors.invalid(f"{at}.containerPort", number, complaints[0])
        if host and (complaints := names.port_number(host)):
            errors.invalid(f"{at}.hostPort", host, complaints[0])
        errors.check_enum(f"{at}.protocol", port.get("protocol"), _PROTOCOLS)


def check_host_ports(errors: Errors, path: str, containers: list[JsonObject]) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            number = port.get("hostPort", 0)
            if not number:
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
            if key in seen:
                errors.duplicate(f"{path}[{index}].ports[{position}].hostPort", key)
            seen.add(key)


def _check_resize_policies(errors: Errors, path: str, policies: list[JsonObject], restart_policy: str) -> None:
    # Parity: the path has no index, except for duplicates.
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, action = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            errors.duplicate(f"{path}[{index}]", resource)
        seen.add(resource)
        errors.check_enum(path, resource, ("cpu", "memory"))
        errors.check_enum(path, action, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and action != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.invalid(path, action, detail)


def _check_restart_policy(errors: Errors, path: str, container: JsonObject) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None:
        if rules:
            detail = "must specify restartPolicy when restart rules are used"
            errors.required(f"{path}.restartPolicy", detail)
    elif policy not in _RESTART_POLICIES:
        errors.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if len(rules) > _MAX_RESTART_RULES:
        errors.too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RESTART_RULES)
    for index, rule in enumerate(rules):
        _check_restart_rule(errors, f"{path}.restartPolicyRules[{index}]", rule)


def _check_restart_rule(errors: Errors, path: str, rule: JsonObject) -> None:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    if action not in _RESTART_ACTIONS:
        errors.not_supported(f"{path}.action", action, _RESTART_ACTIONS)
    if codes is None:
        errors.required(f"{path}.exitCodes", "must be specified")
        return
    if codes.get("operator", "") not in ("In", "NotIn"):
        errors.not_supported(f"{path}.exitCodes.operator", codes.get("operator", ""), ("In", "NotIn"))
    if len(codes.get("values") or ()) > _MAX_EXIT_CODES:
        errors.too_many(f"{path}.exitCodes.values", len(codes["values"]), _MAX_EXIT_CODES)
