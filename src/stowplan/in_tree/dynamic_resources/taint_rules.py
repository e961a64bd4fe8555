"""Taints that an administrator puts on devices by rule, beside those that drivers publish.

A rule names a driver, a pool, a device, or some of these; what it does not name it holds for. Devices are looked at
with the taints of all rules that concern them, so nothing else needs to know of rules.

Upstream: k8s.io/dynamic-resource-allocation/resourceslice/tracker. There the objects are converted from one version to
another in a way that crashes the scheduler; here is what was meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stowplan.api.types import DeviceTaintRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from stowplan.api.devices import Device, DeviceTaintRuleSpec, ResourceSliceSpec
    from stowplan.cluster.state import ClusterState


def concerns(rule: DeviceTaintRuleSpec, driver: str, pool: str, device: str | None = None) -> bool:
    """Whether a rule is about a device; None: about any that the pool may have."""
    selector = rule.device_selector
    if selector is None:
        return True
    pairs = (selector.driver, driver), (selector.pool, pool), (selector.device, device)
    return all(wanted is None or found is None or wanted == found for wanted, found in pairs)


class TaintRules:
    """The rules that are in force."""

    def __init__(self, cluster: ClusterState, *, enabled: bool) -> None:
        self._cluster = cluster
        self._enabled = enabled
        self._seen: int | None = None
        #: By name, in the order of names, so that equal devices have their taints in one order.
        self._rules: dict[str, DeviceTaintRuleSpec] = {}

    def refresh(self) -> Callable[[ResourceSliceSpec], bool] | None:
        """Take changes in; of which slices the devices have other taints than before, None: of none."""
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
