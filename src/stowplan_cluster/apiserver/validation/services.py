"""Validate Services: ports, types, and immutable cluster IPs.

Left out: health-check ports beyond their range, and cloud annotations.

Upstream: pkg/apis/core/validation (validateService and below).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.labels import is_qualified_name_errors
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    check_enum,
    check_supported,
    check_texts,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan_cluster.apiserver.validation.ip_addresses import check_ip, check_network, is_dual_stack, is_ipv6
from stowplan_cluster.apiserver.validation.probes import check_port
from stowplan_cluster.apiserver.validation.selectors import check_labels

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

NONE = "None"

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = ("Cluster", "Local")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY_SECONDS = 86400


def is_headless(spec: JsonObject) -> bool:
    return bool(spec.get("clusterIPs") == [NONE])


def check_service(errors: Errors, service: JsonObject) -> None:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        errors.append(invalid("spec.clusterIPs[0]", NONE, f"may not be set to 'None' for {kind} services"))
    elif kind == "ExternalName":
        _check_external_name(errors, spec)
    _check_ports(errors, ports, kind)
    check_labels(errors, "spec.selector", spec.get("selector"))
    _check_session_affinity(errors, spec)
    if kind != "ExternalName":
        _check_cluster_ips(errors, spec)
    for index, text in enumerate(spec.get("externalIPs") or ()):
        check_ip(errors, f"spec.externalIPs[{index}]", text)
    check_enum(errors, "spec.type", kind, _TYPES)
    _check_load_balancer(errors, spec, kind)
    _check_traffic(errors, spec, kind)


def _check_external_name(errors: Errors, spec: JsonObject) -> None:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            errors.append(forbidden(f"spec.{name}", "may not be set for ExternalName services"))
    target = spec.get("externalName", "").removesuffix(".")
    if target:
        check_texts(errors, "spec.externalName", target, names.dns_subdomain(target))
    else:
        errors.append(required("spec.externalName"))


def _check_ports(errors: Errors, ports: list[JsonObject], kind: str) -> None:
    seen_names: set[str] = set()
    seen_ports: set[tuple[str, int]] = set()
    seen_node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at = f"spec.ports[{index}]"
        _check_port(errors, at, port, seen_names, name_needed=len(ports) > 1)
        protocol, number, node_port = port.get("protocol", ""), port.get("port", 0), port.get("nodePort", 0)
        if node_port and kind == "ClusterIP":
            errors.append(forbidden(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        if node_port and (protocol, node_port) in seen_node_ports:
            errors.append(duplicate(f"{at}.nodePort", node_port))
        if (protocol, number) in seen_ports:
            errors.append(duplicate(at, {"port": number, "protocol": protocol}))
        seen_ports.add((protocol, number))
        seen_node_ports.add((protocol, node_port))


def _check_port(errors: Errors, path: str, port: JsonObject, seen: set[str], *, name_needed: bool) -> None:
    name = port.get("name", "")
    if name:
        check_texts(errors, f"{path}.name", name, names.dns_label(name))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
    elif name_needed:
        errors.append(required(f"{path}.name"))
    check_port(errors, f"{path}.port", port.get("port", 0))
    check_enum(errors, f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
    check_port(errors, f"{path}.targetPort", port.get("targetPort", 0))
    if (protocol := port.get("appProtocol")) is not None:
        check_texts(errors, f"{path}.appProtocol", protocol, is_qualified_name_errors(protocol))


def _check_session_affinity(errors: Errors, spec: JsonObject) -> None:
    affinity, config = spec.get("sessionAffinity"), spec.get("sessionAffinityConfig")
    check_enum(errors, "spec.sessionAffinity", affinity, ("ClientIP", "None"))
    if affinity == "None" and config is not None:
        errors.append(forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None"))
    if affinity != "ClientIP":
        return
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None:
        errors.append(required(path, "when session affinity type is ClientIP"))
    elif not 0 < seconds <= _MAX_AFFINITY_SECONDS:
        errors.append(invalid(path, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"))


def _check_cluster_ips(errors: Errors, spec: JsonObject) -> None:
    path, address, addresses = "spec.clusterIPs", spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if address and not addresses:
        errors.append(required(path))
    elif address and addresses[0] != address:
        errors.append(invalid(path, addresses, "first value must match `clusterIP`"))
    elif addresses and not address:
        errors.append(invalid(path, addresses, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in families[:index]:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    check_supported(errors, "spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), _FAMILY_POLICIES)
    if not is_headless(spec):
        _check_addresses(errors, path, addresses, families)


def _check_addresses(errors: Errors, path: str, addresses: list[str], families: list[str]) -> None:
    before = len(errors)
    for index, text in enumerate(addresses):
        if index == 0 and text == NONE:
            errors.append(invalid(path, addresses, "'None' must be the first and only value"))
        else:
            check_ip(errors, f"{path}[{index}]", text)
    if len(addresses) > 2:
        errors.append(invalid(path, addresses, "may only hold up to 2 values"))
    if len(errors) > before:
        return
    if len(addresses) > 1 and not is_dual_stack(addresses):
        errors.append(invalid(path, addresses, "may specify no more than one IP for each IP family"))
    for index, (text, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and is_ipv6(text) != (family == "IPv6"):
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{path}[{index}]", text, detail))


def _check_load_balancer(errors: Errors, spec: JsonObject, kind: str) -> None:
    ranges = spec.get("loadBalancerSourceRanges") or []
    balanced, only = kind == "LoadBalancer", "may only be used when `type` is 'LoadBalancer'"
    if ranges and not balanced:
        errors.append(forbidden("spec.LoadBalancerSourceRanges", only))
    for index, text in enumerate(ranges):
        check_network(errors, f"spec.LoadBalancerSourceRanges[{index}]", text.strip())
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", only))
    if (name := spec.get("loadBalancerClass")) is not None:
        if not balanced:
            errors.append(forbidden("spec.loadBalancerClass", only))
        check_texts(errors, "spec.loadBalancerClass", name, is_qualified_name_errors(name))


def is_externally_accessible(spec: JsonObject) -> bool:
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _check_traffic(errors: Errors, spec: JsonObject, kind: str) -> None:
    external, path = spec.get("externalTrafficPolicy"), "spec.externalTrafficPolicy"
    if is_externally_accessible(spec):
        check_enum(errors, path, external, _POLICIES)
    elif external:
        errors.append(invalid(path, external, "may only be set for externally-accessible services"))
    internal = spec.get("internalTrafficPolicy")
    if internal is None and kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        errors.append(required("spec.internalTrafficPolicy"))
    check_supported(errors, "spec.internalTrafficPolicy", internal, _POLICIES)
    check_supported(errors, "spec.trafficDistribution", spec.get("trafficDistribution"), _DISTRIBUTIONS)


def check_service_update(errors: Errors, service: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        return
    spec, old_spec = service.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in (spec.get("type"), old_spec.get("type")):
        _check_addresses_kept(errors, spec, old_spec)
    if old_spec.get("type") == spec.get("type") == "LoadBalancer":
        name, before = spec.get("loadBalancerClass"), old_spec.get("loadBalancerClass")
        if name != before:
            errors.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
    check_service(errors, service)


def _check_addresses_kept(errors: Errors, spec: JsonObject, old: JsonObject) -> None:
    if is_headless(spec) and is_headless(old):
        return
    new, before = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    if before and not new:
        errors.append(invalid("spec.clusterIPs[0]", None, "primary clusterIP can not be unset"))
    for index, (now, then) in enumerate(zip(new, before, strict=False)):
        if now != then:
            errors.append(invalid(f"spec.clusterIPs[{index}]", new, "may not change once set"))
    if len(before) > len(new) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail))
