"""Node groups of a scenario from what a cluster has: its nodes, the pools of its autoscaler, and prices.

Nodes are grouped by their pool (the label of Karpenter or of a managed node pool), instance type and capacity type.
Bounds are those of the Cluster Autoscaler's status (the ConfigMap cluster-autoscaler-status) or of Karpenter's
NodePools. A type that has no node yet takes its capacity from the price list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yaml import YAMLError

from stowplan.ask.loading.price_list import CAPACITY_TYPE, INSTANCE_TYPE, Prices, price_of
from stowplan.kube.api.quantity import parse_quantity
from stowplan.kube.api.yaml_text import first_value
from stowplan_lab.traces.trace import TraceError

#: Labels that name a node's pool.
_KARPENTER = "karpenter.sh/nodepool"
_POOLS = (
    _KARPENTER,
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
_ZONE = "topology.kubernetes.io/zone"
_STATUS_NAME = "cluster-autoscaler-status"
#: Not of a group: of single nodes, or set with the zones.
_OWN_LABELS = frozenset({"kubernetes.io/hostname", _ZONE, "topology.kubernetes.io/region"})
#: The largest number of nodes of a pool without limits.
UNLIMITED = 1000


class Kind(NamedTuple):
    """What nodes of a group have in common."""

    pool: str
    type: str
    capacity_type: str


def node_groups(manifests: Sequence[Mapping[str, Any]], prices: Prices) -> tuple[list[dict[str, Any]], list[str]]:
    """Groups as a scenario has them, and notes; raises TraceError. `manifests` may be of any kinds."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {"Node": [], "NodePool": [], "ConfigMap": []}
    for one in manifests:
        by_kind.get(one.get("kind", ""), []).append(one)
    notes: list[str] = []
    groups = _of_nodes(by_kind["Node"])
    for pool in by_kind["NodePool"]:
        notes += _add_karpenter(groups, pool, prices)
    for status in by_kind["ConfigMap"]:
        notes += _add_bounds(groups, status)
    for kind, group in groups.items():
        priced = price_of(prices, kind.type, kind.capacity_type)
        if priced is not None:
            group["price"] = priced.price
        elif prices:
            notes.append(f"{group['name']}: the price list has no {kind.type or 'node without an instance type'}")
    return list(groups.values()), notes


def _name(kind: Kind) -> str:
    return "-".join(part for part in kind if part) or "nodes"


def _of_nodes(nodes: Iterable[Mapping[str, Any]]) -> dict[Kind, dict[str, Any]]:
    members: dict[Kind, list[Mapping[str, Any]]] = {}
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        pool = next((labels[label] for label in _POOLS if label in labels), "")
        kind = Kind(pool, labels.get(INSTANCE_TYPE, ""), labels.get(CAPACITY_TYPE, ""))
        members.setdefault(kind, []).append(node)
    return {kind: _group(kind, members[kind]) for kind in sorted(members)}


def _group(kind: Kind, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = nodes[0]
    labels = [node["metadata"].get("labels") or {} for node in nodes]
    shared = {key: value for key, value in labels[0].items() if all(one.get(key) == value for one in labels)}
    amounts = [(node.get("status") or {}).get("allocatable") or {} for node in nodes]
    found = {
        "name": _name(kind),
        "count": len(nodes),
        # Nodes of one type differ by what their systems reserve.
        "capacity": {key: min((one[key] for one in amounts if key in one), key=parse_quantity) for key in amounts[0]},
        "zones": sorted({one[_ZONE] for one in labels if _ZONE in one}),
        "labels": {key: value for key, value in shared.items() if key not in _OWN_LABELS},
        "taints": _taints((first.get("spec") or {}).get("taints")),
    }
    return {key: value for key, value in found.items() if value}


def _taints(given: Sequence[Mapping[str, Any]] | None) -> list[dict[str, str]]:
    """Those of the group, not of a node's condition."""
    return [
        {name: one[name] for name in ("key", "value", "effect") if one.get(name)}
        for one in given or ()
        if not one["key"].startswith(("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"))
    ]


def _add_karpenter(groups: dict[Kind, dict[str, Any]], pool: Mapping[str, Any], prices: Prices) -> Iterator[str]:
    name, spec = pool["metadata"]["name"], pool["spec"]
    of_nodes = spec["template"]["spec"]
    allowed = {
        one["key"]: one.get("values") or [] for one in of_nodes.get("requirements") or () if one.get("operator") == "In"
    }
    for type_ in allowed.get(INSTANCE_TYPE, ()):
        for sort in allowed.get(CAPACITY_TYPE) or [""]:
            kind = Kind(name, type_, sort)
            priced = price_of(prices, kind.type, kind.capacity_type)
            if kind in groups:
                continue
            if priced is None or not priced.capacity:
                yield f"NodePool {name}: no node has the type {type_} and the price list no capacity of it; left out"
                continue
            labels = {
                _KARPENTER: name,
                INSTANCE_TYPE: type_,
                **((spec["template"].get("metadata") or {}).get("labels") or {}),
            }
            groups[kind] = {
                "name": _name(kind),
                "count": 0,
                "capacity": priced.capacity,
                "zones": list(allowed.get(_ZONE, ())),
                "labels": labels | ({CAPACITY_TYPE: sort} if sort else {}),
                "taints": _taints(of_nodes.get("taints")),
            }
    of_pool = [group for kind, group in groups.items() if kind.pool == name]
    if not of_pool:
        yield f"NodePool {name} names no instance type and has no nodes; left out"
    limits = spec.get("limits") or {}
    if of_pool and not limits:
        yield f"NodePool {name} has no limits: at most {UNLIMITED} nodes of each type"
    idle = (spec.get("disruption") or {}).get("consolidateAfter", "Never")
    for group in of_pool:
        capacity = group["capacity"]
        most = [
            parse_quantity(limit) // parse_quantity(capacity[key]) for key, limit in limits.items() if key in capacity
        ]
        group["autoscale"] = {"min": 0, "max": max(min(most, default=UNLIMITED), group["count"])}
        group["autoscale"] |= {"utilization": 0, "idle": "52w"} if idle == "Never" else {"idle": idle}


def _add_bounds(groups: Mapping[Kind, dict[str, Any]], status: Mapping[str, Any]) -> Iterator[str]:
    """Of the Cluster Autoscaler's status; its groups have the names of pools in their own."""
    if status["metadata"].get("name") != _STATUS_NAME:
        return
    try:
        told = first_value((status.get("data") or {}).get("status", ""))["nodeGroups"]
        bounds = [(one["name"], one["health"]["minSize"], one["health"]["maxSize"]) for one in told]
    except (KeyError, TypeError, YAMLError, ValueError):
        raise TraceError(f"{_STATUS_NAME}: want the status of Cluster Autoscaler 1.30 or newer") from None
    pools = sorted({kind.pool for kind in groups if kind.pool}, key=len, reverse=True)
    for name, least, most in bounds:
        pool = next((one for one in pools if re.search(rf"(?<![a-z0-9]){re.escape(one)}(?![a-z0-9])", name)), None)
        if pool is None:
            yield f"node group {name} of the Cluster Autoscaler has no nodes; left out"
            continue
        for group in (group for kind, group in groups.items() if kind.pool == pool):
            # A pool has a node group per zone.
            limits = group.setdefault("autoscale", {"min": 0, "max": 0})
            limits["min"], limits["max"] = limits["min"] + least, limits["max"] + most
