"""Which quota keeps a pod from starting, who borrows what, and which quotas would let it start."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stowplan.plugins import Change, Explanation, Inspection, Way
from stowplan_scheduler_plugins.capacity_scheduling import CapacityScheduling
from stowplan_scheduler_plugins.elastic_quotas import (
    ALWAYS,
    UNLIMITED,
    Amounts,
    Quota,
    Quotas,
    amount,
    beyond,
    plus,
    quantities,
    request_of,
    shown,
)
from stowplan_scheduler_plugins.kinds import ElasticQuota


def listed(names: Sequence[str]) -> str:
    """The first three of them."""
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


class CapacitySchedulingExplanation(Explanation):
    def __init__(self, inspection: Inspection, plugin: CapacityScheduling) -> None:
        super().__init__(inspection)
        self._plugin = plugin
        self._request = request_of(inspection.pod)

    @property
    def _quotas(self) -> Quotas:
        # As of now: between two questions, changes are tried.
        return self._plugin.quotas()

    @property
    def _own(self) -> Quota | None:
        return self._quotas.get(self.inspection.pod.namespace)

    def _over_max(self) -> Amounts:
        """By how much the namespace would be above its maximum."""
        own = self._own
        return {} if own is None else beyond(plus(own.used, self._request), own.max, UNLIMITED, self._request)

    def _over_min(self) -> Amounts:
        """By how much all namespaces together would be above all minimums."""
        if self._own is None:
            return {}
        return beyond(plus(self._quotas.used, self._request), self._quotas.min, 0, self._quotas.used)

    def obstacles(self) -> Iterable[str]:
        own = self._own
        if own is None:
            return
        for name in self._over_max():
            used, most, wanted = (shown(name, of.get(name, 0)) for of in (own.used, own.max, self._request))
            yield f"namespace {own.namespace} uses {used} of at most {most}, and the pod requests {wanted}"
        for name in self._over_min():
            used, least = (shown(name, of.get(name, 0)) for of in (self._quotas.used, self._quotas.min))
            borrowed = [
                f"{quota.namespace} borrows {shown(name, more[name])}"
                for quota in self._quotas
                if name in (more := beyond(quota.used, quota.min, 0, (name,)))
            ]
            told = "; " + ", ".join(borrowed) if borrowed else ""
            yield f"all quotas together guarantee {least}, of which {used} are used{told}"

    def facts(self) -> Iterable[str]:
        own = self._own
        if own is not None:
            for name in self._request:
                if self._quotas.min.get(name, 0) and self._request[name]:
                    yield self._standing(own, name)

    def _standing(self, own: Quota, name: str) -> str:
        """How much of a resource the namespace uses, and may borrow of whom."""
        used, least = own.used.get(name, 0), own.min.get(name, 0)
        most = own.max.get(name, 0 if name in ALWAYS else UNLIMITED)
        lenders = [one for one in self._quotas if one is not own and one.used.get(name, 0) < one.min.get(name, 0)]
        # What it is guaranteed comes first.
        unused = self._quotas.min.get(name, 0) - self._quotas.used.get(name, 0) - max(least - used, 0)
        loan = max(min(unused, most - max(used, least)), 0)
        text = f"namespace {own.namespace} uses {shown(name, used)} ({amount(name, least)} guaranteed)"
        if not loan:
            return f"{text}, and may borrow none"
        whole = amount(name, sum(one.min.get(name, 0) for one in lenders))
        whose = listed([one.namespace for one in lenders])
        wants = "wants" if len(lenders) == 1 else "want"
        return f"{text}, and may borrow {amount(name, loan)} of {whole} until {whose} {wants} them back"

    def ways_for_pod(self) -> Sequence[Way]:
        own = self._own
        if own is None:
            return ()
        changes = []
        for field, what, more, now in (
            ("max", "maximum", self._over_max(), own.max),
            ("min", "minimum", self._over_min(), own.min),
        ):
            if more:
                changes.append(self._raised(field, what, {name: now.get(name, 0) + more[name] for name in more}))
        return [tuple(changes)] if changes else ()

    def _raised(self, field: str, what: str, amounts: Amounts) -> Change:
        namespace = self.inspection.pod.namespace
        quota = next(iter(self.inspection.cluster.objects.in_namespace(ElasticQuota, namespace)))
        spec = quota.content["spec"]
        new = quantities(amounts)
        raised = replace(quota, content=quota.content | {"spec": spec | {field: (spec.get(field) or {}) | new}})
        told = ", ".join(shown(name, amount) for name, amount in amounts.items())
        text = f"raise the {what} of ElasticQuota {namespace}/{quota.metadata.name} to {told}"
        return Change("elasticQuota", text, {field: new}, objects=(raised,))
