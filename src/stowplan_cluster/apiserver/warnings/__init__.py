"""Warnings for accepted objects: deprecated, ambiguous or ineffective fields.

Like validation, one function per kind, which runs after defaults. kubectl prints each warning on a line that begins
with `Warning:`.

Left out: projected volumes whose paths overlap, AppArmor and seccomp annotations, unusual spellings of IP addresses.

Upstream: WarningsOnCreate and WarningsOnUpdate in pkg/registry/*/strategy.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan_cluster.apiserver.objects import metadata_of
from stowplan_cluster.apiserver.validation import names
from stowplan_cluster.apiserver.validation.changes import same
from stowplan_cluster.apiserver.warnings.pods import amount_warnings, label_warnings, pod_warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stowplan_cluster.apiserver.objects import JsonObject
    from stowplan_cluster.apiserver.resources import Resource

__all__ = ["warnings_of_create", "warnings_of_update"]

_NAME = "metadata.name: this is used in {whose}, which can result in surprising behavior; a DNS label is recommended: "
_TOKENS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent "
    "possible logging of tokens in volume attributes"
)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_VOLUME_ANNOTATIONS = {
    _CLASS_ANNOTATION: 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_RECYCLE = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
    "Instead, the recommended approach is to use dynamic provisioning."
)


def _name(obj: JsonObject, whose: str) -> Iterator[str]:
    if complaints := names.dns_label(metadata_of(obj).get("name", "")):
        yield f"{_NAME.format(whose=whose)}[{' '.join(complaints)}]"


def _pod(pod: JsonObject) -> Iterator[str]:
    yield from _name(pod, "the Pod's hostname")
    yield from pod_warnings("", pod)


def _template(workload: JsonObject) -> Iterator[str]:
    yield from pod_warnings("spec.template.", (workload.get("spec") or {}).get("template") or {})


def _named_template(workload: JsonObject) -> Iterator[str]:
    yield from _name(workload, "Pod names and hostnames")
    yield from _template(workload)


def _stateful_set(stateful_set: JsonObject) -> Iterator[str]:
    yield from _template(stateful_set)
    spec = stateful_set.get("spec") or {}
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        yield from amount_warnings(f"spec.volumeClaimTemplates[{index}]", claim.get("spec") or {}, ("storage",))
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        yield (
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
        )


def _service(service: JsonObject) -> Iterator[str]:
    spec = service.get("spec") or {}
    kind, external = spec.get("type"), spec.get("externalIPs")
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if headless:
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if external:
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    if external and not headless and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if external and kind == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.get("externalName") and kind != "ExternalName":
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _annotations(obj: JsonObject, deprecated: dict[str, str]) -> Iterator[str]:
    present = metadata_of(obj).get("annotations") or {}
    yield from (f"metadata.annotations[{key}]: {message}" for key, message in deprecated.items() if key in present)


def _claim(claim: JsonObject) -> Iterator[str]:
    yield from _annotations(claim, {_CLASS_ANNOTATION: _VOLUME_ANNOTATIONS[_CLASS_ANNOTATION]})
    yield from amount_warnings("spec", claim.get("spec") or {}, ("storage",))


def _volume(volume: JsonObject) -> Iterator[str]:
    spec = volume.get("spec") or {}
    yield from _annotations(volume, _VOLUME_ANNOTATIONS)
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield _RECYCLE
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
        yield from label_warnings(f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]", term)


def _driver(driver: JsonObject) -> Iterator[str]:
    spec = driver.get("spec") or {}
    if spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
        yield _TOKENS


_POLICIES = "admissionregistration.k8s.io"
_UNROUTED = "nothing is routed by it"
_NO_WEBHOOKS, _NO_EXPRESSIONS = "the webhooks are not called", "its expressions are not evaluated"
#: What inert kinds do in a real cluster and not here; None if they do nothing there, either. The warnings are ours.
_MISSING_EFFECTS = {
    f"validatingwebhookconfigurations.{_POLICIES}": f"{_NO_WEBHOOKS}, and refuse nothing",
    f"mutatingwebhookconfigurations.{_POLICIES}": f"{_NO_WEBHOOKS}, and change nothing",
    f"validatingadmissionpolicies.{_POLICIES}": f"{_NO_EXPRESSIONS}, and refuse nothing",
    f"mutatingadmissionpolicies.{_POLICIES}": f"{_NO_EXPRESSIONS}, and change nothing",
    "limitranges": "pods get no defaults from it, and are not limited",
    "resourcequotas": "nothing is counted or limited",
    "cronjobs.batch": "it starts no Jobs",
    "horizontalpodautoscalers.autoscaling": "it scales nothing",
    "endpoints": _UNROUTED,
    "endpointslices.discovery.k8s.io": _UNROUTED,
    "ingresses.networking.k8s.io": _UNROUTED,
    "networkpolicies.networking.k8s.io": "it blocks nothing",
    "apiservices.apiregistration.k8s.io": "its group is not served",
    "runtimeclasses.node.k8s.io": "pods get no overhead, node selector or tolerations from it",
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
    "replicationcontrollers": _named_template,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "daemonsets.apps": _template,
    "deployments.apps": _named_template,
    "replicasets.apps": _named_template,
    "statefulsets.apps": _stateful_set,
    "jobs.batch": _named_template,
    "csidrivers.storage.k8s.io": _driver,
}
#: Kinds without warnings on updates: pods are updated often, and by programs.
_SILENT_UPDATES = frozenset({"pods", "replicationcontrollers", "csidrivers.storage.k8s.io"})
#: Kinds that warn on every update, not only if the spec changed.
_ALWAYS_WARNED = frozenset({"services", "persistentvolumeclaims", "persistentvolumes"})


def warnings_of_create(resource: Resource, obj: JsonObject) -> list[str]:
    if resource.inert:
        return list(_stored_only(resource))
    warn = _WARNINGS.get(resource.storage)
    return list(warn(obj)) if warn is not None else []


def warnings_of_update(resource: Resource, obj: JsonObject, old: JsonObject, subresource: str) -> list[str]:
    warn = _WARNINGS.get(resource.storage)
    if warn is None or subresource or resource.storage in _SILENT_UPDATES:
        return []
    if resource.storage not in _ALWAYS_WARNED and same(obj.get("spec"), old.get("spec")):
        return []
    return [warning for warning in warn(obj) if not warning.startswith("metadata.name")]
