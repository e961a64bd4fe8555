"""Patches of pod conditions and the nominated node name.

The patch is the difference between the known and the wanted status, as a strategic merge patch: an existing condition
is identified by its type and has its changed fields, with the order of all conditions; a new one has all fields.
`lastTransitionTime` stays unless the condition's status changes, and a change of `observedGeneration` alone is not
written.

Upstream: pkg/api/v1/pod/util.go (UpdatePodCondition), pkg/scheduler/util/utils.go (PatchPodStatus);
docs/reference/behaviour.md, Status patches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from stowplan.kube.api.types import PodCondition, PodStatus


def status_patch(
    status: PodStatus, *, conditions: Iterable[PodCondition] = (), nominated_node_name: str | None = None
) -> dict[str, Any] | None:
    """The body of the patch; None if nothing would change.

    Each condition's `last_transition_time` is the time to write if its status changes. A nominated node of None keeps
    the current one, "" clears it.
    """
    renominated = nominated_node_name is not None and nominated_node_name != status.nominated_node_name
    wanted = {one.type: one for one in conditions}
    old = {one.type: one for one in status.conditions}
    new = {type_: _kept_since(old.get(type_), one) for type_, one in wanted.items()}
    if not renominated and not any(_differs(old.get(type_), one) for type_, one in new.items()):
        return None
    changed = [found for type_, one in new.items() if (found := _difference(old.get(type_), one))]
    body: dict[str, Any] = {}
    if changed and old:
        body["$setElementOrder/conditions"] = [{"type": type_} for type_ in old | new]
    if changed:
        body["conditions"] = changed
    if renominated:
        body["nominatedNodeName"] = nominated_node_name or None
    return {"status": body}


def _kept_since(old: PodCondition | None, new: PodCondition) -> PodCondition:
    if old is None or old.status != new.status:
        return new
    return replace(new, last_transition_time=old.last_transition_time)


def _differs(old: PodCondition | None, new: PodCondition) -> bool:
    return old is None or replace(old, observed_generation=new.observed_generation) != new


def _difference(old: PodCondition | None, new: PodCondition) -> dict[str, Any]:
    """The fields to send; empty if nothing changed."""
    wanted = _fields(new)
    if old is None:
        return wanted
    known = _fields(old)
    names = [name for name in sorted(known | wanted) if known.get(name) != wanted.get(name)]
    return {**{name: wanted.get(name) for name in names}, "type": new.type} if names else {}


def _fields(condition: PodCondition) -> dict[str, Any]:
    """The condition as Go encodes it, with null times included."""
    fields: dict[str, Any] = {
        "lastProbeTime": condition.last_probe_time,
        "lastTransitionTime": condition.last_transition_time,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
        "reason": condition.reason,
        "status": condition.status,
        "type": condition.type,
    }
    return {name: value for name, value in fields.items() if value or name in _TIMES}


_TIMES = ("lastProbeTime", "lastTransitionTime")
