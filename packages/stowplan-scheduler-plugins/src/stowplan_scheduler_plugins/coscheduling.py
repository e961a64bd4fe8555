"""Gangs: pods of a PodGroup start together, or not at all.

PreFilter refuses a pod while its group has too few pods, or the cluster too little room for it. Permit makes pods wait
until enough of them have nodes; a failure of one rejects those that wait. How many members have nodes follows from an
index of pods by their group, assumed ones included, so a restart loses nothing.

With `wholeGroups`, which the original does not have, nothing of that happens: the groups are declared as such, and are
decided as a whole, by the scheduler.

Parity: pods of a group are sorted by name, as all have the group's time.

Upstream: pkg/coscheduling in scheduler-plugins.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from stowplan.plugins import (
    POD,
    Action,
    ClusterEventWithHint,
    Code,
    CustomObject,
    CycleState,
    Diagnosis,
    EnqueueExtensions,
    Explanation,
    GroupKind,
    Handle,
    Inspection,
    Nodes,
    PermitPlugin,
    PodIndex,
    PodInfo,
    PodsByValue,
    PodShape,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    QueueSortPlugin,
    Reason,
    ReservePlugin,
    SignPlugin,
    Status,
    WaitingPod,
    on,
    unresolvable,
    unschedulable,
)
from stowplan.plugins.objects import parse_timestamp
from stowplan_scheduler_plugins.coscheduling_args import CoschedulingArgs
from stowplan_scheduler_plugins.kinds import LABEL, PodGroup
from stowplan_scheduler_plugins.room_for_groups import gap, shown_gap

FAILED_RECENTLY = Reason("GroupFailedRecently", "podGroup {group} failed recently")
TOO_FEW_PODS = Reason(
    "TooFewGroupPods",
    "pre-filter pod {pod} cannot find enough sibling pods, current pods number: {pods}, minMember of group: {wanted}",
)
GATED = Reason("GatedGroupPods", "pre-filter pod {pod} cannot proceed due to gated pods in the same PodGroup")
NO_ROOM = Reason("NoRoomForGroup", "resource gap: {missing}")
REJECTED = Reason(
    "GroupRejected", "PodGroup {group} gets rejected due to Pod {pod} is unschedulable even after PostFilter"
)
OPTIMISTIC, IN_UNRESERVE = "optimistic rejection in PostFilter", "rejection in Unreserve"

#: What waits at least: of times of 0, and of the groups that have room.
_DEFAULT_WAIT, _SHORTEST_MEMORY = 60, 3


class Coscheduling(
    QueueSortPlugin, PreFilterPlugin, PostFilterPlugin, ReservePlugin, PermitPlugin, SignPlugin, EnqueueExtensions
):
    name = "Coscheduling"
    args_type = CoschedulingArgs
    needs_kinds = (PodGroup,)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        # What remains of it with whole groups is their order.
        self.effect_free = self.args.whole_groups
        self._pods: PodsByValue = handle.cluster.pods_by(BY_GROUP)
        #: Groups (namespace/name) that have room, and those that failed -> until when.
        self._permitted: dict[str, float] = {}
        self._backed_off: dict[str, float] = {}
        #: Group -> time of its last failure.
        self._last_failed: dict[str, float] = {}
        #: Group -> its object's creation timestamp, and that in seconds.
        self._created: dict[str, tuple[str, float]] = {}

    @classmethod
    def group_kind(cls, args: Any) -> GroupKind | None:
        return WHOLE_GROUPS if args.whole_groups else None

    def _waits_for(self, pod: PodInfo | PodShape) -> str:
        """The group whose other pods the pod has to wait for."""
        return "" if self.args.whole_groups else group_of(pod)

    def ignores(self, shape: PodShape) -> bool:
        return not self._waits_for(shape)

    def sign_pod(self, pod: PodInfo) -> Mapping[str, Any]:
        group = self._waits_for(pod)
        return {LABEL: group} if group else {}

    def sign_version(self, pod: PodInfo) -> int:
        return 0

    # --- order

    def less(self, a: Any, b: Any) -> bool:
        if a.pod.priority != b.pod.priority:
            return bool(a.pod.priority > b.pod.priority)
        first, second = self._since(a), self._since(b)
        return first < second if first != second else bool(a.pod.key < b.pod.key)

    def _since(self, queued: Any) -> float:
        own = queued.initial_attempt_timestamp
        group = group_of(queued.pod)
        if group in self._last_failed:
            return self._last_failed[group]
        found = self._group(group)
        created = "" if found is None else found.metadata.creation_timestamp
        if not created:
            return float(queued.timestamp if own is None else own)
        known = self._created.get(group)
        if known is None or known[0] != created:
            known = self._created[group] = created, parse_timestamp(created)
        return known[1]

    # --- the group's pods and its room

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        group = self._waits_for(pod)
        if not group:
            return Status(Code.Skip)
        found = self._group(group)
        if found is None:
            return None
        if self._backed_off.get(group, 0.0) > self.handle.wall_clock():
            return unresolvable(FAILED_RECENTLY.of(group=group))
        members, wanted = self._pods.count(group), min_member(found)
        if members < wanted:
            return unresolvable(TOO_FEW_PODS.of(pod=pod.name, pods=members, wanted=wanted))
        if self._gated(group) > members - wanted:
            return unresolvable(GATED.of(pod=pod.name))
        return self._refused_for_room(group, found, wanted, nodes)

    def _refused_for_room(self, group: str, found: CustomObject, wanted: int, nodes: Nodes) -> Status | None:
        least = _spec(found).get("minResources")
        now = self.handle.wall_clock()
        if least is None or self._permitted.get(group, 0.0) > now:
            return None
        missing = gap(least | {"pods": wanted}, nodes, self.placed(group))
        if missing:
            return unresolvable(NO_ROOM.of(missing=shown_gap(missing, least)))
        self._permitted[group] = now + (self.args.permit_waiting_time_seconds or _SHORTEST_MEMORY)
        return None

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        if self.args.whole_groups:
            return PostFilterResult(Status(Code.Unschedulable))
        group = group_of(pod)
        found = self._group(group)
        if found is None:
            return PostFilterResult(unschedulable("can not find pod group"))
        wanted = min_member(found)
        missing = wanted - len(self.placed(group))
        if missing <= 0 or missing / wanted <= self.args.pod_group_reject_percentage / 100:
            return PostFilterResult(Status(Code.Unschedulable))
        for waiting in self._waiting(group):
            waiting.reject(self.name, OPTIMISTIC)
        now, backoff = self.handle.wall_clock(), self.args.pod_group_backoff_seconds
        if backoff > 0 and self._pods.count(group) >= wanted and self._backed_off.get(group, 0.0) <= now:
            self._backed_off[group] = now + backoff
        self._fail(group)
        return PostFilterResult(unschedulable(REJECTED.of(group=group, pod=pod.name)))

    def explanation(self, inspection: Inspection) -> Explanation:
        from stowplan_scheduler_plugins.coscheduling_explanation import CoschedulingExplanation

        return CoschedulingExplanation(inspection, self)

    # --- waiting for each other

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return None

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        group = self._waits_for(pod)
        if not group:
            return None, 0
        found = self._group(group)
        if found is None:
            return unschedulable("PodGroup not found"), 0
        placed = self._pods.placed.of(group)
        with_nodes = len(placed) + (pod.uid not in placed)
        if with_nodes >= min_member(found):
            self._last_failed.pop(group, None)
            for waiting in self._waiting(group):
                waiting.allow(self.name)
            return None, 0
        if with_nodes == 1:
            for member in self.members(group):
                if member.uid != pod.uid:
                    state.pods_to_activate.add(member)
        seconds = _spec(found).get("scheduleTimeoutSeconds") or self.args.permit_waiting_time_seconds
        return Status(Code.Wait), seconds or _DEFAULT_WAIT

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        group = self._waits_for(pod)
        if self._group(group) is None:
            return
        for waiting in self._waiting(group):
            waiting.reject(self.name, IN_UNRESERVE)
        self._fail(group)

    def _fail(self, group: str) -> None:
        self._permitted.pop(group, None)
        self._last_failed[group] = self.handle.wall_clock()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (on(POD, Action.Add), on(PodGroup.resource, Action.Add | Action.Update))

    # --- groups

    def _group(self, group: str) -> CustomObject | None:
        return self.handle.cluster.objects.get(PodGroup, group) if group else None

    def placed(self, group: str) -> Collection[PodInfo]:
        """Members with nodes, bound or assumed."""
        return self._pods.placed.of(group).values()

    def members(self, group: str) -> Collection[PodInfo]:
        return self._pods.all(group)

    def _gated(self, group: str) -> int:
        """Members with scheduling gates."""
        return sum(pods.sums(group).get("gated", 0) for pods in (self._pods.placed, self._pods.pending))

    def _waiting(self, group: str) -> list[WaitingPod]:
        found = map(self.handle.waiting_pods.get, self._pods.placed.of(group))
        return [one for one in found if one is not None]


def group_of(pod: PodInfo | PodShape) -> str:
    """The pod's group as namespace/name; "" without the label."""
    name = pod.labels.get(LABEL, "")
    return f"{pod.namespace}/{name}" if name else ""


def _gates(shape: PodShape) -> Mapping[str, int]:
    return {"gated": 1} if shape.pod.spec.scheduling_gates else {}


BY_GROUP = PodIndex("PodGroup", group_of, _gates)


def _spec(group: CustomObject) -> Mapping[str, Any]:
    return group.content.get("spec") or {}


def min_member(group: CustomObject) -> int:
    return int(_spec(group).get("minMember") or 0)


WHOLE_GROUPS = GroupKind(kind=PodGroup, label=LABEL, min_count=min_member)
