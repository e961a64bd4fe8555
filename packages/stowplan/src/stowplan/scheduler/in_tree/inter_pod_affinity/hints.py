"""Queueing hints of InterPodAffinity.

They use the pending pod's required terms as written: namespace selectors are not expanded here, and are matched against
no labels.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go (EventsToRegister and its hints).
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.kube.api.label_selectors import SelectorError
from stowplan.kube.api.types import Node, Pod
from stowplan.kube.kubernetes_versions import V1_37
from stowplan.scheduler.cluster.pod_info import AffinityTerm, PodInfo
from stowplan.scheduler.framework.events import NODE, Action, ClusterEventWithHint, Hint, on, pod_events, queue_if
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.in_tree.common.pod_hints import is_placed_or_nominated, same_pod

_NO_LABELS: dict[str, str] = {}


def _all_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels
    return bool(terms) and all(term.matches(namespace, labels, _NO_LABELS) for term in terms)


def _any_matches(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    namespace, labels = pod.metadata.namespace or "default", pod.metadata.labels
    return any(term.matches(namespace, labels, _NO_LABELS) for term in terms)


def after_pod_change(handle: Handle, pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
    # Parity: until 1.36, pods only repel each other if all terms match, although a single one suffices.
    repel = _any_matches if handle.features.emulated_version >= V1_37 else _all_match
    if old is not None and new is not None and same_pod(pod, new):
        return Hint.QUEUE
    if any(changed is not None and not is_placed_or_nominated(changed) for changed in (old, new)):
        return Hint.SKIP
    near, far = _required_terms(pod)
    if old is None:
        assert new is not None
        return queue_if(_all_match(near, new))
    if new is None:
        if repel(far, old):
            return Hint.QUEUE
        return queue_if(repel(handle.pod_info(old).shape.required_anti_affinity, pod.pod))
    came_near = not _all_match(near, old) and _all_match(near, new)
    return queue_if(came_near or (repel(far, old) and not repel(far, new)))


def after_node_change(pod: PodInfo, old: Node | None, new: Node) -> Hint:
    near, far = _required_terms(pod)
    if any(_key_helps(term.topology_key, old, new, near=True) for term in near):
        return Hint.QUEUE
    return queue_if(any(_key_helps(term.topology_key, old, new, near=False) for term in far))


def _required_terms(pod: PodInfo) -> tuple[tuple[AffinityTerm, ...], tuple[AffinityTerm, ...]]:
    """Affinity and anti-affinity terms; raises if one does not parse, which means Queue."""
    if error := pod.shape.required_terms_error:
        raise SelectorError(error)
    return pod.shape.required_affinity, pod.shape.required_anti_affinity


def _key_helps(key: str, old: Node | None, new: Node, *, near: bool) -> bool:
    has = key in new.metadata.labels
    if old is None:
        return has if near else True
    had = key in old.metadata.labels
    if had and has:
        return old.metadata.labels[key] != new.metadata.labels[key]
    return (has and not had) if near else (had and not has)


def events(handle: Handle) -> Sequence[ClusterEventWithHint]:
    pods = Action.Add | Action.UpdatePodLabel | Action.Delete
    nodes = Action.Add | Action.UpdateNodeLabel

    def after_change(pod: PodInfo, old: Pod | None, new: Pod | None) -> Hint:
        return after_pod_change(handle, pod, old, new)

    of_pods = pod_events(handle.features.emulated_version).either
    return (
        *(on(resource, pods, after_change, by_shape=True) for resource in of_pods),
        on(NODE, nodes, after_node_change, by_shape=True),
    )
