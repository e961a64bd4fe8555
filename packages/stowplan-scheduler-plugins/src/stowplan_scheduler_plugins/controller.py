"""The program that writes the statuses of PodGroups and ElasticQuotas.

Upstream: cmd/controller in scheduler-plugins.
"""

import sys
from collections.abc import Iterable
from typing import Any

from stowplan.controllers import (
    DONE,
    WARNING,
    Change,
    Controller,
    Event,
    Objects,
    Reconciled,
    key_of,
    run_command,
    status_patch,
)
from stowplan.plugins import CustomObject
from stowplan.plugins.objects import Pod, parse_quantity
from stowplan_scheduler_plugins.group_status import MEMBERS, Status, reconciled_group, reconciled_quota
from stowplan_scheduler_plugins.kinds import LABEL, ElasticQuota, PodGroup, by_age


class PodGroupController(Controller):
    name = "podgroup-controller"
    reads_kinds = (PodGroup, Pod)

    def keys_of(self, change: Change[Any]) -> Iterable[str]:
        for obj in (change.old, change.new):
            if isinstance(obj, Pod):
                if LABEL in obj.metadata.labels:
                    yield f"{obj.metadata.namespace}/{obj.metadata.labels[LABEL]}"
            elif obj is not None:
                yield key_of(obj.metadata)

    def reconcile(self, key: Any, objects: Objects, now: float) -> Reconciled:
        group = objects.get(PodGroup, key)
        if group is None:
            return DONE
        return _written(group, reconciled_group(group.content, objects.indexed(Pod, MEMBERS, group.metadata.name)))


class ElasticQuotaController(Controller):
    """Keys are namespaces, and whether a quota of them has changed; only one quota of a namespace counts."""

    name = "elasticquota-controller"
    reads_kinds = (ElasticQuota, Pod)

    def keys_of(self, change: Change[Any]) -> Iterable[tuple[str, bool]]:
        objects = (obj for obj in (change.old, change.new) if obj is not None)
        return {(obj.metadata.namespace, isinstance(obj, ElasticQuota)) for obj in objects}

    def reconcile(self, key: Any, objects: Objects, now: float) -> Reconciled:
        namespace, has_changed = key
        quotas = by_age(objects.in_namespace(ElasticQuota, namespace))
        if not quotas:
            return DONE
        first, found = quotas[0], reconciled_quota(quotas[0].content, objects.in_namespace(Pod, namespace))
        # What is wrong is said with each version of a quota, which includes what is used.
        problems = problems_of(first.content, [quota.metadata.name for quota in quotas[1:]]) if has_changed else ()
        return _written(first, Status(found.status, (*found.events, *problems)))


def problems_of(quota: Any, others: Iterable[str]) -> Iterable[Event]:
    """What a quota does not mean as it is written."""
    spec, name = quota.get("spec") or {}, quota["metadata"]["name"]
    limits = spec.get("max") or {}
    for resource, least in (spec.get("min") or {}).items():
        if resource in limits and parse_quantity(least) > parse_quantity(limits[resource]):
            note = f"min {least} of {resource} is more than max {limits[resource]}: no more than max can be used"
            yield Event(WARNING, "MinAboveMax", note)
    if ignored := ", ".join(others):
        yield Event(WARNING, "OverlappingQuotas", f"only {name}, the oldest, counts in this namespace, not {ignored}")


def _written(obj: CustomObject, found: Status) -> Reconciled:
    changed = found.status != (obj.content.get("status") or {})
    return Reconciled([status_patch(obj, found.status)] if changed else (), found.events, about=obj)


def main() -> int:
    return run_command(
        "controller",
        [PodGroupController(), ElasticQuotaController()],
        lease=("kube-system", "sched-plugins-controllers"),
    )


if __name__ == "__main__":
    sys.exit(main())
