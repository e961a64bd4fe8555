"""Carry out what `reconcile.cluster_autoscaler` decides: order nodes of groups, drain and remove them.

It looks every ten seconds while pods wait that the scheduler has rejected, and for nodes that are not needed after pods
or nodes have come or gone, or a budget has changed. A node is created some time after it was ordered. A node that is to
go gets a taint, its pods are evicted as budgets allow, then it is deleted. Since when nodes are not needed, and which
are ordered, is kept in memory: after a restart that begins again.

Upstream: kubernetes/autoscaler, cluster-autoscaler (core, simulator, utils/taints).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

from stowplan.kube.api.api_errors import InternalError, TooManyRequests
from stowplan.kube.api.decode import decode_json
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, belongs_to_node, eviction_outcome
from stowplan.kube.api.pod import FINISHED, Pod
from stowplan.kube.api.pod_requests import pod_requests, to_vector
from stowplan.kube.api.types import Node
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.eviction import BUDGETS, evict
from stowplan_cluster.apiserver.objects import condition_of
from stowplan_cluster.apiserver.registry import Registry
from stowplan_cluster.apiserver.store import Event, Stored
from stowplan_cluster.controllers.client import NORMAL, WARNING, ControllerClient
from stowplan_cluster.controllers.nodes.node_groups import GROUP, ScaledGroup
from stowplan_cluster.controllers.pods_by_node import NODES, PodsByNode, key_of, node_of
from stowplan_cluster.reconcile.cluster_autoscaler import (
    IdleNodes,
    Limits,
    LowNode,
    NodeGroup,
    Order,
    ScaleDown,
    WaitingPod,
    keeps_its_node,
    low_nodes,
    next_look,
    node_amounts,
    nodes_to_add,
    unhelped_text,
)
from stowplan_cluster.reconcile.nodes import CHECK_AGAIN, EVICT_AGAIN
from stowplan_cluster.reconcile.pods import PODS
from stowplan_cluster.reconcile.views import Key

#: Seconds between two looks.
INTERVAL = 10.0
#: After how many seconds a pod is told the same again.
_TELL_AGAIN = 300.0
#: The taint of a node that is to go; its value is the time.
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"
#: Times that are closer than this are the same: timers are rounded.
_ROUNDING = 1e-6


class Trials(Protocol):
    """What the scheduler's filters say; see `stowplan.ask.what_if.node_trials`."""

    def accepted_pods(self, node: Node, pods: Sequence[Pod]) -> Collection[str]: ...

    def refusals(self, node: Node, pods: Sequence[Pod]) -> Mapping[str, Sequence[str]]: ...

    def fit_elsewhere(self, node: str, pods: Sequence[Pod]) -> bool: ...

    def shares(self, nodes: Sequence[str]) -> Mapping[str, float]: ...

    def is_wanted(self, node: str) -> bool: ...


class _Coming(NamedTuple):
    """A node that was ordered."""

    at: float
    group: str


class _Told(NamedTuple):
    """What an event said of a pod that no group helps."""

    text: str
    at: float


class _Everything(NamedTuple):
    """The only key."""


class ClusterAutoscaler:
    def __init__(self, registry: Registry, groups: Sequence[ScaledGroup]) -> None:
        self.name = "cluster-autoscaler"
        self.watches = (NODES, PODS, BUDGETS)
        #: Nothing happens before it is set.
        self.trials: Trials | None = None
        self._registry = registry
        self._client = ControllerClient(registry, "cluster-autoscaler")
        self._groups = {group.name: group for group in groups}
        #: Group -> its nodes.
        self._nodes: dict[str, dict[str, None]] = {name: {} for name in self._groups}
        self._group_of: dict[str, str] = {}
        #: Of the next node.
        self._numbers = dict.fromkeys(self._groups, 0)
        self._coming: list[_Coming] = []
        self._pods = PodsByNode()
        #: Rejected pods, and the nodes of those that do not belong to one.
        self._waiting: dict[Key, None] = {}
        self._placed: dict[Key, str] = {}
        self._told: dict[str, _Told] = {}
        self._idle = IdleNodes()
        self._scale_down = ScaleDown()
        #: When to look: for waiting pods, for nodes with few, and at the node that is being drained.
        self._look_at = self._low_at = self._drain_at = inf
        self._has_begun = False

    # -- changes ------------------------------------------------------------------------------------------------------

    def keys_of(self, event: Event) -> Sequence[Hashable]:
        if event.stored.resource == PODS:
            return (_Everything(),) if self._follow_pod(event) else ()
        if event.stored.resource == NODES:
            self._follow_node(event)
        self._consider_low()
        return (_Everything(),)

    def _follow_node(self, event: Event) -> None:
        name, group = event.stored.name, event.stored.labels.get(GROUP, "")
        if event.type == "DELETED":
            self._nodes.get(self._group_of.pop(name, ""), {}).pop(name, None)
            self._idle.remove(name)
        elif name not in self._group_of and group in self._groups:
            self._group_of[name] = group
            self._nodes[group][name] = None
            self._idle.begin(name, self._client.now)

    def _follow_pod(self, event: Event) -> bool:
        stored = event.stored
        self._pods.follow(event)
        key, node, is_gone = key_of(stored), node_of(stored), event.type == "DELETED"
        if stored.field("status.phase") in FINISHED:
            is_gone = True
        if not is_gone and not node:
            return self._follow_pending(key, stored)
        waited = key in self._waiting
        self._waiting.pop(key, None)
        was = self._placed.get(key, "")
        if is_gone and was:
            del self._placed[key]
            if self._idle.pod_left(was) and was in self._group_of:
                self._idle.begin(was, self._client.now)
        elif not is_gone and not was and not belongs_to_node(decode_json(stored.data, Pod)):
            self._placed[key] = node
            self._idle.pod_came(node)
        else:
            return waited
        self._consider_low()
        return True

    def _follow_pending(self, key: Key, stored: Stored) -> bool:
        status = stored.to_dict().get("status") or {}
        condition = condition_of(status, "PodScheduled") or {}
        is_rejected = (condition.get("status"), condition.get("reason")) == ("False", "Unschedulable")
        if not is_rejected or status.get("nominatedNodeName"):
            self._waiting.pop(key, None)
            return False
        self._waiting[key] = None
        self._look_at = min(self._look_at, self._next_look())
        return True

    def _consider_low(self) -> None:
        self._low_at = min(self._low_at, self._next_look())

    def _next_look(self) -> float:
        now = self._client.now
        return now + next_look(now, 0.0, INTERVAL)

    # -- what is due --------------------------------------------------------------------------------------------------

    def reconcile(self, key: Any) -> float | None:
        if self.trials is None:
            return INTERVAL
        self._begin()
        now = self._client.now + _ROUNDING
        for coming in [one for one in self._coming if one.at <= now]:
            self._coming.remove(coming)
            self._add(self._groups[coming.group])
        if self._look_at <= now:
            self._look_at = inf
            self._scale_up(self.trials)
        if self._drain_at <= now:
            self._drain_at = inf
            self._drain(self._scale_down.emptying)
        for node, since in list(self._idle.since.items()):
            if since + self._limits(node).idle <= now:
                self._end_idle(node, self.trials)
        if self._low_at <= now:
            self._low_at = inf
            self._look_for_low(self.trials)
        due = min(self._times())
        return None if due == inf else due - self._client.now

    def _times(self) -> Iterator[float]:
        yield from (self._look_at, self._low_at, self._drain_at)
        yield from (one.at for one in self._coming)
        yield from (since + self._limits(node).idle for node, since in self._idle.since.items())

    def _begin(self) -> None:
        """After a restart, nodes that were being drained take pods again."""
        if self._has_begun:
            return
        self._has_begun = True
        for name in self._group_of:
            self._set_taint(name, None)

    def _limits(self, node: str) -> Limits:
        return self._groups[self._group_of[node]].limits

    # -- scale-up -----------------------------------------------------------------------------------------------------

    def _scale_up(self, trials: Trials) -> None:
        pods = self._decoded(sorted(self._waiting))
        if not pods:
            return
        waiting = [WaitingPod(uid, _requests(pod)) for uid, pod in pods.items()]

        def accepts(name: str, some: Sequence[WaitingPod]) -> Collection[str]:
            node = self._groups[name].ready_node(self._next_number(name))
            return trials.accepted_pods(node, [pods[one.uid] for one in some])

        groups = list(map(self._sized, self._groups.values()))
        orders, left = nodes_to_add(groups, waiting, accepts)
        for order in orders:
            self._order(order)
        if left and not orders:
            # As in the reference, where some pods were helped nothing is said about the others.
            self._tell_unhelped(groups, [pods[one.uid] for one in left], trials)
        # Without a change, this would be all; on a cluster, something else may have made room in a group.
        self._look_at = min(self._look_at, self._next_look())

    def _tell_unhelped(self, groups: Sequence[NodeGroup], pods: Sequence[Pod], trials: Trials) -> None:
        refusals = {
            one.name: trials.refusals(self._groups[one.name].ready_node(self._next_number(one.name)), pods)
            for one in groups
            if one.room > 0
        }
        before, self._told = self._told, {}
        for pod in pods:
            metadata = pod.metadata
            stored = self._client.find(PODS, Key(metadata.namespace, metadata.name, metadata.uid))
            text = unhelped_text(groups, {name: found.get(metadata.uid, ()) for name, found in refusals.items()})
            told = before.get(metadata.uid)
            if told is None or told.text != text or told.at + _TELL_AGAIN <= self._client.now:
                told = _Told(text, self._client.now)
                if stored is not None:
                    self._record(stored, "NotTriggerScaleUp", text)
            self._told[metadata.uid] = told

    def _sized(self, group: ScaledGroup) -> NodeGroup:
        coming = self._number_coming(group.name)
        room = group.limits.most - len(self._nodes[group.name]) - coming
        return NodeGroup(group.name, node_amounts(group.ready_node(0)), group.price, coming, room)

    def _number_coming(self, group: str) -> int:
        return sum(one.group == group for one in self._coming)

    def _order(self, order: Order) -> None:
        group = self._groups[order.group]
        before = len(self._nodes[group.name]) + self._number_coming(group.name)
        self._coming += [_Coming(self._client.now + group.boot, group.name)] * order.nodes
        about = f"{group.name} {before}->{before + order.nodes} (max: {group.limits.most})"
        uids = set(order.pods)
        for key in [key for key in self._waiting if key.uid in uids]:
            stored = self._client.find(PODS, key)
            if stored is not None:
                self._record(stored, "TriggeredScaleUp", f"pod triggered scale-up: [{{{about}}}]")

    def _add(self, group: ScaledGroup) -> None:
        self._scale_down.added_at = self._client.now
        self._client.create(NODES, group.node(self._next_number(group.name)))
        self._numbers[group.name] += 1

    def _next_number(self, name: str) -> int:
        """Of a node that is not there."""
        group, store = self._groups[name], self._client.store
        while store.get(NODES, "", group.node(self._numbers[name])["metadata"]["name"]) is not None:
            self._numbers[name] += 1
        return self._numbers[name]

    # -- scale-down ---------------------------------------------------------------------------------------------------

    def _end_idle(self, name: str, trials: Trials) -> None:
        now = self._client.now
        if self._idle.ends(name, spare=self._is_spare(name), wanted=trials.is_wanted(name), now=now):
            self._remove(name)

    def _is_spare(self, node: str) -> bool:
        return len(self._nodes[self._group_of[node]]) > self._limits(node).least

    def _look_for_low(self, trials: Trials) -> None:
        low: dict[str, LowNode] = {}
        for name, nodes in self._nodes.items():
            low |= low_nodes(trials.shares(list(nodes)), self._groups[name].limits, len(nodes), self._is_candidate)

        def can_go(node: str) -> bool:
            pods = list(self._movable(node))
            if any(keeps_its_node(pod) or not self._may_evict(pod) for pod in pods):
                return False
            return trials.fit_elsewhere(node, pods)

        going, again = self._scale_down.look(low, self._client.now, can_go)
        if going:
            self._set_taint(going, str(int(self._client.now)))
            self._drain(going)
        elif again is not None:
            self._low_at = min(self._low_at, again + next_look(again, 0.0, INTERVAL))

    def _is_candidate(self, name: str) -> bool:
        stored = self._client.store.get(NODES, "", name)
        is_cordoned = stored is None or decode_json(stored.data, Node).spec.unschedulable
        return not is_cordoned and any(True for _ in self._movable(name))

    def _movable(self, node: str) -> Iterator[Pod]:
        for pod in self._decoded(self._pods.on(node)).values():
            if pod.status.phase not in FINISHED and eviction_outcome(pod) in _MOVABLE:
                yield pod

    def _drain(self, name: str) -> None:
        left = [key for key in self._pods.on(name) if key in self._placed]
        for key in left:
            self._evict(key)
        if left:
            there = {key for key in left if key in self._placed}
            all_leave = all(self._is_leaving(key) for key in there)
            if not all_leave and self._client.now + _ROUNDING >= self._scale_down.gives_up_at:
                self._give_up(name)
            else:
                self._drain_at = self._client.now + (CHECK_AGAIN if all_leave else EVICT_AGAIN)
            return
        self._scale_down.emptying = ""
        self._remove(name)
        self._consider_low()

    def _give_up(self, name: str) -> None:
        self._scale_down.emptying = ""
        self._set_taint(name, None)
        stored = self._client.store.get(NODES, "", name)
        if stored is not None:
            self._client.events.record(stored.to_dict(), WARNING, "ScaleDownFailed", "failed to drain the node")
        self._consider_low()

    def _may_evict(self, pod: Pod) -> bool:
        """Whether budgets allow it now."""
        metadata = pod.metadata
        return self._try_to_evict(metadata.namespace, metadata.name, DeleteOptions(dry_run=True))

    def _evict(self, key: Key) -> None:
        stored = self._client.find(PODS, key)
        if stored is None or self._is_leaving(key):
            return
        if self._try_to_evict(key.namespace, key.name, DeleteOptions(uid=key.uid)):
            self._record(stored, "ScaleDown", "deleting pod for node scale down")

    def _try_to_evict(self, namespace: str, name: str, options: DeleteOptions) -> bool:
        try:
            evict(self._registry, namespace, name, {"metadata": {"name": name}}, options)
        except (TooManyRequests, InternalError):
            return False
        return True

    def _is_leaving(self, key: Key) -> bool:
        stored = self._client.find(PODS, key)
        return stored is None or "deletionTimestamp" in stored.to_dict()["metadata"]

    def _remove(self, name: str) -> None:
        stored = self._client.store.get(NODES, "", name)
        if stored is not None:
            self._record(stored, "ScaleDown", "node removed by cluster autoscaler")
            self._client.delete(NODES, "", name, uid=stored.uid)

    def _set_taint(self, name: str, value: str | None) -> None:
        """Mark a node as to be deleted; None: no longer."""
        stored = self._client.store.get(NODES, "", name)
        if stored is None:
            return
        node = stored.to_dict()
        taints = node.setdefault("spec", {}).get("taints") or []
        kept = [taint for taint in taints if taint.get("key") != TO_BE_DELETED]
        if value is not None:
            kept.append({"key": TO_BE_DELETED, "value": value, "effect": "NoSchedule"})
        if kept != taints:
            node["spec"]["taints"] = kept
            self._client.update(stored, node)
        if value is not None:
            self._record(stored, "ScaleDown", "marked the node as toBeDeleted/unschedulable")

    # -- objects ------------------------------------------------------------------------------------------------------

    def _decoded(self, keys: Sequence[Key]) -> dict[str, Pod]:
        found = ((key, self._client.find(PODS, key)) for key in keys)
        return {key.uid: decode_json(stored.data, Pod) for key, stored in found if stored is not None}

    def _record(self, stored: Stored, reason: str, message: str) -> None:
        self._client.events.record(stored.to_dict(), NORMAL, reason, message)


_MOVABLE = (EvictionOutcome.RECREATED, EvictionOutcome.LOST)


def _requests(pod: Pod) -> Mapping[str, int]:
    return to_vector(pod_requests(pod))
