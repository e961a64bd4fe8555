"""Validate kinds of core/v1 that are neither pods nor storage: Services, ConfigMaps, Secrets, Nodes and Events.

Left out of Services is what concerns traffic, as nothing is routed here: session affinity, load balancers, traffic
policies, node ports, families of addresses. Left out of Nodes are configSource, which nothing reads any more, and the
annotations that came before taints.

Upstream: pkg/apis/core/validation (validateService and below, ValidateConfigMap, ValidateSecret, ValidateNode,
ValidateNodeUpdate), events.go.
"""

from __future__ import annotations

import re

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.labels import is_qualified_name_errors, label_value_errors
from stowplan_cluster.apiserver.conversion import EVENT_FIELDS
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.field_errors import Errors, byte_length, same
from stowplan_cluster.apiserver.validation.names import MAX_SUBDOMAIN, check_ip, check_network, is_dual_stack
from stowplan_cluster.apiserver.validation.placement import TAINT_EFFECTS
from stowplan_cluster.apiserver.validation.probes import check_port
from stowplan_cluster.apiserver.validation.resources import check_resource_quantity
from stowplan_cluster.apiserver.validation.selectors import check_label_key, check_labels

NONE = "None"

_RESIZE_PREEMPTION, _MAX_OWNERS = "spec.podPreemptionPolicy.disableResizePreemption", 20
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


# ConfigMaps and Secrets.

_MAX_SIZE = 1024 * 1024
_SEALED = "field is immutable when `immutable` is set"

#: Secret type -> required keys.
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _decoded_length(text: str) -> int:
    return len(text) * 3 // 4 - text.count("=", -2)


def check_config_map(errors: Errors, config_map: JsonObject) -> None:
    data, binary = config_map.get("data") or {}, config_map.get("binaryData") or {}
    for key in data:
        errors.check_texts(f"data[{key}]", key, names.config_key(key))
        if key in binary:
            errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        errors.check_texts(f"binaryData[{key}]", key, names.config_key(key))
    size = sum(map(byte_length, data.values())) + sum(map(_decoded_length, binary.values()))
    if size > _MAX_SIZE:
        errors.too_long("[]", _MAX_SIZE)


def check_config_map_update(errors: Errors, config_map: JsonObject, old: JsonObject, subresource: str) -> None:
    _check_sealed(errors, config_map, old, ("data", "binaryData"))
    check_config_map(errors, config_map)


def _check_sealed(errors: Errors, obj: JsonObject, old: JsonObject, fields: tuple[str, ...]) -> None:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        errors.forbidden("immutable", _SEALED)
    for name in fields:
        if not same(obj.get(name), old.get(name)):
            errors.forbidden(name, _SEALED)


def check_secret(errors: Errors, secret: JsonObject) -> None:
    data = secret.get("data") or {}
    for key in data:
        errors.check_texts(f"data[{key}]", key, names.config_key(key))
    if sum(map(_decoded_length, data.values())) > _MAX_SIZE:
        errors.too_long("data", _MAX_SIZE)
    for key in _REQUIRED_KEYS.get(secret.get("type", ""), ()):
        if key not in data:
            errors.required(f"data[{key}]")


def check_secret_update(errors: Errors, secret: JsonObject, old: JsonObject, subresource: str) -> None:
    errors.check_immutable("type", secret.get("type", ""), old.get("type", ""))
    _check_sealed(errors, secret, old, ("data",))
    check_secret(errors, secret)


# Nodes.

_FEATURE_RE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")


def check_node(errors: Errors, node: JsonObject) -> None:
    spec = node.get("spec") or {}
    _check_taints(errors, spec.get("taints") or [])
    _check_status(errors, node.get("status") or {})
    _check_preemption_policy(errors, spec)
    if ranges := spec.get("podCIDRs"):
        for index, text in enumerate(ranges):
            check_network(errors, f"spec.podCIDRs[{index}]", text)
        if len(ranges) > 1 and (len(ranges) > 2 or not is_dual_stack(ranges)):
            errors.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def _check_preemption_policy(errors: Errors, spec: JsonObject) -> None:
    owners, path = (spec.get("podPreemptionPolicy") or {}).get("disableResizePreemption") or [], _RESIZE_PREEMPTION
    if len(owners) > _MAX_OWNERS:
        errors.too_many(path, len(owners), _MAX_OWNERS)
        return
    for index, owner in enumerate(owners):
        check_label_key(errors, f"{path}[{index}]", owner)
        if owner in owners[:index]:
            errors.duplicate(f"{path}[{index}]", owner)


def check_node_update(errors: Errors, node: JsonObject, old: JsonObject, subresource: str) -> None:
    spec, old_spec, status = node.get("spec") or {}, old.get("spec") or {}, node.get("status") or {}
    if status != old.get("status"):
        _check_status(errors, status)
        _check_addresses(errors, status.get("addresses") or [])
    if subresource == "status":
        return
    old_ranges = old_spec.get("podCIDRs")
    if old_ranges and old_ranges != spec.get("podCIDRs"):
        errors.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    old_provider = old_spec.get("providerID")
    if old_provider and old_provider != spec.get("providerID"):
        errors.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    _check_taints(errors, spec.get("taints") or [])
    _check_preemption_policy(errors, spec)
    if spec.get("externalID", "") != old_spec.get("externalID", ""):
        errors.forbidden("spec.externalID", "may not be updated")


def _check_taints(errors: Errors, taints: list[JsonObject]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        # Parity: the reference's path puts taints into metadata.
        at, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        check_label_key(errors, f"{at}.key", key)
        if complaints := label_value_errors(taint.get("value", "")):
            errors.invalid(f"{at}.value", taint["value"], ";".join(complaints))
        errors.check_enum(f"{at}.effect", effect, TAINT_EFFECTS)
        if (key, effect) in seen:
            errors.duplicate(at, taint, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def _check_status(errors: Errors, status: JsonObject) -> None:
    for kind in ("capacity", "allocatable"):
        for name, value in (status.get(kind) or {}).items():
            check_resource_quantity(errors, f"status.{kind}.{name}", name, value)
    features = status.get("declaredFeatures") or []
    for index, feature in enumerate(features):
        at = f"status.declaredFeatures[{index}]"
        _check_feature(errors, at, feature)
        if index and feature == features[index - 1]:
            errors.duplicate(at, feature)
        elif index and feature < features[index - 1]:
            errors.invalid(at, feature, "list must be sorted alphabetically")


def _check_feature(errors: Errors, path: str, feature: str) -> None:
    if len(feature) > MAX_SUBDOMAIN:
        detail = f"must be no more than {MAX_SUBDOMAIN} characters"
    elif not _FEATURE_RE.fullmatch(feature):
        detail = (
            "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
            "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
        )
    else:
        return
    errors.invalid(path, feature, f"invalid feature name {go_quote(feature)}: {detail}")


def _check_addresses(errors: Errors, addresses: list[JsonObject]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(addresses):
        key = (address.get("type", ""), address.get("address", ""))
        if key in seen:
            errors.duplicate(f"status.addresses[{index}]", address)
        seen.add(key)


# Events of both API groups; events.k8s.io/v1 is stricter, and applies to all with an eventTime.

#: Messages use the field names of core/v1, except for this field.
_CORE_ONLY = {"reportingController": "reportingComponent"}
_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128}
_MAX_NOTE = 1024
_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
)


class _View:
    """An event of either version, read by the field names of core/v1."""

    def __init__(self, event: JsonObject, *, core: bool) -> None:
        self._event = event
        self._names = _CORE_ONLY if core else EVENT_FIELDS

    def get(self, name: str, default: object = "") -> object:
        return self._event.get(self._names.get(name, name), default)

    def text(self, name: str) -> str:
        return str(self.get(name) or "")


def check_core_event(errors: Errors, event: JsonObject) -> None:
    _check_common(errors, event, core=True)


def check_event(errors: Errors, event: JsonObject) -> None:
    _check_common(errors, event, core=False)
    view = _View(event, core=False)
    _check_series(errors, event.get("series"))
    if not view.get("eventTime"):
        errors.required("eventTime")
    kind = view.text("type")
    if kind not in ("Normal", "Warning"):
        errors.invalid("type", "", f"has invalid value: {kind}")
    for name in ("firstTimestamp", "lastTimestamp", "count"):
        if view.get(name):
            errors.invalid(name, "", "needs to be unset")
    source = view.get("source", None)
    if isinstance(source, dict) and any(source.values()):
        errors.invalid("source", "", "needs to be unset")


def _check_common(errors: Errors, event: JsonObject, *, core: bool) -> None:
    view = _View(event, core=core)
    namespace = (event.get("metadata") or {}).get("namespace", "")
    involved = view.get("involvedObject", None)
    about = str(involved.get("namespace") or "") if isinstance(involved, dict) else ""
    _check_namespace(errors, namespace, about, new=bool(view.get("eventTime")))
    if view.get("eventTime"):
        _check_new(errors, view, "reportingComponent" if core else "reportingController")
    errors.check_texts("namespace", namespace, names.dns_subdomain(namespace))


def _check_namespace(errors: Errors, namespace: str, about: str, *, new: bool) -> None:
    """Check that events about cluster-scoped objects are in default (new events: or in kube-system)."""
    if about:
        matches = new or namespace == about
    else:
        matches = namespace in (("default", "kube-system") if new else ("", "default"))
    if not matches:
        errors.invalid("involvedObject.namespace", about, "does not match event.namespace")


def _check_new(errors: Errors, view: _View, controller_field: str) -> None:
    controller = view.text("reportingController")
    if not controller:
        errors.required(controller_field)
    errors.check_texts(controller_field, controller, is_qualified_name_errors(controller))
    for name, limit in _LIMITS.items():
        text = view.text(name)
        if not text:
            errors.required(name)
        if byte_length(text) > limit:
            errors.invalid(name, "", f"can have at most {limit} characters")
    if byte_length(view.text("message")) > _MAX_NOTE:
        errors.invalid("message", "", f"can have at most {_MAX_NOTE} characters")


def _check_series(errors: Errors, series: JsonObject | None) -> None:
    if series is None:
        return
    if series.get("count", 0) < 2:
        errors.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        errors.required("series.lastObservedTime")


def check_core_event_update(errors: Errors, event: JsonObject, old: JsonObject, subresource: str) -> None:
    check_core_event(errors, event)


def check_event_update(errors: Errors, event: JsonObject, old: JsonObject, subresource: str) -> None:
    _check_common(errors, event, core=False)
    if not same(event.get("series"), old.get("series")):
        _check_series(errors, event.get("series"))
    new, before = _View(event, core=False), _View(old, core=False)
    for name in _FIXED:
        errors.check_immutable(name, new.get(name, None), before.get(name, None))
