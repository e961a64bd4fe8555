"""How much of a device's capacities a request consumes, and whether that is allowed.

Upstream: consumable_capacity.go of k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.kube.api.quantity import NANO
from stowplan.scheduler.in_tree.dynamic_resources.allocator.devices import Amount, CapacityPolicy, DeviceCapacity


def consumption(wanted: Mapping[str, Amount], capacities: Mapping[str, DeviceCapacity]) -> dict[str, Amount] | None:
    """The consumed amount of every capacity of a device; None: the device cannot satisfy the request."""
    if any(name not in capacities for name in wanted):
        return None
    found = {}
    for name, capacity in capacities.items():
        need = _need(wanted.get(name), capacity)
        if capacity.policy is not None and _violates(need, capacity.policy):
            return None
        found[name] = need
    return found


def _need(wanted: Amount | None, capacity: DeviceCapacity) -> Amount:
    policy = capacity.policy
    if wanted is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return wanted
    if policy.least is not None:
        return _rounded_up(wanted, policy.least, policy.step)
    return next((value for value in policy.valid_values if value >= wanted), wanted)


def _rounded_up(wanted: Amount, least: Amount, step: Amount | None) -> Amount:
    if wanted < least:
        return least
    if not step:
        return wanted
    # Parity: steps are counted in whole units.
    low, width = _whole(least), _whole(step)
    return (low + -(-(_whole(wanted) - low) // width) * width) * NANO


def _violates(need: Amount, policy: CapacityPolicy) -> bool:
    if policy.default is not None and need == policy.default:
        return False
    if policy.has_range:
        if policy.most is not None and need > policy.most:
            return True
        return bool(policy.step) and (_whole(need) - _whole(policy.least or 0)) % _whole(policy.step or NANO) != 0
    return bool(policy.valid_values) and need not in policy.valid_values


def _whole(amount: Amount) -> int:
    """In whole units, rounded up like Quantity.Value."""
    return -(-amount // NANO)
