"""Defaults of Services.

Upstream: pkg/apis/core/v1/defaults.go (SetDefaults_Service).
"""

from __future__ import annotations

from stowplan_cluster.apiserver.objects import JsonObject

_AFFINITY_SECONDS = 10800


def default_service(service: JsonObject) -> None:
    spec = service.setdefault("spec", {})
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    _default_affinity(spec)
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    kind = spec["type"]
    external = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if external and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        spec["internalTrafficPolicy"] = "Cluster"
    balancer = service.setdefault("status", {}).setdefault("loadBalancer", {})
    if kind != "LoadBalancer":
        return
    if spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True
    for ingress in balancer.get("ingress") or ():
        if ingress.get("ip") and ingress.get("ipMode") is None:
            ingress["ipMode"] = "VIP"


def _default_affinity(spec: JsonObject) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if config.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
