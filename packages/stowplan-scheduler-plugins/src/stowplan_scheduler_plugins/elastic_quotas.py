"""What ElasticQuotas allow, and what pods use of them.

Amounts are integers: milli-CPU, bytes, and counts. A quota is one per namespace: the first of several.

Parity: a maximum that does not name cpu, memory or ephemeral-storage allows nothing of it; other resources that it does
not name are unlimited. All init containers count as ones that end before the others start.

Upstream: pkg/capacityscheduling/elasticquota.go in scheduler-plugins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stowplan.plugins import PodInfo, custom_resource
from stowplan.plugins.objects import QuantityValue, milli_value, parse_quantity, whole_value

ElasticQuota = custom_resource("elasticquotas.v1alpha1.scheduling.x-k8s.io")

UNLIMITED = 2**63 - 1
_ALWAYS = ("cpu", "memory", "ephemeral-storage", "pods")

Amounts = dict[str, int]


def amounts(resources: Mapping[str, QuantityValue]) -> Amounts:
    parsed = {name: parse_quantity(amount) for name, amount in resources.items()}
    return {name: milli_value(nano) if name == "cpu" else whole_value(nano) for name, nano in parsed.items()}


def plus(*vectors: Mapping[str, int]) -> Amounts:
    total: Amounts = {}
    for vector in vectors:
        for name, amount in vector.items():
            total[name] = total.get(name, 0) + amount
    return total


def request_of(pod: PodInfo) -> Amounts:
    """Kept for all pods of a template."""
    template = pod.shape.template
    known: Amounts | None = template.memo("elastic quota", None)
    if known is None:
        spec = pod.pod.spec
        known = plus(*(amounts(container.resources.requests) for container in spec.containers))
        for container in spec.init_containers:
            for name, amount in amounts(container.resources.requests).items():
                known[name] = max(known.get(name, 0), amount)
        template.remember("elastic quota", None, known := plus(known, amounts(spec.overhead)))
    return known


def exceeds(amount: Mapping[str, int], limit: Mapping[str, int], unnamed: int) -> bool:
    """Whether there is more of any resource than its limit; `unnamed` is that of resources without one."""
    if any(amount.get(name, 0) > limit.get(name, 0) for name in _ALWAYS):
        return True
    return any(value > limit.get(name, unnamed) for name, value in amount.items() if name not in _ALWAYS)


@dataclass
class Quota:
    namespace: str
    min: Amounts
    max: Amounts
    used: Amounts = field(default_factory=dict)
    #: Pods that are counted, by UID.
    pods: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, namespace: str, spec: Mapping[str, Mapping[str, QuantityValue]]) -> "Quota":
        unlimited = dict.fromkeys(("cpu", "memory", "ephemeral-storage"), UNLIMITED)
        most = spec.get("max")
        return cls(namespace, amounts(spec.get("min") or {}), unlimited if most is None else amounts(most))

    def copy(self) -> "Quota":
        return Quota(self.namespace, self.min, self.max, dict(self.used), set(self.pods))

    def add(self, pod: PodInfo, sign: int = 1) -> None:
        """Count a pod, or no longer; once each."""
        if (pod.uid in self.pods) != (sign > 0):
            (self.pods.add if sign > 0 else self.pods.discard)(pod.uid)
            for name, amount in request_of(pod).items():
                self.used[name] = self.used.get(name, 0) + sign * amount

    def over_min(self) -> bool:
        return exceeds(self.used, self.min, 0)

    def over_min_with(self, request: Mapping[str, int]) -> bool:
        return exceeds(self._with(request), self.min, 0)

    def over_max_with(self, request: Mapping[str, int]) -> bool:
        return exceeds(self._with(request), self.max, UNLIMITED)

    def _with(self, request: Mapping[str, int]) -> Amounts:
        """What would be used; parity: of other resources, only those that are requested count."""
        named = {*_ALWAYS, *request}
        return {name: self.used.get(name, 0) + request.get(name, 0) for name in named}


class Quotas(dict[str, Quota]):
    """By namespace."""

    def copied(self) -> "Quotas":
        return Quotas({namespace: quota.copy() for namespace, quota in self.items()})

    def over_min_together(self, request: Mapping[str, int]) -> bool:
        """Whether all together would use more than all are guaranteed: then nobody may borrow."""
        total = plus(*(quota.used for quota in self.values()), request)
        return exceeds(total, plus(*(quota.min for quota in self.values())), 0)

    def count(self, pods: Iterable[PodInfo]) -> None:
        for pod in pods:
            quota = self.get(pod.namespace)
            if quota is not None:
                quota.add(pod)
