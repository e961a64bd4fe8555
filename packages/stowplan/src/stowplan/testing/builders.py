"""Builders of pods and nodes for tests.

    a_pod("web-0").labels(app="web").requests(cpu="500m").tolerates("gpu").obj()
    a_node("n1").zone("a").allocatable(cpu="8", memory="32Gi").tainted("gpu").obj()

Every method returns the builder itself, so calls can be chained; `obj()` returns an independent plain dict as
Kubernetes serializes it. Fields that were not set are absent, which means the zero value.

Names that are not Python identifiers ("nvidia.com/gpu", "topology.kubernetes.io/zone") go into a mapping, passed first:
`requests({"nvidia.com/gpu": 1}, cpu="2")`. In resource names passed as keywords an underscore stands for a dash:
`ephemeral_storage="1Gi"`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

__all__ = ["NodeBuilder", "PodBuilder", "a_node", "a_pod", "expression", "selector"]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Obj = dict[str, Any]
Quantity = str | int


def a_pod(name: str = "pod", namespace: str = "default") -> PodBuilder:
    """Build a pending pod with one container, `main`, without requests.

    Examples:
        >>> a_pod("web-0", "shop").labels(app="web").requests(cpu="500m").obj()["metadata"]["labels"]
        {'app': 'web'}
    """
    return PodBuilder(name, namespace)


def a_node(name: str = "node") -> NodeBuilder:
    """Build a ready node with its hostname label, 4 CPUs, 16 GiB of memory and 110 pods allocatable.

    Examples:
        >>> a_node("n1").zone("a").allocatable({"nvidia.com/gpu": 4}, cpu="8").tainted("gpu").obj()["spec"]
        {'taints': [{'key': 'gpu', 'effect': 'NoSchedule'}]}
    """
    return NodeBuilder(name)


def expression(key: str, operator: str, *values: str) -> Obj:
    """A requirement of a selector.

    Examples:
        >>> expression("disk", "In", "ssd", "nvme")
        {'key': 'disk', 'operator': 'In', 'values': ['ssd', 'nvme']}
    """
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def selector(*expressions: Obj, labels: Mapping[str, str] | None = None) -> Obj:
    """A label selector. With neither labels nor expressions it matches everything.

    Examples:
        >>> a_pod("web-0").spreads("topology.kubernetes.io/zone", selector(labels={"app": "web"}))
        <PodBuilder: web-0>
    """
    return _without_empty({"matchLabels": dict(labels or {}), "matchExpressions": list(expressions)})


class _Builder:
    """Common to pods and nodes: metadata, conditions and the three parts of an object."""

    def __init__(self, kind: str, name: str) -> None:
        self._metadata: Obj = {"name": name}
        self._spec: Obj = {}
        self._status: Obj = {}
        self._kind = kind

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._metadata['name']}>"

    def obj(self) -> Obj:
        """The object so far, as a dict that is independent of the builder."""
        parts = {"apiVersion": "v1", "kind": self._kind, "metadata": self._metadata, "spec": self._spec}
        return copy.deepcopy(parts | ({"status": self._status} if self._status else {}))

    def uid(self, uid: str) -> Self:
        self._metadata["uid"] = uid
        return self

    def labels(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        self._metadata.setdefault("labels", {}).update({**(labels or {}), **more})
        return self

    def annotations(self, annotations: Mapping[str, str] | None = None, /, **more: str) -> Self:
        self._metadata.setdefault("annotations", {}).update({**(annotations or {}), **more})
        return self

    def created(self, timestamp: str) -> Self:
        self._metadata["creationTimestamp"] = timestamp
        return self

    def deleted(self, timestamp: str) -> Self:
        """Mark the object as being deleted since `timestamp` (RFC 3339)."""
        self._metadata["deletionTimestamp"] = timestamp
        return self

    def condition(self, type_: str, status: str = "True", *, reason: str = "", message: str = "") -> Self:
        entry = _without_empty({"type": type_, "status": status, "reason": reason, "message": message})
        others = [c for c in self._status.get("conditions", []) if c["type"] != type_]
        self._status["conditions"] = [*others, entry]
        return self

    def spec(self, **fields: Any) -> Self:
        """Set spec fields that have no method of their own, by their serialized names."""
        self._spec.update(fields)
        return self

    def status(self, **fields: Any) -> Self:
        """Set status fields that have no method of their own, by their serialized names."""
        self._status.update(fields)
        return self


class PodBuilder(_Builder):
    """Builds a pod. Affinity terms, constraints, tolerations and the like accumulate over calls.

    Examples:
        >>> a_pod("web-0").tolerates("a").tolerates("b").obj()["spec"]["tolerations"]
        [{'operator': 'Exists', 'key': 'a'}, {'operator': 'Exists', 'key': 'b'}]
    """

    def __init__(self, name: str, namespace: str = "default") -> None:
        super().__init__("Pod", name)
        self._metadata["namespace"] = namespace
        self._main: Obj = {"name": "main", "image": "app:1"}
        self._spec["containers"] = [self._main]

    def obj(self) -> Obj:
        pod = super().obj()
        pod["metadata"].setdefault("uid", f"{pod['metadata']['namespace']}-{pod['metadata']['name']}-uid")
        return pod

    # -- identity

    def namespace(self, namespace: str) -> Self:
        self._metadata["namespace"] = namespace
        return self

    def owner(self, kind: str, name: str, *, api_version: str = "apps/v1", controller: bool = True) -> Self:
        reference = {
            "apiVersion": api_version,
            "kind": kind,
            "name": name,
            "uid": f"{name}-uid",
            "controller": controller,
        }
        self._metadata.setdefault("ownerReferences", []).append(reference | {"controller": controller})
        return self

    # -- containers and resources

    def requests(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Set the requests of the container `main`."""
        _set_resources(self._main, "requests", _resources(resources, more))
        return self

    def limits(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Set the limits of the container `main`. Unlike in the API server, requests do not default to them."""
        _set_resources(self._main, "limits", _resources(resources, more))
        return self

    def image(self, image: str) -> Self:
        """Set the image of the container `main`."""
        self._main["image"] = image
        return self

    def host_port(self, port: int, *, protocol: str = "TCP", host_ip: str = "") -> Self:
        """Add a host port to the container `main`."""
        entry = {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": host_ip}
        self._main.setdefault("ports", []).append(_without_empty(entry))
        return self

    def host_network(self) -> Self:
        self._spec["hostNetwork"] = True
        return self

    def container(
        self, name: str, resources: Mapping[str, Quantity] | None = None, /, *, image: str = "app:1", **more: Quantity
    ) -> Self:
        """Add a container and its requests."""
        self._spec["containers"].append(_container(name, image, _resources(resources, more)))
        return self

    def init_container(
        self, name: str, resources: Mapping[str, Quantity] | None = None, /, *, image: str = "app:1", **more: Quantity
    ) -> Self:
        """Add an init container, which finishes before the next one starts, and its requests."""
        container = _container(name, image, _resources(resources, more))
        self._spec.setdefault("initContainers", []).append(container)
        return self

    def sidecar(
        self, name: str, resources: Mapping[str, Quantity] | None = None, /, *, image: str = "app:1", **more: Quantity
    ) -> Self:
        """Add a sidecar (a restartable init container) and its requests."""
        container = _container(name, image, _resources(resources, more)) | {"restartPolicy": "Always"}
        self._spec.setdefault("initContainers", []).append(container)
        return self

    def pod_requests(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Set the requests of the pod as a whole (pod-level resources)."""
        _set_resources(self._spec, "requests", _resources(resources, more))
        return self

    def pod_limits(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Set the limits of the pod as a whole (pod-level resources)."""
        _set_resources(self._spec, "limits", _resources(resources, more))
        return self

    def overhead(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        self._spec.setdefault("overhead", {}).update(_resources(resources, more))
        return self

    def volume(self, name: str, **source: Any) -> Self:
        """Add a volume by its serialized source: `volume("data", gcePersistentDisk={"pdName": "disk-1"})`."""
        self._spec.setdefault("volumes", []).append({"name": name, **source})
        return self

    def claims_volume(self, claim: str, *, read_only: bool = False) -> Self:
        """Add a volume from the PersistentVolumeClaim of this name."""
        return self.volume(claim, persistentVolumeClaim=_without_empty({"claimName": claim, "readOnly": read_only}))

    def claims_devices(self, claim: str) -> Self:
        """Add the ResourceClaim of this name, for the pod and its container `main`."""
        self._spec.setdefault("resourceClaims", []).append({"name": claim, "resourceClaimName": claim})
        self._main.setdefault("resources", {}).setdefault("claims", []).append({"name": claim})
        return self

    # -- status and node

    def priority(self, priority: int, *, class_name: str = "") -> Self:
        self._spec |= _without_empty({"priorityClassName": class_name}) | {"priority": priority}
        return self

    def preemption_policy(self, policy: str) -> Self:
        self._spec["preemptionPolicy"] = policy
        return self

    def never_preempts(self) -> Self:
        return self.preemption_policy("Never")

    def scheduler(self, name: str) -> Self:
        self._spec["schedulerName"] = name
        return self

    def gated(self, *gates: str) -> Self:
        self._spec.setdefault("schedulingGates", []).extend({"name": gate} for gate in gates)
        return self

    def on(self, node: str) -> Self:
        """Bind the pod to this node."""
        self._spec["nodeName"] = node
        return self

    def nominated_to(self, node: str) -> Self:
        self._status["nominatedNodeName"] = node
        return self

    def phase(self, phase: str) -> Self:
        self._status["phase"] = phase
        return self

    def started(self, timestamp: str) -> Self:
        self._status["startTime"] = timestamp
        return self

    # -- node selection

    def node_selector(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        self._spec.setdefault("nodeSelector", {}).update({**(labels or {}), **more})
        return self

    def requires_node(self, *expressions: Obj, fields: Iterable[Obj] = ()) -> Self:
        """Add a required node selector term. Its expressions are ANDed; terms are ORed."""
        term = _without_empty({"matchExpressions": list(expressions), "matchFields": list(fields)})
        self._affinity("nodeAffinity").setdefault(REQUIRED, {}).setdefault("nodeSelectorTerms", []).append(term)
        return self

    def prefers_node(self, weight: int, *expressions: Obj, fields: Iterable[Obj] = ()) -> Self:
        term = _without_empty({"matchExpressions": list(expressions), "matchFields": list(fields)})
        preference = {"weight": weight, "preference": term}
        self._affinity("nodeAffinity").setdefault(PREFERRED, []).append(preference)
        return self

    def tolerates(
        self,
        key: str = "",
        value: str | None = None,
        *,
        effect: str = "",
        operator: str = "",
        seconds: int | None = None,
    ) -> Self:
        """Tolerate a taint: with any value if none is given; without a key, every taint."""
        toleration: Obj = {"operator": operator or ("Exists" if value is None else "Equal")}
        toleration |= _without_empty({"key": key, "value": value or "", "effect": effect})
        if seconds is not None:
            toleration["tolerationSeconds"] = seconds
        self._spec.setdefault("tolerations", []).append(toleration)
        return self

    # -- inter-pod affinity and spreading

    def requires_pods(self, topology_key: str, matching: Obj | None = None, **options: Any) -> Self:
        """Add required affinity to pods that match the selector.

        Options, here and in the next three methods: `namespaces`, `namespace_selector`, `match_label_keys`,
        `mismatch_label_keys`.
        """
        self._affinity("podAffinity").setdefault(REQUIRED, []).append(_pod_term(topology_key, matching, **options))
        return self

    def avoids_pods(self, topology_key: str, matching: Obj | None = None, **options: Any) -> Self:
        """Add required anti-affinity to pods that match the selector."""
        self._affinity("podAntiAffinity").setdefault(REQUIRED, []).append(_pod_term(topology_key, matching, **options))
        return self

    def prefers_pods(self, weight: int, topology_key: str, matching: Obj | None = None, **options: Any) -> Self:
        """Add preferred affinity to pods that match the selector."""
        term = {"weight": weight, "podAffinityTerm": _pod_term(topology_key, matching, **options)}
        self._affinity("podAffinity").setdefault(PREFERRED, []).append(term)
        return self

    def prefers_no_pods(self, weight: int, topology_key: str, matching: Obj | None = None, **options: Any) -> Self:
        """Add preferred anti-affinity to pods that match the selector."""
        term = {"weight": weight, "podAffinityTerm": _pod_term(topology_key, matching, **options)}
        self._affinity("podAntiAffinity").setdefault(PREFERRED, []).append(term)
        return self

    def spreads(
        self,
        topology_key: str,
        matching: Obj | None = None,
        *,
        max_skew: int = 1,
        when_unsatisfiable: str = "DoNotSchedule",
        min_domains: int | None = None,
        node_affinity_policy: str = "",
        node_taints_policy: str = "",
        match_label_keys: Sequence[str] = (),
    ) -> Self:
        """Add a topology spread constraint over pods that match the selector."""
        constraint: Obj = {"maxSkew": max_skew, "topologyKey": topology_key, "whenUnsatisfiable": when_unsatisfiable}
        if matching is not None:
            constraint["labelSelector"] = matching
        if min_domains is not None:
            constraint["minDomains"] = min_domains
        constraint |= _without_empty(
            {
                "nodeAffinityPolicy": node_affinity_policy,
                "nodeTaintsPolicy": node_taints_policy,
                "matchLabelKeys": list(match_label_keys),
            }
        )
        self._spec.setdefault("topologySpreadConstraints", []).append(constraint)
        return self

    def _affinity(self, kind: str) -> Obj:
        part: Obj = self._spec.setdefault("affinity", {}).setdefault(kind, {})
        return part


class NodeBuilder(_Builder):
    """Builds a node.

    Examples:
        >>> a_node("n1").unschedulable().obj()["spec"]
        {'unschedulable': True}
    """

    def __init__(self, name: str) -> None:
        super().__init__("Node", name)
        self._metadata |= {"uid": f"{name}-uid", "labels": {HOSTNAME: name}}
        self._status["allocatable"] = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        self.condition("Ready")

    def obj(self) -> Obj:
        node = super().obj()
        node["status"].setdefault("capacity", dict(node["status"]["allocatable"]))
        return node

    def without_labels(self, *keys: str) -> Self:
        """Remove labels, for example the default hostname label."""
        for key in keys:
            self._metadata["labels"].pop(key, None)
        return self

    def zone(self, zone: str, *, region: str = "") -> Self:
        return self.labels({ZONE: zone} | ({REGION: region} if region else {}))

    def tainted(self, key: str, value: str = "", *, effect: str = "NoSchedule") -> Self:
        taint = {"key": key, "effect": effect} | ({"value": value} if value else {})
        self._spec.setdefault("taints", []).append(taint)
        return self

    def unschedulable(self) -> Self:
        """Cordon the node."""
        self._spec["unschedulable"] = True
        return self

    def allocatable(self, resources: Mapping[str, Quantity] | None = None, /, **more: Quantity) -> Self:
        """Set allocatable resources. Resources that are not named keep their defaults."""
        self._status["allocatable"].update(_resources(resources, more))
        return self

    def image(self, *names: str, size: int) -> Self:
        """Add an image with these names to the node, and its size in bytes."""
        self._status.setdefault("images", []).append({"names": list(names), "sizeBytes": size})
        return self

    def declares(self, *features: str) -> Self:
        self._status.setdefault("declaredFeatures", []).extend(features)
        return self


def _pod_term(
    topology_key: str,
    matching: Obj | None,
    *,
    namespaces: Sequence[str] = (),
    namespace_selector: Obj | None = None,
    match_label_keys: Sequence[str] = (),
    mismatch_label_keys: Sequence[str] = (),
) -> Obj:
    """A pod affinity term. No selector matches no pod; an empty one matches every pod."""
    term: Obj = {"topologyKey": topology_key}
    if matching is not None:
        term["labelSelector"] = matching
    if namespace_selector is not None:
        term["namespaceSelector"] = namespace_selector
    return term | _without_empty(
        {
            "namespaces": list(namespaces),
            "matchLabelKeys": list(match_label_keys),
            "mismatchLabelKeys": list(mismatch_label_keys),
        }
    )


def _container(name: str, image: str, requests: Obj) -> Obj:
    return {"name": name, "image": image} | ({"resources": {"requests": requests}} if requests else {})


def _set_resources(holder: Obj, kind: str, resources: Obj) -> None:
    holder.setdefault("resources", {}).setdefault(kind, {}).update(resources)


def _resources(resources: Mapping[str, Quantity] | None, more: Mapping[str, Quantity]) -> Obj:
    named = {name.replace("_", "-"): quantity for name, quantity in more.items()}
    # Kubernetes serializes quantities as strings.
    return {name: str(quantity) for name, quantity in {**(resources or {}), **named}.items()}


def _without_empty(fields: Obj) -> Obj:
    return {name: value for name, value in fields.items() if value}
