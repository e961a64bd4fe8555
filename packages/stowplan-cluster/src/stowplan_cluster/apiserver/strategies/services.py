"""Services: keep allocated addresses and ports while the type needs them.

An update that omits cluster IPs and node ports keeps them. One that changes the type to one without them drops
them, unless it sets others.

Upstream: pkg/registry/core/service/strategy.go, storage.go (patchAllocatedValues).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject

_WITH_ADDRESS = ("ClusterIP", "NodePort", "LoadBalancer")
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")
_OF_ADDRESS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def update_service(service: JsonObject, old: JsonObject, subresource: str) -> None:
    if subresource:
        return
    spec, old_spec = service["spec"], old.get("spec") or {}
    kind, old_kind = spec.get("type"), old_spec.get("type")
    if kind in _WITH_ADDRESS and old_kind in _WITH_ADDRESS:
        _take_back_address(spec, old_spec)
    elif old_kind in _WITH_ADDRESS:
        _drop_unchanged(spec, old_spec, _OF_ADDRESS)
    if old_kind in _WITH_NODE_PORTS:
        if kind in _WITH_NODE_PORTS:
            _take_back_node_ports(spec, old_spec)
        else:
            _drop_node_ports(spec, old_spec)
            _drop_unchanged(spec, old_spec, ("externalTrafficPolicy",))
    if old_kind == "LoadBalancer" and kind != "LoadBalancer":
        _drop_unchanged(spec, old_spec, ("allocateLoadBalancerNodePorts", "loadBalancerClass"))
        service["status"] = {"loadBalancer": {}}


def _take_back_address(spec: JsonObject, old: JsonObject) -> None:
    if not spec.get("clusterIP") and not spec.get("clusterIPs") and old.get("clusterIP"):
        spec["clusterIP"], spec["clusterIPs"] = old["clusterIP"], list(old.get("clusterIPs") or [old["clusterIP"]])
    elif spec.get("clusterIP") != old.get("clusterIP") and spec.get("clusterIPs") == old.get("clusterIPs"):
        # The client changed only clusterIP: sync clusterIPs.
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if not spec.get(name) and old.get(name):
            spec[name] = old[name]


def _drop_unchanged(spec: JsonObject, old: JsonObject, names: tuple[str, ...]) -> None:
    for name in names:
        if name in spec and spec[name] == old.get(name):
            del spec[name]


def _take_back_node_ports(spec: JsonObject, old: JsonObject) -> None:
    known = {_port_key(port): port["nodePort"] for port in old.get("ports") or () if port.get("nodePort")}
    for port in spec.get("ports") or ():
        if not port.get("nodePort") and _port_key(port) in known:
            port["nodePort"] = known[_port_key(port)]


def _drop_node_ports(spec: JsonObject, old: JsonObject) -> None:
    before = {port.get("nodePort") for port in old.get("ports") or ()}
    for port in spec.get("ports") or ():
        if port.get("nodePort") in before:
            port.pop("nodePort", None)


def _port_key(port: JsonObject) -> tuple[str, int]:
    return port.get("protocol", "TCP"), port.get("port", 0)
