"""Warnings for pods and pod templates.

Upstream: pkg/api/pod/warnings.go, pkg/api/node/util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.affinity import PREFERRED_TERMS, REQUIRED_TERMS
from stowplan.api.field_errors import go_quote
from stowplan.api.labels import label_value_errors
from stowplan.api.quantity import milli_value, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stowplan_cluster.apiserver.objects import JsonObject

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
_SYSCTLS = 'non-functional in v1.11+; use the "sysctls" field instead'
_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": _SYSCTLS,
    "security.alpha.kubernetes.io/unsafe-sysctls": _SYSCTLS,
}
_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_MATCHES_NOTHING = "a null labelSelector results in matching no pod"
_BYTES = ("memory", "ephemeral-storage")


def pod_warnings(prefix: str, pod: JsonObject) -> Iterator[str]:
    """`prefix` is "" for a pod, `spec.template.` for a template."""
    spec, path = pod.get("spec") or {}, f"{prefix}spec"
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    yield from _placement(path, spec)
    for key, message in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{prefix}metadata.annotations[{key}]: {message}"
    yield from _volumes(path, spec)
    yield from _twice(f"{path}.hostAliases", spec.get("hostAliases") or (), "ip")
    yield from _twice(f"{path}.imagePullSecrets", spec.get("imagePullSecrets") or (), "name")
    for index, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _fractions(f"{path}.overhead", spec.get("overhead") or {}, _BYTES)
    containers = list(_containers(path, spec))
    for at, container in containers:
        yield from amount_warnings(at, container, _BYTES)
        yield from _environment(f"{at}.env", container.get("env") or ())
    yield from _ports(list(_numbered_ports(containers)))
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        at = f"{path}.terminationGracePeriodSeconds"
        yield f"{at}: must be >= 0; negative values are invalid and will be treated as 1"
    yield from _pod_affinity(f"{path}.affinity", spec.get("affinity") or {})


def _containers(path: str, spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from ((f"{path}.{name}[{index}]", one) for index, one in enumerate(spec.get(name) or ()))


def _placement(path: str, spec: JsonObject) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _NODE_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
    affinity, at = (spec.get("affinity") or {}).get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity"
    for index, term in enumerate((affinity.get(REQUIRED_TERMS) or {}).get("nodeSelectorTerms") or ()):
        yield from label_warnings(f"{at}.{REQUIRED_TERMS}.nodeSelectorTerms[{index}]", term)
    for index, term in enumerate(affinity.get(PREFERRED_TERMS) or ()):
        yield from label_warnings(
            f"{at}.{PREFERRED_TERMS}[{index}].preference", term.get("preference") or {}, values=True
        )
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        key, at = constraint.get("topologyKey", ""), f"{path}.topologySpreadConstraints[{index}]"
        if key in _NODE_LABELS:
            yield f"{at}.topologyKey: {key} is {_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_MATCHES_NOTHING}"


def label_warnings(path: str, term: JsonObject, *, values: bool = False) -> Iterator[str]:
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


def _volumes(path: str, spec: JsonObject) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        at = f"{path}.volumes[{index}]"
        yield from (f"{at}.{kind}: {message}" for kind, message in _VOLUMES.items() if volume.get(kind) is not None)
        claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec") or {}
        yield from amount_warnings(f"{at}.ephemeral.volumeClaimTemplate.spec", claim, ("storage",))
        projected = volume.get("projected")
        if projected is not None and not projected.get("sources"):
            yield f"volume {go_quote(volume.get('name', ''))} (Projected) has no sources provided"


def _twice(path: str, entries: Sequence[JsonObject], field: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        value = entry.get(field, "")
        if value in seen:
            yield f"{path}[{index}].{field}: duplicate {field} {go_quote(value)}"
        seen.add(value)


def amount_warnings(path: str, holder: JsonObject, names: Sequence[str]) -> Iterator[str]:
    """Warn about fractional bytes."""
    resources = holder.get("resources") or {}
    for field in ("requests", "limits"):
        yield from _fractions(f"{path}.resources.{field}", resources.get(field) or {}, names)


def _fractions(path: str, amounts: JsonObject, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name in amounts and milli_value(parse_quantity(amounts[name])) % 1000:
            yield f"{path}[{name}]: fractional byte value {go_quote(str(amounts[name]))} is invalid, must be an integer"


def _environment(path: str, env: Sequence[JsonObject]) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(env):
        name, value = variable.get("name", ""), variable.get("value", "")
        own = f"$({name})"
        if name in seen and (variable.get("valueFrom") is not None or value == own or own not in value):
            yield (
                f"{path}[{index}]: hides previous definition of {go_quote(name)}, which may be dropped when using apply"
            )
        seen.add(name)


def _numbered_ports(containers: Sequence[tuple[str, JsonObject]]) -> Iterator[tuple[str, JsonObject]]:
    for at, container in containers:
        yield from ((f"{at}.ports[{index}]", port) for index, port in enumerate(container.get("ports") or ()))


def _ports(ports: Sequence[tuple[str, JsonObject]]) -> Iterator[str]:
    """Warn about duplicate ports; all containers of a pod share its address."""
    known: dict[tuple[int, str], list[tuple[str, JsonObject]]] = {}
    for at, port in ports:
        others = known.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
        for path, other in others:
            if clash := _clash(port, other):
                yield f"{at}: {clash} port definition with {path}"
        others.append((at, port))
    named: dict[str, str] = {}
    for at, port in ports:
        name = port.get("name")
        if not name:
            continue
        if (first := named.setdefault(name, at)) != at:
            yield (
                f"{at}: duplicate port name {go_quote(name)} with {first}, services and probes that select ports by "
                f"name will use {first}"
            )


def _clash(port: JsonObject, other: JsonObject) -> str:
    here, there = port.get("hostPort", 0), other.get("hostPort", 0)
    address, other_address = port.get("hostIP", ""), other.get("hostIP", "")
    if (here, address) == (there, other_address):
        return "duplicate"
    if not here or not there:
        return "overlapping"
    return "dangerously ambiguous" if here == there and not (address and other_address) else ""
