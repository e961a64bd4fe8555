"""Validate Pods and pod templates.

Left out: Windows, and the annotations that preceded the AppArmor and seccomp fields.

Upstream: pkg/apis/core/validation (ValidatePodSpec, ValidatePodTemplateSpec).
"""

from __future__ import annotations

from stowplan.kube.api.container_totals import container_totals
from stowplan.kube.api.labels import is_qualified_name_errors
from stowplan.kube.api.meta import MAX_INT32
from stowplan.kube.api.pod import DELETION_COST
from stowplan.kube.api.quantity import format_quantity, parse_quantity
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names, placement
from stowplan_cluster.apiserver.validation.containers import (
    PodContext,
    check_containers,
    check_ephemeral_containers,
    check_init_containers,
)
from stowplan_cluster.apiserver.validation.field_errors import Errors, between, byte_length
from stowplan_cluster.apiserver.validation.metadata import check_annotations
from stowplan_cluster.apiserver.validation.names import check_ip
from stowplan_cluster.apiserver.validation.resources import (
    check_container_resource_name,
    check_pod_resource_name,
    check_requirements,
    is_hugepage,
)
from stowplan_cluster.apiserver.validation.security import check_pod_security
from stowplan_cluster.apiserver.validation.selectors import check_labels
from stowplan_cluster.apiserver.validation.volumes import check_volumes

# Validate pod-level resources against those of the containers.
#
# Upstream: pkg/apis/core/validation (validatePodResources, validatePodResourceConsistency).


def check_pod_resources(errors: Errors, path: str, spec: JsonObject, claims: frozenset[str]) -> None:
    resources, at = spec["resources"], f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        errors.forbidden(at, "may not be set for a windows pod")
        return
    if resources.get("claims"):
        errors.forbidden(f"{at}.claims", "claims may not be set for Resources at pod-level")
    check_requirements(errors, at, resources, name_rule=check_pod_resource_name, claims=claims)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, total in container_totals(spec, "requests").items():
        if name in requests and total > parse_quantity(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {format_quantity(total)}"
            errors.invalid(f"{at}.requests[{name}]", requests[name], detail)
    for name, total in container_totals(spec, "limits").items():
        if is_hugepage(name) and name in limits and total > parse_quantity(limits[name]):
            detail = f"must be greater than or equal to aggregate container limits of {format_quantity(total)}"
            errors.invalid(f"{at}.limits[{name}]", limits[name], detail)
    _check_container_limits(errors, at, spec, limits)


def _check_container_limits(errors: Errors, path: str, spec: JsonObject, limits: JsonObject) -> None:
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and parse_quantity(limit) > parse_quantity(limits[name]):
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.invalid(f"{path}.containers[{index}][{name}].limits", limit, detail)


MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def check_pod(errors: Errors, pod: JsonObject) -> None:
    """Check a pod, on create and update."""
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if annotations := metadata.get("annotations"):
        _check_pod_annotations(errors, "metadata.annotations", annotations, spec)
    check_pod_spec(errors, "spec", spec, metadata=metadata)
    if not spec.get("serviceAccountName"):
        _check_tokens(errors, spec)


def check_new_pod(errors: Errors, pod: JsonObject) -> None:
    check_pod(errors, pod)
    spec = pod.get("spec") or {}
    if spec.get("ephemeralContainers"):
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def check_pod_template(errors: Errors, path: str, template: JsonObject) -> None:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    check_labels(errors, f"{path}.labels", metadata.get("labels"))
    annotations = metadata.get("annotations")
    check_annotations(errors, f"{path}.annotations", annotations)
    _check_pod_annotations(errors, f"{path}.annotations", annotations or {}, spec)
    check_pod_spec(errors, f"{path}.spec", spec, metadata=None)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.forbidden(f"{path}.spec.ephemeralContainers", detail)


def _check_pod_annotations(errors: Errors, path: str, annotations: dict[str, str], spec: JsonObject) -> None:
    if MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(f"{path}[{MIRROR_ANNOTATION}]", annotations[MIRROR_ANNOTATION], detail)
    cost = annotations.get(DELETION_COST)
    if cost is not None and not _is_deletion_cost(cost):
        errors.invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")


def _is_deletion_cost(text: str) -> bool:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or (digits.startswith("0") and text != "0"):
        return False
    return len(digits) <= 10 and -MAX_INT32 - 1 <= int(text) <= MAX_INT32


def _check_tokens(errors: Errors, spec: JsonObject) -> None:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if "serviceAccountToken" in source:
                at = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                errors.forbidden(at, "must not be specified when serviceAccountName is not set")


def check_pod_spec(errors: Errors, path: str, spec: JsonObject, *, metadata: JsonObject | None) -> None:
    """`metadata` is the pod's; None for a template."""
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.required(f"{path}.terminationGracePeriodSeconds")
    _check_all_containers(errors, path, spec, metadata)
    errors.check_enum(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)
    errors.check_enum(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    if context := spec.get("securityContext"):
        check_pod_security(errors, f"{path}.securityContext", context, spec)
    _check_placement(errors, path, spec)
    _check_network(errors, path, spec, is_pod=metadata is not None)
    _check_names(errors, path, spec)
    _check_rest(errors, path, spec)


def _check_all_containers(errors: Errors, path: str, spec: JsonObject, metadata: JsonObject | None) -> None:
    pod_name = (metadata or {}).get("name", "")
    volumes: dict[str, JsonObject] = {}
    if listed := spec.get("volumes"):
        volumes = check_volumes(errors, f"{path}.volumes", listed, pod_name=pod_name)
    claims: frozenset[str] = frozenset()
    if wanted := spec.get("resourceClaims"):
        claims = _check_resource_claims(errors, f"{path}.resourceClaims", wanted, metadata)
    context = PodContext(
        volumes=volumes,
        claims=claims,
        grace=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers") is not False,
        is_pod=metadata is not None,
    )
    containers = spec.get("containers") or []
    check_containers(errors, f"{path}.containers", containers, context)
    others = {container.get("name", "") for container in containers}
    if init := spec.get("initContainers"):
        check_init_containers(errors, f"{path}.initContainers", init, context, others=others)
    if ephemeral := spec.get("ephemeralContainers"):
        check_ephemeral_containers(errors, f"{path}.ephemeralContainers", ephemeral, context, others=others)
    if spec.get("resources") is not None:
        check_pod_resources(errors, path, spec, claims)
    if not context.host_users:
        _check_user_namespace(errors, path, spec)
    _check_environment_files(errors, path, spec)


def _check_user_namespace(errors: Errors, path: str, spec: JsonObject) -> None:
    # Parity: the reference capitalizes two of the paths.
    for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            errors.forbidden(f"{path}.{shown}", "when `hostUsers` is false")
    for kind in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            if container.get("volumeDevices"):
                errors.forbidden(f"{path}.{kind}[{index}].volumeDevices", "when `hostUsers` is false")


def _check_environment_files(errors: Errors, path: str, spec: JsonObject) -> None:
    for kind in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            for position, variable in enumerate(container.get("env") or ()):
                file = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if file is not None:
                    at = f"{path}.{kind}[{index}].env[{position}].valueFrom.fileKeyRef.volumeName"
                    _check_environment_file(errors, at, file.get("volumeName", ""), spec)


def _check_environment_file(errors: Errors, path: str, name: str, spec: JsonObject) -> None:
    volume = next((volume for volume in spec.get("volumes") or () if volume.get("name") == name), None)
    if volume is None:
        errors.not_found(path, name)
    elif "emptyDir" not in volume:
        errors.invalid(path, name, "referenced volume must be of type emptyDir")


def _check_resource_claims(
    errors: Errors, path: str, claims: list[JsonObject], metadata: JsonObject | None
) -> frozenset[str]:
    seen: set[str] = set()
    static = MIRROR_ANNOTATION in ((metadata or {}).get("annotations") or ())
    for index, claim in enumerate(claims):
        if static:
            errors.forbidden("", "static pods do not support resource claims")
            continue
        at, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.required(f"{at}.name")
        elif name in seen:
            errors.duplicate(f"{at}.name", name)
        else:
            errors.check_texts(f"{at}.name", name, names.dns_label(name))
            seen.add(name)
        _check_claim_source(errors, at, claim)
    return frozenset(claim["name"] for claim in claims if claim.get("name"))


def _check_claim_source(errors: Errors, path: str, claim: JsonObject) -> None:
    given = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if name in claim]
    if len(given) > 1:
        detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.invalid(path, claim, detail)
    if not given:
        detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        errors.invalid(path, claim, detail)
    for name in given:
        errors.check_texts(f"{path}.{name}", claim[name], names.dns_subdomain(claim[name]))


def _check_placement(errors: Errors, path: str, spec: JsonObject) -> None:
    if labels := spec.get("nodeSelector"):
        check_labels(errors, f"{path}.nodeSelector", labels)
    if affinity := spec.get("affinity"):
        placement.check_affinity(errors, f"{path}.affinity", affinity)
    if gates := spec.get("schedulingGates"):
        placement.check_scheduling_gates(errors, f"{path}.schedulingGates", gates)
    if constraints := spec.get("topologySpreadConstraints"):
        placement.check_spreading(errors, f"{path}.topologySpreadConstraints", constraints)
    if tolerations := spec.get("tolerations"):
        placement.check_tolerations(errors, f"{path}.tolerations", tolerations)
    if (group := spec.get("schedulingGroup")) is not None:
        placement.check_scheduling_group(errors, f"{path}.schedulingGroup", group)
    if overhead := spec.get("overhead"):
        check_requirements(
            errors,
            f"{path}.overhead",
            {"limits": overhead},
            name_rule=check_container_resource_name,
            claims=frozenset(),
        )


def _check_network(errors: Errors, path: str, spec: JsonObject, *, is_pod: bool) -> None:
    if spec.get("hostNetwork"):
        _check_host_network_ports(errors, f"{path}.containers", spec.get("containers") or [], is_pod=is_pod)
    config = spec.get("dnsConfig")
    if config is not None or spec.get("dnsPolicy") == "None":
        _check_dns(errors, f"{path}.dnsConfig", config, spec.get("dnsPolicy", ""))
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        at = f"{path}.hostAliases[{index}]"
        check_ip(errors, f"{at}.ip", alias.get("ip", ""))
        for position, hostname in enumerate(alias.get("hostnames") or ()):
            errors.check_texts(f"{at}.hostnames[{position}]", hostname, names.dns_subdomain(hostname))


def _check_host_network_ports(errors: Errors, path: str, containers: list[JsonObject], *, is_pod: bool) -> None:
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort", 0)
            if (is_pod or host) and host != port.get("containerPort", 0):
                detail = "must match `containerPort` when `hostNetwork` is true"
                errors.invalid(f"{path}[{index}].ports[{position}].hostPort", host, detail)


def _check_dns(errors: Errors, path: str, config: JsonObject | None, policy: str) -> None:
    servers = (config or {}).get("nameservers") or []
    if policy == "None":
        if config is None:
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.required(f"{path}.nameservers", detail)
            return
    config = config or {}
    searches = config.get("searches") or []
    if len(servers) > 3:
        errors.invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for index, server in enumerate(servers):
        check_ip(errors, f"{path}.nameservers[{index}]", server)
    _check_searches(errors, f"{path}.searches", searches)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.required(f"{path}.options[{index}]", "must not be empty")


def _check_searches(errors: Errors, path: str, searches: list[str]) -> None:
    if len(searches) > 32:
        errors.invalid(path, searches, "must not have more than 32 search paths")
    if len(" ".join(searches)) > 2048:
        detail = "must not have more than 2048 characters (including spaces) in the search list"
        errors.invalid(path, searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            domain = search.removesuffix(".")
            errors.check_texts(f"{path}[{index}]", domain, names.dns_subdomain_with_underscore(domain))


_SUBDOMAIN_FIELDS = ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName")


def _check_names(errors: Errors, path: str, spec: JsonObject) -> None:
    for name in _SUBDOMAIN_FIELDS:
        if (value := spec.get(name)) and (complaints := names.dns_subdomain(value)):
            errors.check_texts(f"{path}.{name}", value, complaints)
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            errors.check_texts(f"{path}.{name}", value, names.dns_label(value))
    if (override := spec.get("hostnameOverride")) is not None:
        _check_hostname_override(errors, f"{path}.hostnameOverride", override, spec)


def _check_hostname_override(errors: Errors, path: str, override: str, spec: JsonObject) -> None:
    for name in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(name):
            errors.forbidden(path, f"may not be specified when {name} is true")
    if byte_length(override) > 64:
        errors.too_long(path, 64)
    errors.check_texts(path, override, names.dns_subdomain(override))


def _check_rest(errors: Errors, path: str, spec: JsonObject) -> None:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        errors.invalid(f"{path}.activeDeadlineSeconds", deadline, between(1, MAX_INT32))
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        errors.check_texts(f"{path}.readinessGates[{index}].conditionType", kind, is_qualified_name_errors(kind))
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        errors.check_enum(f"{path}.preemptionPolicy", policy, _PREEMPTION_POLICIES)
    if (system := spec.get("os")) is not None:
        if not system.get("name"):
            errors.required(f"{path}.os.name")
        elif system["name"] not in ("linux", "windows"):
            errors.not_supported(f"{path}.os", system["name"], ("linux", "windows"))
