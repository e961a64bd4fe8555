"""Taints that an administrator adds to devices by rule, in addition to those that drivers publish.

A rule selects devices by driver, pool and device; omitted fields match all. Devices are evaluated with the taints of
all matching rules, so no other code depends on rules.

Upstream: k8s.io/dynamic-resource-allocation/resourceslice/tracker. There, a conversion between API versions crashes the
scheduler; here the intended behavior is implemented.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from stowplan.kube.api.devices import Device, DeviceTaintRuleSpec, ResourceSliceSpec
from stowplan.kube.api.types import DeviceTaintRule
from stowplan.scheduler.cluster.state import ClusterState


def concerns(rule: DeviceTaintRuleSpec, driver: str, pool: str, device: str | None = None) -> bool:
    """Whether a rule matches a device; None: whether it may match any device of the pool."""
    selector = rule.device_selector
    if selector is None:
        return True
    pairs = (selector.driver, driver), (selector.pool, pool), (selector.device, device)
    return all(wanted is None or found is None or wanted == found for wanted, found in pairs)


class TaintRules:
    """The active rules."""

    def __init__(self, cluster: ClusterState, *, enabled: bool) -> None:
        self._cluster = cluster
        self._enabled = enabled
        self._seen: int | None = None
        #: In name order, so that equal devices have their taints in the same order.
        self._rules: dict[str, DeviceTaintRuleSpec] = {}

    def refresh(self) -> Callable[[ResourceSliceSpec], bool] | None:
        """Process changes; return the slices whose devices have changed taints, None if there are none."""
        if not self._enabled:
            return None
        objects = self._cluster.objects
        position = objects.changes(DeviceTaintRule).position
        if position == self._seen:
            return None
        self._seen = position
        before = self._rules
        rules = {rule.metadata.name: rule.spec for rule in objects.all(DeviceTaintRule)}
        self._rules = {name: rules[name] for name in sorted(rules)}
        changed = [
            rule
            for one, other in ((before, rules), (rules, before))
            for name, rule in one.items()
            if other.get(name) != rule
        ]
        if not changed:
            return None
        return lambda spec: any(concerns(rule, spec.driver, spec.pool.name) for rule in changed)

    def applied(self, spec: ResourceSliceSpec) -> tuple[Device, ...]:
        """The devices of a slice, with all their taints."""
        rules = [rule for rule in self._rules.values() if concerns(rule, spec.driver, spec.pool.name)]
        if not rules:
            return spec.devices
        found = []
        for device in spec.devices:
            taints = [rule.taint for rule in rules if concerns(rule, spec.driver, spec.pool.name, device.name)]
            found.append(replace(device, taints=(*device.taints, *taints)) if taints else device)
        return tuple(found)
