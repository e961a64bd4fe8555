"""What ElasticQuotas allow, and what pods use of them.

Amounts are integers: milli-CPU, bytes, and counts. A quota is one per namespace: the oldest of several. What the pods
on nodes use is an index of pods by their namespace; a `Ledger` follows it, and the quotas, change by change.

Parity: a maximum that does not name cpu, memory or ephemeral-storage allows nothing of it; other resources that it does
not name are unlimited. All init containers count as ones that end before the others start.

Upstream: pkg/capacityscheduling/elasticquota.go in scheduler-plugins.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stowplan.plugins import Handle, PodIndex, PodInfo, PodShape
from stowplan.plugins.objects import QuantityValue, milli_value, parse_quantity, whole_value
from stowplan_scheduler_plugins.kinds import ElasticQuota, by_age

UNLIMITED = 2**63 - 1
ALWAYS = ("cpu", "memory", "ephemeral-storage", "pods")

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


def minus(vector: Mapping[str, int], less: Mapping[str, int]) -> Amounts:
    return {name: amount - less.get(name, 0) for name, amount in vector.items()}


def request_of(pod: PodInfo | PodShape) -> Amounts:
    """Kept for all pods of a template."""
    shape = pod.shape if isinstance(pod, PodInfo) else pod
    template, spec = shape.template, shape.pod.spec
    known: Amounts | None = template.memo("elastic quota", None)
    if known is None:
        known = plus(*(amounts(container.resources.requests) for container in spec.containers))
        for container in spec.init_containers:
            for name, amount in amounts(container.resources.requests).items():
                known[name] = max(known.get(name, 0), amount)
        template.remember("elastic quota", None, known := plus(known, amounts(spec.overhead)))
    return known


#: What pods on nodes use, by namespace.
USE = PodIndex("ElasticQuota", lambda shape: shape.namespace, request_of)


def exceeds(amount: Mapping[str, int], limit: Mapping[str, int], unnamed: int) -> bool:
    """Whether there is more of any resource than its limit; `unnamed` is that of resources without one."""
    if any(amount.get(name, 0) > limit.get(name, 0) for name in ALWAYS):
        return True
    return any(value > limit.get(name, unnamed) for name, value in amount.items() if name not in ALWAYS)


def beyond(amount: Mapping[str, int], limit: Mapping[str, int], unnamed: int, names: Iterable[str]) -> Amounts:
    """By how much there is more than the limit, of resources that are always compared and of these."""
    limits = {name: limit.get(name, 0 if name in ALWAYS else unnamed) for name in {*ALWAYS, *names}}
    return {name: amount.get(name, 0) - most for name, most in sorted(limits.items()) if amount.get(name, 0) > most}


def quantities(of: Amounts) -> dict[str, str]:
    """Amounts as a manifest has them."""
    found = {}
    for name, amount in of.items():
        if name == "cpu":
            found[name] = str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
        else:
            whole = name in ("memory", "ephemeral-storage") and amount and amount % 2**20 == 0
            found[name] = f"{amount // 2**20}Mi" if whole else str(amount)
    return found


def amount(name: str, value: int) -> str:
    return quantities({name: value})[name]


def shown(name: str, value: int) -> str:
    return f"{amount(name, value)} {name}"


@dataclass(frozen=True)
class Quota:
    namespace: str
    min: Amounts
    max: Amounts
    used: Amounts

    @classmethod
    def of(cls, namespace: str, spec: Mapping[str, Mapping[str, QuantityValue]], used: Mapping[str, int]) -> "Quota":
        unlimited = dict.fromkeys(("cpu", "memory", "ephemeral-storage"), UNLIMITED)
        most = spec.get("max")
        allowed = unlimited if most is None else amounts(most)
        return cls(namespace, amounts(spec.get("min") or {}), allowed, dict(used))

    def over_min(self) -> bool:
        return exceeds(self.used, self.min, 0)

    def over_min_with(self, request: Mapping[str, int]) -> bool:
        return exceeds(self._with(request), self.min, 0)

    def over_max_with(self, request: Mapping[str, int]) -> bool:
        return exceeds(self._with(request), self.max, UNLIMITED)

    def _with(self, request: Mapping[str, int]) -> Amounts:
        """What would be used; parity: of other resources, only those that are requested count."""
        named = {*ALWAYS, *request}
        return {name: self.used.get(name, 0) + request.get(name, 0) for name in named}


class Quotas:
    """By namespace, with their sums."""

    def __init__(self, quotas: dict[str, Quota], used: Amounts, least: Amounts) -> None:
        self._quotas = quotas
        #: All that is used, and all that is guaranteed.
        self.used, self.min = used, least

    def __iter__(self) -> Iterator[Quota]:
        return iter(self._quotas.values())

    def get(self, namespace: str) -> Quota | None:
        return self._quotas.get(namespace)

    def over_min_together(self, request: Mapping[str, int]) -> bool:
        """Whether all together would use more than all are guaranteed: then nobody may borrow."""
        return exceeds(plus(self.used, request), self.min, 0)

    def copy(self) -> "Quotas":
        return Quotas(dict(self._quotas), dict(self.used), dict(self.min))

    def put(self, namespace: str, quota: Quota | None) -> None:
        """Replace or remove the namespace's quota."""
        before = self._quotas.pop(namespace, None)
        if quota is not None:
            self._quotas[namespace] = quota
        for one, sign in ((before, -1), (quota, 1)):
            if one is not None:
                _add(self.used, one.used, sign)
                _add(self.min, one.min, sign)


class Ledger:
    """The quotas of a cluster, with what the pods on nodes use of each."""

    def __init__(self, handle: Handle) -> None:
        self._objects = handle.cluster.objects
        self._pods = handle.cluster.pods_by(USE).placed
        self._changed = self._objects.changes(ElasticQuota), self._pods.changes
        #: Positions in both logs; -1: everything has to be looked at.
        self._positions = [-1, -1]
        self._specs: dict[str, Any] = {}
        self._quotas = Quotas({}, {}, {})

    def quotas(self) -> Quotas:
        """As of now. What was returned stays as it is: a pod's cycle may go on while the cluster changes."""
        of_quotas, of_pods = (log.since(at) for log, at in zip(self._changed, self._positions, strict=True))
        self._positions = [log.position for log in self._changed]
        if of_quotas is None or of_pods is None:
            self._specs.clear()
            self._quotas, of_pods = Quotas({}, {}, {}), []
            namespaces = [one.metadata.namespace or "default" for one in self._objects.all(ElasticQuota)]
        else:
            namespaces = [key.rpartition("/")[0] or "default" for key in of_quotas]
        if namespaces or of_pods:
            self._quotas = self._quotas.copy()
            for namespace in dict.fromkeys(namespaces):
                self._read(namespace)
            for namespace in dict.fromkeys(of_pods):
                quota = self._quotas.get(namespace)
                if quota is not None:
                    self._quotas.put(namespace, replace(quota, used=dict(self._pods.sums(namespace))))
        return self._quotas

    def _read(self, namespace: str) -> None:
        """Replace the namespace's quota by the one that counts now, if its spec is another."""
        counting = next(iter(by_age(self._objects.in_namespace(ElasticQuota, namespace))), None)
        spec = None if counting is None else counting.content.get("spec") or {}
        if spec == self._specs.get(namespace):
            return
        self._specs[namespace] = spec
        self._quotas.put(namespace, None if spec is None else Quota.of(namespace, spec, self._pods.sums(namespace)))


def _add(total: Amounts, more: Mapping[str, int], sign: int) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount
