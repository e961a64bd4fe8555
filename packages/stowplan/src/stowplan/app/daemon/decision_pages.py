"""JSON pages about decisions, below /stowplan/ on the secure port.

    /stowplan/decisions?limit=N         the last decisions of all pods, newest first
    /stowplan/pending?limit=N           the pending pods, and where they are queued
    /stowplan/stories/<ns>/<pod>        the pod's history
    /stowplan/explain/<ns>/<pod>        its history, and the current verdict from the scheduler's own state: assumed
                                        pods count, and extenders are called unless `?extenders=false`

    /stowplan/podgroups/<ns>/<group>    the history of a pod group, its pods' nodes, and with `?verdict=true` the
                                        current verdict

    /stowplan/devices                   how many devices nodes reach, and how many are held
    /stowplan/devices/<node>            each of them, and who holds it
    /stowplan/room                      how many more pods of common shapes fit, now and when it was asked for

    /stowplan/nodes/<node>              the pods on the node, which pending pods it accepts, and why it rejects others

`?suggestions=true` at explain tries changes that would help, and adds the details of each node's rejection.

`?page=text` (or `wide`) returns a page to render, under "page", as requested by `stowplan explain --from-scheduler`.

Questions have no side effects: nothing is evicted or counted. An explanation evaluates every node at once, because the
cluster must not change meanwhile, which takes milliseconds. So there is one at a time, with pauses that limit
explanations to a tenth of the scheduler's time.

Upstream has no counterpart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import msgspec

from stowplan.ask.explain.detailed_record import detailed
from stowplan.ask.explain.judging import judged, judged_group, judged_live, kinds_of
from stowplan.ask.explain.node_view import node_view
from stowplan.ask.explain.suggestions.suggestions import advise
from stowplan.ask.explain.text.group_text import group_page
from stowplan.ask.explain.text.node_text import node_page
from stowplan.ask.explain.text.reported_status import decisions_page, group_state_page, queue_page, scheduler_blocks
from stowplan.ask.explain.text.tables import Block, Line, page_to_json
from stowplan.ask.explain.text.verdict_text import explanation
from stowplan.ask.explain.verdicts.group_verdict import GroupVerdict
from stowplan.ask.explain.verdicts.verdict import Verdict, condition_of
from stowplan.kube.api.api_errors import BadRequest, NotFound, ServiceUnavailable, TooManyRequests
from stowplan.kube.api.types import PodGroup
from stowplan.kube.timing.times import REAL_TIMES, Times
from stowplan.net.serving.requests.messages import JSON, Page, Request, Response
from stowplan.scheduler.cluster.pod_info import PodInfo, group_key
from stowplan.scheduler.engine.groups.group_cycle import story_key
from stowplan.scheduler.engine.groups.group_questions import WITHOUT_GATE as GROUPS_OFF
from stowplan.scheduler.framework.explanations.formatting import count, joined
from stowplan.scheduler.framework.requests import Ask, Outcome
from stowplan.scheduler.inspection import queue_state, records
from stowplan.scheduler.inspection.room import room_of
from stowplan.ui.page_routes import PREFIX, key_of, limit_of
from stowplan.ui.room_trend import RoomTrend

if TYPE_CHECKING:
    from stowplan.ask.offline import Cluster
    from stowplan.drivers.live.scheduler import Scheduler
    from stowplan.scheduler.inspection.devices import Devices

#: Maximum number of nodes on a wide page: each takes 60 µs, during which nothing is scheduled.
_MAX_WIDE = 2000
_TOO_WIDE = f"more than {_MAX_WIDE:,} nodes are too many for a running scheduler to spell out: -o json has them all"
#: Number of changes tried for one pod, and of kinds of pods judged for a node: nothing is scheduled meanwhile.
_TRIES, _TRIES_ON_NODE = 100, 20
_MAX_KINDS = 20
#: The pause after an explanation relative to its duration, and the maximum number of waiting requests.
_PAUSE = 9.0
_WAITING = 8
#: Larger groups are not judged; and the limit of pods times placed pods for the search for victims.
_MAX_MEMBERS, _MAX_SEARCH = 1000, 20_000

R = TypeVar("R", bound=records.Record)


class SchedulerPages:
    def __init__(
        self,
        scheduler: Scheduler,
        *,
        other_leader: Callable[[], str | None] = lambda: None,
        copied: Callable[[], Cluster] | None = None,
        times: Times = REAL_TIMES,
    ) -> None:
        """`copied`: a copy of the cluster for trials with more nodes; None if that would delay the scheduler."""
        self._scheduler = scheduler
        self._copied = copied
        #: The leader while this process is a standby, "" for none; None if it is not a standby.
        self._other_leader = other_leader
        self._times = times
        self._trend = RoomTrend(lambda: room_of(scheduler.state), times)
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0
        self._not_before = 0.0
        #: Seconds that the current explanation waited for extenders.
        self._waited = 0.0

    def pages(self) -> dict[str, Page]:
        """The server's routes."""
        return {
            f"{PREFIX}decisions": self._decisions,
            f"{PREFIX}pending": self._pending,
            f"{PREFIX}stories/": self._story,
            f"{PREFIX}explain/": self._explain,
            f"{PREFIX}podgroups/": self._group,
            f"{PREFIX}nodes/": self._node,
            f"{PREFIX}room": self._room,
            f"{PREFIX}devices": self._counted_devices,
            f"{PREFIX}devices/": self._devices_on,
        }

    @cached_property
    def _devices(self) -> Devices:
        # Slow to import: expressions of device classes.
        from stowplan.scheduler.inspection.devices import Devices

        return Devices(self._scheduler.state, self._scheduler.engine.features)

    # -- pages --------------------------------------------------------------------------------------------------------

    def _decisions(self, request: Request) -> Response:
        decisions = self._scheduler.stories.last_decisions(limit_of(request))
        record = records.DecisionsRecord(decisions=tuple(one.record() for one in decisions))
        return _json(_with_page(record, request, lambda: decisions_page(record)))

    def _room(self, request: Request) -> Response:
        return _json(self._trend.look())

    def _counted_devices(self, request: Request) -> Response:
        return _json(self._devices.counts())

    def _devices_on(self, request: Request) -> Response:
        node = request.path.removeprefix(f"{PREFIX}devices/")
        if node not in self._scheduler.state.table.row_of:
            raise NotFound(f'node "{node}" not found')
        return _json(self._devices.on(node))

    def _pending(self, request: Request) -> Response:
        queue = self._scheduler.queue
        waiting = list(islice(queue.pending(), limit_of(request)))
        on_permit = list(islice(self._scheduler.waiting_pods, limit_of(request)))
        counts = dict(queue.counts())
        left_out = sum(counts.values()) - len(waiting)
        record = records.QueueRecord(
            counts=counts,
            pods=tuple(map(queue_state.queued_pod_record, waiting)),
            left_out=left_out,
            on_permit=tuple(
                records.OnPermitRecord(pod=one.pod.key, node=one.pod.node_name, plugins=one.pending_plugins)
                for one in on_permit
            ),
            on_permit_left_out=len(self._scheduler.waiting_pods) - len(on_permit),
            wakes=tuple(one.record() for one in self._scheduler.stories.last_wakes()),
            leader=self._other_leader(),
            quotas=queue_state.quota_records(self._scheduler.frameworks.values()),
        )
        page = _with_page(record, request, lambda: [*self._caveat(), *queue_page(record, summary=queue.summary())])
        return _json(page)

    def _story(self, request: Request) -> Response:
        key = key_of(request, f"{PREFIX}stories/")
        story = self._scheduler.stories.of(key)
        if story is None:
            raise NotFound(f'no story of pod "{key}": it never was in the queue of this scheduler, or is forgotten')
        return _json(story.record())

    async def _group(self, request: Request) -> Response:
        if request.first("verdict") == "true":
            return await self._in_turn(lambda: self._judged_group(request))
        return _json(self._group_record(request))

    async def _judged_group(self, request: Request) -> Response:
        return _json(self._group_record(request, judged=True))

    def _group_record(self, request: Request, *, judged: bool = False) -> records.GroupStateRecord:
        scheduler, key = self._scheduler, key_of(request, f"{PREFIX}podgroups/")
        group, members = scheduler.state.objects.get(PodGroup, key), scheduler.state.pod_groups
        if group is None and not members.known(key):
            raise NotFound(f'pod group "{key}" not found: this scheduler knows neither the group nor any of its pods')
        queued = (scheduler.queue.get(info.key) for info in members.unscheduled(key))
        gang = None if group is None else group.spec.scheduling_policy.gang
        story = scheduler.stories.of(story_key(key))
        verdict, note = self._group_verdict(key) if judged else (None, "")
        record = records.GroupStateRecord(
            pod_group=key,
            min_count=0 if gang is None else gang.min_count,
            condition=condition_of(group),
            waiting=tuple(queue_state.queued_pod_record(one) for one in queued if one is not None),
            have_node={info.key: info.node_name for info in members.placed(key)},
            verdict=None if verdict is None else verdict.record(),
            note=note,
            story=None if story is None else story.record(),
            leader=self._other_leader(),
        )
        wide = _is_wide(request)
        drawn = [] if verdict is None else [*group_page(verdict, wide=wide), Line()]
        return _with_page(record, request, lambda: [*self._caveat(), *drawn, *group_state_page(record, wide=wide)])

    def _group_verdict(self, key: str) -> tuple[GroupVerdict | None, str]:
        """The current verdict, and a note about it; nothing is scheduled meanwhile."""
        engine, state = self._scheduler.engine, self._scheduler.state
        if not self._scheduler.synced.is_set():
            raise ServiceUnavailable("the scheduler has not read the cluster yet")
        if not engine.schedules_groups:
            return None, GROUPS_OFF
        pods = state.pod_groups.pods(key)
        if not pods:
            return None, "no pod names this group"
        if pods > _MAX_MEMBERS:
            return None, f"a running scheduler does not judge groups of more than {_MAX_MEMBERS:,} pods: ask without it"
        preempts = pods * state.sizes()["pods"] <= _MAX_SEARCH
        verdict = judged_group(engine, key, preempts=preempts)
        looked = preempts or verdict.fits or engine.groups.preemption is None
        return verdict, "" if looked else "victims for the group were not searched: ask without the scheduler"

    async def _explain(self, request: Request) -> Response:
        key = key_of(request, f"{PREFIX}explain/")
        return await self._in_turn(lambda: self._explained(key, request))

    async def _node(self, request: Request) -> Response:
        name = request.path.removeprefix(f"{PREFIX}nodes/")
        return await self._in_turn(lambda: self._seen_from(name, request))

    async def _in_turn(self, answer: Callable[[], Awaitable[Response]]) -> Response:
        """Run one at a time, with pauses."""
        if self._waiting >= _WAITING:
            raise TooManyRequests("too many explanations are waited for; try again in a moment")
        clock = self._times.clock
        self._waiting += 1
        try:
            async with self._one_at_a_time:
                pause = self._not_before - clock()
                if pause > 0:
                    await self._times.sleep(pause)
                began, self._waited = clock(), 0.0
                response = await answer()
                now = clock()
                self._not_before = now + _PAUSE * (now - began - self._waited)
                return response
        finally:
            self._waiting -= 1

    # -- standby -------------------------------------------------------------------------------------------------------

    def _caveat(self) -> list[Block]:
        """A note that pending pods are not being tried here."""
        leader = self._other_leader()
        if leader is None:
            return []
        who = f"{leader} leads, ask there" if leader else "nobody leads"
        return [Line(((f"this replica is a standby and schedules no pods: {who}", "pending"),)), Line()]

    # -- one pod ------------------------------------------------------------------------------------------------------

    async def _explained(self, key: str, request: Request) -> Response:
        if not self._scheduler.synced.is_set():
            raise ServiceUnavailable("the scheduler has not read the cluster yet")
        info = self._find(key)
        known = self._known(key, info)
        if info is None:
            if known.story is None:
                raise NotFound(self._unknown(key))
            record = records.VerdictRecord(kind="Explain", pod=key, scheduler=known, leader=self._other_leader())
            return _json(_with_page(record, request, lambda: _page_of_deleted(key, known, wide=_is_wide(request))))
        self._check_profile(key, info)
        try:
            return _json(await self._judgement(info, known, request))
        except ValueError:
            # The profile may have been removed from the configuration while extenders were called.
            self._check_profile(key, info)
            raise

    def _check_profile(self, key: str, info: PodInfo) -> None:
        if self._scheduler.engine.framework_for(info) is None:
            name = info.pod.spec.scheduler_name
            raise NotFound(f'pod "{key}" is for scheduler "{name}", which has no profile here: ask that one')

    async def _judgement(
        self, info: PodInfo, known: records.SchedulerRecord, request: Request
    ) -> records.VerdictRecord:
        wide = _is_wide(request)
        too_wide = wide and self._scheduler.state.table.count > _MAX_WIDE
        note = [Line(((_TOO_WIDE, "dim"),))] if too_wide else []
        if request.first("extenders") == "false":
            verdict = judged(self._scheduler.engine, info)
        else:
            verdict = await judged_live(self._scheduler.engine, info, ask=self._ask)
        wants_advice = request.first("suggestions") == "true"
        if wants_advice:
            # Computed without yielding: the cluster has not changed since the verdict.
            _ = advise(self._scheduler.engine, verdict, _TRIES).advice
        # A page does not include the scores, which may be a megabyte.
        if _wants_page(request):
            record = records.VerdictRecord(kind="Explain", pod=verdict.key)
        else:
            record = detailed(self._scheduler.engine, verdict) if wants_advice else verdict.record()
        group = self._group_of(info)
        record = msgspec.structs.replace(
            record,
            scheduler=known,
            pod_group=None if group is None else group.record(),
            leader=self._other_leader(),
            relief=self._more_nodes(verdict) if wants_advice and not info.node_name else (),
        )
        return _with_page(
            record,
            request,
            lambda: [
                *self._caveat(),
                *explanation(
                    self._scheduler.engine,
                    verdict,
                    wide=wide and not too_wide,
                    on_its_way=known.place if known.place in queue_state.ON_ITS_WAY else "",
                    group=group,
                ),
                *note,
                *scheduler_blocks(known, wide=wide),
            ],
        )

    def _more_nodes(self, verdict: Verdict) -> tuple[records.ReliefRecord, ...]:
        """Nodes to add for the pod."""
        from stowplan.ask.explain.text.overview import Group
        from stowplan.ask.offline import ClusterError
        from stowplan.ask.what_if.relief import more_nodes

        if self._copied is None:
            return ()
        try:
            cluster = self._copied()
        except ClusterError:
            # It is too large.
            return ()
        return more_nodes(cluster, Group(cluster.explain(verdict.key)))

    def _group_of(self, info: PodInfo) -> GroupVerdict | None:
        """The verdict on the pod's group, without which it is not scheduled."""
        if info.pod.spec.scheduling_group is None:
            return None
        return self._group_verdict(group_key(info.pod))[0]

    # -- one node -----------------------------------------------------------------------------------------------------

    async def _seen_from(self, name: str, request: Request) -> Response:
        scheduler = self._scheduler
        if not scheduler.synced.is_set():
            raise ServiceUnavailable("the scheduler has not read the cluster yet")
        if name not in scheduler.state.table.row_of:
            raise NotFound(f'node "{name}" not found: this scheduler knows {scheduler.state.table.count}')
        kinds = self._kinds_of_pending()
        questions = ((judged(scheduler.engine, first), keys) for first, keys in kinds[:_MAX_KINDS])
        view = node_view(scheduler.engine, name, questions, tries=_TRIES_ON_NODE)
        left = sum(len(keys) for _, keys in kinds[_MAX_KINDS:])
        note = [Line(((f"not judged: {left} more pods, of {len(kinds) - _MAX_KINDS} kinds", "dim"),))] if left else []
        if not _wants_page(request):
            return _json(view.record())
        page = page_to_json([*self._caveat(), *node_page(view, wide=_is_wide(request)), *note])
        return _json(msgspec.structs.replace(records.NodeRecord(kind="ExplainNode", node=name), page=page))

    def _kinds_of_pending(self) -> list[tuple[PodInfo, tuple[str, ...]]]:
        """Pending pods of our profiles by kind, the most frequent first."""
        scheduler = self._scheduler
        ours = [
            info
            for info in scheduler.state.pending.values()
            if scheduler.engine.framework_for(info) is not None and scheduler.state.placed(info.uid) is None
        ]
        found = [(first, (first.key, *others)) for first, others in kinds_of(scheduler.engine, ours)]
        return sorted(found, key=lambda kind: (-len(kind[1]), kind[1]))

    async def _ask(self, question: Ask) -> Outcome:
        began = self._times.clock()
        try:
            return await self._scheduler.ask(question)
        finally:
            self._waited += self._times.clock() - began

    def _find(self, key: str) -> PodInfo | None:
        """The current version of the pod: pending, assumed, or bound."""
        scheduler = self._scheduler
        pending = scheduler.state.pending.get(key)
        if pending is not None:
            return scheduler.state.placed(pending.uid) or pending
        story = scheduler.stories.of(key)
        placed = None if story is None else scheduler.state.placed(story.uid)
        return placed or next((info for info in scheduler.state.placed_pods() if info.key == key), None)

    def _known(self, key: str, info: PodInfo | None) -> records.SchedulerRecord:
        """What the scheduler knows about the pod."""
        scheduler, story = self._scheduler, self._scheduler.stories.of(key)
        if info is None:
            return queue_state.scheduler_record(story=story)
        queued = scheduler.queue.get(key)
        if info.node_name:
            return queue_state.scheduler_record(self._on_a_node(info), queued=queued, node=info.node_name, story=story)
        if queued is not None:
            return queue_state.scheduler_record(queued.place.value, queued=queued, story=story)
        place = "in flight" if scheduler.queue.is_in_flight(info.uid) else "not in the queue"
        return queue_state.scheduler_record(place, story=story)

    def _on_a_node(self, info: PodInfo) -> str:
        if not self._scheduler.state.is_assumed(info.uid):
            return "bound to"
        return (
            queue_state.WAITS_ON_PERMIT
            if self._scheduler.waiting_pods.get(info.uid) is not None
            else queue_state.BEING_BOUND
        )

    def _unknown(self, key: str) -> str:
        names = joined(sorted(self._scheduler.engine.frameworks))
        pending = count(len(self._scheduler.state.pending), "pod")
        return (
            f'pod "{key}" not found: this scheduler schedules for {names}, has {pending} without a node, and it is not '
            "on one either"
        )


# -- requests and responses --------------------------------------------------------------------------------------------


def _page_of_deleted(key: str, known: records.SchedulerRecord, *, wide: bool) -> list[Block]:
    return [Line(((key, "name"), (" is gone", "pending"))), *scheduler_blocks(known, wide=wide)]


def _is_wide(request: Request) -> bool:
    return request.first("page") == "wide"


def _with_page(record: R, request: Request, draw: Callable[[], list[Block]]) -> R:
    """The record, including a page if requested."""
    return msgspec.structs.replace(record, page=page_to_json(draw())) if _wants_page(request) else record


def _wants_page(request: Request) -> bool:
    match request.first("page"):
        case "":
            return False
        case "text" | "wide":
            return True
    raise BadRequest(f"page: want text or wide, got {request.first('page')!r}")


def _json(record: records.Record) -> Response:
    return Response(records.encoded(record), content_type=JSON)
