"""Queueing hints of PodTopologySpread.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go (EventsToRegister and its hints).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.kube.api.types import Node, Pod
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, Hint, on, pod_events, queue_if
from stowplan.scheduler.in_tree.common.pod_hints import is_placed_or_nominated, same_pod

HARD = "DoNotSchedule"


def events(plugin: Any) -> Sequence[ClusterEventWithHint]:
    """The registrations of a PodTopologySpread plugin."""

    def after_pod_change(pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        return _after_pod_change(plugin.constraints(pod.shape, HARD), pod, old, new)

    def after_node_change(pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        return _after_node_change(plugin.constraints(pod.shape, HARD), old, new)

    pods = Action.Add | Action.UpdatePodLabel | Action.UpdatePodToleration | Action.Delete
    nodes = Action.Add | Action.Delete | Action.UpdateNodeLabel | Action.UpdateNodeTaint
    of_pods = pod_events(plugin.handle.features.emulated_version).either
    return (
        *(on(resource, pods, after_pod_change, by_shape=True) for resource in of_pods),
        on(NODE, nodes, after_node_change, by_shape=True),
    )


def _after_pod_change(constraints: Sequence[Any], pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
    if any(changed is not None and not _involved(pod, changed) for changed in (old, new)):
        return Hint.SKIP
    if old is not None and new is not None:
        return _after_pod_update(constraints, pod, old, new)
    changed = new if old is None else old
    assert changed is not None
    return queue_if(any(c.selector.matches(changed.metadata.labels) for c in constraints))


def _after_pod_update(constraints: Sequence[Any], pod: PodInfo, old: Pod, new: Pod) -> Hint:
    if same_pod(pod, new) and old.spec.tolerations != new.spec.tolerations and any(c.honor_taints for c in constraints):
        return Hint.QUEUE
    before, after = old.metadata.labels, new.metadata.labels
    if before == after:
        return Hint.SKIP
    return queue_if(any(c.selector.matches(before) != c.selector.matches(after) for c in constraints))


def _involved(pod: PodInfo, other: Pod) -> bool:
    if same_pod(pod, other):
        return True
    return is_placed_or_nominated(other) and (other.metadata.namespace or "default") == pod.namespace


def _after_node_change(constraints: Sequence[Any], old: Node | None, new: Node | None) -> Hint:
    had, has = _has_all_keys(constraints, old), _has_all_keys(constraints, new)
    if old is None or new is None:
        return queue_if(has if old is None else had)
    if had != has:
        return Hint.QUEUE
    if not has:
        return Hint.SKIP
    moved = any(old.metadata.labels[c.key] != new.metadata.labels[c.key] for c in constraints)
    return queue_if(moved or old.spec.taints != new.spec.taints)


def _has_all_keys(constraints: Sequence[Any], node: Node | None) -> bool:
    return node is not None and all(c.key in node.metadata.labels for c in constraints)
