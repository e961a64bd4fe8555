"""The status of a DeviceTaintRule: whether eviction is in progress, and how many pods it evicted.

One condition, EvictionInProgress. A rule with effect None has no effect; its status shows what NoExecute would do.

Upstream: maybeUpdateRuleStatus of pkg/controller/devicetainteviction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stowplan.kube.api.taints import NO_EXECUTE

if TYPE_CHECKING:
    from stowplan_cluster.apiserver.objects import JsonObject

EVICTION = "EvictionInProgress"
NO_EFFECT = "None"


class Affected(NamedTuple):
    """The pods and devices that a rule selects."""

    #: Number of pods to evict (or that would be), and their namespaces.
    pods: int = 0
    namespaces: int = 0
    #: Number of published devices, and of allocated ones.
    published: int = 0
    allocated: int = 0


def condition(effect: str, affected: Affected, *, evicted: int, generation: int) -> JsonObject:
    """The condition, without its time. `evicted` is the number of pods evicted so far."""
    status, reason, message = "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    if effect == NO_EXECUTE:
        message = ""
        if affected.pods:
            status, reason = "True", "PodsPendingEviction"
            need = "needs" if affected.pods == 1 else "need"
            message = f"{_count(affected.pods, 'pod')} {need} to be evicted in {_namespaces(affected)}."
        else:
            reason = "Completed" if evicted else "NotStarted"
    elif effect == NO_EFFECT:
        reason = "NoEffect"
        message = (
            f"{_count(affected.published, 'published device')} selected. "
            f"{_count(affected.allocated, 'allocated device')} selected. "
            f"{_count(affected.pods, 'pod')} would be evicted in {_namespaces(affected)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    if evicted:
        message = f"{message} {_count(evicted, 'pod')} evicted since starting the controller.".lstrip()
    return {
        "type": EVICTION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _namespaces(affected: Affected) -> str:
    return "1 namespace" if affected.namespaces == 1 else f"{affected.namespaces} different namespaces"
