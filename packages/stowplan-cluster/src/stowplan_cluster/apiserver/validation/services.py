"""Validate Services: selectors, ports, types, and immutable cluster IPs.

Left out is what concerns traffic, as nothing is routed here: session affinity, load balancers, traffic policies, node
ports, families of addresses.

Upstream: pkg/apis/core/validation (validateService and below).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors
from stowplan_cluster.apiserver.validation.names import check_ip
from stowplan_cluster.apiserver.validation.probes import check_port
from stowplan_cluster.apiserver.validation.selectors import check_labels

NONE = "None"

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def is_headless(spec: JsonObject) -> bool:
    return bool(spec.get("clusterIPs") == [NONE])


def check_service(errors: Errors, service: JsonObject) -> None:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.required("spec.ports")
    if kind == "ExternalName" and not spec.get("externalName"):
        errors.required("spec.externalName")
    _check_ports(errors, ports)
    check_labels(errors, "spec.selector", spec.get("selector"))
    if kind != "ExternalName":
        _check_cluster_ips(errors, spec)
    errors.check_enum("spec.type", kind, _TYPES)


def _check_ports(errors: Errors, ports: list[JsonObject]) -> None:
    names_seen: set[str] = set()
    ports_seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        at, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            errors.check_texts(f"{at}.name", name, names.dns_label(name))
        elif len(ports) > 1:
            errors.required(f"{at}.name")
        if name and name in names_seen:
            errors.duplicate(f"{at}.name", name)
        check_port(errors, f"{at}.port", port.get("port", 0))
        errors.check_enum(f"{at}.protocol", port.get("protocol"), _PROTOCOLS)
        check_port(errors, f"{at}.targetPort", port.get("targetPort", 0))
        number = (port.get("protocol", ""), port.get("port", 0))
        if number in ports_seen:
            errors.duplicate(at, {"port": number[1], "protocol": number[0]})
        names_seen.add(name)
        ports_seen.add(number)


def _check_cluster_ips(errors: Errors, spec: JsonObject) -> None:
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if address and addresses[:1] != [address]:
        errors.invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    if not is_headless(spec):
        for index, text in enumerate(addresses):
            check_ip(errors, f"spec.clusterIPs[{index}]", text)


def check_service_update(errors: Errors, service: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource == "status":
        return
    spec, old_spec = service.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in (spec.get("type"), old_spec.get("type")):
        _check_addresses_kept(errors, spec, old_spec)
    check_service(errors, service)


def _check_addresses_kept(errors: Errors, spec: JsonObject, old: JsonObject) -> None:
    if is_headless(spec) and is_headless(old):
        return
    new, before = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    if before and not new:
        errors.invalid("spec.clusterIPs[0]", None, "primary clusterIP can not be unset")
    for index, (now, then) in enumerate(zip(new, before, strict=False)):
        if now != then:
            errors.invalid(f"spec.clusterIPs[{index}]", new, "may not change once set")
