"""Warnings for accepted objects: kinds that are stored only, and scheduling fields that do not mean what they seem to.

They run after defaults. kubectl prints each warning on a line that begins with `Warning:`. A real API server has
more of them, about ports, volumes, names and services.

Upstream: WarningsOnCreate and WarningsOnUpdate in pkg/registry/*/strategy.go, pkg/api/{pod/warnings,node/util}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stowplan.kube.api.affinity import PREFERRED_TERMS, REQUIRED_TERMS
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.api.labels import label_value_errors
from stowplan.kube.api.quantity import milli_value, parse_quantity
from stowplan.kube.api.quotas import is_counted
from stowplan_cluster.apiserver.objects import JsonObject, metadata_of
from stowplan_cluster.apiserver.resources import Resource
from stowplan_cluster.apiserver.validation.field_errors import same

__all__ = ["warnings_of_create", "warnings_of_update"]

_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_CRITICAL = "scheduler.alpha.kubernetes.io/critical-pod"
_USE_A_CLASS = 'non-functional in v1.16+; use the "priorityClassName" field instead'
_MATCHES_NOTHING = "a null labelSelector results in matching no pod"


def _pod(pod: JsonObject, prefix: str = "") -> Iterator[str]:
    """`prefix` is "" for a pod, `spec.template.` for a template."""
    spec, path = pod.get("spec") or {}, f"{prefix}spec"
    yield from _placement(path, spec)
    if _CRITICAL in (metadata_of(pod).get("annotations") or {}):
        yield f"{prefix}metadata.annotations[{_CRITICAL}]: {_USE_A_CLASS}"
    for name in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(name) or ()):
            yield from _fractions(f"{path}.{name}[{index}]", container)
    yield from _pod_affinity(f"{path}.affinity", spec.get("affinity") or {})


def _template(workload: JsonObject) -> Iterator[str]:
    yield from _pod((workload.get("spec") or {}).get("template") or {}, "spec.template.")


def _volume(volume: JsonObject) -> Iterator[str]:
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
        yield from _labels(f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]", term)


def _placement(path: str, spec: JsonObject) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _NODE_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
    affinity, at = (spec.get("affinity") or {}).get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity"
    for index, term in enumerate((affinity.get(REQUIRED_TERMS) or {}).get("nodeSelectorTerms") or ()):
        yield from _labels(f"{at}.{REQUIRED_TERMS}.nodeSelectorTerms[{index}]", term)
    for index, term in enumerate(affinity.get(PREFERRED_TERMS) or ()):
        yield from _labels(f"{at}.{PREFERRED_TERMS}[{index}].preference", term.get("preference") or {}, values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        key, at = constraint.get("topologyKey", ""), f"{path}.topologySpreadConstraints[{index}]"
        if key in _NODE_LABELS:
            yield f"{at}.topologyKey: {key} is {_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_MATCHES_NOTHING}"


def _labels(path: str, term: JsonObject, *, values: bool = False) -> Iterator[str]:
    """Warnings about a node selector term; `values` includes values that no label can have."""
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key, at = expression.get("key", ""), f"{path}.matchExpressions[{index}]"
        if key in _NODE_LABELS:
            yield f"{at}.key: {key} is {_NODE_LABELS[key]}"
        for position, value in enumerate((expression.get("values") or ()) if values else ()):
            for complaint in label_value_errors(value):
                yield f"{at}.values[{position}]: {value} is invalid, {complaint}"


def _pod_affinity(path: str, affinity: JsonObject) -> Iterator[str]:
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for index, term in enumerate(terms.get(REQUIRED_TERMS) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{name}.{REQUIRED_TERMS}[{index}].labelSelector: {_MATCHES_NOTHING}"
        for index, weighted in enumerate(terms.get(PREFERRED_TERMS) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{name}.{PREFERRED_TERMS}[{index}].podAffinityTerm.labelSelector: {_MATCHES_NOTHING}"


def _fractions(path: str, container: JsonObject) -> Iterator[str]:
    """Warn about fractional bytes, such as 100m of memory."""
    for field in ("requests", "limits"):
        amounts = (container.get("resources") or {}).get(field) or {}
        for name in ("memory", "ephemeral-storage"):
            if name in amounts and milli_value(parse_quantity(amounts[name])) % 1000:
                amount = go_quote(str(amounts[name]))
                yield f"{path}.resources.{field}[{name}]: fractional byte value {amount} is invalid, must be an integer"


def _quota(quota: JsonObject) -> Iterator[str]:
    hard = (quota.get("spec") or {}).get("hard") or {}
    if others := [name for name in hard if not is_counted(name)]:
        yield f"this server limits pods and what they request only: spec.hard of {', '.join(others)} limits nothing"


_POLICIES = "admissionregistration.k8s.io"
_UNROUTED = "nothing is routed by it"
_NO_WEBHOOKS, _NO_EXPRESSIONS = "the webhooks are not called", "its expressions are not evaluated"
#: What kinds that are stored only do in a real cluster; None if they do nothing there, either. The warnings are ours.
_MISSING_EFFECTS = {
    f"validatingwebhookconfigurations.{_POLICIES}": f"{_NO_WEBHOOKS}, and refuse nothing",
    f"mutatingwebhookconfigurations.{_POLICIES}": f"{_NO_WEBHOOKS}, and change nothing",
    f"validatingadmissionpolicies.{_POLICIES}": f"{_NO_EXPRESSIONS}, and refuse nothing",
    f"mutatingadmissionpolicies.{_POLICIES}": f"{_NO_EXPRESSIONS}, and change nothing",
    "endpoints": _UNROUTED,
    "endpointslices.discovery.k8s.io": _UNROUTED,
    "ingresses.networking.k8s.io": _UNROUTED,
    "networkpolicies.networking.k8s.io": "it blocks nothing",
    "apiservices.apiregistration.k8s.io": "its group is not served",
    "certificatesigningrequests.certificates.k8s.io": "nothing is approved or signed",
    "flowschemas.flowcontrol.apiserver.k8s.io": "it limits no requests",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "it limits no requests",
    "podtemplates": None,
}


def _stored_only(resource: Resource) -> Iterator[str]:
    effect = _MISSING_EFFECTS.get(resource.storage, "no controller here acts on it")
    if effect is not None:
        yield f"this server stores {resource.kind} objects only: {effect}"


_WARNINGS: dict[str, Callable[[JsonObject], Iterator[str]]] = {
    "pods": _pod,
    "persistentvolumes": _volume,
    "resourcequotas": _quota,
    **dict.fromkeys(
        (
            "replicationcontrollers",
            *("daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps", "jobs.batch"),
        ),
        _template,
    ),
}
#: Kinds without warnings on updates: pods are updated often, and by programs.
_SILENT_UPDATES = frozenset({"pods", "replicationcontrollers"})


def warnings_of_create(resource: Resource, obj: JsonObject) -> list[str]:
    if resource.stored_only:
        return list(_stored_only(resource))
    warn = _WARNINGS.get(resource.storage)
    return list(warn(obj)) if warn is not None else []


def warnings_of_update(resource: Resource, obj: JsonObject, old: JsonObject, subresource: str) -> list[str]:
    warn = _WARNINGS.get(resource.storage)
    if warn is None or subresource or resource.storage in _SILENT_UPDATES:
        return []
    # Parity: volumes warn on every update.
    if resource.storage != "persistentvolumes" and same(obj.get("spec"), old.get("spec")):
        return []
    return list(warn(obj))
