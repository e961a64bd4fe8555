"""A cluster with controllers of some kinds, and objects for it."""

from __future__ import annotations

from typing import Any

from support.live.controller_cluster import LiveCluster, storage_of


class Living(LiveCluster):
    """A LiveCluster with these controllers."""

    def __init__(self, *controllers, seed=1):
        super().__init__(lambda registry: [make(registry) for make in controllers], seed)

    def names(self, storage):
        return [stored.name for stored in self.store.list(storage_of(storage))]

    def pod(self, name):
        return self.get("Pod", name)

    def phase(self, name):
        pod = self.pod(name)
        return pod["status"]["phase"] if pod is not None else None

    def run(self, name="web", node="node-1", **rest):
        """Create a pod bound to a node."""
        self.create(pod(name, node=node, **rest))
        self.settle()
        return self.pod(name)


def node(name="node-1", *, annotations=None, labels=None, cpu="4", memory="8Gi", pods="110", ready=None, **spec):
    """`ready`: the status of its initial Ready condition."""
    status: dict[str, Any] = {"capacity": {"cpu": cpu, "memory": memory, "pods": pods}}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": ready}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": spec,
        "status": status,
    }


def pod(name="web", *, node="", annotations=None, labels=None, owner=None, finalizers=None, requests=None, **spec):
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}, "labels": labels or {}}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    if finalizers is not None:
        metadata["finalizers"] = finalizers
    container: dict[str, Any] = {"name": "main", "image": "registry.example:5000/team/app:1"}
    if requests is not None:
        container["resources"] = {"requests": requests, "limits": requests}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def condition(obj, type_):
    """(status, reason) of a condition, None if there is none."""
    conditions = obj["status"].get("conditions") or ()
    return next(((one["status"], one.get("reason", "")) for one in conditions if one["type"] == type_), None)


def taints(node):
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or ()}


def fleets():
    """The definition of a custom resource with a scale subresource."""
    field = {"type": "integer"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": field}},
            "status": {"type": "object", "properties": {"size": field}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "fleets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "fleets", "singular": "fleet", "kind": "Fleet", "listKind": "FleetList"},
            "versions": [version],
        },
    }
