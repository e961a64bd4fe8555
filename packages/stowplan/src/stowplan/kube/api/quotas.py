"""What pods use of a ResourceQuota, and how many more it allows.

Left out: everything but pods and what they request.

Upstream: k8s.io/apiserver/pkg/quota/v1, pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from stowplan.kube.api.container_totals import BEST_EFFORT, JsonObject, qos_class
from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.pod_requests import pod_limits, pod_requests
from stowplan.kube.api.quantity import NANO, Format, format_quantity, parse_quantity
from stowplan.kube.api.resource_names import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, is_extended
from stowplan.kube.api.types import Pod
from stowplan.kube.kubernetes_versions import V1_36

_COMPUTE = (CPU, MEMORY, EPHEMERAL_STORAGE)
#: Each container has to name these if a quota limits them.
_DEMANDED = frozenset(prefix + name for prefix in ("", "requests.", "limits.") for name in (CPU, MEMORY))
_COUNTED = frozenset(prefix + name for prefix in ("", "requests.", "limits.") for name in _COMPUTE)


def is_counted(name: str) -> bool:
    """Whether the resource of a quota is counted here."""
    resource = name.removeprefix("requests.")
    huge_or_extended = resource.startswith(HUGEPAGES_PREFIX) or (resource != name and is_extended(resource))
    return name in ("pods", "count/pods") or name in _COUNTED or huge_or_extended


class CountedPod:
    """What quotas need to know of a pod."""

    def __init__(self, pod: JsonObject) -> None:
        self._pod = pod
        self.spec: JsonObject = pod["spec"]

    @cached_property
    def usage(self) -> Mapping[str, int]:
        """What it uses, in nano-units by resource; computed when a quota asks."""
        return _usage(self._pod)


class CountedQuota:
    """A quota, and what is used of it in nano-units by resource."""

    def __init__(self, obj: JsonObject) -> None:
        self.name: str = obj["metadata"]["name"]
        self.spec: JsonObject = obj.get("spec") or {}
        hard = self.spec.get("hard") or {}
        self.hard = {name: parse_quantity(value) for name, value in hard.items() if is_counted(name)}
        self.used: Counter[str] = Counter()
        self._of_pods: dict[str, Mapping[str, int]] = {}

    def covers(self, pod: CountedPod) -> bool:
        requirements = ((self.spec.get("scopeSelector") or {}).get("matchExpressions")) or ()
        scopes = ({"scopeName": name, "operator": "Exists"} for name in self.spec.get("scopes") or ())
        return all(_is_in_scope(one, pod.spec) for one in (*scopes, *requirements))

    def count(self, name: str, pod: CountedPod | None) -> None:
        """Replace what is known of a pod; None: it is gone."""
        self.used.subtract(self._of_pods.pop(name, {}))
        if pod is not None and self.covers(pod):
            self._of_pods[name] = usage = self.requested(pod)
            self.used.update(usage)

    def take(self, pod: CountedPod, number: int) -> None:
        """So many more such pods are created."""
        if self.covers(pod):
            self.used.update({name: amount * number for name, amount in self.requested(pod).items()})

    def requested(self, pod: CountedPod) -> dict[str, int]:
        """What the pod uses of it."""
        return {name: amount for name, amount in pod.usage.items() if name in self.hard}

    def more(self, pod: CountedPod) -> tuple[int, str] | None:
        """How many more pods like this one it allows, and by what; None: any number."""
        if not self.covers(pod):
            return None
        if missing := _missing(pod.spec, self.hard.keys() & _DEMANDED):
            return 0, f"they must specify {missing}"
        counts = {
            name: max(0, self.hard[name] - self.used[name]) // amount
            for name, amount in self.requested(pod).items()
            if amount
        }
        if not counts:
            return None
        name = min(counts, key=lambda one: (counts[one], one))
        used, hard = (as_text(name, of[name]) for of in (self.used, self.hard))
        return counts[name], f"{name}: used {used} of hard {hard}"

    def refusal(self, pod: CountedPod) -> str:
        """Why the pod may not be created; "": it may."""
        if not self.covers(pod):
            return ""
        if missing := _missing(pod.spec, self.hard.keys() & _DEMANDED):
            return f"failed quota: {self.name}: must specify {missing}"
        asked = self.requested(pod)
        over = sorted(name for name, amount in asked.items() if self.used[name] + amount > self.hard[name])
        if not over:
            return ""
        amounts = {"requested": asked, "used": self.used, "limited": self.hard}
        parts = (
            f"{what}: {','.join(f'{name}={as_text(name, of[name])}' for name in over)}" for what, of in amounts.items()
        )
        return f"exceeded quota: {self.name}, {', '.join(parts)}"


def as_text(name: str, nano: int) -> str:
    """Parity, but for rare units: the reference keeps the format of the first pod that it counts."""
    in_bytes = name.rpartition(".")[2] in (MEMORY, EPHEMERAL_STORAGE) or HUGEPAGES_PREFIX in name
    return format_quantity(nano, Format.BINARY_SI if in_bytes else Format.DECIMAL_SI)


def _usage(pod: JsonObject) -> dict[str, int]:
    usage = {"count/pods": NANO}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return usage
    usage["pods"] = NANO
    typed = decode_object(pod)
    assert isinstance(typed, Pod)
    for name, amount in pod_requests(typed, resize_rules=V1_36).items():
        usage[f"requests.{name}"] = amount
        if name in _COMPUTE or name.startswith(HUGEPAGES_PREFIX):
            usage[name] = amount
    for name, amount in pod_limits(typed).items():
        usage[f"limits.{name}"] = amount
    return usage


def _missing(spec: JsonObject, demanded: Collection[str]) -> str:
    found: dict[str, list[str]] = {}
    for name in sorted(demanded):
        field = "limits" if name.startswith("limits.") else "requests"
        resource = name.rpartition(".")[2]
        if resource in _named(spec, field):
            continue
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        if without := [one["name"] for one in containers if resource not in _named(one, field)]:
            found[name] = sorted(without)
    return "; ".join(f"{name} for: {','.join(containers)}" for name, containers in found.items())


def _named(holder: JsonObject, field: str) -> Collection[str]:
    return (holder.get("resources") or {}).get(field) or ()


# -- scopes -----------------------------------------------------------------------------------------------------------


def _is_in_scope(requirement: JsonObject, spec: JsonObject) -> bool:
    scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
    if scope == "PriorityClass":
        return _has_class(spec.get("priorityClassName") or "", operator, requirement.get("values") or ())
    test = _SCOPES.get(scope)
    return test is not None and test(spec)


def _has_class(name: str, operator: str, values: Collection[str]) -> bool:
    match operator:
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "Exists":
            return bool(name)
    return not name


def _terminates(spec: JsonObject) -> bool:
    return spec.get("activeDeadlineSeconds") is not None


def _is_best_effort(spec: JsonObject) -> bool:
    return qos_class(spec) == BEST_EFFORT


def _asks_other_namespaces(spec: JsonObject) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [one.get("podAffinityTerm") or {} for one in weighted]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


_SCOPES: dict[str, Callable[[JsonObject], bool]] = {
    "Terminating": _terminates,
    "NotTerminating": lambda spec: not _terminates(spec),
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda spec: not _is_best_effort(spec),
    "CrossNamespacePodAffinity": _asks_other_namespaces,
}
