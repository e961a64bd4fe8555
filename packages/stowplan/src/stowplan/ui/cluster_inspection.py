"""Answers for the page about a cluster without a scheduler: verdicts, nodes, groups, why pods are pending.

A cluster from files, at a moment of a recording, or a live one that is only followed has no queue and no stories;
instead, pending pods are judged, one per kind. Routes and records are those of a running scheduler's pages, so that the
page need not distinguish them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from stowplan.ask.explain.detailed_record import detailed
from stowplan.ask.explain.judging import kinds_of
from stowplan.ask.explain.node_view import node_view
from stowplan.ask.explain.text.reported_status import ReportedStatus
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import Verdict, condition_of
from stowplan.kube.api.api_errors import NotFound
from stowplan.kube.api.types import PodGroup
from stowplan.net.serving.requests.messages import JSON, Request, Response
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.engine.engine import Engine
from stowplan.scheduler.inspection import records
from stowplan.scheduler.inspection.devices import Devices, DevicesRecord, NodeDevicesRecord
from stowplan.scheduler.inspection.queue_state import main_reason, quota_records
from stowplan.scheduler.inspection.room import RoomRecord, room_of
from stowplan.ui.page_routes import key_of, limit_of
from stowplan.ui.room_trend import RoomTrend

#: Number of kinds of pending pods that are judged; other pods are listed without a reason.
MAX_KINDS = 200
UNSCHEDULABLE, PLACEABLE, GATED, UNJUDGED = "unschedulable", "placeable", "gated", "not judged"
#: A node would take it, but not its whole pod group.
IN_GROUP = "waits for its pod group"


class JudgedCluster(Protocol):
    """The cluster: `sources.cluster_source.ClusterSource`."""

    @property
    def engine(self) -> Engine: ...

    def verdict(self, info: PodInfo, /) -> Verdict: ...

    def group_verdict(self, group: str, /) -> GroupVerdict: ...

    def group_record(self, group: str, /) -> records.GroupVerdictRecord: ...

    def groups_of(self, pods: Iterable[PodInfo], /) -> list[str]: ...

    def reported(self, info: PodInfo, /) -> ReportedStatus | None: ...

    def more_nodes_for(self, verdict: Verdict, /) -> tuple[records.ReliefRecord, ...]: ...


@dataclass
class ClusterInspection:
    """Answers about one cluster; the queue is computed on demand, and again after a change."""

    cluster: JudgedCluster
    #: Of a cluster that changes.
    trend: RoomTrend | None = None

    def __post_init__(self) -> None:
        self._queue: records.QueueRecord | None = None
        self._queue_of: object = None
        self._devices: Devices | None = None

    def pages(self, prefix: str) -> dict[str, Callable[[Request], Response]]:
        def pod(request: Request) -> Response:
            key = key_of(request, f"{prefix}explain/")
            return _json(self.pod(key, suggestions=request.first("suggestions") == "true"))

        def node(request: Request) -> Response:
            return _json(self.node(request.path.removeprefix(f"{prefix}nodes/")))

        def group(request: Request) -> Response:
            return _json(self.group(key_of(request, f"{prefix}podgroups/")))

        def queue(request: Request) -> Response:
            return _json(self.queue(limit_of(request)))

        def room(request: Request) -> Response:
            return _json(self.room())

        def devices(request: Request) -> Response:
            return _json(self.devices())

        def devices_on(request: Request) -> Response:
            return _json(self.devices_on(request.path.removeprefix(f"{prefix}devices/")))

        return {
            f"{prefix}room": room,
            f"{prefix}devices/": devices_on,
            f"{prefix}devices": devices,
            f"{prefix}explain/": pod,
            f"{prefix}nodes/": node,
            f"{prefix}podgroups/": group,
            f"{prefix}pending": queue,
        }

    # -- pods ---------------------------------------------------------------------------------------------------------

    def pod(self, key: str, *, suggestions: bool) -> records.VerdictRecord:
        """The verdict on a pod; raises NotFound."""
        info = self._find(key)
        verdict = self.cluster.verdict(info)
        if suggestions:
            # The record includes advice that was requested.
            _ = verdict.advice
        record = detailed(self.cluster.engine, verdict) if suggestions else verdict.record()
        reported = self.cluster.reported(info)
        return replace(
            record,
            current_node=info.node_name,
            scheduler=None if reported is None else reported.record(),
            pod_group=self._group_of(info),
            relief=self.cluster.more_nodes_for(verdict) if suggestions and not info.node_name else (),
        )

    def _find(self, key: str) -> PodInfo:
        state = self.cluster.engine.state
        pending = state.pending.get(key)
        if pending is not None:
            return state.placed(pending.uid) or pending
        for info in state.placed_pods():
            if info.key == key:
                return info
        raise NotFound(f'pod "{key}" not found')

    def _group_of(self, info: PodInfo) -> records.GroupVerdictRecord | None:
        for group in self.cluster.groups_of([info]):
            return self.cluster.group_record(group)
        return None

    # -- the queue ----------------------------------------------------------------------------------------------------

    def queue(self, limit: int) -> records.QueueRecord:
        version = (self.cluster.engine.state.version, len(self.cluster.engine.state.pending))
        if self._queue is None or self._queue_of != version:
            self._queue, self._queue_of = self._judged_queue(), version
        pods = self._queue.pods[:limit]
        return replace(self._queue, pods=pods, left_out=len(self._queue.pods) - len(pods))

    def _judged_queue(self) -> records.QueueRecord:
        state = self.cluster.engine.state
        waiting = [info for info in state.pending.values() if state.placed(info.uid) is None]
        found: dict[str, records.QueuedPodRecord] = {}
        for number, (first, others) in enumerate(kinds_of(self.cluster.engine, waiting)):
            record = (
                self._judged(first) if number < MAX_KINDS else records.QueuedPodRecord(pod=first.key, place=UNJUDGED)
            )
            found |= {key: replace(record, pod=key) for key in (first.key, *others)}
        pods = tuple(found[info.key] for info in waiting)
        quotas = quota_records(self.cluster.engine.frameworks.values())
        return records.QueueRecord(
            counts=dict(Counter(pod.place for pod in pods)), pods=pods, left_out=0, quotas=quotas
        )

    def _judged(self, info: PodInfo) -> records.QueuedPodRecord:
        verdict = self.cluster.verdict(info)
        if verdict.gated is not None:
            return records.QueuedPodRecord(pod=info.key, place=GATED, gated_by=verdict.gated.plugin)
        if verdict.error is not None:
            return records.QueuedPodRecord(pod=info.key, place=UNJUDGED)
        if verdict.node_name:
            groups = (self.cluster.group_verdict(group) for group in self.cluster.groups_of([info]))
            unfit = next((group for group in groups if not group.fits), None)
            if unfit is not None:
                return records.QueuedPodRecord(pod=info.key, place=IN_GROUP, reason=unfit.in_words())
            return records.QueuedPodRecord(pod=info.key, place=PLACEABLE)
        return records.QueuedPodRecord(
            pod=info.key,
            place=UNSCHEDULABLE,
            reason=main_reason(verdict.message),
            rejected_by=tuple(sorted(verdict.record(most=0).unschedulable_plugins)),
        )

    # -- room, nodes and groups ----------------------------------------------------------------------------------------

    def room(self) -> RoomRecord:
        return room_of(self.cluster.engine.state) if self.trend is None else self.trend.look()

    def devices(self) -> DevicesRecord:
        return self._followed_devices().counts()

    def devices_on(self, node: str) -> NodeDevicesRecord:
        """Raises NotFound."""
        if node not in self.cluster.engine.state.table.row_of:
            raise NotFound(f'node "{node}" not found')
        return self._followed_devices().on(node)

    def _followed_devices(self) -> Devices:
        engine = self.cluster.engine
        if self._devices is None or self._devices.state is not engine.state:
            self._devices = Devices(engine.state, engine.features)
        return self._devices

    def node(self, name: str) -> records.Record:
        """The node's view; raises NotFound."""
        engine = self.cluster.engine
        if name not in engine.state.table.row_of:
            raise NotFound(f'node "{name}" not found')
        ours = [info for info in engine.state.pending.values() if engine.framework_for(info) is not None]
        kinds = kinds_of(engine, ours)[:MAX_KINDS]
        questions = ((self.cluster.verdict(first), (first.key, *others)) for first, others in kinds)
        return node_view(engine, name, questions).record()

    def group(self, key: str) -> records.GroupStateRecord:
        """The verdict on a group; raises NotFound."""
        state = self.cluster.engine.state
        group, members = state.objects.get(PodGroup, key), state.pod_groups
        if group is None and not members.known(key):
            raise NotFound(f'pod group "{key}" not found')
        gang = None if group is None else group.spec.scheduling_policy.gang
        members_waiting = [info for info in state.pending.values() if _is_of(info, key)]
        waiting = {info.key for info in members_waiting}
        judged = self.cluster.groups_of(members_waiting)
        return records.GroupStateRecord(
            pod_group=key,
            min_count=0 if gang is None else gang.min_count,
            condition=condition_of(group),
            waiting=tuple(pod for pod in self.queue(len(state.pending)).pods if pod.pod in waiting),
            have_node={info.key: info.node_name for info in members.placed(key)},
            verdict=self.cluster.group_record(key) if judged else None,
        )


def _is_of(info: PodInfo, group: str) -> bool:
    return info.pod.spec.scheduling_group is not None and group_key(info.pod) == group


def _json(record: records.Record) -> Response:
    return Response(records.encoded(record), content_type=JSON)
