"""Validate Ingresses, IngressClasses and NetworkPolicies.

Upstream: pkg/apis/networking/validation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.changes import check_immutable_fields
from stowplan_cluster.apiserver.validation.fields import (
    Errors,
    check_length,
    check_supported,
    check_texts,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan_cluster.apiserver.validation.ip_addresses import check_strict_network, is_address, network_of
from stowplan_cluster.apiserver.validation.object_references import check_kind_and_name
from stowplan_cluster.apiserver.validation.paths import check_domain_prefixed_path
from stowplan_cluster.apiserver.validation.selectors import check_label_selector

if TYPE_CHECKING:
    import ipaddress
    from collections.abc import Collection, Iterator

    from stowplan_cluster.apiserver.objects import JsonObject

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Ingress", "Egress")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_SCOPES = ("Cluster", "Namespace")
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_IN_PATHS, _NOT_AT_ENDS = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_NO_NAME = "must be a DNS name, not an IP address"
_ABSOLUTE = "must be an absolute path"


# -- Ingress ----------------------------------------------------------------------------------------------------------


def check_ingress(errors: Errors, ingress: JsonObject) -> None:
    _check_ingress_spec(errors, ingress.get("spec") or {})
    named = ((ingress.get("metadata") or {}).get("annotations") or {}).get(_CLASS_ANNOTATION)
    chosen = (ingress.get("spec") or {}).get("ingressClassName")
    if named is not None and chosen is not None and named != chosen:
        detail = "must match `ingressClassName` when both are specified"
        errors.append(invalid(f"annotations.{_CLASS_ANNOTATION}", named, detail))


def check_ingress_update(errors: Errors, ingress: JsonObject, old: JsonObject, subresource: str) -> None:
    if not subresource:
        _check_ingress_spec(errors, ingress.get("spec") or {})


def _check_ingress_spec(errors: Errors, spec: JsonObject) -> None:
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid("spec", spec.get("rules"), detail))
    if backend is not None:
        _check_backend(errors, "spec.defaultBackend", backend)
    for index, rule in enumerate(rules):
        _check_rule(errors, f"spec.rules[{index}]", rule)
    for index, tls in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(tls.get("hosts") or ()):
            _check_host(errors, f"spec.tls[{index}].hosts[{number}]", host)
        if secret := tls.get("secretName"):
            check_texts(errors, f"spec.tls[{index}].secretName", secret, names.dns_subdomain(secret))
    if (chosen := spec.get("ingressClassName")) is not None:
        check_texts(errors, "spec.ingressClassName", chosen, names.dns_subdomain(chosen))


def _check_host(errors: Errors, path: str, host: str) -> None:
    rule = names.wildcard_subdomain if "*" in host else names.dns_subdomain
    check_texts(errors, path, host, rule(host))


def _check_rule(errors: Errors, path: str, rule: JsonObject) -> None:
    if host := rule.get("host"):
        if is_address(host):
            errors.append(invalid(f"{path}.host", host, _NO_NAME))
        _check_host(errors, f"{path}.host", host)
    http = rule.get("http")
    if http is None:
        return
    paths = http.get("paths") or []
    if not paths:
        errors.append(required(f"{path}.http.paths"))
    for index, one in enumerate(paths):
        _check_path(errors, f"{path}.http.paths[{index}]", one)


def _check_path(errors: Errors, path: str, given: JsonObject) -> None:
    kind, text = given.get("pathType"), given.get("path", "")
    if kind is None:
        errors.append(required(f"{path}.pathType", "pathType must be specified"))
        return
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        errors.append(invalid(f"{path}.path", text, _ABSOLUTE))
    if kind in ("Exact", "Prefix"):
        complaints = [f"must not contain '{part}'" for part in _NOT_IN_PATHS if part in text]
        complaints += [f"cannot end with '{part}'" for part in _NOT_AT_ENDS if text.endswith(part)]
        check_texts(errors, f"{path}.path", text, complaints)
    _check_backend(errors, f"{path}.backend", given.get("backend") or {})


def _check_backend(errors: Errors, path: str, backend: JsonObject) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        errors.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        _check_reference(errors, f"{path}.resource", resource)
    elif service is not None:
        _check_service(errors, path, service)
    else:
        errors.append(invalid(path, "", "resource or service backend is required"))


def _check_service(errors: Errors, path: str, service: JsonObject) -> None:
    name, port = service.get("name", ""), service.get("port") or {}
    if not name:
        errors.append(required(f"{path}.service.name"))
    else:
        check_texts(errors, f"{path}.service.name", name, names.dns_label(name))
    port_name, number = port.get("name", ""), port.get("number", 0)
    if port_name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port_name:
        check_texts(errors, f"{path}.service.port.name", port_name, names.port_name(port_name))
    elif number:
        for complaint in names.port_number(number):
            errors.append(invalid(f"{path}.service.port.number", number, complaint))
    else:
        errors.append(required(path, "port name or number is required"))


def _check_reference(errors: Errors, path: str, reference: JsonObject) -> None:
    if (group := reference.get("apiGroup")) is not None:
        check_texts(errors, f"{path}.apiGroup", group, names.dns_subdomain(group))
    check_kind_and_name(errors, path, reference)


# -- IngressClass -----------------------------------------------------------------------------------------------------


def check_ingress_class(errors: Errors, ingress_class: JsonObject) -> None:
    spec = ingress_class.get("spec") or {}
    controller = spec.get("controller", "")
    check_length(errors, "spec.controller", controller, 250)
    check_domain_prefixed_path(errors, "spec.controller", controller)
    if (parameters := spec.get("parameters")) is not None:
        _check_parameters(errors, "spec.parameters", parameters)


def _check_parameters(errors: Errors, path: str, parameters: JsonObject) -> None:
    _check_reference(errors, path, parameters)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        errors.append(required(f"{path}.scope"))
        return
    check_supported(errors, f"{path}.scope", scope, _SCOPES)
    if scope == "Namespace":
        if namespace is None:
            errors.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
        else:
            check_texts(errors, f"{path}.namespace", namespace, names.dns_label(namespace))
    elif scope == "Cluster" and namespace is not None:
        errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))


def check_ingress_class_update(errors: Errors, new: JsonObject, old: JsonObject, subresource: str) -> None:
    check_immutable_fields(errors, "spec", new.get("spec") or {}, old.get("spec") or {}, "controller")
    check_ingress_class(errors, new)


# -- NetworkPolicy ----------------------------------------------------------------------------------------------------


def check_network_policy(errors: Errors, policy: JsonObject) -> None:
    _check_policy_spec(errors, policy.get("spec") or {}, frozenset())


def check_network_policy_update(errors: Errors, policy: JsonObject, old: JsonObject, subresource: str) -> None:
    peers = (
        peer for _, rule in _rules(old.get("spec") or {}) for key in ("from", "to") for peer in rule.get(key) or ()
    )
    blocks = [peer["ipBlock"] for peer in peers if peer.get("ipBlock")]
    known = {text for block in blocks for text in (block.get("cidr", ""), *(block.get("except") or ()))}
    _check_policy_spec(errors, policy.get("spec") or {}, known)


def _rules(spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for direction in ("ingress", "egress"):
        for index, rule in enumerate(spec.get(direction) or ()):
            yield f"spec.{direction}[{index}]", rule


def _check_policy_spec(errors: Errors, spec: JsonObject, known: Collection[str]) -> None:
    """`known`: blocks of addresses that the old object had, which may be invalid."""
    check_label_selector(errors, "spec.podSelector", spec.get("podSelector"))
    for path, rule in _rules(spec):
        for index, port in enumerate(rule.get("ports") or ()):
            _check_policy_port(errors, f"{path}.ports[{index}]", port)
        key = "from" if path.startswith("spec.ingress") else "to"
        for index, peer in enumerate(rule.get(key) or ()):
            _check_peer(errors, f"{path}.{key}[{index}]", peer, known)
    types = spec.get("policyTypes") or []
    if len(types) > len(_POLICY_TYPES):
        errors.append(invalid("spec.policyTypes", types, "may not specify more than two policyTypes"))
        return
    for index, kind in enumerate(types):
        check_supported(errors, f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)


def _check_policy_port(errors: Errors, path: str, given: JsonObject) -> None:
    check_supported(errors, f"{path}.protocol", given.get("protocol"), _PROTOCOLS)
    port, end = given.get("port"), given.get("endPort")
    if isinstance(port, int):
        for complaint in names.port_number(port):
            errors.append(invalid(f"{path}.port", port, complaint))
        if end is not None:
            if end < port:
                # Parity: the value is the port's.
                errors.append(invalid(f"{path}.endPort", port, "must be greater than or equal to `port`"))
            for complaint in names.port_number(end):
                errors.append(invalid(f"{path}.endPort", end, complaint))
        return
    if end is not None:
        why = "not specified" if port is None else "non-numeric"
        errors.append(invalid(f"{path}.endPort", end, f"may not be specified when `port` is {why}"))
    if port is not None:
        check_texts(errors, f"{path}.port", port, names.port_name(port))


def _check_peer(errors: Errors, path: str, peer: JsonObject, known: Collection[str]) -> None:
    given = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    for key in given[:2]:
        if key != "ipBlock":
            check_label_selector(errors, f"{path}.{key}", peer[key])
    if "ipBlock" in given:
        _check_block(errors, f"{path}.ipBlock", peer["ipBlock"], known)
    if not given:
        errors.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))


def _check_block(errors: Errors, path: str, block: JsonObject, known: Collection[str]) -> None:
    text = block.get("cidr", "")
    if not text:
        errors.append(required(f"{path}.cidr"))
        return
    if text not in known:
        check_strict_network(errors, f"{path}.cidr", text)
    whole = network_of(text)
    for index, part in enumerate(block.get("except") or () if whole is not None else ()):
        at = f"{path}.except[{index}]"
        if part not in known:
            check_strict_network(errors, at, part)
        network = network_of(part)
        if network is not None and not _is_strict_subset(network, whole):
            errors.append(invalid(at, part, "must be a strict subset of `cidr`"))


def _is_strict_subset(
    part: ipaddress.IPv4Network | ipaddress.IPv6Network, whole: ipaddress.IPv4Network | ipaddress.IPv6Network | None
) -> bool:
    return whole is not None and part.network_address in whole and whole.prefixlen < part.prefixlen
