"""Evictions on an embedded API server that answers when and how a test says.

The scheduler's knowledge of the server is updated when the test says so (`deliver_changes`), so every lag can be
tested.
"""

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.api.decode import decode_json, to_dict
from stowplan.kube.api.types import Pod
from stowplan.scheduler.cluster.state import ClusterState
from stowplan.scheduler.engine.eviction.evictions import Evictions
from stowplan.scheduler.engine.leaving_pods import LeavingPods
from stowplan.scheduler.engine.outbox import Outbox
from stowplan.scheduler.engine.statuses import PodStatuses
from stowplan.scheduler.framework.eviction_plan import EvictionPlan
from stowplan.scheduler.framework.requests import Delete, Done, Patch, Read
from stowplan.scheduler.framework.waiting_pods import PodsInPreBind, WaitingPods
from stowplan.testing import a_node
from stowplan_cluster.apiserver.deletion import DeleteOptions
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from support.api.embedded import Api as Cluster
from support.api.embedded import pod as a_manifest
from support.observing.metrics import scheduler_metrics
from support.scheduling.recording_reporter import RecordingReporter
from support.scheduling.scripted_effects import as_outcome
from support.scheduling.worlds import struct

PLUGIN = "DefaultPreemption"

#: Two nodes, of which tests fill the first.
NODES = ("n1", "n2")

_VERBS: dict[type, str] = {Patch: "patch", Delete: "delete", Read: "get"}


class Call(namedtuple("Call", ["verb", "name", "work", "answer"])):
    """A request in progress: what the server does with it, and where the answer goes."""

    __slots__ = ()

    @property
    def key(self):
        return self.verb, self.name


class Calls:
    """Carries effects and status patches out on the embedded API; logs them, and can refuse or hold them."""

    def __init__(self, server):
        self._api = EmbeddedApi(server)
        #: ("patch", name), ("delete", name, uid) ..., in order.
        self.log = []
        self.under_way = []
        #: (verb, name) -> exception: the server does nothing.
        self.refusals = {}
        #: (verb, name) -> exception: the server carries it out, and its answer is lost.
        self.lost_answers = {}
        #: (verb, name) of calls that are not carried out yet.
        self.held = set()
        #: (verb, name) -> called once the call was carried out.
        self.then = {}
        self.most = 0

    def begin(self, effect, answer):
        """Start an effect; `answer` is called with its outcome."""
        request = effect.action
        verb, name = _VERBS[type(request)], request.name
        where = {"name": name, "namespace": request.namespace}
        match request:
            case Patch():
                self.log.append((verb, name))
                how: dict[str, Any] = {"type_": request.type_, "subresource": request.subresource}
                work = self._api.patch(request.kind, patch=request.body, **where, **how)
            case Delete():
                self.log.append((verb, name, request.uid))
                work = self._api.delete(request.kind, **where, uid=request.uid)
            case Read():
                self.log.append((verb, name))
                work = self._api.get(request.kind, **where)
        self._add(verb, name, work, answer)

    def _add(self, verb, name, work, answer):
        self.under_way.append(Call(verb, name, work, answer))
        self.most = max(self.most, len(self.under_way))

    def ready(self):
        return [call for call in self.under_way if call.key not in self.held]

    def carry_out(self, call):
        """Carry out a call; returns its outcome."""
        self.under_way.remove(call)
        if call.key in self.refusals:
            call.work.close()
            return as_outcome(self.refusals[call.key])
        try:
            answer = at_once(call.work)
        except ApiError as error:
            return as_outcome(error)
        self.then.pop(call.key, lambda: None)()
        return as_outcome(self.lost_answers.get(call.key, answer))

    def close(self):
        for call in self.under_way:
            call.work.close()

    # PodStatuses

    def patch(self, pod, listener, *, condition=None, nominated_node_name=None):
        name = pod.metadata.name
        status = {} if condition is None else {"conditions": [to_dict(condition)]}
        if nominated_node_name is not None:
            status["nominatedNodeName"] = nominated_node_name or None
        self.log.append(("patch", name))
        work = self._api.patch(
            Pod, name, {"status": status}, type_="strategic", namespace=pod.metadata.namespace, subresource="status"
        )
        self._add(
            "patch",
            name,
            work,
            lambda outcome: listener.status_written(None if isinstance(outcome, Done) else outcome.error),
        )

    def write(self, pod, *, condition=None, nominated_node_name=None):
        assert condition is None
        self.log.append(("write", pod.metadata.name, nominated_node_name))


def at_once(work):
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the embedded API never waits")


class Recorder:
    def __init__(self):
        self.events = []
        #: UIDs of the events' pods.
        self.uids = []

    def event(self, regarding, *, type_, reason, action, note, related=None):
        self.uids.append(regarding.metadata.uid)
        self.events.append((regarding.metadata.name, type_, reason, action, note, related.metadata.name))

    @property
    def victims(self):
        return [name for name, *_ in self.events]


class World:
    """A cluster, what the scheduler knows of it, and preemptors."""

    def __init__(self, *, real_statuses=False):
        self.cluster = Cluster()
        self.calls = Calls(self.cluster.server)
        self.state = ClusterState()
        self.outbox = Outbox()
        self.outbox.ahead = self.cluster.clock()
        self.waiting_pods = WaitingPods(now=lambda: 0.0)
        self.pods_in_pre_bind = PodsInPreBind()
        self.leaving = LeavingPods()
        self.recorder = Recorder()
        self.metrics = scheduler_metrics()
        self.activated, self.reports, self.delays = [], [], []
        parts: Any = SimpleNamespace(
            outbox=self.outbox,
            state=self.state,
            waiting_pods=self.waiting_pods,
            pods_in_pre_bind=self.pods_in_pre_bind,
            leaving=self.leaving,
            reporter=RecordingReporter(self.reports),
            queue=None,
        )
        #: None: patches go to `calls`.
        self.statuses = self._real_statuses() if real_statuses else None
        parts.statuses = self.statuses or self.calls
        self.evictions = Evictions(parts, metrics=self.metrics, now=lambda: 0.0)
        parts.queue = SimpleNamespace(activate=lambda pods: self.activated.extend(pod.key for pod in pods))
        for name, value in (("top", 1000), ("high", 100), ("low", 10)):
            self.cluster.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": name}, "value": value})
        for name in NODES:
            self.state.add_node(struct(a_node(name)))

    def _real_statuses(self):
        return PodStatuses(self.outbox, random=lambda: 0.5, report=self.reports.append)

    # Objects

    def pending(self, name, *, priority="high", nominated=""):
        self.cluster.create("pods", a_manifest(name, **({"priorityClassName": priority} if priority else {})))
        if nominated:
            self.cluster.patch(
                "pods", "default", name, {"status": {"nominatedNodeName": nominated}}, subresource="status"
            )
        self.deliver_changes()
        return self.info(name)

    def placed(self, *names, node="n1"):
        for name in names:
            self.cluster.create("pods", a_manifest(name, nodeName=node))
        self.deliver_changes()
        return tuple(self.info(name) for name in names)

    def assumed(self, name, node="n1"):
        info = self.pending(name, priority="")
        self.state.assume(info, node)
        return info

    def delete(self, name, grace=0):
        self.cluster.delete("pods", "default", name, options=DeleteOptions(grace_period_seconds=grace))

    # What the scheduler knows

    def deliver_changes(self):
        """Deliver all changes to the scheduler."""
        pods = {stored.uid: decode_json(stored.data, Pod) for stored in self.cluster.store.list("pods", "")}
        known = [info.uid for info in (*self.state.placed_pods(), *self.state.pending.values())]
        for info in self.state.placed_pods():
            if info.uid not in pods:
                self.state.remove_pod(info.uid)
                if self.statuses is not None:
                    self.statuses.forget(info.uid)
        for key in list(self.state.pending):
            self.state.pending.remove(key)
        for pod in pods.values():
            if pod.spec.node_name:
                self.state.add_pod(pod)
            else:
                self.state.pending.put(self.state.pod_info(pod))
            if self.statuses is not None:
                self.statuses.observe(pod)
        for uid in known:
            if uid not in pods or pods[uid].metadata.deletion_timestamp is not None:
                self.leaving.left(uid)

    def info(self, name):
        uid = self.cluster.store.get("pods", "default", name).uid
        return self.state.placed(uid) or self.state.pending.by_uid(uid)

    # Steps

    def preempt(self, preemptor, *victims, node="n1"):
        """The end of a scheduling cycle; the step continues."""
        self.state.nominator.add(preemptor, node)
        plan = EvictionPlan(preemptor=preemptor, node_name=node, victims=victims, plugin=PLUGIN)
        self.evictions.carry_out(plan, self.recorder)
        return plan

    def end_step(self):
        self.outbox.finish()
        for effect in self.outbox.take():
            if type(effect.action) in _VERBS:
                self.calls.begin(effect, lambda outcome, number=effect.number: self.outbox.answered(number, outcome))
        assert self.problems() == []

    def problems(self):
        return [*self.evictions.problems(), *([] if self.statuses is None else self.statuses.problems())]

    def complete(self, call):
        """Complete a call: its answer is a step."""
        call.answer(self.calls.carry_out(call))
        self.end_step()

    def run_until(self, *call):
        """Run until a call has been made."""
        self.end_step()
        while call not in self.calls.log:
            ready = self.calls.ready()
            assert ready, f"{call} was not made: {self.calls.log}"
            self.complete(ready[0])

    def settle(self):
        """Run until only held calls are left; time advances."""
        self.end_step()
        while True:
            while ready := self.calls.ready():
                self.complete(ready[0])
            alarms = sorted(alarm.at for alarm in self.outbox.alarms)
            if not alarms:
                return
            self.delays.append(alarms[0] - self.outbox.now)
            self.outbox.now = alarms[0]
            self.outbox.ring()
            self.end_step()

    def evicted(self):
        """Names of pods whose deletion was requested."""
        return [call[1] for call in self.calls.log if call[0] == "delete"]

    def terminating(self, name):
        return "deletionTimestamp" in self.cluster.get("pods", "default", name)["metadata"]
